"""Whether the machine runs at its pace: a fixed piece of work, timed beside every sample.

CPU time is no constant either: a neighbour on the same core or a lower clock make the same instructions take up to
twice as long. A sample beside which the fixed piece took clearly longer than its best is taken again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns
from typing import TypeVar

T = TypeVar("T")

TOLERATED = 1.2
"""Times the best; beyond this the machine counts as disturbed."""
ATTEMPTS = 6
PATIENCE = 100


class Steady:
    """Takes samples while the machine is undisturbed, as far as it ever is."""

    def __init__(self) -> None:
        self._best = min(_work() for _ in range(300))
        self.taken = 0
        self.disturbed = 0
        """Samples that were kept though the machine was disturbed in every attempt."""

    def sample(self, take: Callable[[], T]) -> T:
        """What `take` returns when the machine is undisturbed before and after it; at last, whatever it returns."""
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
    """The fixed piece of work: nanoseconds of CPU time that it took."""
    began = thread_time_ns()
    texts: dict[int, str] = {}
    for number in range(3_000):
        texts[number % 100] = str(number)
    return thread_time_ns() - began
