"""Steps of Cohere's streams: of `/v2/chat` as server-sent events, and of `/v1/chat` as lines of JSON.

Every function makes one `Step`, sent `after` seconds after the one before, unless it makes a whole well-formed
`Script`: `reply` for `/v2/chat`, `v1_reply` for `/v1/chat`. The functions of the first API begin with `v1_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ._lines import encode_line
from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, present, texts
from .script import ID, Event, Kind, Script, Step

# --- /v2/chat --------------------------------------------------------------------------------------------------------


def event(
    kind: Kind, name: str, content: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of the type `name` with these members, for what the other functions lack."""
    data = encode({"type": name, **(content or {})})
    return Step(after, Event(kind, data, name=name, tokens=tokens, wire="cohere"))


def delta(
    kind: Kind, name: str, message: Mapping[str, object], *, index: int = 0, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event with this `delta.message`, of the item number `index`."""
    return event(kind, name, {"index": index, "delta": {"message": message}}, tokens=tokens, after=after)


def start(*, after: float = 0.0) -> Step:
    """Make `message-start`: the id and the role."""
    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    return event("role", "message-start", {"id": ID, "delta": {"message": message}}, after=after)


def content_start(kind: str = "text", *, index: int = 0, after: float = 0.0) -> Step:
    """Make `content-start` of a `text` or `thinking` item, which is empty."""
    return delta("lifecycle", "content-start", {"content": {"type": kind, kind: ""}}, index=index, after=after)


def text(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `content-delta` of answer text."""
    return delta("answer", "content-delta", {"content": {"text": content}}, index=index, tokens=tokens, after=after)


def thinking(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `content-delta` of reasoning."""
    message = {"content": {"thinking": content}}
    return delta("reasoning", "content-delta", message, index=index, tokens=tokens, after=after)


def content_end(*, index: int = 0, after: float = 0.0) -> Step:
    """Make `content-end`."""
    return event("lifecycle", "content-end", {"index": index}, after=after)


def tool_plan(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `tool-plan-delta`: what the model intends before it calls tools, which is reasoning."""
    return event(
        "reasoning", "tool-plan-delta", {"delta": {"message": {"tool_plan": content}}}, tokens=tokens, after=after
    )


def tool_start(name: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make `tool-call-start`: the id and the name of a tool, which is output."""
    call = {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
    return delta("tool", "tool-call-start", {"tool_calls": call}, index=index, tokens=tokens, after=after)


def tool_arguments(piece: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `tool-call-delta`: a piece of the JSON arguments."""
    call = {"function": {"arguments": piece}}
    return delta("tool", "tool-call-delta", {"tool_calls": call}, index=index, tokens=tokens, after=after)


def tool_end(*, index: int = 0, after: float = 0.0) -> Step:
    """Make `tool-call-end`."""
    return event("lifecycle", "tool-call-end", {"index": index}, after=after)


def citation(content: str, *, index: int = 0, after: float = 0.0) -> Step:
    """Make `citation-start`, of a citation of this text; it carries no output."""
    cited = {"start": 0, "end": len(content), "text": content, "sources": [], "type": "TEXT_CONTENT"}
    return delta("lifecycle", "citation-start", {"citations": cited}, index=index, after=after)


def usage_object(
    output: int, *, prompt: int = 10, billed: int | None = None, cached: int | None = None
) -> dict[str, object]:
    """Make the `usage` of a response.

    Args:
        output: tokens of the output, those of reasoning among them.
        prompt: tokens of the prompt.
        billed: tokens of the output that are paid for; by default all.
        cached: tokens of the prompt that came from a cache; None: the service does not send the count.
    """
    paid = {"input_tokens": prompt, "output_tokens": output if billed is None else billed}
    return present(billed_units=paid, tokens={"input_tokens": prompt, "output_tokens": output}, cached_tokens=cached)


def finish(reason: str = "COMPLETE", *, usage: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make `message-end`: the finish reason, and the usage where one is given."""
    return event("finish", "message-end", {"delta": present(finish_reason=reason, usage=usage)}, after=after)


def done(*, after: float = 0.0) -> Step:
    """Make the terminator, `[DONE]`."""
    return Step(after, Event("done", "[DONE]", wire="cohere"))


def error(message: str = "the generation failed", *, after: float = 0.0) -> Step:
    """Make the `message-end` of a generation that failed; the SDK yields it like any other event."""
    return event("error", "message-end", {"delta": {"finish_reason": "ERROR", "error": message}}, after=after)


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thinking: Tokens = 0,
    tool_plan: Tokens = 0,
    tools: Iterable[ToolCall] = (),
    finish_reason: str | None = None,
    usage: bool = True,
) -> Script:
    """Make a whole stream of `/v2/chat`: `message-start`, the items, `message-end`, the terminator.

    `message-start` goes out with the headers; `first` and `gaps` space the output events, the rest follows at once.

    Args:
        tokens: the answer, one `content-delta` a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        thinking: tokens of reasoning before the answer.
        tool_plan: tokens of the plan before the tool calls.
        tools: tool calls after the answer; the start (the name) and each piece of the arguments are output.
        finish_reason: by default `TOOL_CALL` when there are tool calls, else `COMPLETE`.
        usage: `message-end` has the token counts.
    """
    calls = called(tools)
    steps: list[Step] = []
    if thoughts := texts(thinking):
        steps += [content_start("thinking"), *map(_thinking, thoughts), content_end()]
    if answers := texts(tokens):
        steps += [content_start(), *map(text, answers), content_end()]
    steps += [_tool_plan(one) for one in texts(tool_plan)]
    for at, (name, arguments) in enumerate(calls):
        pieces = (tool_arguments(piece, index=at) for piece in arguments)
        steps += [tool_start(name, index=at), *pieces, tool_end(index=at)]
    counts = usage_object(sum(step.event.tokens for step in steps)) if usage else None
    end = finish(finish_reason or ("TOOL_CALL" if calls else "COMPLETE"), usage=counts)
    return paced([start(), *steps, end, done()], first, gaps)


# `reply` has arguments of these names.
_thinking, _tool_plan = thinking, tool_plan


# --- /v1/chat --------------------------------------------------------------------------------------------------------


def v1_event(
    kind: Kind, name: str, content: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of the type `name` with these members, for what the other functions lack."""
    data = encode({"is_finished": name == "stream-end", "event_type": name, **(content or {})})
    return Step(after, Event(kind, data, tokens=tokens, wire="cohere_v1", frame=encode_line))


def v1_start(*, after: float = 0.0) -> Step:
    """Make `stream-start`: the id."""
    return v1_event("lifecycle", "stream-start", {"generation_id": ID}, after=after)


def v1_text(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `text-generation`."""
    return v1_event("answer", "text-generation", {"text": content}, tokens=tokens, after=after)


def v1_tool_plan(content: str, *, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a `tool-calls-chunk` with a piece of the plan."""
    return v1_event(
        "reasoning", "tool-calls-chunk", {"text": content, "tool_call_delta": {}}, tokens=tokens, after=after
    )


def v1_tool(index: int = 0, *, tokens: int = 1, after: float = 0.0, **members: object) -> Step:
    """Make a `tool-calls-chunk` with these members of its `tool_call_delta`: `name`, or a piece of `parameters`."""
    content = {"tool_call_delta": {"index": index, **members}}
    return v1_event("tool", "tool-calls-chunk", content, tokens=tokens, after=after)


def v1_finish(reason: str = "COMPLETE", *, usage: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make `stream-end`: the finish reason, and the whole response with the usage where one is given."""
    response = {"response_id": ID, "generation_id": ID, "text": "", "finish_reason": reason, "meta": usage or {}}
    return v1_event("finish", "stream-end", {"finish_reason": reason, "response": response}, after=after)


def v1_error(*, after: float = 0.0) -> Step:
    """Make the `stream-end` of a generation that failed; the SDK yields it like any other event."""
    content = {"finish_reason": "ERROR", "response": {"text": "", "finish_reason": "ERROR"}}
    return v1_event("error", "stream-end", content, after=after)


def v1_reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    tools: Iterable[ToolCall] = (),
    finish_reason: str = "COMPLETE",
) -> Script:
    """Make a whole stream of `/v1/chat`: `stream-start`, the output, `stream-end`. For the arguments see `reply`."""
    steps = [v1_text(one) for one in texts(tokens)]
    for at, (name, arguments) in enumerate(called(tools)):
        steps += [v1_tool(at, name=name), *(v1_tool(at, parameters=piece) for piece in arguments)]
    counts = usage_object(sum(step.event.tokens for step in steps))
    return paced([v1_start(), *steps, v1_finish(finish_reason, usage=counts)], first, gaps)
