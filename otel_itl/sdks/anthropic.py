"""The anthropic SDK: its streaming routes, and the spans that it starts itself from version 2 on."""

from __future__ import annotations

from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event
from otel_itl.sdks.formats.kinds import PING
from otel_itl.sdks.stainless import OwnSpans, Route, See, StainlessSDK


def _has_tracer(client: Any, options: Any) -> bool:
    """Return whether a client has a tracer, and the method that makes the request gives its span a name."""
    return bool(getattr(options, "span_name", None)) and getattr(client, "_tracer", None) is not None


def see_pings(recorder: StreamRecorder) -> See:
    """Return what looks at each event, and records the arrival of a `ping`, for which the SDK yields no chunk."""

    def see(event: Any) -> None:
        try:
            if event.event == "ping":
                recorder.record_swallowed(PING)
        except Exception as error:  # noqa: BLE001 - the guard
            recorder.errors.report(Where.SSE_READ, error)

    return see


SDK = StainlessSDK(
    name="anthropic",
    provider="anthropic",
    routes=(
        Route("messages", "chat", classify_message_event),
        Route("complete", "text_completion", classify_legacy_completion),
    ),
    see_events=see_pings,
    clients={"BaseBedrockClient": "aws.bedrock", "BaseVertexClient": "gcp.vertex_ai"},
    own_spans=OwnSpans("start_api_call_span", _has_tracer),
)
