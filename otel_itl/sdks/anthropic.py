"""The anthropic SDK: its streaming routes, and the spans that it starts itself from version 2 on."""

from __future__ import annotations

from typing import Any

from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event, record_ping
from otel_itl.sdks.stainless import OwnSpans, Route, StainlessSDK, SwallowedEvent


def _has_tracer(client: Any, options: Any) -> bool:
    """Return whether a client has a tracer, and the method that makes the request gives its span a name."""
    return bool(getattr(options, "span_name", None)) and getattr(client, "_tracer", None) is not None


SDK = StainlessSDK(
    name="anthropic",
    provider="anthropic",
    routes=(
        Route("messages", "chat", classify_message_event),
        Route("complete", "text_completion", classify_legacy_completion),
    ),
    swallowed_event=SwallowedEvent("event", "ping", record_ping),
    clients={"BaseBedrockClient": "aws.bedrock", "BaseVertexClient": "gcp.vertex_ai"},
    own_spans=OwnSpans("start_api_call_span", _has_tracer),
)
