"""The openai SDK: its streaming routes, and what their chunks carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import OUTPUT, Kind
from otel_itl.recording.recorder import StreamRecorder, code
from otel_itl.sdks.stainless import Member, Route, SwallowedEvent, count, fields_of, items_of, word

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
ROLE, LIFECYCLE, PING = int(Kind.ROLE), int(Kind.LIFECYCLE), int(Kind.PING)
EMPTY, FINISH, USAGE = int(Kind.EMPTY), int(Kind.FINISH), int(Kind.USAGE)

RESPONSE_DELTAS = {
    "response.output_text.delta": ANSWER,
    "response.refusal.delta": ANSWER,
    "response.audio.delta": ANSWER,
    "response.audio.transcript.delta": ANSWER,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    "response.function_call_arguments.delta": TOOL,
    "response.custom_tool_call_input.delta": TOOL,
    "response.mcp_call_arguments.delta": TOOL,
    "response.code_interpreter_call_code.delta": TOOL,
    "response.shell_call_command.delta": TOOL,
}
RESPONSE_SIGNS = {"error": FINISH, "keepalive": PING}
RESPONSE_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
TOOL_CALL_ITEMS = {"function_call", "custom_tool_call", "mcp_call"}
DELTA_FIELDS = {"content": ANSWER, "refusal": ANSWER, "reasoning_content": REASONING, "reasoning": REASONING}
"""Field of a chat delta that holds text → what the chunk then carries."""


def classify_chat(chunk: Any, answer: ResponseInfo) -> int:
    """A chunk of chat completions, from OpenAI or a server compatible with it."""
    try:
        (choice,) = chunk.choices
        delta = choice.delta
        if (
            delta.content
            and delta.tool_calls is None
            and not delta.__pydantic_extra__
            and choice.finish_reason is None
            and choice.logprobs is None
            and not choice.index
            and chunk.usage is None
            and answer.response_id is not None
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # not the plain chunk that nearly all are
    return _classify_choices(chunk, answer, lambda choice: _delta_kind(fields_of(choice.get("delta"))), _logged)


def classify_completion(chunk: Any, answer: ResponseInfo) -> int:
    """A chunk of the legacy text completions."""
    return _classify_choices(
        chunk,
        answer,
        lambda choice: ANSWER if choice.get("text") else EMPTY,
        lambda logprobs: len(items_of(logprobs.get("tokens"))),
    )


def classify_response(event: Any, answer: ResponseInfo) -> int:
    """An event of the Responses API."""
    try:
        if event.type == "response.output_text.delta" and event.delta and not event.logprobs:
            return ANSWER
    except AttributeError:
        pass  # not the plain event that nearly all are
    fields = fields_of(event)
    name = word(fields.get("type")) or ""
    kind = RESPONSE_DELTAS.get(name)
    if kind is not None:
        return code(kind, len(items_of(fields.get("logprobs")))) if fields.get("delta") else EMPTY
    if name == "response.output_item.added":
        item = fields_of(fields.get("item"))
        return TOOL if word(item.get("type")) in TOOL_CALL_ITEMS and item.get("name") else LIFECYCLE
    if name == "response.created":
        _introduce(answer, fields_of(fields.get("response")))
    elif name in RESPONSE_ENDS:
        return _response_end(answer, name, fields_of(fields.get("response")))
    elif name == "error":
        answer.error_type = word(fields.get("code")) or "error"
    return RESPONSE_SIGNS.get(name, LIFECYCLE)


def done(probe: StreamRecorder) -> None:
    """`[DONE]` is where the SDK stops, without a word to the caller."""
    probe.answer.is_terminated = True


MEMBER = Member(
    package="openai",
    provider="openai",
    oldest=(1, 40),
    routes=(
        Route("chat/completions", "chat", classify_chat),
        Route("responses", "chat", classify_response),
        Route("responses/*", "fetch_response", classify_response, method="get"),
        Route("completions", "text_completion", classify_completion),
    ),
    marker=SwallowedEvent("data", "[DONE]", done, last=True),
    clients={"BaseAzureClient": "azure.ai.openai"},
)


def _classify_choices(
    chunk: Any,
    answer: ResponseInfo,
    kind_of: Callable[[dict[str, Any]], int],
    logged: Callable[[dict[str, Any]], int],
) -> int:
    """A chunk that holds choices: what all of them carry, and the tokens that it says it has."""
    fields = fields_of(chunk)
    if answer.response_id is None:
        _introduce(answer, fields)
    kind = tokens = index = 0
    for choice in map(fields_of, items_of(fields.get("choices"))):
        index = count(choice.get("index")) or 0
        kind |= kind_of(choice)
        reason = word(choice.get("finish_reason"))
        if reason is not None:
            kind |= FINISH
            answer.add_finish_reason(reason)
        tokens += logged(fields_of(choice.get("logprobs")))
    usage = fields_of(fields.get("usage"))
    if usage:
        counted = _chat_usage(answer, usage)
        if kind & OUTPUT:
            tokens = tokens or counted
        else:
            kind |= USAGE
    return code(kind, tokens if kind & OUTPUT else 0, index)


def _introduce(answer: ResponseInfo, fields: dict[str, Any]) -> None:
    """What the first chunk says of the whole response."""
    answer.response_id = word(fields.get("id")) or ""
    answer.model = word(fields.get("model")) or answer.model
    if fields_of(fields.get("usage")):
        # Counts from the first chunk on are counts on every chunk.
        answer.streamed_tokens = 0


def _delta_kind(delta: dict[str, Any]) -> int:
    kind = EMPTY
    for field, carried in DELTA_FIELDS.items():
        if delta.get(field):
            kind |= carried
    calls = [fields_of(call) for call in items_of(delta.get("tool_calls"))]
    functions = [fields_of(call.get(field)) for call in calls for field in ("function", "custom")]
    for function in (*functions, fields_of(delta.get("function_call"))):
        if function.get("name") or function.get("arguments") or function.get("input"):
            kind |= TOOL
    audio = fields_of(delta.get("audio"))
    if audio.get("data") or audio.get("transcript"):
        kind |= ANSWER
    return kind or (ROLE if delta.get("role") else EMPTY)


def _logged(logprobs: dict[str, Any]) -> int:
    return len(items_of(logprobs.get("content"))) + len(items_of(logprobs.get("refusal")))


def _chat_usage(answer: ResponseInfo, usage: dict[str, Any]) -> int:
    """Take down the usage; returns the tokens since the usage before, where every chunk has one."""
    total = count(usage.get("completion_tokens"))
    answer.update_token_counts(
        input_tokens=count(usage.get("prompt_tokens")),
        output_tokens=total,
        reasoning_tokens=count(fields_of(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        cache_read_tokens=count(fields_of(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )
    before = answer.streamed_tokens
    if before is None or total is None:
        return 0
    answer.streamed_tokens = total
    return max(total - before, 0)


def _response_end(answer: ResponseInfo, name: str, response: dict[str, Any]) -> int:
    if not answer.response_id:
        _introduce(answer, response)
    answer.is_terminated = True
    if name == "response.failed":
        answer.error_type = word(fields_of(response.get("error")).get("code")) or "failed"
    incomplete = word(fields_of(response.get("incomplete_details")).get("reason"))
    answer.add_finish_reason(incomplete or word(response.get("status")) or name.partition(".")[2])
    usage = fields_of(response.get("usage"))
    if not usage:
        return FINISH
    answer.update_token_counts(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        reasoning_tokens=count(fields_of(usage.get("output_tokens_details")).get("reasoning_tokens")),
        cache_read_tokens=count(fields_of(usage.get("input_tokens_details")).get("cached_tokens")),
    )
    return FINISH | USAGE
