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
from itertools import chain, repeat
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
        self.lowest = [max(after - before, 0) for before, after in zip(latest, earliest[1:], strict=False)]
        """By gap, in the unit of the arrivals."""
        self.highest = [after - before for before, after in zip(earliest, latest[1:], strict=False)]

    def find_total(self, first: int, last: int) -> Interval:
        """Return what the time between two of the arrivals can be: bounds that are closer than those of its gaps."""
        return find_gap((self._earliest[first], self._latest[first]), (self._earliest[last], self._latest[last]))

    def bound_by_rank(self, first: int, last: int, shares: Sequence[int]) -> RankBounds:
        """Bound the samples between two of the arrivals by rank.

        A gap of n shares is n samples of gap / n. Of samples that take `total` together, the j-th longest is no longer
        than total / j; and the j-th longest and those after it share what the longer ones leave of the least total.

        Args:
            first: index of the arrival before the first gap.
            last: index of the arrival behind the last gap.
            shares: samples of each of these gaps, at least 1.
        """
        if last - first == 1:
            count = shares[0]
            return RankBounds([self.lowest[first] / count] * count, [self.highest[first] / count] * count)
        total = self.find_total(first, last)
        lowest, highest = (
            sorted(chain.from_iterable(repeat(gap / count, count) for gap, count in zip(gaps, shares, strict=True)))
            for gaps in (self.lowest[first:last], self.highest[first:last])
        )
        left, others = total.lowest, len(lowest)
        for rank, index in enumerate(range(len(lowest) - 1, -1, -1), start=1):
            highest[index] = min(highest[index], total.highest / rank)
            lowest[index] = max(lowest[index], left / others)
            left -= highest[index]
            others -= 1
        return RankBounds(lowest, highest)


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
    for index in range(1, last + 1):
        position += shares[index - 1]
        upper = (position, latest[index])
        lower = (position, latest[index] if index == last else earliest[index])
        _tighten(above, below, corners, upper, is_above=True)
        _tighten(below, above, corners, lower, is_above=False)
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
    *,
    is_above: bool,
) -> None:
    """Pull the path along one side of the intervals on to its next end; changes its arguments.

    A path along the upper ends may bend upwards alone, one along the lower ends downwards alone. Where pulling it
    straight would cross the path of the other side, that side's first points are corners of the result.
    """
    while path:
        before = path[-2] if len(path) > 1 else corners[-1]
        if _turns(before, path[-1], point, is_left=is_above):
            break
        path.pop()
    if not path:
        while opposite and _turns(corners[-1], opposite[0], point, is_left=not is_above):
            corners.append(opposite.popleft())
    path.append(point)


def _turns(start: tuple[int, int], corner: tuple[int, int], end: tuple[int, int], *, is_left: bool) -> bool:
    """Return whether the way over a corner turns left, which is upwards, or right: not where it is straight."""
    before = (corner[1] - start[1]) * (end[0] - corner[0])
    after = (end[1] - corner[1]) * (corner[0] - start[0])
    return after > before if is_left else after < before
