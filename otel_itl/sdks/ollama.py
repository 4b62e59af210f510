"""The ollama SDK: `chat` and `generate`, generators that send their request with the first pull."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks.driver import Call, Driver, StreamingCall, iterate_recorded
from otel_itl.sdks.first_pull import FirstPull
from otel_itl.sdks.formats.ollama import classify_chat_chunk, classify_generate_chunk
from otel_itl.sdks.http_clients import find_generators_response
from otel_itl.sdks.open_call import Description, OpenCall
from otel_itl.sdks.values import fields_of, make_request

ROUTES: Final[dict[Any, tuple[str, Classify]]] = {
    "/api/chat": ("chat", classify_chat_chunk),
    "/api/generate": ("text_completion", classify_generate_chunk),
}
"""Path of a request → `gen_ai.operation.name`, and what classifies its chunks."""


def describe(call: Call) -> Description | None:
    """Describe a call of `_request(cls, method, path, json=…, stream=…)`: every request of a client goes there."""
    route = next((ROUTES[value] for value in call.args if isinstance(value, str) and value in ROUTES), None)
    if route is None or not call.kwargs.get("stream"):
        return None
    operation, classify = route
    body, client = fields_of(call.kwargs.get("json")), call.instance._client  # noqa: SLF001 - the SDK's own
    options = fields_of(body.get("options"))
    parameters = {**options, "max_tokens": options.get("num_predict")}
    request = make_request(operation, str(client.base_url), "ollama", body.get("model"), parameters)
    return Description(request, classify, body, lambda: client.headers)


def record_generator(_: Driver, generator: Any, opening: OpenCall) -> Any:
    """Record a generator from its first pull on; the HTTP response, which it keeps to itself, is found in it."""
    return iterate_recorded(generator, FirstPull(opening, partial(find_generators_response, generator)))


SDK = tuple(
    StreamingCall("ollama._client", f"{client}._request", describe, sent="first_pull", bind=record_generator)
    for client in ("Client", "AsyncClient")
)
