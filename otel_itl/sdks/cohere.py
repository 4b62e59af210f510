"""The cohere SDK: `chat_stream` of both APIs, by every client of it."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from otel_itl.core.conventions import provider_of
from otel_itl.core.request import Request
from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks import driver
from otel_itl.sdks.driver import Call, Description, StreamingCall
from otel_itl.sdks.fern import FernCalls
from otel_itl.sdks.formats.cohere import classify_event, classify_v1_event
from otel_itl.sdks.values import fields_of, request_parameters, short_str


def describe(call: Call, classify: Classify) -> Description:
    """Describe a call of `chat_stream(**body)` of a raw client."""
    body: dict[str, Any] = call.kwargs
    host, port = _split_url(str(call.instance._client_wrapper.get_base_url()))  # noqa: SLF001 - the SDK's own
    request = Request(
        operation="chat",
        provider=provider_of(host, "cohere"),
        model=short_str(body.get("model")),
        server_address=host,
        server_port=port,
        parameters=request_parameters({**body, "top_k": body.get("k"), "top_p": body.get("p")}),
    )
    headers = fields_of(fields_of(body.get("request_options")).get("additional_headers"))
    return Description(request, classify, body, headers)


@lru_cache(maxsize=64)
def _split_url(base_url: str) -> tuple[str | None, int]:
    """Return the host and the port of a base URL."""
    url = urlsplit(base_url)
    return url.hostname, url.port or (80 if url.scheme == "http" else 443)


_second, _first = (partial(describe, classify=classify) for classify in (classify_event, classify_v1_event))

SDK = driver.SDK(
    name="cohere",
    calls=(),
    more_targets=FernCalls(
        (
            StreamingCall("cohere.v2.raw_client", "RawV2Client.chat_stream", _second),
            StreamingCall("cohere.v2.raw_client", "AsyncRawV2Client.chat_stream", _second),
            StreamingCall("cohere.raw_base_client", "RawBaseCohere.chat_stream", _first),
            StreamingCall("cohere.raw_base_client", "AsyncRawBaseCohere.chat_stream", _first),
        )
    ).targets,
)
