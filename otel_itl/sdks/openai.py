"""The openai SDK: its streaming routes, and what their chunks carry."""

from __future__ import annotations

from typing import Any

from otel_itl.exchange import Answer
from otel_itl.record.probe import Probe, code
from otel_itl.sdks.stainless import Marker, Member, Route, count, fields_of
from otel_itl.timeline import OUTPUT, Kind

REASONING, ANSWER, TOOL = int(Kind.REASONING), int(Kind.ANSWER), int(Kind.TOOL)
ROLE, LIFECYCLE, PING = int(Kind.ROLE), int(Kind.LIFECYCLE), int(Kind.PING)
FINISH, USAGE = int(Kind.FINISH), int(Kind.USAGE)

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
}
RESPONSE_SIGNS = {"error": FINISH, "keepalive": PING}
RESPONSE_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
TOOL_CALL_ITEMS = {"function_call", "custom_tool_call", "mcp_call"}


def classify_chat(chunk: Any, answer: Answer) -> int:
    """A chunk of chat completions, from OpenAI or a server compatible with it."""
    try:
        (choice,) = chunk.choices
        if (
            choice.delta.content
            and choice.finish_reason is None
            and choice.logprobs is None
            and not choice.index
            and chunk.usage is None
            and answer.response_id is not None
        ):
            return ANSWER
    except (AttributeError, TypeError, ValueError):
        pass  # not the plain chunk that nearly all are
    fields = fields_of(chunk)
    if answer.response_id is None:
        _introduce(answer, fields)
    kind = tokens = index = 0
    for choice in fields.get("choices") or ():
        choice_fields = fields_of(choice)
        index = count(choice_fields.get("index")) or 0
        kind |= _delta_kind(choice_fields.get("delta"))
        reason = choice_fields.get("finish_reason")
        if reason is not None:
            kind |= FINISH
            answer.finish_reasons.append(str(reason))
        logprobs = choice_fields.get("logprobs")
        if logprobs is not None:
            tokens += _logged(logprobs)
    usage = fields.get("usage")
    if usage is not None:
        counted = _chat_usage(answer, usage)
        if kind & OUTPUT:
            tokens = tokens or counted
        else:
            kind |= USAGE
    return code(kind, tokens if kind & OUTPUT else 0, index) if tokens or index else kind


def classify_completion(chunk: Any, answer: Answer) -> int:
    """A chunk of the legacy text completions."""
    fields = fields_of(chunk)
    if answer.response_id is None:
        _introduce(answer, fields)
    kind = tokens = index = 0
    for choice in fields.get("choices") or ():
        choice_fields = fields_of(choice)
        index = count(choice_fields.get("index")) or 0
        if choice_fields.get("text"):
            kind |= ANSWER
        reason = choice_fields.get("finish_reason")
        if reason is not None:
            kind |= FINISH
            answer.finish_reasons.append(str(reason))
        tokens += len(fields_of(choice_fields.get("logprobs")).get("tokens") or ())
    usage = fields.get("usage")
    if usage is not None:
        counted = _chat_usage(answer, usage)
        if kind & OUTPUT:
            tokens = tokens or counted
        else:
            kind |= USAGE
    return code(kind, tokens if kind & OUTPUT else 0, index)


def classify_response(event: Any, answer: Answer) -> int:
    """An event of the Responses API."""
    try:
        if event.type == "response.output_text.delta" and event.delta and not event.logprobs:
            return ANSWER
    except AttributeError:
        pass  # not the plain event that nearly all are
    fields = fields_of(event)
    name = fields.get("type")
    kind = RESPONSE_DELTAS.get(name)  # type: ignore[arg-type]  # any key may be asked for
    if kind is not None:
        if not fields.get("delta"):
            return 0
        logprobs = fields.get("logprobs")
        return code(kind, len(logprobs)) if logprobs else kind
    if name == "response.output_item.added":
        item = fields_of(fields.get("item"))
        return TOOL if item.get("type") in TOOL_CALL_ITEMS and item.get("name") else LIFECYCLE
    if name == "response.created":
        _introduce(answer, fields_of(fields.get("response")))
    elif name in RESPONSE_ENDS:
        return _response_end(answer, str(name), fields_of(fields.get("response")))
    elif name == "error":
        answer.failure = str(fields.get("code") or "error")
    return RESPONSE_SIGNS.get(name, LIFECYCLE)  # type: ignore[arg-type]  # any key may be asked for


def done(probe: Probe) -> None:
    """`[DONE]` is where the SDK stops, without a word to the caller."""
    probe.answer.terminated = True


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
    marker=Marker("data", "[DONE]", done),
)


def _introduce(answer: Answer, fields: dict[str, Any]) -> None:
    """What the first chunk says of the whole response."""
    identity, model = fields.get("id"), fields.get("model")
    answer.response_id = identity if isinstance(identity, str) else ""
    if isinstance(model, str) and model:
        answer.model = model
    usage = fields.get("usage")
    if usage is not None:
        # Counts from the first chunk on are counts on every chunk.
        answer.streamed_tokens = 0


def _delta_kind(delta: Any) -> int:
    fields = fields_of(delta)
    if fields.get("content") or fields.get("refusal"):
        return ANSWER
    calls = fields.get("tool_calls") or ()
    legacy = fields.get("function_call")
    for call in (*(fields_of(call).get("function") for call in calls), legacy) if calls or legacy else ():
        function = fields_of(call)
        if function.get("name") or function.get("arguments"):
            return TOOL
    for call in calls:
        custom = fields_of(fields_of(call).get("custom"))
        if custom.get("name") or custom.get("input"):
            return TOOL
    if fields.get("reasoning_content") or fields.get("reasoning"):
        return REASONING
    if fields_of(fields.get("audio")).get("data") or fields_of(fields.get("audio")).get("transcript"):
        return ANSWER
    return ROLE if fields.get("role") else 0


def _logged(logprobs: Any) -> int:
    fields = fields_of(logprobs)
    return len(fields.get("content") or ()) + len(fields.get("refusal") or ())


def _chat_usage(answer: Answer, usage: Any) -> int:
    """Take down the usage; returns the tokens since the usage before, where every chunk has one."""
    fields = fields_of(usage)
    total = count(fields.get("completion_tokens"))
    answer.input_tokens = count(fields.get("prompt_tokens"))
    answer.output_tokens = total
    reasoning = count(fields_of(fields.get("completion_tokens_details")).get("reasoning_tokens"))
    if reasoning is not None:
        answer.reasoning_tokens = reasoning
    cached = count(fields_of(fields.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is not None:
        answer.cache_read_tokens = cached
    before = answer.streamed_tokens
    if before is None or total is None:
        return 0
    answer.streamed_tokens = total
    return max(total - before, 0)


def _response_end(answer: Answer, name: str, response: dict[str, Any]) -> int:
    if not answer.response_id:
        _introduce(answer, response)
    answer.terminated = True
    if name == "response.failed":
        answer.failure = str(fields_of(response.get("error")).get("code") or "failed")
    incomplete = fields_of(response.get("incomplete_details")).get("reason")
    answer.finish_reasons.append(str(incomplete or response.get("status") or name.partition(".")[2]))
    usage = fields_of(response.get("usage"))
    if not usage:
        return FINISH
    answer.input_tokens = count(usage.get("input_tokens"))
    answer.output_tokens = count(usage.get("output_tokens"))
    answer.reasoning_tokens = count(fields_of(usage.get("output_tokens_details")).get("reasoning_tokens"))
    answer.cache_read_tokens = count(fields_of(usage.get("input_tokens_details")).get("cached_tokens"))
    return FINISH | USAGE
