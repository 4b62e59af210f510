"""The cerebras-cloud-sdk: its streaming routes."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, classify_text_completion, mark_terminated
from otel_itl.sdks.stainless import Route, StainlessSDK, SwallowedEvent

SDK = StainlessSDK(
    name="cerebras",
    provider="cerebras",
    routes=(
        Route("chat/completions", "chat", classify_reasoning_chat),
        Route("completions", "text_completion", classify_text_completion),
    ),
    swallowed_event=SwallowedEvent("data", "[DONE]", mark_terminated, is_last=True),
)
