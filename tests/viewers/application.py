"""An application: streams of two SDKs, and one line of otel_itl. Where its telemetry goes is in the environment."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import anthropic
import openai

import otel_itl

otel_itl.instrument(slo="chat")

anthropic_url, openai_url, claude, gpt = sys.argv[1:]
asked: Any = [{"role": "user", "content": "hello"}]

for _ in range(int(claude)):
    with anthropic.Anthropic(base_url=anthropic_url, api_key="none") as first:
        for _ in first.messages.create(model="claude-opus", max_tokens=9, messages=asked, stream=True):
            pass

with openai.OpenAI(base_url=openai_url, api_key="none", max_retries=0) as second:
    for _ in range(int(gpt) + 1):
        with suppress(openai.InternalServerError):
            for _ in second.chat.completions.create(model="gpt-5-mini", messages=asked, stream=True):
                pass
