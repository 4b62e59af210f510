"""The stalls of a soak: the silences that its callers waited through, and when each was reported."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, NamedTuple

from otel_itl import Stall, StallPolicy

SECOND: Final = 1_000_000_000
THRESHOLD_SECONDS: Final = 2.0
"""After how long a wait is a stall. On a machine this busy a stream of few chunks may have any pace."""
POLICY: Final = StallPolicy(next_token=THRESHOLD_SECONDS, relative=None)
MAX_DELAY_SECONDS: Final = 0.25
"""How long a report may take after the threshold, without the time in which no thread that was due ran."""


class Silence(NamedTuple):
    """One wait of a caller, between two moments of `perf_counter_ns()`."""

    model: str
    asked: int
    arrived: int


class Report(NamedTuple):
    """The report of a stall."""

    silence: Silence
    delay: float
    """Seconds from the threshold to the call of `on_stall`."""
    overdue: float
    """For how much of it (s) a thread of this process that was due did not run."""


class StallLog:
    """Collects the long waits of callers and the calls of `on_stall`, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.silences: list[Silence] = []
        self._calls: dict[str, list[int]] = {}

    def record_wait(self, model: str, asked: int, arrived: int) -> None:
        """Record that a caller waited for its next chunk; a wait below the threshold is left out."""
        if arrived - asked >= THRESHOLD_SECONDS * SECOND:
            with self._lock:
                self.silences.append(Silence(model, asked, arrived))

    def on_stall(self, stall: Stall) -> None:
        """Record the report of a stall: this is the callback of `instrument(on_stall=…)`."""
        now = perf_counter_ns()
        with self._lock:
            self._calls.setdefault(stall.request.model or "", []).append(now)

    def reports(self, overdue: Callable[[int, int], float]) -> list[Report]:
        """Return the reported silences, each with its delay; an unreported one has none.

        Args:
            overdue: returns for how long (s) between two moments a thread that was due did not run.
        """
        found = []
        for silence in self.silences:
            due = silence.asked + int(THRESHOLD_SECONDS * SECOND)
            called = min((at for at in self._calls.get(silence.model, ()) if at >= due), default=None)
            if called is not None:
                found.append(Report(silence, (called - due) / SECOND, overdue(due, called)))
        return found
