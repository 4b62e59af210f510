"""How late a thread of this process has done what it woke up for: nothing else in the process can be more punctual."""

from __future__ import annotations

import threading
from time import perf_counter_ns, sleep
from typing import Final

INTERVAL_SECONDS: Final = 0.02
SECOND: Final = 1_000_000_000


class LatenessMeter:
    """A thread that sleeps again and again and records how late it was after that. Use it as a context manager.

    Args:
        handovers: how often it lets go of the interpreter when it has woken up, as what reads sockets and files does.
            Where many threads and processes compete for the interpreter and the CPU, it is late by each.
    """

    def __init__(self, handovers: int = 0) -> None:
        self._handovers = handovers
        self._woken: list[tuple[int, int]] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="lateness meter")

    def __enter__(self) -> LatenessMeter:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def worst(self, begin: int = 0, end: int | None = None) -> float:
        """Return the worst lateness (s) of the sleeps that were due before one moment and ended after another.

        The moments are those of `perf_counter_ns()`. 0.0 where there is no such sleep.
        """
        until = perf_counter_ns() if end is None else end
        return max((late for at, late in self._woken if at >= begin and at - late <= until), default=0) / SECOND

    def overdue(self, begin: int, end: int) -> float:
        """Return for how long (s) between two moments of `perf_counter_ns()` this thread was due and did not run.

        What takes several wake-ups one after the other is held up by all of this time, not by its longest part alone.
        """
        spans = [(max(at - late, begin), min(at, end)) for at, late in self._woken]
        return sum(woken - due for due, woken in spans if woken > due) / SECOND

    def _run(self) -> None:
        while not self._is_over:
            due = perf_counter_ns() + int(INTERVAL_SECONDS * SECOND)
            sleep(INTERVAL_SECONDS)
            for _ in range(self._handovers):
                sleep(0)
            now = perf_counter_ns()
            self._woken.append((now, now - due))
