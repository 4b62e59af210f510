"""Decides which level is driven next, and which levels are no longer tried."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from math import inf
from random import Random
from typing import Final

from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.results import LevelResult, Standing

LOWEST_LEVEL: Final = 0.25
"""Level below which a search does not go."""
MAX_STEP: Final = 1.25
"""Factor between a level that meets the objective and one that does not, at which a search has found the limit."""
MAX_SEARCH_ROUNDS: Final = 24
"""Rounds after which no further level is tried."""
EXPECTED_LEVELS: Final = 6
"""Levels of a search, about: for the estimate of the time that is left."""


class Schedule:
    """The rounds of a sweep: the first repeat ascends, so that no level above the first that is too much is tried.

    In the other repeats the order of the levels is shuffled, so that what changes with time falls on all alike.

    Args:
        levels: ascending.
        rounds: repeats of each.
        random: shuffles the levels.
    """

    def __init__(self, levels: Sequence[float], rounds: int, random: Random) -> None:
        self._left: deque[tuple[float, int]] = deque((level, 0) for level in levels)
        for number in range(1, rounds):
            self._left.extend((level, number) for level in random.sample(list(levels), len(levels)))
        self.planned = len(self._left)
        self.skipped: str | None = None
        """Why levels are no longer tried, in one clause; None: all are."""

    def take(self) -> tuple[float, int] | None:
        """Return the next level and the number of its repeat; None: there is none left."""
        return self._left.popleft() if self._left else None

    def exclude(self, level: float, end: RoundEnd, reason: str) -> None:
        """Try no higher level than one at which a round ended before its time; nor that one, if its requests failed.

        That one is not tried again either where a limit left no room for its requests.

        Args:
            level: at which it ended.
            end: why.
            reason: the same in one clause.
        """
        is_included = end in {RoundEnd.FAILING, RoundEnd.LIMITED}
        left = [item for item in self._left if item[0] < level or (item[0] == level and not is_included)]
        is_fewer = len(left) < len(self._left)
        if (is_fewer or end is RoundEnd.LIMITED) and self.skipped is None:
            which = ": it and higher levels were not tried again" if is_included else ": higher levels were not tried"
            self.skipped = f"{reason} at {level:g} times the peak{which if is_fewer else ''}"
        self.planned -= len(self._left) - len(left)
        self._left = deque(left)


class Search(Schedule):
    """The rounds of a sweep that searches for the knee, instead of driving levels that are given.

    One round a level finds about where the limit lies: the level doubles until one misses the objective, or halves
    until one meets it, and then the step between the two is halved. The highest level that meets it gets its other
    rounds, in turn with the one above. If it turns out not to be within the objective, the search goes on below it.

    Args:
        highest: level that is tried.
        rounds: repeats of the level that is found, and of the one above.
        random: orders these.
    """

    def __init__(self, highest: float, rounds: int, random: Random) -> None:
        super().__init__((), rounds, random)
        self._highest, self._rounds, self._random = highest, rounds, random
        self._driven: Counter[float] = Counter()
        self._rejected: set[float] = set()
        """Levels that had all their rounds, and are not within the objective."""
        self._barred: set[float] = set()
        """Levels that are not tried again, as requests failed there or a limit left no room for them."""
        self._left.append((min(1.0, highest), 0))
        self.planned = EXPECTED_LEVELS + 2 * (rounds - 1)

    def take(self) -> tuple[float, int] | None:
        """Return the next level and the number of its repeat; None: the search has ended."""
        taken = super().take()
        if taken is not None:
            self._driven[taken[0]] += 1
        return taken

    def exclude(self, level: float, end: RoundEnd, reason: str) -> None:
        """Try no higher level, as the base class does; nor this one, if requests failed or a limit left no room."""
        super().exclude(level, end, reason)
        if end in {RoundEnd.FAILING, RoundEnd.LIMITED}:
            self._barred.add(level)

    def note(self, levels: Sequence[LevelResult], allowed: float) -> None:
        """Choose what is driven next, where nothing is left.

        Args:
            levels: that were driven, as they are judged by their rounds so far.
            allowed: share that may be over the objective.
        """
        if not self._left and self._driven.total() < MAX_SEARCH_ROUNDS:
            meeting = {one.level for one in levels if _meets_so_far(one, allowed)} - self._rejected
            missed = min((one.level for one in levels if one.level not in meeting), default=inf)
            best = max((level for level in meeting if level < missed), default=0.0)
            following = _choose_level(best, missed, self._highest)
            if following is not None:
                self._left.append((following, 0))
            elif best and self._driven[best] < self._rounds:
                self._confirm({best, missed} - self._barred - {inf})
            elif best and next(one.standing for one in levels if one.level == best) is not Standing.WITHIN:
                self._rejected.add(best)
                self.note(levels, allowed)
        self.planned = max(self.planned, self._driven.total() + len(self._left))

    def _confirm(self, levels: Iterable[float]) -> None:
        """Add the rounds that some levels have not had."""
        left = [(level, number) for level in sorted(levels) for number in range(self._driven[level], self._rounds)]
        self._left.extend(self._random.sample(left, len(left)))


def _choose_level(best: float, missed: float, highest: float) -> float | None:
    """Return the level to try next; None: the limit is known well enough.

    Args:
        best: highest level that meets the objective so far; 0: none does.
        missed: lowest level above it that does not; infinite: none is known.
        highest: level that is tried.
    """
    if not best:
        return missed / 2 if missed > LOWEST_LEVEL else None
    if missed == inf:
        return min(2 * best, highest) if best < highest else None
    return float(f"{(best * missed) ** 0.5:.2g}") if missed > MAX_STEP * best else None


def _meets_so_far(level: LevelResult, allowed: float) -> bool:
    """Return whether a level meets the objective by what was measured, however little that is."""
    is_carried = level.standing in {Standing.WITHIN, Standing.UNCERTAIN}
    return is_carried and level.doubt is None and all(share.value <= allowed for share in level.shares.values())
