"""Repeats samples that were taken while the machine was disturbed; a fixed piece of work shows whether it was.

CPU time is not constant either: another process on the same core, or a lower clock rate, makes the same instructions
take up to twice as long. A sample is repeated if the fixed piece of work beside it took clearly longer than at best.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns
from typing import TypeVar

T = TypeVar("T")

TOLERATED = 1.2
"""How many times as long as at best the work may take; beyond it, the machine counts as disturbed."""
ATTEMPTS = 6
PATIENCE = 100


class Steady:
    """Takes samples while the machine is undisturbed, if it is within a few attempts."""

    def __init__(self) -> None:
        self._best = min(_work() for _ in range(300))
        self.taken = 0
        self.disturbed = 0
        """Samples that were kept although the machine was disturbed in every attempt."""

    def sample(self, take: Callable[[], T]) -> T:
        """Call `take` until the machine is undisturbed before and after it; return its last result."""
        self.taken += 1
        for _ in range(ATTEMPTS):
            self._wait()
            sample = take()
            if self._undisturbed():
                return sample
        self.disturbed += 1
        return sample

    def _wait(self) -> None:
        for _ in range(PATIENCE):
            if self._undisturbed():
                return

    def _undisturbed(self) -> bool:
        took = _work()
        self._best = min(self._best, took)
        return took < TOLERATED * self._best


def _work() -> int:
    """Do the fixed piece of work; return its CPU time in nanoseconds."""
    began = thread_time_ns()
    texts: dict[int, str] = {}
    for number in range(3_000):
        texts[number % 100] = str(number)
    return thread_time_ns() - began
