"""Steps of Google's Interactions API (`/interactions`).

Every function makes one `Step`, sent `after` seconds after the one before; `reply` makes a whole well-formed `Script`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ._pace import Gaps, Tokens, ToolCall, called, encode, paced, present, texts
from .script import ID, MODEL, Event, Kind, Script, Step


def event(
    kind: Kind, name: str, members: Mapping[str, object] | None = None, *, tokens: int = 0, after: float = 0.0
) -> Step:
    """Make an event of this name, such as `step.delta`, for what the other functions lack."""
    payload = {"event_type": name, **(members or {})}
    return Step(after, Event(kind, encode(payload), name=name, tokens=tokens, wire="interactions"))


def interaction(status: str, *, usage: Mapping[str, object] | None = None) -> dict[str, object]:
    """Make the interaction that the first and the last event hold."""
    return present(id=ID, object="interaction", status=status, model=MODEL, usage=usage)


def created(*, after: float = 0.0) -> Step:
    """Make the opening event `interaction.created`."""
    return event("lifecycle", "interaction.created", {"interaction": interaction("in_progress")}, after=after)


def step_start(step: Mapping[str, object], *, index: int = 0, after: float = 0.0) -> Step:
    """Make the event that starts the step number `index`; a function call's name comes with it, and is output."""
    is_call = step.get("type") == "function_call"
    members = {"index": index, "step": step}
    return event("tool" if is_call else "lifecycle", "step.start", members, tokens=int(is_call), after=after)


def step_stop(*, index: int = 0, after: float = 0.0) -> Step:
    """Make the event that ends the step number `index`."""
    return event("lifecycle", "step.stop", {"index": index}, after=after)


def delta(kind: Kind, content: Mapping[str, object], *, tokens: int = 0, index: int = 0, after: float = 0.0) -> Step:
    """Make a `step.delta` with this delta of the step number `index`."""
    return event(kind, "step.delta", {"index": index, "delta": content}, tokens=tokens, after=after)


def text(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a delta of answer text."""
    return delta("answer", {"type": "text", "text": content}, tokens=tokens, index=index, after=after)


def thought(content: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a delta of a thought summary."""
    summary = {"type": "thought_summary", "content": {"type": "text", "text": content}}
    return delta("reasoning", summary, tokens=tokens, index=index, after=after)


def signature(*, index: int = 0, after: float = 0.0) -> Step:
    """Make a delta with a thought signature: no token."""
    return delta("lifecycle", {"type": "thought_signature", "signature": "c2lnbmF0dXJl"}, index=index, after=after)


def arguments(piece: str, *, tokens: int = 1, index: int = 0, after: float = 0.0) -> Step:
    """Make a delta of the JSON arguments of a function call."""
    return delta("tool", {"type": "arguments_delta", "arguments": piece}, tokens=tokens, index=index, after=after)


def status_update(status: str = "in_progress", *, after: float = 0.0) -> Step:
    """Make the event `interaction.status_update`."""
    return event("lifecycle", "interaction.status_update", {"interaction_id": ID, "status": status}, after=after)


def usage_object(output: int, *, prompt: int = 10, thoughts: int = 0, cached: int = 0) -> dict[str, object]:
    """Make the `usage` of `output` tokens of the answer and, not among them, `thoughts` of reasoning."""
    return {
        "total_input_tokens": prompt,
        "total_cached_tokens": cached,
        "total_output_tokens": output,
        "total_thought_tokens": thoughts,
        "total_tokens": prompt + output + thoughts,
    }


def completed(status: str = "completed", *, usage: Mapping[str, object] | None = None, after: float = 0.0) -> Step:
    """Make the event `interaction.completed`, which ends an interaction whatever its status."""
    members = {"interaction": interaction(status, usage=usage)}
    return event("finish", "interaction.completed", members, after=after)


def error(message: str = "The model is overloaded", *, code: str = "server_error", after: float = 0.0) -> Step:
    """Make the event `error`. The SDK yields it like any other event and does not raise."""
    return event("error", "error", {"error": {"code": code, "message": message}}, after=after)


def done(*, after: float = 0.0) -> Step:
    """Make the terminator: `data: [DONE]`."""
    return Step(after, Event("done", "[DONE]", name="done"))


def reply(
    tokens: Tokens = 3,
    *,
    first: float = 0.0,
    gaps: Gaps = 0.0,
    thoughts: Tokens = 0,
    tools: Iterable[ToolCall] = (),
    end: Literal["completed", "incomplete", "failed", "requires_action"] | None = None,
) -> Script:
    """Make a whole stream: `interaction.created`, the steps, `interaction.completed`, `[DONE]`.

    The opening event goes out with the headers; `first` and `gaps` space the output events, the rest follows at once.

    Args:
        tokens: the answer, one delta a token.
        first: seconds from the headers to the first output event.
        gaps: seconds between successive output events, one number or exactly one each.
        thoughts: tokens of a thought summary before the answer.
        tools: function calls after the answer; the name and each piece of the arguments are an output event each.
        end: the interaction's last status; None: `requires_action` where there are tools, else `completed`.
    """
    answers, thinking, calls = texts(tokens), texts(thoughts), called(tools)
    groups: list[tuple[dict[str, object], list[Step]]] = []
    if thinking:
        groups.append(({"type": "thought"}, [thought(one, index=0) for one in thinking]))
    if answers:
        place = len(groups)
        groups.append(({"type": "model_output"}, [text(answer, index=place) for answer in answers]))
    for number, (name, pieces) in enumerate(calls):
        place = len(groups)
        call: dict[str, object] = {"type": "function_call", "id": f"call_{number}", "name": name, "arguments": {}}
        groups.append((call, [arguments(piece, index=place) for piece in pieces]))
    steps: list[Step] = []
    for place, (opening, deltas) in enumerate(groups):
        steps += [step_start(opening, index=place), *deltas, step_stop(index=place)]
    output = sum(step.event.tokens for step in steps)
    usage = usage_object(output - len(thinking), thoughts=len(thinking))
    status = end or ("requires_action" if calls else "completed")
    return paced([created(), *steps, completed(status, usage=usage), done()], first, gaps)
