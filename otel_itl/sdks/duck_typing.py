"""Classifies chunks of unknown make by their fields: many libraries stream what OpenAI, Anthropic or Bedrock do."""

from __future__ import annotations

from typing import Any

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.anthropic_messages import classify_message_event
from otel_itl.sdks.formats.bedrock_converse import EVENTS, classify_converse_event
from otel_itl.sdks.formats.bedrock_invoke import classify_invocation_chunk
from otel_itl.sdks.formats.openai_chat import classify_chat
from otel_itl.sdks.formats.openai_responses import classify_response_event
from otel_itl.sdks.values import fields_of

_ANSWER = int(Kind.ANSWER)
_EMPTY = int(Kind.EMPTY)


def classify_by_shape(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk by its fields; text that is not empty, or an object of no known shape, is an answer.

    A known wire format has its own sign of the end, without which a stream counts as truncated. A stream of anything
    else has none, so that the end of its iterator is taken for the provider's.
    """
    if isinstance(chunk, (str, bytes)):
        response_info.is_terminated = True
        return _ANSWER if chunk else _EMPTY
    fields = fields_of(chunk)
    if "choices" in fields:
        return classify_chat(chunk, response_info)
    name = fields.get("type")
    if isinstance(name, str):
        is_response = name.startswith("response.") or name == "keepalive" or (name == "error" and "error" not in fields)
        return (classify_response_event if is_response else classify_message_event)(chunk, response_info)
    if isinstance(chunk, dict) and len(chunk) == 1:  # as each event of Bedrock is
        (name,) = chunk
        if name in EVENTS:
            return classify_converse_event(chunk, response_info)
        if name == "chunk" and "bytes" in fields_of(chunk["chunk"]):
            return classify_invocation_chunk(chunk, response_info)
    response_info.is_terminated = True
    return _EMPTY if chunk is None else _ANSWER
