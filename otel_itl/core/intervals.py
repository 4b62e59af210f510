"""Arithmetic on moments that are known within bounds: the straightest path through them, and what a figure can be.

An arrival is an interval: the chunk came no later than its `latest` moment and no earlier than its `earliest`. Both
rise from chunk to chunk. What follows from them:

* The *best estimate* of the arrivals is the straightest path through the intervals, from the latest moment of the first
  chunk to that of the last: a string that is pulled taut between them. It invents no gap that the bounds do not force.
* The *bounds by rank*: two ascending lists with an entry for each sample, so that the k-th longest true sample lies
  between the k-th longest of one and of the other. Percentiles, which rise with every sample, lie between theirs.

Worked example. Chunks at 0 and 60 ms, and two between them of which nothing else is known. The string is straight: gaps
of 20, 20 and 20 ms. One gap may be 60 ms long, but then it is the only one: of three gaps that take 60 ms together, the
longest is 20 to 60 ms, the second up to 30, the third up to 20.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise, repeat
from operator import sub, truediv
from typing import NamedTuple


class Interval(NamedTuple):
    """A number that is known within bounds."""

    lowest: float
    highest: float

    @property
    def width(self) -> float:
        """How far apart the bounds are."""
        return self.highest - self.lowest

    def __truediv__(self, divisor: float) -> Interval:
        """Divide both bounds by a positive number."""
        return Interval(self.lowest / divisor, self.highest / divisor)


class RankBounds(NamedTuple):
    """Bounds of some samples by rank: see the module. Both are as long as the samples."""

    lowest: Sequence[float]
    highest: Sequence[float]


class GapBounds:
    """What each of some successive gaps can be, given the intervals of the arrivals around them.

    Args:
        earliest: the arrivals, at least two.
        latest: likewise.
    """

    def __init__(self, earliest: Sequence[int], latest: Sequence[int]) -> None:
        self._earliest, self._latest = earliest, latest
        self._lowest = list(map(max, map(sub, earliest[1:], latest), repeat(0)))
        self._highest = list(map(sub, latest[1:], earliest))

    @property
    def widths(self) -> list[int]:
        """How far the bounds of each gap are apart."""
        return list(map(sub, self._highest, self._lowest))

    def find_total(self, first: int, last: int) -> Interval:
        """Return what the time between two of the arrivals can be: bounds that are closer than those of its gaps."""
        return find_gap((self._earliest[first], self._latest[first]), (self._earliest[last], self._latest[last]))

    def bound_by_rank(self, shares: Sequence[int], ends: Sequence[int]) -> RankBounds:
        """Bound the samples of all gaps by rank.

        A gap of n shares is n samples of gap / n. Of samples that take a total together, the j-th longest is no longer
        than total / j; and the j-th longest and those after it share what the longer ones leave of the least total.

        Args:
            shares: samples of each gap, at least 1.
            ends: indexes of arrivals, from the first to the last: gaps between two of these are bounded together.
        """
        lowest, highest = (
            list(chain.from_iterable(map(repeat, map(truediv, gaps, shares), shares)))
            for gaps in (self._lowest, self._highest)
        )
        positions = [0, *accumulate(shares)]
        for first, last in pairwise(ends):
            if last - first > 1:
                run = slice(positions[first], positions[last])
                total = self.find_total(first, last)
                lowest[run], highest[run] = _bound_together(lowest[run], highest[run], total)
        return RankBounds(lowest, highest)


def _bound_together(
    lowest: Iterable[float], highest: Iterable[float], total: Interval
) -> tuple[list[float], list[float]]:
    """Bound samples by rank, given what each of them and what all of them together can be; the longest come first."""
    least, most = total
    above = [min(each, most / rank) for rank, each in enumerate(sorted(highest, reverse=True), start=1)]
    below = sorted(lowest, reverse=True)
    if least > 0:
        left = accumulate(chain((least,), above), sub)
        others = range(len(above), 0, -1)
        below = list(map(max, below, map(truediv, left, others)))
    return below, above


def find_gap(start: tuple[float, float], end: tuple[float, float]) -> Interval:
    """Return what the time between two moments can be, the second of which is no earlier than the first."""
    return Interval(max(end[0] - start[1], 0), end[1] - start[0])


def pool_bounds(parts: Iterable[tuple[Sequence[float], Sequence[float]]]) -> RankBounds:
    """Return the bounds by rank of the samples of several parts together."""
    lowest, highest = (list(chain.from_iterable(side)) for side in zip(*parts, strict=True))
    return RankBounds(lowest, highest)


def find_straightest_path(earliest: Sequence[int], latest: Sequence[int], shares: Sequence[int]) -> list[float]:
    """Find the straightest path through intervals; returns its slope within each gap, per share.

    The path goes from the latest moment of the first interval to the latest of the last.

    Args:
        earliest: the lower end of each interval, ascending.
        latest: the upper end of each, ascending.
        shares: how far apart two successive intervals are: at least 1; one entry less than the others.
    """
    corners = [(0, latest[0])]
    # The paths that hug the upper and the lower ends as far as they are known, from the last corner on.
    above: deque[tuple[int, int]] = deque()
    below: deque[tuple[int, int]] = deque()
    position, last = 0, len(shares)
    is_bounded_below = earliest[-2] > latest[0]
    for index in range(1, last + 1):
        position += shares[index - 1]
        _tighten(above, below, corners, (position, latest[index]), 1)
        if is_bounded_below:
            lower = latest[index] if index == last else earliest[index]
            _tighten(below, above, corners, (position, lower), -1)
    corners.extend(above)
    slopes: list[float] = []
    ends = iter(corners[1:])
    start, end = corners[0], next(ends)
    position = 0
    for count in shares:
        position += count
        slopes.append((end[1] - start[1]) / (end[0] - start[0]))
        if position == end[0]:
            start, end = end, next(ends, end)
    return slopes


def _tighten(
    path: deque[tuple[int, int]],
    opposite: deque[tuple[int, int]],
    corners: list[tuple[int, int]],
    point: tuple[int, int],
    side: int,
) -> None:
    """Pull the path along one side of the intervals on to its next end; changes its arguments.

    A path along the upper ends (`side` 1) may turn upwards alone, one along the lower ends (-1) downwards alone. Where
    pulling it straight would cross the path of the other side, that side's first points are corners of the result.
    """
    while path and _find_turn(path[-2] if len(path) > 1 else corners[-1], path[-1], point) * side <= 0:
        path.pop()
    if not path:
        while opposite and _find_turn(corners[-1], opposite[0], point) * side < 0:
            corners.append(opposite.popleft())
    path.append(point)


def _find_turn(start: tuple[int, int], corner: tuple[int, int], end: tuple[int, int]) -> int:
    """Return how far the way over a corner turns: above 0 upwards, below 0 downwards, 0 where it is straight."""
    across, up = corner
    return (end[1] - up) * (across - start[0]) - (up - start[1]) * (end[0] - across)
