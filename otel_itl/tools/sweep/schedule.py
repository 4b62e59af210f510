"""Decides which level is driven next, and which levels are no longer tried."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from otel_itl.tools.sweep.brakes import RoundEnd


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
