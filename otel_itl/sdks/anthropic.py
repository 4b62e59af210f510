"""The anthropic SDK: its streaming routes."""

from __future__ import annotations

from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event, record_ping
from otel_itl.sdks.stainless import Member, Route, SwallowedEvent

MEMBER = Member(
    package="anthropic",
    provider="anthropic",
    oldest=(0, 40),
    routes=(
        Route("messages", "chat", classify_message_event),
        Route("complete", "text_completion", classify_legacy_completion),
    ),
    marker=SwallowedEvent("event", "ping", record_ping),
    clients={"BaseBedrockClient": "aws.bedrock", "BaseVertexClient": "gcp.vertex_ai"},
)
