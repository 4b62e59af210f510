"""The cohere SDK: `chat_stream` of both APIs, by every client of it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks.driver import Call, StreamingCall
from otel_itl.sdks.fern import bind_block
from otel_itl.sdks.formats.cohere import classify_event, classify_v1_event
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.values import fields_of, make_request


def describe(call: Call, classify: Classify) -> Description:
    """Describe a call of `chat_stream(**body)` of a raw client."""
    body: dict[str, Any] = call.kwargs
    address = str(call.instance._client_wrapper.get_base_url())  # noqa: SLF001 - the SDK's own
    parameters = {**body, "top_k": body.get("k"), "top_p": body.get("p")}
    request = make_request("chat", address, "cohere", body.get("model"), parameters)
    options = fields_of(body.get("request_options"))
    return Description(request, classify, body, lambda: fields_of(options.get("additional_headers")))


CALLS: Final = (
    ("cohere.v2.raw_client", "RawV2Client", classify_event),
    ("cohere.v2.raw_client", "AsyncRawV2Client", classify_event),
    ("cohere.raw_base_client", "RawBaseCohere", classify_v1_event),
    ("cohere.raw_base_client", "AsyncRawBaseCohere", classify_v1_event),
)
"""Module and class of a raw client, and how to classify the events of its API."""

SDK = tuple(
    StreamingCall(
        module, f"{client}.chat_stream", partial(describe, classify=classify), sent="first_pull", bind=bind_block
    )
    for module, client, classify in CALLS
)
