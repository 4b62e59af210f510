"""The google-genai SDK: `streamGenerateContent` of the Gemini API and of Vertex AI, and the Interactions API."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from otel_itl.core.request import Request
from otel_itl.sdks.driver import Call, HTTPAttempt, StreamingCall, bind_to_response
from otel_itl.sdks.formats.gemini import classify_content
from otel_itl.sdks.formats.gemini_interactions import classify_interaction_event
from otel_itl.sdks.open_call import Description
from otel_itl.sdks.speakeasy import stream_hooks
from otel_itl.sdks.values import fields_of, make_request


def describe_content(call: Call) -> Description:
    """Describe a call of `_generate_content_stream(model, contents, config)`: every request for content goes there."""
    client, config = call.instance._api_client, fields_of(call.kwargs.get("config"))  # noqa: SLF001 - the seam
    options, own_options = fields_of(client._http_options), fields_of(config.get("http_options"))  # noqa: SLF001
    address = own_options.get("base_url") or options.get("base_url")
    model = call.kwargs.get("model")
    request = _request("generate_content", address, model, config, is_vertex=bool(client.vertexai))
    given = (fields_of(options.get("headers")), fields_of(own_options.get("headers")))
    return Description(request, classify_content, call.kwargs, lambda: {**given[0], **given[1]})


def describe_interaction(call: Call, *, is_fetch: bool = False) -> Description | None:
    """Describe a call of `interactions.create(**body)` or `get(id)`; None for one that does not stream."""
    given = fields_of(call.kwargs.get("request")) or call.kwargs
    body = given if is_fetch else fields_of(given.get("body")) or given
    if body.get("stream") is not True:
        return None
    configuration = call.instance.sdk_configuration
    operation = "fetch_response" if is_fetch else "invoke_agent" if body.get("agent") else "generate_content"
    is_vertex = "/projects/" in str(configuration.globals.api_version)
    parameters = fields_of(body.get("generation_config"))
    request = _request(operation, configuration.server_url, body.get("model"), parameters, is_vertex=is_vertex)
    if body.get("last_event_id"):
        request = replace(request, is_resumed=True)
    return Description(request, classify_interaction_event, body, lambda: fields_of(call.kwargs.get("extra_headers")))


def _request(operation: str, address: Any, model: Any, parameters: dict[str, Any], *, is_vertex: bool) -> Request:
    """Make the request; a model is named without the path of its resource, which names the caller's project."""
    name = str(model).rpartition("/")[2] if model else None
    return make_request(operation, str(address or ""), "gcp.vertex_ai" if is_vertex else "gcp.gemini", name, parameters)


SDK = (
    StreamingCall("google.genai.models", "Models._generate_content_stream", describe_content, sent="first_pull"),
    StreamingCall("google.genai.models", "AsyncModels._generate_content_stream", describe_content),
    *(
        HTTPAttempt("google.genai._api_client", f"BaseApiClient.{name}", lambda result: result.response_stream)
        for name in ("_request_once", "_async_request_once")
    ),
    *(
        StreamingCall(
            "google.genai._gaos.interactions",
            f"{owner}.{name}",
            partial(describe_interaction, is_fetch=name == "get"),
            bind=bind_to_response,
            is_imported_late=True,
        )
        for owner in ("Interactions", "AsyncInteractions")
        for name in ("create", "get")
    ),
    *stream_hooks("google.genai._gaos.utils.eventstreaming", "Stream", "AsyncStream"),
)
