"""The huggingface_hub SDK: chat completions and generated text of its inference clients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from otel_itl.sdks.driver import Around, Call, ResultHook, StreamingCall
from otel_itl.sdks.formats.hugging_face import (
    classify_chat_output,
    classify_generated_token,
    read_last_chat_line,
    read_last_generation_line,
)
from otel_itl.sdks.line_streams import bind_lines, follow_response, parse_lines
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.patching import Hook
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


def _hooks() -> Iterator[Hook]:
    """Make the hooks in the modules of the two clients."""
    late: Any = {"is_imported_late": True}
    for module, client, prefix, getter, position in CLIENTS:
        yield StreamingCall(module, f"{client}._inner_post", describe, bind=bind_lines, **late)
        for task, read_last_line in (
            ("chat_completion", read_last_chat_line),
            ("text_generation", read_last_generation_line),
        ):
            parse = partial(parse_lines, read_last_line)
            yield Around(module, f"{prefix}stream_{task}_response", parse, **late)
        yield ResultHook(module, getter, partial(follow_response, position), **late)


SDK = tuple(_hooks())
