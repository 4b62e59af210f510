"""The groq SDK: its streaming routes. Usage comes in `x_groq` of the last chunk."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, mark_terminated
from otel_itl.sdks.stainless import Route, StainlessSDK, SwallowedEvent

SDK = StainlessSDK(
    name="groq",
    provider="groq",
    routes=(Route("chat/completions", "chat", classify_reasoning_chat),),
    swallowed_event=SwallowedEvent("data", "[DONE]", mark_terminated, is_last=True),
)
