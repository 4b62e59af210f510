"""What the streams of a process share as evidence of what kept their readers away."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from otel_itl.core.conventions import Where
from otel_itl.recording.evidence.loops import LoopLags
from otel_itl.recording.evidence.run_queue import RunQueues
from otel_itl.recording.evidence.wakes import Wakes
from otel_itl.recording.internal_errors import InternalErrors, never_raises

NAP_SECONDS: Final = 0.02
"""For so long the watchdog sleeps at a time while threads read streams."""


class ProcessEvidence:
    """The lag of each event loop, the run queue of each thread that reads a stream, and the wakes of the watchdog.

    What is called never raises. With a clock of another make, a test's, nothing is read from the operating system.

    Args:
        errors: where failures of our own are reported.
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(self, errors: InternalErrors, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.errors = errors
        self.clock = clock
        self.loop_lags = LoopLags(errors)
        self.run_queues = RunQueues(errors) if clock is perf_counter_ns else None
        self.wakes = Wakes(_read_nothing if self.run_queues is None else self.run_queues.read_turns)

    def forget_after_fork(self) -> None:
        """Drop what is the parent's: its threads, and the wakes of its watchdog."""
        if self.run_queues is not None:
            self.run_queues.forget_after_fork()
        self.wakes.forget_after_fork()

    def begin_nap(self, seconds: float) -> float:
        """Note that the watchdog is about to sleep; returns for how long at a time, at most `seconds`.

        While threads read streams, it wakes up often: only so does it see what keeps all threads from running.
        """
        queues = self.run_queues
        nap = min(seconds, NAP_SECONDS) if queues is not None and queues.has_active_threads else seconds
        self._begin_sleep(nap)
        return nap

    @never_raises(Where.STALL_WATCH, None)
    def _begin_sleep(self, seconds: float) -> None:
        self.wakes.begin_sleep(self.clock(), seconds)

    @never_raises(Where.STALL_WATCH, None)
    def end_nap(self) -> None:
        """Note that the watchdog woke up when its nap was over."""
        self._end_sleep(self.clock())

    def _end_sleep(self, now: int) -> None:
        """Note that the watchdog woke up at `now` (ns), and how long the readers' threads have waited for a CPU."""
        self.wakes.end_sleep(now, 0 if self.run_queues is None else self.run_queues.end_windows())

    @never_raises(Where.STALL_WATCH, None)
    def note_idle(self) -> None:
        """Note that the watchdog makes no more rounds for now, and sleeps until it is woken."""
        self.wakes.rest(self.clock())

    @never_raises(Where.STALL_WATCH, None)
    def note_round(self, now: int) -> None:
        """Note that the watchdog begins a round at `now` (ns), whether its nap was over or not."""
        if not self.wakes.is_awake:
            self._end_sleep(now)


def _read_nothing() -> None:
    return None
