"""The huggingface_hub SDK: chat completions and generated text of its inference clients."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.sdks import driver
from otel_itl.sdks.driver import Call, Description, Driver, StreamingCall
from otel_itl.sdks.formats.hugging_face import (
    classify_chat_output,
    classify_generated_token,
    read_last_chat_line,
    read_last_generation_line,
)
from otel_itl.sdks.line_streams import LineStreams
from otel_itl.sdks.patching import Target
from otel_itl.sdks.values import fields_of, make_request, short_str


def describe(call: Call) -> Description | None:
    """Describe a call of `_inner_post(request_parameters, stream=…)`, which sends every request of the clients."""
    asked = call.args[0] if call.args else call.kwargs["request_parameters"]
    if call.kwargs.get("stream") is not True:
        return None
    body = fields_of(asked.json)
    is_chat = "messages" in body  # the task is "text-generation" for either in some releases
    parameters = {**body, **fields_of(body.get("parameters"))}
    parameters["max_tokens"] = parameters.get("max_tokens", parameters.get("max_new_tokens"))
    model = _model(body.get("model")) or _model(asked.model)
    operation, classify = ("chat", classify_chat_output) if is_chat else ("text_completion", classify_generated_token)
    request = make_request(operation, asked.url, "huggingface", model, parameters)
    return Description(request, classify, body, lambda: fields_of(asked.headers))


def _model(name: Any) -> str | None:
    """Return the name of a model; None for the address of an endpoint, and for none."""
    return None if str(name).startswith(("http://", "https://")) else short_str(name)


CLIENTS: Final = (
    ("huggingface_hub.inference._client", "InferenceClient", "_", "hf_raise_for_status", 0),
    ("huggingface_hub.inference._generated._async_client", "AsyncInferenceClient", "_async_", "_async_yield_from", 1),
)
"""Module and class of a client, the prefix of the module's generator functions, and the function that gets the HTTP
response, as its argument of this number."""


def _targets(driver: Driver) -> tuple[Target, ...]:
    """Make what is patched in the modules of the two clients."""
    lines = LineStreams(driver)
    targets: list[Target] = []
    for module, client, prefix, getter, position in CLIENTS:
        call = StreamingCall(module, f"{client}._inner_post", describe, bind=lines.bind, is_imported_late=True)
        targets += [
            driver.target(call),
            lines.parser_target(module, f"{prefix}stream_chat_completion_response", read_last_chat_line),
            lines.parser_target(module, f"{prefix}stream_text_generation_response", read_last_generation_line),
            lines.response_target(module, getter, position),
        ]
    return tuple(targets)


SDK = driver.SDK(name="huggingface-hub", calls=(), more_targets=_targets)
