"""The openai SDK: its streaming routes, and Responses over WebSockets, which openai-agents speaks by itself."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_chat, classify_text_completion
from otel_itl.sdks.formats.openai_responses import classify_response_event
from otel_itl.sdks.responses_websocket import ResponsesWire
from otel_itl.sdks.stainless import Route, StainlessSDK
from otel_itl.sdks.websocket_connections import connection_hooks

SDK = StainlessSDK(
    name="openai",
    provider="openai",
    routes=(
        Route("chat/completions", "chat", classify_chat),
        Route("responses", "chat", classify_response_event),
        Route("responses/*", "fetch_response", classify_response_event, method="get", resumed_by="starting_after"),
        Route("completions", "text_completion", classify_text_completion),
    ),
    clients={"BaseAzureClient": "azure.ai.openai"},
    more_hooks=tuple(connection_hooks(r"/responses/?$", ResponsesWire)),
)
