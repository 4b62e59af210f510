"""Classifies what huggingface_hub makes of chat completions and of the text that TGI generates."""

from __future__ import annotations

import json
from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, USAGE
from otel_itl.sdks.formats.openai_chat import classify_chat
from otel_itl.sdks.values import fields_of, items_of, record_counts, record_finish

ONE_TOKEN: Final = chunk_code(ANSWER, 1)
"""An event of generated text: TGI sends one for each token."""


def classify_chat_output(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of `chat_completion()`, which is a dict and has attributes, and record its metadata.

    Called with every chunk while the stream runs: plain text, which nearly every chunk is, is recognized first.
    """
    try:
        (choice,) = chunk.choices
        delta = choice.delta
        if (
            delta.content.__class__ is str
            and delta.content
            and not delta.tool_calls
            and choice.finish_reason is None
            and choice.logprobs is None
            and not choice.index
            and chunk.usage is None
            and response_info.is_settled
            and not (delta.get("reasoning") or delta.get("reasoning_content"))
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # no plain text
    fields = _fields_of(chunk)
    choices = [_fields_of(choice) for choice in items_of(fields.get("choices"))]
    for choice in choices:
        choice["delta"] = _fields_of(choice.get("delta"))
    return classify_chat({**fields, "choices": choices}, response_info)


def classify_generated_token(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of `text_generation()`: the text of a token, or (`details=True`) an object with the token."""
    if chunk.__class__ is str:
        return ONE_TOKEN if chunk else EMPTY
    fields = fields_of(chunk)
    token = fields_of(fields.get("token"))
    kind = ANSWER if token.get("text") and not token.get("special") else EMPTY
    kind |= record_generation_end(fields, response_info)
    return chunk_code(kind, 1) if kind & ANSWER else kind


def record_generation_end(fields: dict[str, Any], response_info: ResponseInfo) -> int:
    """Record finish reason and usage, which the last event of generated text has; return the kinds that it adds."""
    if fields.get("generated_text") is not None:
        response_info.is_terminated = True
    details = fields_of(fields.get("details"))
    record_counts(response_info, details, input_tokens="input_length", output_tokens="generated_tokens")
    return USAGE | FINISH if record_finish(response_info, details.get("finish_reason")) else EMPTY


def read_last_chat_line(line: str, response_info: ResponseInfo) -> None:
    """Record the terminator of chat completions, for which the SDK yields no chunk."""
    if line == "[DONE]":
        response_info.is_terminated = True


def read_last_generation_line(line: str, response_info: ResponseInfo) -> None:
    """Record the end of generated text, of which the caller gets no more than the text."""
    read_last_chat_line(line, response_info)
    if not response_info.is_finished and line.startswith("{"):
        record_generation_end(fields_of(json.loads(line)), response_info)


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an object of the SDK with those that it does not declare, which its dict alone may have."""
    return {**fields_of(value), **(getattr(value, "__dict__", None) or {})}
