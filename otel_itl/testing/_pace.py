"""Token texts and their delays, as the `reply` of every wire format takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
