"""How many streams are open at a time, on average and at most, by when each begins and ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

Span = tuple[float, float]
"""When a stream begins and ends, in seconds on one clock."""


def clip_spans(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """Return the parts of spans that lie between two moments."""
    clipped = ((max(first, start), min(last, end)) for first, last in spans)
    return [(first, last) for first, last in clipped if first < last]


def mean_open(spans: Iterable[Span], start: float, end: float) -> float:
    """Return how many streams are open at a time between two moments, on average."""
    return sum(last - first for first, last in clip_spans(spans, start, end)) / (end - start)


def most_open(spans: Iterable[Span]) -> int:
    """Return how many streams are open at a time, at most. One that begins as another ends is not beside it."""
    changes = sorted(change for first, last in spans for change in ((first, 1), (last, -1)))
    return max(accumulate(change for _, change in changes), default=0)
