"""Steps of the OpenAI responses stream (`POST /responses`, `GET /responses/{id}?stream=true`).

The output of a response is a list of items (reasoning, message, tool call), each opened, filled by deltas and closed.
`message`, `thoughts`, `summary` and `function_call` make all the steps of one item, `reply` makes a whole well-formed
`Script`; every other function makes one `Step`, sent `after` seconds after the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ._pace import Gaps, Tokens, ToolCall, called, encode, logprob_entries, paced, texts
from .script import CREATED, ID, MODEL, SEQUENCE, Event, Kind, Script, Step


def event(
    kind: Kind, name: str, content: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of the type `name` with these members, for what the other functions lack."""
    payload = {"type": name, "sequence_number": SEQUENCE, **(content or {})}
    return Step(after, Event(kind, encode(payload), name=name, tokens=tokens, wire="responses"))


def response_object(
    status: str,
    output: Sequence[Mapping[str, object]] = (),
    *,
    usage: Mapping[str, object] | None = None,
    **fields: object,
) -> dict[str, object]:
    """Make the response as the lifecycle events show it."""
    opening = {"id": ID, "object": "response", "created_at": CREATED, "status": status, "error": None}
    described: dict[str, object] = {"incomplete_details": None, "instructions": None, "metadata": {}, "model": MODEL}
    options = {"parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0}
    return {**opening, **described, "output": list(output), **options, "usage": usage, **fields}


def usage_object(output: int, *, prompt: int = 10, reasoning: int = 0) -> dict[str, object]:
    """Make the `usage` of `output` tokens, of which `reasoning` are reasoning."""
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + output,
    }


def created(*, background: bool = False, after: float = 0.0) -> Step:
    """Make `response.created`."""
    members = {"response": response_object("in_progress", background=background)}
    return event("lifecycle", "response.created", members, after=after)


def in_progress(*, background: bool = False, after: float = 0.0) -> Step:
    """Make `response.in_progress`."""
    members = {"response": response_object("in_progress", background=background)}
    return event("lifecycle", "response.in_progress", members, after=after)


def item_added(item: Mapping[str, object], *, index: int = 0, after: float = 0.0) -> Step:
    """Make the start of the output item number `index`. That of a function call contains its name, which is output."""
    content = {"output_index": index, "item": item}
    if item["type"] == "function_call":
        return event("tool", "response.output_item.added", content, tokens=1, after=after)
    return event("lifecycle", "response.output_item.added", content, after=after)


def item_done(item: Mapping[str, object], *, index: int = 0, after: float = 0.0) -> Step:
    """Make the end of the output item number `index`."""
    return event("lifecycle", "response.output_item.done", {"output_index": index, "item": item}, after=after)


def text(content: str, *, index: int = 0, tokens: int = 1, logprobs: Iterable[str] = (), after: float = 0.0) -> Step:
    """Make a delta of answer text of the message that is output item `index`; `logprobs` are its tokens' texts."""
    entries = logprob_entries(logprobs)
    members = {**_part_of(f"msg_{index}", index), "delta": content, "logprobs": entries}
    return event("answer", "response.output_text.delta", members, tokens=len(entries) or tokens, after=after)


def refusal(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of refusal text of the message that is the output item number `index`."""
    members = {**_part_of(f"msg_{index}", index), "delta": content}
    return event("answer", "response.refusal.delta", members, tokens=tokens, after=after)


def reasoning(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of text of the reasoning item number `index`."""
    members = {**_part_of(f"rs_{index}", index), "delta": content}
    return event("reasoning", "response.reasoning_text.delta", members, tokens=tokens, after=after)


def reasoning_summary(content: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of the summary of the reasoning item number `index`."""
    members = {**_part_of(f"rs_{index}", index, "summary_index"), "delta": content}
    return event("reasoning", "response.reasoning_summary_text.delta", members, tokens=tokens, after=after)


def tool_arguments(piece: str, *, index: int = 0, tokens: int = 1, after: float = 0.0) -> Step:
    """Make a delta of the JSON arguments of the function call that is the output item number `index`."""
    members = {"item_id": f"fc_{index}", "output_index": index, "delta": piece}
    return event("tool", "response.function_call_arguments.delta", members, tokens=tokens, after=after)


def ping(*, after: float = 0.0) -> Step:
    """Make a keep-alive: an SSE comment, which no SDK shows."""
    return Step(after, Event("ping", raw=b": ping\n\n"))


def completed(
    output: Sequence[Mapping[str, object]] = (),
    *,
    usage: Mapping[str, object] | None = None,
    background: bool = False,
    after: float = 0.0,
) -> Step:
    """Make the terminator `response.completed`: the whole response with its items and usage."""
    members = {"response": response_object("completed", output, usage=usage, background=background)}
    return event("finish", "response.completed", members, after=after)


def incomplete(
    reason: str = "max_output_tokens",
    output: Sequence[Mapping[str, object]] = (),
    *,
    usage: Mapping[str, object] | None = None,
    after: float = 0.0,
) -> Step:
    """Make the terminator `response.incomplete`: the service stopped, for this reason."""
    members = {"response": response_object("incomplete", output, usage=usage, incomplete_details={"reason": reason})}
    return event("finish", "response.incomplete", members, after=after)


def failed(message: str = "The model failed", *, code: str = "server_error", after: float = 0.0) -> Step:
    """Make the terminator `response.failed`. The SDK yields it like any other event and does not raise."""
    members = {"response": response_object("failed", error={"code": code, "message": message})}
    return event("error", "response.failed", members, after=after)


def error(message: str = "The server had an error", *, code: str | None = "server_error", after: float = 0.0) -> Step:
    """Make the event `error`. The SDK yields it like any other event and does not raise."""
    return event("error", "error", {"code": code, "message": message, "param": None}, after=after)


def message(
    tokens: Tokens, *, index: int = 0, refuse: bool = False, logprobs: bool = False
) -> tuple[list[Step], dict[str, object]]:
    """Make the steps of a message as the output item number `index`, and the finished item."""
    pieces = texts(tokens)
    opened = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    if refuse:
        deltas = [refusal(piece, index=index) for piece in pieces]
        return _fill_item(opened, "content", {"type": "refusal", "refusal": "".join(pieces)}, deltas, index)
    deltas = [text(piece, index=index, logprobs=[piece] if logprobs else ()) for piece in pieces]
    part = {"type": "output_text", "text": "".join(pieces), "annotations": [], "logprobs": []}
    return _fill_item(opened, "content", part, deltas, index)


def thoughts(tokens: Tokens, *, index: int = 0) -> tuple[list[Step], dict[str, object]]:
    """Make the steps of a reasoning item with its text, as the output item number `index`, and the finished item."""
    pieces = texts(tokens)
    opened = {"id": f"rs_{index}", "type": "reasoning", "summary": [], "content": []}
    deltas = [reasoning(piece, index=index) for piece in pieces]
    return _fill_item(opened, "content", {"type": "reasoning_text", "text": "".join(pieces)}, deltas, index)


def summary(tokens: Tokens, *, index: int = 0) -> tuple[list[Step], dict[str, object]]:
    """Make the steps of a reasoning item with a summary, as the output item `index`, and the finished item."""
    pieces = texts(tokens)
    opened = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    deltas = [reasoning_summary(piece, index=index) for piece in pieces]
    return _fill_item(opened, "summary", {"type": "summary_text", "text": "".join(pieces)}, deltas, index)


def function_call(name: str, arguments: Tokens, *, index: int = 0) -> tuple[list[Step], dict[str, object]]:
    """Make the steps of a function call as the output item number `index`, and the finished item."""
    pieces = texts(arguments)
    identity = {"id": f"fc_{index}", "type": "function_call", "status": "in_progress", "call_id": f"call_{index}"}
    opened = {**identity, "name": name, "arguments": ""}
    finished: dict[str, object] = {**opened, "status": "completed", "arguments": "".join(pieces)}
    over = {"item_id": f"fc_{index}", "output_index": index, "name": name, "arguments": "".join(pieces)}
    steps = [
        item_added(opened, index=index),
        *(tool_arguments(piece, index=index) for piece in pieces),
        event("lifecycle", "response.function_call_arguments.done", over),
        item_done(finished, index=index),
    ]
    return steps, finished


def _fill_item(
    opened: Mapping[str, object], member: str, part: Mapping[str, object], deltas: list[Step], index: int
) -> tuple[list[Step], dict[str, object]]:
    """Make the steps of an output item with one part, and the finished item.

    Args:
        opened: the item at its start.
        member: the item's list that gets the part.
        part: the whole part; its text, and how the events of its end are named, follow from its type.
        deltas: the steps that carry the text.
        index: the number of the item.
    """
    field = "refusal" if part["type"] == "refusal" else "text"
    place = _part_of(str(opened["id"]), index, f"{member}_index")
    group, kind = (
        ("reasoning_summary_part", "reasoning_summary_text") if member == "summary" else ("content_part", part["type"])
    )
    over = {**place, field: part[field], **({"logprobs": []} if "logprobs" in part else {})}
    finished = {**opened, member: [part], **({"status": "completed"} if "status" in opened else {})}
    steps = [
        item_added(opened, index=index),
        event("lifecycle", f"response.{group}.added", {**place, "part": {**part, field: ""}}),
        *deltas,
        event("lifecycle", f"response.{kind}.done", over),
        event("lifecycle", f"response.{group}.done", {**place, "part": part}),
        item_done(finished, index=index),
    ]
    return steps, finished


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    reasoning: Tokens = 0,
    reasoning_summary: Tokens = 0,
    hidden_reasoning: int = 0,
    tools: Iterable[ToolCall] = (),
    refuse: bool = False,
    logprobs: bool = False,
    background: bool = False,
    end: Literal["completed", "incomplete", "failed"] = "completed",
) -> Script:
    """Make a whole stream: `response.created`, `response.in_progress`, the output items, `response.completed`.

    The opening events go out with the headers; `first` and `gaps` space the output events, the rest follows at once.

    Args:
        tokens: the answer, one text delta a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        reasoning: tokens of reasoning text before the answer.
        reasoning_summary: tokens of a reasoning summary before the answer.
        hidden_reasoning: further tokens of reasoning, which the usage counts and no event carries.
        tools: function calls after the answer; the item's start (the name) and each piece of the arguments are output.
        refuse: send the answer as a refusal.
        logprobs: each text delta has the text of its token.
        background: the response runs in the background, so that it can be fetched again.
        end: `completed`, `incomplete` or `failed`.
    """
    parts: list[tuple[list[Step], dict[str, object]]] = []
    if thought := texts(reasoning):
        parts.append(thoughts(thought))
    if summed := texts(reasoning_summary):
        parts.append(summary(summed, index=len(parts)))
    if answer := texts(tokens):
        parts.append(message(answer, index=len(parts), refuse=refuse, logprobs=logprobs))
    for name, pieces in called(tools):
        parts.append(function_call(name, pieces, index=len(parts)))
    steps = [step for part, _ in parts for step in part]
    items = [item for _, item in parts]
    thinking = len(thought) + len(summed) + hidden_reasoning
    usage = usage_object(sum(step.event.tokens for step in steps) + hidden_reasoning, reasoning=thinking)
    ends = {
        "completed": completed(items, usage=usage, background=background),
        "incomplete": incomplete(output=items, usage=usage),
        "failed": failed(),
    }
    opening = [created(background=background), in_progress(background=background)]
    return paced([*opening, *steps, ends[end]], first, gaps)


def _part_of(item: str, index: int, number: str = "content_index") -> dict[str, object]:
    """Return the members that name the first part of the output item number `index`."""
    return {"item_id": item, "output_index": index, number: 0}
