"""The together SDK (from 2.0 on, which Stainless generates): its streaming routes."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, classify_text_completion, mark_terminated
from otel_itl.sdks.stainless import Route, StainlessSDK, SwallowedEvent

SDK = StainlessSDK(
    name="together",
    provider="together_ai",
    routes=(
        Route("chat/completions", "chat", classify_reasoning_chat),
        Route("completions", "text_completion", classify_text_completion),
    ),
    swallowed_event=SwallowedEvent("data", "[DONE]", mark_terminated, is_last=True),
)
