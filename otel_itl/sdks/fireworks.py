"""The fireworks-ai SDK: its streaming routes. It yields an error of the provider as a chunk."""

from __future__ import annotations

from otel_itl.sdks.formats.openai_chat import classify_reasoning_chat, classify_text_completion, mark_terminated
from otel_itl.sdks.stainless import Member, Route, SwallowedEvent

MEMBER = Member(
    package="fireworks",
    provider="fireworks_ai",
    oldest=(1, 2),
    routes=(
        Route("chat/completions", "chat", classify_reasoning_chat),
        Route("completions", "text_completion", classify_text_completion),
    ),
    marker=SwallowedEvent("data", "[DONE]", mark_terminated, last=True),
)
