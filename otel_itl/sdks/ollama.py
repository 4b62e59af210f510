"""The ollama SDK: `chat` and `generate`, generators that send their request with the first pull."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.conventions import provider_of
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks import driver
from otel_itl.sdks.driver import Call, Description, StreamingCall
from otel_itl.sdks.formats.ollama import classify_chat_chunk, classify_generate_chunk
from otel_itl.sdks.http_clients import find_generators_response
from otel_itl.sdks.values import fields_of, request_parameters, short_str

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
    body, client = fields_of(call.kwargs.get("json")), call.instance._client  # noqa: SLF001 - the SDK's own
    url, options = client.base_url, fields_of(body.get("options"))
    operation, classify = route
    request = Request(
        operation=operation,
        provider=provider_of(url.host, "ollama"),
        model=short_str(body.get("model")),
        server_address=url.host,
        server_port=url.port or (443 if url.scheme == "https" else 80),
        parameters=request_parameters({**options, "max_tokens": options.get("num_predict")}),
    )
    return Description(request, classify, body, client.headers)


SDK = driver.SDK(
    name="ollama",
    calls=tuple(
        StreamingCall(
            "ollama._client",
            f"{client}._request",
            describe,
            sent="first_pull",
            response_of=find_generators_response,
        )
        for client in ("Client", "AsyncClient")
    ),
)
