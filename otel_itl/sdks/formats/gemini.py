"""Classifies the chunks of Google's `streamGenerateContent`: of the Gemini API and of Vertex AI."""

from __future__ import annotations

from typing import Any, Final

from otel_itl.core.chunk_code import choice_byte, chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, REASONING, TOOL, USAGE
from otel_itl.sdks.values import fields_of, items_of, record_counts, record_finish, short_str, valid_count

OUTPUT_FIELDS: Final = {
    "function_call": TOOL,
    "executable_code": TOOL,
    "tool_call": TOOL,
    "inline_data": ANSWER,
    "file_data": ANSWER,
}
"""Field of a part that holds output of the model other than text → what the chunk then carries."""


def classify_content(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a `GenerateContentResponse`, and record its metadata in `response_info`.

    The last chunk has a finish reason; a prompt that the service refuses has one chunk without candidates, and counts
    as finished by `blocked_` and the reason.
    """
    try:
        (candidate,) = chunk.candidates
        (part,) = candidate.content.parts
        if (
            part.text
            and not part.thought
            and part.function_call is None
            and candidate.finish_reason is None
            and not candidate.index
        ):
            usage = chunk.usage_metadata
            if response_info.is_settled:
                if usage is None:
                    return ANSWER
            elif response_info.output_tokens is not None and usage is not None:
                tokens = _count_plain_text(usage, response_info)
                if tokens is not None:
                    return chunk_code(ANSWER, tokens)
    except (AttributeError, TypeError, ValueError):
        pass  # no plain text
    return _classify_fields(fields_of(chunk), response_info)


def _classify_fields(fields: dict[str, Any], response_info: ResponseInfo) -> int:
    """Classify a chunk by its fields, one by one: they may be of any type."""
    usage = fields_of(fields.get("usage_metadata"))
    response_info.set_identity(short_str(fields.get("response_id")), short_str(fields.get("model_version")))
    kind = index = 0
    choices: set[int] = set()
    for position, candidate in enumerate(map(fields_of, items_of(fields.get("candidates")))):
        given = valid_count(candidate.get("index"))
        index = position if given is None else given
        carried = 0
        for part in items_of(fields_of(candidate.get("content")).get("parts")):
            carried |= _part_kind(fields_of(part))
        if carried & OUTPUT:
            choices.add(index)
        kind |= carried | _record_finish(response_info, candidate.get("finish_reason"), index)
    if not fields.get("candidates"):
        reason = fields_of(fields.get("prompt_feedback")).get("block_reason")
        kind |= _record_finish(response_info, reason, prefix="blocked_")
    if kind & REASONING:
        response_info.is_reasoning_partial = True  # thoughts are streamed as summaries
    has_counts = _record_usage(response_info, usage)
    if not kind & OUTPUT:
        return chunk_code(kind | USAGE if usage else kind, 0, choice_byte((index,)))
    if max(choices):  # a usage counts the tokens of all candidates
        response_info.is_settled = True
    return chunk_code(kind, response_info.count_streamed(kind, has_usage=has_counts), choice_byte(choices))


def _count_plain_text(usage: Any, response_info: ResponseInfo) -> int | None:
    """Record the usage of a chunk of plain text, and return its tokens, where every chunk has a usage.

    Returns None where more than the count of the answer has changed, or a count is odd.
    """
    answered, thought = usage.candidates_token_count, response_info.reasoning_tokens
    if type(answered) is not int or usage.thoughts_token_count != thought:
        return None
    total = answered + (thought or 0)
    if total < (response_info.output_tokens or 0) or total >= 1 << 63:  # more than a span attribute can hold
        return None
    response_info.output_tokens = total
    return response_info.count_streamed(ANSWER, has_usage=True)


def _part_kind(part: dict[str, Any]) -> int:
    """Return what a part of a candidate's content carries; the results of the service's own tools are no output."""
    if part.get("text"):
        return REASONING if part.get("thought") is True else ANSWER
    return next((kind for field, kind in OUTPUT_FIELDS.items() if fields_of(part.get(field))), EMPTY)


def _record_finish(response_info: ResponseInfo, reason: Any, choice: int = 0, *, prefix: str = "") -> int:
    """Record a candidate's finish reason in lower case, as the conventions write it; return the kind that it adds."""
    text = short_str(reason)
    return EMPTY if text is None else record_finish(response_info, prefix + text.lower(), choice)


def _record_usage(response_info: ResponseInfo, usage: dict[str, Any]) -> bool:
    """Record the usage; return whether it has a count of output tokens.

    The Gemini API sends it with every chunk, Vertex AI with the last one. The tokens of thoughts are not among those of
    the candidates, nor the results of the service's own tools among those of the prompt.
    """
    if not usage:
        return False
    answered, thought = valid_count(usage.get("candidates_token_count")), valid_count(usage.get("thoughts_token_count"))
    thought_before = response_info.reasoning_tokens or 0
    answered_before = (response_info.output_tokens or 0) - thought_before
    has_counts = answered is not None or thought is not None
    if has_counts:
        total = (answered_before if answered is None else answered) + (thought_before if thought is None else thought)
        response_info.update_token_counts(output_tokens=valid_count(total), reasoning_tokens=thought)
    prompt, cached = "prompt_token_count+tool_use_prompt_token_count", "cached_content_token_count"
    record_counts(response_info, usage, input_tokens=prompt, cache_read_tokens=cached)
    return has_counts
