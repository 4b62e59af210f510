"""What the builders of all wire formats share: token texts, delays, tool calls, usage that runs along."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from .script import Script, Step

Tokens = int | Iterable[str]
"""The texts of the tokens, or how many."""
Gaps = float | Iterable[float]
"""Seconds between successive output events: one number for all, or one each."""
ToolCall = tuple[str, Iterable[str]]
"""The name of a tool, and the pieces of its JSON arguments."""


def texts(tokens: Tokens) -> list[str]:
    """Return the texts of tokens; they are made up where only their number is given."""
    if isinstance(tokens, int):
        return [f"token{index} " for index in range(tokens)]
    if isinstance(tokens, str):
        raise TypeError(f"tokens is a number or a list of texts; for one token write [{tokens!r}]")
    return list(tokens)


def called(tools: Iterable[ToolCall]) -> list[tuple[str, list[str]]]:
    """Return the tool calls, the pieces of their arguments as lists."""
    return [(name, texts(pieces)) for name, pieces in tools]


def called_whole(tools: Iterable[ToolCall]) -> list[tuple[str, dict[str, object]]]:
    """Return the tool calls with their arguments as objects: for services that send them in one piece."""
    return [(name, json.loads("".join(pieces) or "{}")) for name, pieces in called(tools)]


def paced(steps: Sequence[Step], first: float, gaps: Gaps) -> Script:
    """Put the delays before the output steps: `first` before the first, then the gaps.

    Raises:
        ValueError: there are more or fewer gaps than successive outputs, or a negative one.

    """
    outputs = sum(step.output for step in steps)
    between = max(outputs - 1, 0)
    if isinstance(gaps, (int, float)):
        delays = [gaps] * between
    else:
        delays = list(gaps if isinstance(gaps, Sequence) else islice(gaps, between))
    if len(delays) != between:
        raise ValueError(f"{outputs} output events have {between} gaps between them, not {len(delays)}")
    each = iter([first, *delays])
    return Script(replace(step, delay=next(each)) if step.output else step for step in steps)


def encode(payload: Mapping[str, object]) -> str:
    """Write JSON as the services do: no blanks, no escapes for what UTF-8 can express."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def present(**members: object) -> dict[str, object]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def logprob_entries(tokens: Iterable[str]) -> list[dict[str, object]]:
    """Make the `logprobs` entries of OpenAI's formats for tokens with these texts."""
    return [{"token": token, "logprob": -0.1, "bytes": list(token.encode()), "top_logprobs": []} for token in tokens]


def with_members(step: Step, members: Mapping[str, object]) -> Step:
    """Add members to the JSON object that is the event of a step."""
    return replace(step, event=replace(step.event, data=encode(json.loads(step.event.data) | members)))


def with_running_usage(steps: Iterable[Step], count: Callable[[int, int], Mapping[str, object]]) -> Iterator[Step]:
    """Add the token counts so far to each chunk: `count` makes the member from those of output and of reasoning."""
    answered = thought = 0
    for step in steps:
        thought += step.event.tokens if step.event.kind == "reasoning" else 0
        answered += step.event.tokens if step.event.kind != "reasoning" else 0
        yield with_members(step, count(answered, thought))
