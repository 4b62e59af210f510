"""The mistralai SDK: its client, those for Azure and Google Cloud, and the spans that it starts itself."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

from otel_itl.recording.chunk_log import Classify
from otel_itl.sdks.driver import Around, Call, StreamingCall, bind_to_response
from otel_itl.sdks.formats.mistral import (
    classify_completion_event,
    classify_conversation_event,
    classify_response_frame,
)
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.own_spans import enter, span_start
from otel_itl.sdks.speakeasy import stream_hooks
from otel_itl.sdks.values import fields_of, make_request

PACKAGES: Final = {
    "mistralai.client": "mistral_ai",
    "mistralai.azure.client": "azure.ai.inference",
    "mistralai.gcp.client": "gcp.vertex_ai",
    # Releases before 2.0:
    "mistralai": "mistral_ai",
    "mistralai_azure": "azure.ai.inference",
    "mistralai_gcp": "gcp.vertex_ai",
}
"""Package of a copy of the SDK → the provider that its client asks. The copies differ in nothing else."""
TRACED: Final = ("mistralai.client", "mistralai")
"""The copies that start spans of their own, from 1.10 on."""
CONVERSATION_CALLS: Final = ("start_stream", "append_stream", "restart_stream")
CALLS: Final[tuple[tuple[str, str, tuple[str, ...], Classify], ...]] = (
    ("chat", "Chat", ("stream",), classify_completion_event),
    ("agents", "Agents", ("stream",), classify_completion_event),
    ("fim", "Fim", ("stream",), classify_completion_event),
    ("conversations", "Conversations", CONVERSATION_CALLS, classify_conversation_event),
    ("responses", "Responses", ("create",), classify_response_frame),
)
"""Module, class and functions that stream (each with an asynchronous twin), and how to classify their events."""


def describe(call: Call, *, package: str, module: str, classify: Classify) -> Description | None:
    """Describe a call of one of `CALLS`, whose arguments all have names; None for one that does not stream."""
    body = call.kwargs
    if module == "responses" and body.get("stream") is not True:
        return None
    address = str(body.get("server_url") or call.instance.sdk_configuration.get_server_details()[0])
    parameters = {**body, **fields_of(body.get("completion_args"))}
    parameters["seed"] = parameters.get("random_seed")
    is_agent = module == "agents" or bool(body.get("agent_id"))
    operation = "invoke_agent" if is_agent else "text_completion" if module == "fim" else "chat"
    request = make_request(operation, address, PACKAGES[package], body.get("model"), parameters)
    is_traced = package in TRACED and f"{package}._hooks.tracing" in sys.modules
    headers = partial(fields_of, body.get("http_headers"))
    return Description(request, classify, body, headers, awaits_sdk_span=is_traced)


def _find_span(result: tuple[Any, Any]) -> Any:
    """Return the span in what `get_traced_request_and_span` returned, the request and its span; None for no span.

    A span that the SDK exports to Mistral itself is not one of the application's.
    """
    span = result[1]
    resource = getattr(span, "resource", None)
    return None if resource is not None and resource.attributes.get("service.name") == "mistralai_sdk" else span


SDK = (
    *(
        StreamingCall(
            f"{package}.{module}",
            f"{owner}.{name}{suffix}",
            partial(describe, package=package, module=module, classify=classify),
            bind=bind_to_response,
            is_imported_late=True,
        )
        for package in PACKAGES
        for module, owner, names, classify in CALLS
        for name in names
        for suffix in ("", "_async")
    ),
    *(
        hook
        for package in PACKAGES
        for hook in stream_hooks(f"{package}.utils.eventstreaming", "EventStream", "EventStreamAsync")
    ),
    *(
        span_start(f"{package}._hooks.tracing", "get_traced_request_and_span", _find_span, is_imported_late=True)
        for package in TRACED
    ),
    *(
        Around(f"{package}.basesdk", "run_sync_in_thread", enter, is_optional=True, is_imported_late=True)
        for package in TRACED
    ),
)
