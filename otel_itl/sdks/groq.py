"""The groq SDK: its streaming routes. Usage comes in `x_groq` of the last chunk."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, mark_terminated
from otel_itl.sdks.stainless import Member, Route, SwallowedEvent

MEMBER = Member(
    package="groq",
    provider="groq",
    oldest=(0, 13),
    routes=(Route("chat/completions", "chat", classify_reasoning_chat),),
    marker=SwallowedEvent("data", "[DONE]", mark_terminated, last=True),
)
