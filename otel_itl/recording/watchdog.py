"""The watchdog: a thread that detects stalls while the streams are silent, at no cost to streams that flow."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from time import perf_counter_ns
from typing import Final

from otel_itl.core.conventions import Where
from otel_itl.core.stalls import NEVER
from otel_itl.core.timeline import SECOND
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.periodic_thread import PeriodicThread
from otel_itl.recording.quiet_streams import QuietStreams
from otel_itl.recording.recorder import StreamRecorder

INTERVAL_SECONDS: Final = 0.1
"""The shortest time from one round to the next."""
LONGEST_PAUSE: Final = 2
"""The longest time from one round to the next, in intervals: waking up costs 0.1 ms."""
LONGEST_WITHOUT_DEADLINE: Final = 3
"""The same while no stream has a deadline."""
MAX_SKIPPED_PER_ROUND: Final = 100_000
"""Keys of streams that ended which one round may pass over: a few milliseconds."""
ROUNDS_PER_LOOK: Final = 2
"""Rounds from one look at the streams that are held to the next."""
ROUNDS_BETWEEN_CLEANINGS: Final = 100
"""Rounds between two searches for streams that ended while nothing was due for them."""


class Watchdog:
    """Checks each open stream when its deadline comes: until then nothing can be wrong with it.

    A stream that is stalled has no deadline, and is checked when a chunk has come; one that its consumer holds gets a
    deadline when the next chunk was asked for. Both is found for all of them at once: thousands that are silent take no
    more than a comparison of two lists.

    Nothing waits for a round: the streams registered since the last one are those with a higher key. Those that are
    still open get a place in a heap, as a pair of integers. So the watchdog holds no stream, and a round does no more
    than the streams that are open need.

    Args:
        open_streams: the registry of open streams.
        errors: where failures of our own are reported.
        clock: a monotonic clock in nanoseconds.
        sections: the critical sections of the process.
        evidence: takes when the thread sleeps and when it wakes up.
        interval: the fewest seconds between two rounds of the thread.
    """

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        open_streams: OpenStreams,
        errors: InternalErrors,
        sections: CriticalSections,
        clock: Callable[[], int] = perf_counter_ns,
        *,
        evidence: ProcessEvidence,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self.errors = errors
        self._open_streams = open_streams
        self._clock = clock
        self._evidence = evidence
        self.thread = PeriodicThread(
            "otel_itl watchdog",
            interval,
            make_round=self._make_round,
            has_work=self._has_work,
            errors=errors,
            sections=sections,
            sleeper=evidence,
        )
        self._forget()

    def _forget(self) -> None:
        """Begin without deadlines: at the start, and in a forked process."""
        self._next_key = self._open_streams.newest_key + 1
        self._deadlines: list[tuple[int, int]] = []
        self._stalled = QuietStreams()
        self._held = QuietStreams()
        self._rounds = 0
        self._last_look = self._clock()

    def forget_after_fork(self) -> None:
        """Drop the parent's deadlines and its thread."""
        self._forget()
        self.thread.forget_after_fork()

    @never_raises(Where.STALL_WATCH, None)
    def make_round(self, now: int) -> None:
        """Check the streams whose deadline has come by `now` (ns), and those that were stalled and go on."""
        self._take_in_new_streams()
        self._rounds += 1
        if self._rounds % ROUNDS_BETWEEN_CLEANINGS == 0:
            for quiet in (self._stalled, self._held):
                quiet.forget_ended(self._open_streams.__contains__)
        if self._rounds % ROUNDS_PER_LOOK == 0:
            self._await_asked(now)
        for key in (*self._due_keys(now), *self._stalled.take_resumed()):
            recorder = self._open_streams.get(key)
            if recorder is not None:
                self._check(recorder, now)

    def _make_round(self) -> float | None:
        """Make a round of the thread; returns the seconds until the next one."""
        now = self._clock()
        self._evidence.note_round(now)
        self.make_round(now)
        if self._has_work():
            return self._find_pause(now)
        self._evidence.note_idle()
        return None

    def _find_pause(self, now: int) -> float:
        """Return the seconds from `now` (ns) to the next round: to the next deadline, but one to three intervals.

        Deadlines that come one after the other share a round: a silence is found at most an interval late.
        """
        interval = self.thread.interval
        if not self._deadlines:
            return LONGEST_WITHOUT_DEADLINE * interval
        return min(max((self._deadlines[0][0] - now) / SECOND, interval), LONGEST_PAUSE * interval)

    def _has_work(self) -> bool:
        return len(self._open_streams) > 0

    def _due_keys(self, now: int) -> list[int]:
        """Take the keys whose deadline has come out of the heap."""
        keys = []
        while self._deadlines and self._deadlines[0][0] <= now:
            keys.append(heappop(self._deadlines)[1])
        return keys

    def _take_in_new_streams(self) -> None:
        """Give the streams that were registered since the last round, and are still open, a place in the heap."""
        last = min(self._open_streams.newest_key, self._next_key + MAX_SKIPPED_PER_ROUND)
        for key in range(self._next_key, last + 1):
            recorder = self._open_streams.get(key)
            if recorder is not None:
                self._await(recorder)
        self._next_key = last + 1

    def _check(self, recorder: StreamRecorder, now: int) -> None:
        """Check one stream for stalls at `now` (ns), and give it its next deadline if it has one."""
        monitor = recorder.stall_monitor
        if monitor is None:
            return
        # Before the check: what comes meanwhile is found in the next round.
        asked, chunks = len(recorder.log.asked), len(recorder.log.codes)
        try:
            goes_on = monitor.check(now)
        except Exception as error:  # noqa: BLE001 - the guard: one stream keeps no other from being checked
            self.errors.report(Where.STALL_WATCH, error)
            return
        if goes_on and monitor.waits_for_chunk(now):
            self._stalled.add(recorder.key, recorder.log.codes, chunks)
        elif goes_on and monitor.is_held:
            self._held.add(recorder.key, recorder.log.asked, asked)
        elif goes_on:
            self._await(recorder)

    def _await(self, recorder: StreamRecorder) -> None:
        """Have a stream checked when its deadline comes, if it has one."""
        monitor = recorder.stall_monitor
        if monitor is not None and monitor.due < NEVER:
            heappush(self._deadlines, (monitor.due, recorder.key))

    def _await_asked(self, now: int) -> None:
        """Have the streams that were held checked when their consumers, who ask again, can have waited too long.

        They have asked since the last look, so that a silence which is found late is checked in time all the same.
        """
        for key in self._held.take_resumed():
            recorder = self._open_streams.get(key)
            if recorder is not None and (monitor := recorder.stall_monitor) is not None:
                heappush(self._deadlines, (self._last_look + monitor.time_left, key))
        self._last_look = now
