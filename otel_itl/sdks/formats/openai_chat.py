"""Classifies the chunks of OpenAI's chat completions and text completions, and of servers that are compatible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from otel_itl.core.chunk_code import choice_byte, chunk_code
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT
from otel_itl.sdks.formats.kinds import ANSWER, EMPTY, FINISH, REASONING, ROLE, TOOL, USAGE
from otel_itl.sdks.values import fields_of, is_signature, items_of, record_finish, short_str, valid_count

DELTA_FIELDS: Final = {"content": ANSWER, "refusal": ANSWER, "reasoning_content": REASONING, "reasoning": REASONING}
"""Field of a chat delta that holds text → what the chunk then carries."""
PARTIAL_REASONING: Final = frozenset({"reasoning.summary", "reasoning.encrypted", "redacted_thinking"})
"""Type of an item that is not the reasoning itself, in what OpenRouter and litellm send beside the text of it."""
PARTIAL_FORMATS: Final = ("anthropic-claude", "azure-openai-responses", "google-gemini", "openai-responses")
"""Format of the service behind OpenRouter that does not stream its reasoning itself."""
COUNTS: Final = ("completion_tokens", "prompt_tokens", "total_tokens")
"""Fields of a usage."""
REASONING_PARTS: Final = {"thinking": "thinking", "reasoning": "summary"}
"""Type of a part of a delta's content that is no answer → its field: of Mistral's models, which send content in parts
while they think; of Databricks, which sends summaries."""


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
            and response_info.is_settled
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # no plain text
    return _classify_choices(chunk, response_info, _delta_kind)


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
    return _classify_choices(chunk, response_info, _text_kind)


def _classify_choices(
    chunk: Any,
    response_info: ResponseInfo,
    kind_of: Callable[[dict[str, Any], ResponseInfo], int],
) -> int:
    """Classify a chunk that holds choices.

    Args:
        chunk: an SDK object or a dict.
        response_info: takes the metadata: id, model, finish reasons, usage, failure.
        kind_of: what a choice carries.

    Returns:
        What all the choices carry together, those that have output, and the tokens of each as the provider counts them:
        0 where they are not known, or differ.
    """
    fields = fields_of(chunk)
    if response_info.response_id is None or response_info.model is None:
        # Azure's first chunk has neither, nor have those about its content filter: each chunk may be the one that has.
        response_info.set_identity(short_str(fields.get("id")), short_str(fields.get("model")))
    kind = index = 0
    tokens: dict[int, int] = {}
    # What is absent, as most fields are, is not looked into: this is done for a few chunks of every stream.
    for position, choice in enumerate(map(fields_of, items_of(fields.get("choices")))):
        given = valid_count(choice.get("index"))
        index = position if given is None else given
        carried = kind_of(choice, response_info)
        kind |= carried | record_finish(response_info, choice.get("finish_reason"), index)
        if carried & OUTPUT:
            listed = _count_listed(fields_of(choice["logprobs"])) if choice.get("logprobs") else 0
            tokens[index] = tokens.get(index, 0) + listed
    if not kind & FINISH:  # beside the choices: of together's text completions
        kind |= record_finish(response_info, fields.get("finish_reason"))
    usage, error = _find_usage_and_error(fields)
    if error:  # most SDKs raise instead, fireworks yields it as a chunk
        response_info.error_type = _error_code(fields_of(error))
        kind |= FINISH
    if usage and not (response_info.has_choices and len(tokens) == 1):
        _record_usage(response_info, usage)
    if not kind & OUTPUT:
        return chunk_code(kind | USAGE if usage else kind, 0, choice_byte((index,)))
    return chunk_code(kind, _count_tokens(kind, tokens, usage, response_info), choice_byte(tokens))


def _count_tokens(kind: int, listed: dict[int, int], usage: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return the tokens of each choice in a chunk of this kind; 0: not known, or different.

    Args:
        kind: of the chunk.
        listed: choice that has output → its tokens by their `logprobs`.
        usage: of the chunk.
        response_info: counts by the usage, where each chunk of a single choice has one.
    """
    if max(listed) and not response_info.has_choices:
        response_info.has_choices = response_info.is_settled = True
        if len(listed) == 1:  # vLLM's usage beside the output of a choice is of this choice
            response_info.output_tokens = response_info.reasoning_tokens = None
    counted = response_info.count_streamed(kind, has_usage=valid_count(usage.get("completion_tokens")) is not None)
    (tokens, *others) = set(listed.values())
    return 0 if others else tokens or counted


def _find_usage_and_error(fields: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the fields of a chunk's usage, and its error; Groq has them in a field of its own."""
    usage, error = fields_of(fields["usage"]) if fields.get("usage") else {}, fields.get("error")
    if "x_groq" in fields:
        groq = fields_of(fields["x_groq"])
        usage, error = usage or fields_of(groq.get("usage")), error or groq.get("error")
    return usage, error


def _error_code(error: dict[str, Any]) -> str:
    """Return the code or the type of a provider's error: never its message, which may quote the prompt."""
    return short_str(error.get("code")) or short_str(error.get("type")) or "error"


def _delta_kind(choice: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return what the delta of a chat choice carries; record whether it shows a summary of the reasoning."""
    delta = fields_of(choice.get("delta"))
    kind = _text_kinds(delta, response_info)
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


def _text_kinds(delta: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return what the texts of a delta are; record whether they show a summary of the reasoning."""
    kind = EMPTY
    if "reasoning_details" in delta or "thinking_blocks" in delta:
        kind |= _items_kind(delta, response_info)
    is_thought = "extra_content" in delta and _is_thought(fields_of(delta["extra_content"]))
    for field, carried in DELTA_FIELDS.items():
        value = delta.get(field)
        if isinstance(value, list):
            kind |= parts_kind(value)
            is_thought = is_thought or any(fields_of(part).get("summary") for part in value)
        elif value:
            kind |= REASONING if is_thought else carried
    if is_thought:
        response_info.is_reasoning_partial = True
    return kind


def _is_thought(extra_content: dict[str, Any]) -> bool:
    """Return whether the content of a delta is a thought of Gemini's, which are summaries."""
    return fields_of(extra_content.get("google")).get("thought") is True


def _items_kind(delta: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return what the items of reasoning in a delta carry; record whether they show a summary of the reasoning."""
    details = [*map(fields_of, items_of(delta.get("reasoning_details")))]
    if any(map(_is_partial_item, (*details, *map(fields_of, items_of(delta.get("thinking_blocks")))))):
        response_info.is_reasoning_partial = True
    return REASONING if any(item.get(name) for item in details for name in ("text", "summary")) else EMPTY


def _is_partial_item(item: dict[str, Any]) -> bool:
    """Return whether an item of reasoning shows that the reasoning itself is not streamed."""
    if short_str(item.get("type")) in PARTIAL_REASONING or is_signature(item.get("signature")):
        return True
    return (short_str(item.get("format")) or "").startswith(PARTIAL_FORMATS)


def parts_kind(parts: list[Any]) -> int:
    """Return what content in parts carries: those of `REASONING_PARTS` are reasoning, an empty one is nothing."""
    kind = EMPTY
    for part in map(fields_of, parts):
        name = short_str(part.get("type")) or ""
        if part.get(REASONING_PARTS.get(name, name)) or name not in {"text", *REASONING_PARTS}:
            kind |= REASONING if name in REASONING_PARTS else ANSWER
    return kind


def _text_kind(choice: dict[str, Any], response_info: ResponseInfo) -> int:
    """Return what a choice of a text completion carries; together may send its text as a chat delta."""
    return ANSWER if choice.get("text") else _delta_kind(choice, response_info) & OUTPUT


def _count_listed(logprobs: dict[str, Any]) -> int:
    """Return how many tokens the `logprobs` of a choice list; `tokens` are those of a text completion."""
    return sum(len(items_of(logprobs.get(name))) for name in ("content", "refusal", "tokens"))


def _record_usage(response_info: ResponseInfo, usage: dict[str, Any]) -> None:
    """Record the usage. Where a service does not count reasoning among the tokens of the completion, it is added.

    xAI does not, nor does Gemini in this format, which shows in the total; nor does Perplexity, which may count more
    reasoning than output.
    """
    answered, prompt, total = (valid_count(usage.get(name)) for name in COUNTS)
    details = fields_of(usage["completion_tokens_details"]) if usage.get("completion_tokens_details") else usage
    thought = valid_count(details.get("reasoning_tokens"))
    beside = 0 if answered is None or prompt is None or total is None else total - prompt - answered
    if thought is None and beside > 0 and response_info.is_reasoning_partial:
        thought = beside
    if answered is not None and thought and (thought == beside or thought > answered):
        answered = valid_count(answered + thought)
    response_info.update_token_counts(input_tokens=prompt, output_tokens=answered, reasoning_tokens=thought)
    if valid_count(details.get("rejected_prediction_tokens")):  # they are counted, too, and are in no chunk
        response_info.is_reasoning_partial = True
    if usage.get("prompt_tokens_details"):
        details = fields_of(usage["prompt_tokens_details"])
        response_info.update_token_counts(cache_read_tokens=valid_count(details.get("cached_tokens")))
