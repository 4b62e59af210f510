"""The anthropic SDK: its streaming routes."""

from __future__ import annotations

from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event, record_ping
from otel_itl.sdks.stainless import Route, StainlessSDK, SwallowedEvent

SDK = StainlessSDK(
    name="anthropic",
    provider="anthropic",
    routes=(
        Route("messages", "chat", classify_message_event),
        Route("complete", "text_completion", classify_legacy_completion),
    ),
    swallowed_event=SwallowedEvent("event", "ping", record_ping),
    clients={"BaseBedrockClient": "aws.bedrock", "BaseVertexClient": "gcp.vertex_ai"},
)
