"""Classifies the chunks of Ollama's `chat` and `generate`, the last of which has the server's own figures."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, LIFECYCLE, REASONING, TOOL, USAGE
from otel_itl.sdks.values import (
    fields_of,
    items_of,
    record_counts,
    record_finish,
    short_str,
    valid_count,
    valid_seconds,
)

NANOSECONDS: Final = 1_000_000_000
"""Units per second of the server's durations."""
DURATIONS: Final = {
    "total": "total_duration",
    "load": "load_duration",
    "prompt": "prompt_eval_duration",
    "decode": "eval_duration",
}
"""A duration's key → its field."""


def classify_chat_chunk(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a `ChatResponse`, and record its metadata in `response_info`.

    Called with every chunk while the stream runs: plain text, which nearly every chunk is, is recognized first.
    """
    try:
        fields = chunk.__dict__
        message = fields["message"].__dict__
        if (
            message["content"]
            and not fields["done"]
            and not message.get("thinking")
            and not message["tool_calls"]
            and not fields.get("logprobs")
            and response_info.model is not None
        ):
            return ANSWER
    except (AttributeError, KeyError):
        pass  # no plain text
    fields = fields_of(chunk)
    message = fields_of(fields.get("message"))
    return _classify(fields, message, message.get("content"), response_info)


def classify_generate_chunk(chunk: Any, response_info: ResponseInfo) -> int:
    """Do what `classify_chat_chunk` does, for a `GenerateResponse`."""
    try:
        fields = chunk.__dict__
        if (
            fields["response"]
            and not fields["done"]
            and not fields.get("thinking")
            and not fields.get("logprobs")
            and response_info.model is not None
        ):
            return ANSWER
    except (AttributeError, KeyError):
        pass  # no plain text
    fields = fields_of(chunk)
    return _classify(fields, fields, fields.get("response") or fields.get("image"), response_info)


def _classify(fields: dict[str, Any], output: dict[str, Any], text: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk by its fields, one by one: they may be of any type.

    Args:
        fields: of the chunk.
        output: the fields of what holds the output.
        text: the answer in it.
        response_info: receives the metadata.
    """
    kind = EMPTY
    if text:
        kind |= ANSWER
    if output.get("thinking"):
        kind |= REASONING
    if output.get("tool_calls"):
        kind |= TOOL
    if not kind and fields.get("total") is not None:  # the progress of an image
        kind = LIFECYCLE
    response_info.set_identity(None, short_str(fields.get("model")))
    if fields.get("done") is True:
        kind |= _record_end(fields, response_info)
    return chunk_code(kind, len(items_of(fields.get("logprobs"))))


def _record_end(fields: dict[str, Any], response_info: ResponseInfo) -> int:
    """Record what only the last chunk has, and return the kind that it adds."""
    response_info.is_terminated = True
    record_finish(response_info, fields.get("done_reason"))
    record_counts(response_info, fields, input_tokens="prompt_eval_count", output_tokens="eval_count")
    durations = {name: valid_seconds(fields.get(field), NANOSECONDS) for name, field in DURATIONS.items()}
    response_info.update_server_durations(**durations)
    return FINISH if valid_count(fields.get("eval_count")) is None else FINISH | USAGE
