"""Classifies the chunks of OpenAI's chat completions and text completions, and of servers that are compatible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT, Kind
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.values import fields_of, items_of, short_str, valid_count

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
ROLE, EMPTY, FINISH, USAGE = int(Kind.ROLE), int(Kind.EMPTY), int(Kind.FINISH), int(Kind.USAGE)

DELTA_FIELDS: Final = {"content": ANSWER, "refusal": ANSWER, "reasoning_content": REASONING, "reasoning": REASONING}
"""Field of a chat delta that holds text → what the chunk then carries."""
REASONING_PARTS: Final = frozenset({"thinking"})
"""Type of a part of a delta's content that is no answer: Mistral's models send content in parts while they think."""


def classify_chat(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of chat completions, and record its metadata in `response_info`.

    Called with every chunk while the stream runs: plain text, which nearly every chunk is, is recognized first. For an
    SDK whose delta class declares its reasoning fields, use `classify_reasoning_chat`.
    """
    try:
        (choice,) = chunk.choices
        delta = choice.delta
        if (
            delta.content
            and delta.content.__class__ is str
            and delta.tool_calls is None
            and not delta.__pydantic_extra__
            and choice.finish_reason is None
            and choice.logprobs is None
            and not choice.index
            and chunk.usage is None
            and response_info.response_id is not None
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # no plain text
    return _classify_choices(chunk, response_info, _delta_kind, _chat_tokens)


def classify_reasoning_chat(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of chat completions of an SDK whose delta class declares `reasoning` or `reasoning_content`.

    `classify_chat` would take a chunk of reasoning and text for plain text: in the openai SDK, for which it is written,
    these are extra fields, and a chunk with extra fields is no plain text.
    """
    kind = classify_chat(chunk, response_info)
    if kind == ANSWER:
        try:
            delta = chunk.choices[0].delta.__dict__
        except (AttributeError, IndexError, TypeError):
            return kind  # an odd chunk, which was examined field by field
        if delta.get("reasoning") or delta.get("reasoning_content"):
            return ANSWER | REASONING
    return kind


def classify_text_completion(chunk: Any, response_info: ResponseInfo) -> int:
    """Classify a chunk of the legacy text completions, and record its metadata in `response_info`."""
    return _classify_choices(chunk, response_info, _text_kind, _text_tokens)


def mark_terminated(recorder: StreamRecorder) -> None:
    """Record that the provider ended the stream: called for `[DONE]`, for which the SDK yields no chunk."""
    recorder.response.is_terminated = True


def record_metadata(response_info: ResponseInfo, fields: dict[str, Any]) -> None:
    """Record the response's id and model from the fields of its first chunk, and whether usage is on every chunk."""
    response_info.response_id = short_str(fields.get("id")) or ""
    response_info.model = short_str(fields.get("model")) or response_info.model
    if fields.get("usage") and fields_of(fields["usage"]):
        # Counts from the first chunk on are counts on every chunk.
        response_info.streamed_tokens = 0


def _classify_choices(
    chunk: Any,
    response_info: ResponseInfo,
    kind_of: Callable[[dict[str, Any]], int],
    tokens_of: Callable[[dict[str, Any]], int],
) -> int:
    """Classify a chunk that holds choices.

    Args:
        chunk: an SDK object or a dict.
        response_info: takes the metadata: id, model, finish reasons, usage, failure.
        kind_of: what a choice carries.
        tokens_of: how many tokens the `logprobs` of a choice list.

    Returns:
        What all the choices carry together, the tokens in them as the provider counts them, and the last one's index.
    """
    fields = fields_of(chunk)
    if response_info.response_id is None:
        record_metadata(response_info, fields)
    kind = tokens = index = 0
    # What is absent, as most fields are, is not looked into: this is done for a few chunks of every stream.
    for choice in map(fields_of, items_of(fields.get("choices"))):
        index = valid_count(choice.get("index")) or 0
        kind |= kind_of(choice)
        reason = short_str(choice.get("finish_reason"))
        if reason is not None:
            kind |= FINISH
            response_info.add_finish_reason(reason)
        if choice.get("logprobs"):
            tokens += tokens_of(fields_of(choice["logprobs"]))
    if "finish_reason" in fields and not kind & FINISH:  # together's text completions
        kind |= _record_chunk_finish(response_info, fields)
    usage, error = fields_of(fields["usage"]) if fields.get("usage") else {}, fields.get("error")
    if "x_groq" in fields:
        groq = fields_of(fields["x_groq"])
        usage, error = usage or fields_of(groq.get("usage")), error or groq.get("error")
    if error:  # most SDKs raise instead, fireworks yields it as a chunk
        response_info.error_type = _error_code(fields_of(error))
        kind |= FINISH
    if usage:
        counted = _record_usage(response_info, usage)
        if kind & OUTPUT:
            tokens = tokens or counted
        else:
            kind |= USAGE
    return chunk_code(kind, tokens if kind & OUTPUT else 0, index)


def _record_chunk_finish(response_info: ResponseInfo, fields: dict[str, Any]) -> int:
    """Record a finish reason that stands beside the choices rather than in one; return the kind that it adds."""
    reason = short_str(fields["finish_reason"])
    if reason is None:
        return EMPTY
    response_info.add_finish_reason(reason)
    return FINISH


def _error_code(error: dict[str, Any]) -> str:
    """Return the code or the type of a provider's error: never its message, which may quote the prompt."""
    return short_str(error.get("code")) or short_str(error.get("type")) or "error"


def _delta_kind(choice: dict[str, Any]) -> int:
    """Return what the delta of a chat choice carries."""
    delta = fields_of(choice.get("delta"))
    kind = EMPTY
    for field, carried in DELTA_FIELDS.items():
        value = delta.get(field)
        if value:
            kind |= parts_kind(value) if isinstance(value, list) else carried
    if delta.get("tool_calls") or delta.get("function_call"):
        calls = [fields_of(call) for call in items_of(delta.get("tool_calls"))]
        functions = [fields_of(call.get(field)) for call in calls for field in ("function", "custom")]
        for function in (*functions, fields_of(delta.get("function_call"))):
            if function.get("name") or function.get("arguments") or function.get("input"):
                kind |= TOOL
    if delta.get("audio"):
        audio = fields_of(delta["audio"])
        if audio.get("data") or audio.get("transcript"):
            kind |= ANSWER
    return kind or (ROLE if delta.get("role") else EMPTY)


def parts_kind(parts: list[Any]) -> int:
    """Return what content in parts carries: those of `REASONING_PARTS` are reasoning, an empty one is nothing."""
    kind = EMPTY
    for part in map(fields_of, parts):
        name = short_str(part.get("type")) or ""
        if part.get(name) or name not in {"text", *REASONING_PARTS}:
            kind |= REASONING if name in REASONING_PARTS else ANSWER
    return kind


def _text_kind(choice: dict[str, Any]) -> int:
    """Return what a choice of a text completion carries; together may send its text as a chat delta."""
    return ANSWER if choice.get("text") else _delta_kind(choice) & OUTPUT


def _chat_tokens(logprobs: dict[str, Any]) -> int:
    return len(items_of(logprobs.get("content"))) + len(items_of(logprobs.get("refusal")))


def _text_tokens(logprobs: dict[str, Any]) -> int:
    return len(items_of(logprobs.get("tokens")))


def _record_usage(response_info: ResponseInfo, usage: dict[str, Any]) -> int:
    """Record the usage; return the output tokens since the usage before where every chunk has one, else 0."""
    total = valid_count(usage.get("completion_tokens"))
    response_info.update_token_counts(input_tokens=valid_count(usage.get("prompt_tokens")), output_tokens=total)
    if usage.get("completion_tokens_details"):
        details = fields_of(usage["completion_tokens_details"])
        response_info.update_token_counts(reasoning_tokens=valid_count(details.get("reasoning_tokens")))
    if usage.get("prompt_tokens_details"):
        details = fields_of(usage["prompt_tokens_details"])
        response_info.update_token_counts(cache_read_tokens=valid_count(details.get("cached_tokens")))
    before = response_info.streamed_tokens
    if before is None or total is None:
        return 0
    response_info.streamed_tokens = total
    return max(total - before, 0)
