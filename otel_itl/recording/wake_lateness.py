"""How late a thread of this process wakes up because other threads keep the interpreter (the GIL).

A thread that waits for the GIL sleeps, as far as the operating system can see: neither its CPU time nor its delay by
the host show it. The watchdog sleeps for a fixed time again and again. What it is late by, less what the host delayed
it by, is what any thread of the process waits for its turn: also one that reads a stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from statistics import median_high
from typing import Final

MAX_WAKES: Final = 512
"""Wakes that are kept; the oldest are dropped."""


class WakeLateness:
    """The lateness of one thread that sleeps and wakes; written by that thread, read by any.

    Args:
        read_host_delay: returns for how long (ns) the host has delayed this thread so far; None: not known.
    """

    def __init__(self, read_host_delay: Callable[[], int | None]) -> None:
        self._read_host_delay = read_host_delay
        self._host_delay: int | None = None
        self._wakes: deque[int] = deque(maxlen=MAX_WAKES)
        self.count = 0
        """Wakes so far."""

    def begin_sleep(self) -> None:
        """Note that the thread is about to sleep."""
        self._host_delay = self._read_host_delay()

    def end_sleep(self, late: int) -> None:
        """Note that the thread woke up `late` nanoseconds after it was due."""
        before, now = self._host_delay, self._read_host_delay()
        if before is None or now is None:  # then the host cannot be distinguished from this process
            return
        self._wakes.append(max(late - (now - before), 0))
        self.count += 1

    def since(self, count: int) -> int | None:
        """Return the typical lateness (ns) of the wakes after the first `count`; None: there are none."""
        wakes = min(self.count - count, len(self._wakes))
        if wakes < 1:
            return None
        latest = tuple(self._wakes)
        return median_high(islice(latest, max(len(latest) - wakes, 0), None))
