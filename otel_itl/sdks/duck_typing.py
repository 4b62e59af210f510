"""Chunks of unknown make, read by their shape: many libraries stream what looks like OpenAI's or Anthropic's chunks."""

from __future__ import annotations

from typing import Any

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.anthropic import classify_message
from otel_itl.sdks.openai import classify_chat, classify_response
from otel_itl.sdks.stainless import fields_of

_ANSWER = int(Kind.ANSWER)
_EMPTY = int(Kind.EMPTY)


def classify_by_shape(chunk: Any, answer: ResponseInfo) -> int:
    """What a chunk carried, as far as its shape tells; an object of no known shape is an answer."""
    if isinstance(chunk, (str, bytes)):
        # Text has no way to say that it is finished: where the iterator ends, it is.
        answer.is_terminated = True
        return _ANSWER if chunk else _EMPTY
    fields = fields_of(chunk)
    if "choices" in fields:
        return classify_chat(chunk, answer)
    name = fields.get("type")
    if isinstance(name, str):
        is_response = name.startswith("response.") or name == "keepalive" or (name == "error" and "error" not in fields)
        return (classify_response if is_response else classify_message)(chunk, answer)
    answer.is_terminated = True
    return _EMPTY if chunk is None else _ANSWER
