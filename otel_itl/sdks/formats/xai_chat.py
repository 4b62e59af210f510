"""Classifies the messages of xAI's gRPC service: `GetChatCompletionChunk`."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.chunk_code import choice_byte, chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, REASONING, TOOL, USAGE
from otel_itl.sdks.values import short_str, valid_count

ASSISTANT: Final = 2
"""`ROLE_ASSISTANT`: an output of another role has the result of one of the service's own tools."""
FINISH_REASONS: Final = {1: "max_len", 2: "max_context", 3: "stop", 4: "tool_calls", 5: "time_limit"}
"""Number of a `FinishReason` → its name, as the other services write theirs."""


def classify_completion_chunk(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a message, and record its metadata in `response_info`. A message has every field, if only empty.

    gRPC's asynchronous client hands out None in place of a message that it cannot decode.
    """
    if chunk is None:
        return EMPTY
    outputs = chunk.outputs
    if len(outputs) == 1 and response_info.is_settled and not chunk.HasField("usage"):
        output = outputs[0]
        delta = output.delta
        if (
            delta.content
            and not delta.reasoning_content
            and not delta.tool_calls
            and delta.role == ASSISTANT
            and not output.finish_reason
            and not output.index
        ):
            return ANSWER
    return _classify_fields(chunk, response_info)


def _classify_fields(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a message that is no plain text, field by field."""
    usage = chunk.usage if chunk.HasField("usage") else None
    response_info.set_identity(short_str(chunk.id), short_str(chunk.model))
    kind = index = 0
    choices: set[int] = set()
    for output in chunk.outputs:
        index = valid_count(output.index) or 0
        carried = _delta_kind(output.delta)
        kind |= carried
        if carried & OUTPUT:
            choices.add(index)
        if output.finish_reason:
            kind |= FINISH
            reason = FINISH_REASONS.get(output.finish_reason) or f"reason_{output.finish_reason}"
            response_info.add_finish_reason(reason, index)
    if usage is not None:
        _record_usage(response_info, usage)
    if not kind & OUTPUT:
        return chunk_code(kind if usage is None else kind | USAGE, 0, choice_byte((index,)))
    if max(choices):  # a usage counts the tokens of all choices
        response_info.is_settled = True
    return chunk_code(kind, response_info.count_streamed(kind, has_usage=usage is not None), choice_byte(choices))


def _delta_kind(delta: Any) -> int:
    """Return what the delta of an output carries; the results of the service's own tools are no output."""
    if delta.role != ASSISTANT:
        return EMPTY
    kind = ANSWER if delta.content else EMPTY
    if delta.reasoning_content:
        kind |= REASONING
    if delta.tool_calls:
        kind |= TOOL
    return kind


def _record_usage(response_info: ResponseInfo, usage: Any) -> None:
    """Record the usage. The tokens of the reasoning are not among those of the completion."""
    response_info.update_token_counts(
        input_tokens=valid_count(usage.prompt_tokens),
        output_tokens=valid_count(usage.completion_tokens + usage.reasoning_tokens),
        reasoning_tokens=valid_count(usage.reasoning_tokens),
        cache_read_tokens=valid_count(usage.cached_prompt_text_tokens),
    )
