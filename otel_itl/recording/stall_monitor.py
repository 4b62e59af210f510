"""The stalls of one stream: detected in the watchdog's rounds, reported once when they begin and once when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from threading import RLock
from typing import Any, NamedTuple, Protocol
from weakref import ref

from otel_itl.core.conventions import MAX_REPORTED_STALLS, Where
from otel_itl.core.request import Request
from otel_itl.core.stall_detector import Silence, StallDetector, find_phase
from otel_itl.core.stalls import NEVER, RECOVERED, Cause, Phase, Stall, StallPolicy
from otel_itl.core.timeline import OUTPUT, SECOND, Outcome
from otel_itl.recording.chunk_log import ChunkLog
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.evidence.of_stream import StreamEvidence
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.reporters import OrderedReports, ReporterThreads

OnStall = Callable[[Stall], object]
"""The application's own callback."""


class MonitoredStream(Protocol):
    """What a stall monitor reads of a stream; implemented by `StreamRecorder`."""

    request: Request
    requested: int
    headers: int | None
    ended: int
    outcome: Outcome
    has_reader: bool
    log: ChunkLog
    evidence: StreamEvidence
    clock: Callable[[], int]

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended."""
        ...

    def abort(self, waited: float | None = None) -> bool:
        """Abort the stream."""
        ...


class StallReporter(Protocol):
    """Takes the stalls of one stream: each once when it begins and once when it ends."""

    def stall_started(self, stall: Stall) -> None:
        """Take a stall that has begun."""
        ...

    def stall_ended(self, stall: Stall) -> None:
        """Take a stall that is over."""
        ...


@dataclass(frozen=True)
class StallReporting:
    """What the monitors of a process share.

    Args:
        log_threads: threads that log events are emitted on.
        callback_threads: the thread that the application's callback is called on.
        errors: where failures of our own are reported.
        sections: the critical sections of the process.
    """

    log_threads: ReporterThreads
    callback_threads: ReporterThreads
    errors: InternalErrors
    sections: CriticalSections


class _Changes(NamedTuple):
    """The stalls that one look at a stream found to have begun, and to have ended."""

    begun: list[Stall]
    ended: list[Stall]


class StreamStallMonitor:
    """Detects and reports the stalls of one stream.

    A stream that ends before the shortest threshold costs next to nothing: there is nothing to detect.

    Stalls are judged under a lock and reported outside of it, so that no log processor, exporter or callback delays
    another stream, or the event loop on which this one ends.

    Args:
        stream: the stream, held weakly.
        policy: from when on a silence is a stall.
        reporting: what the monitors of a process share.
        counters: take stalls at once, in the thread that detects them: they must not block.
        make_log: makes what takes stalls on a thread for reports, or on the stream's own when both end together.
        on_stall: the application's callback, for each stall that begins and lasts.
    """

    __slots__ = (
        "__weakref__",
        "_counters",
        "_detector",
        "_is_finished",
        "_lock",
        "_log",
        "_make_log",
        "_on_stall",
        "_policy",
        "_reporting",
        "_reports",
        "_stalls",
        "_stream",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - whom a stall is reported to
        self,
        stream: MonitoredStream,
        policy: StallPolicy,
        reporting: StallReporting,
        *,
        counters: StallReporter,
        make_log: Callable[[], StallReporter],
        on_stall: OnStall | None = None,
    ) -> None:
        self._stream = ref(stream)
        self._policy = policy
        self._counters = counters
        self._make_log = make_log
        self._log: StallReporter | None = None
        self._reporting = reporting
        self._reports: OrderedReports | None = None
        self._on_stall = on_stall
        self._detector: StallDetector | None = None
        self._lock = RLock()  # a handler of a signal may abort a stream that this thread looks at
        self._stalls: dict[int, Stall] = {}
        self._is_finished = False

    @property
    def due(self) -> int:
        """The moment (ns) before which no stall can be found."""
        if self._detector is not None:
            return self._detector.next_check
        stream = self._stream()
        return NEVER if stream is None else stream.requested + self._policy.min_threshold

    def waits_for_chunk(self, now: int) -> bool:
        """Return whether the check at `now` (ns) found a stall that lasts, so that nothing is due until a chunk comes.

        A stream that may be aborted is checked all the same, and a stall that may turn out to be the upstream's.
        """
        ongoing = self._ongoing
        is_callers = ongoing is not None and ongoing.cause is not Cause.UPSTREAM
        return self.due <= now and self._policy.abort_after is None and not is_callers

    @property
    def is_held(self) -> bool:
        """Whether the last check found the stream in its consumer's hands: no silence grows until it asks."""
        return self._detector is not None and self._detector.is_held

    @property
    def time_left(self) -> int:
        """How long (ns) the consumer may wait, from the last check on, before there can be a stall."""
        return self._policy.min_threshold if self._detector is None else self._detector.time_left

    @property
    def threshold(self) -> float:
        """The threshold in force, in seconds; infinite: there is none."""
        threshold = self._find_threshold() if self._detector is None else self._detector.threshold
        return inf if threshold >= NEVER else threshold / SECOND

    @property
    def _ongoing(self) -> Stall | None:
        """The stall that lasts: the last one, or none."""
        last = next(reversed(self._stalls.values()), None)
        return None if last is None or last.end is not None else last

    @property
    def is_stalled(self) -> bool:
        """Whether the stream is stalled right now."""
        return any(stall.end is None for stall in list(self._stalls.values()))

    def check(self, now: int) -> bool:
        """Detect what has begun or ended by `now` (ns), have it reported, and abort the stream where that is due.

        Called by the watchdog, and by `Stall.abort()` of the application. Returns False when the stream is over.
        """
        stream = self._stream()
        if stream is None or stream.is_over:
            return False
        with self._reporting.sections.current, self._lock:
            if self._is_finished or stream.is_over:
                return False
            changes = self._judge(stream, self._start_detecting(stream).check(now, stream.headers), now)
        self._abort_if_due(stream)
        self._count(changes)
        if self._reports is not None and self._reports.is_waiting:
            self._reporting.log_threads.submit(self._reports.deliver)
        if self._on_stall is not None:
            for stall in changes.begun:
                if self._is_lasting(stall):
                    self._reporting.callback_threads.submit(partial(self._on_stall, stall))
        return True

    def finish(self, *, is_over: bool) -> tuple[Stall, ...]:
        """Return every stall of the stream; the reports of those that end with it wait for `deliver_reports`.

        Args:
            is_over: the stream has ended; False: this is a snapshot.
        """
        stream = self._stream()
        changes = _Changes([], [])
        with self._lock:
            if stream is not None and not self._is_finished:
                self._is_finished = is_over
                if is_over and self._is_too_short(stream):
                    return ()
                found = self._start_detecting(stream).check(stream.ended, stream.headers, is_over=is_over)
                changes = self._judge(stream, found, stream.ended)
            stalls = tuple(self._stalls.values())
        self._count(changes)
        return stalls

    def deliver_reports(self) -> None:
        """Emit the log events that wait, in this thread, but for what another thread is emitting just now."""
        if self._reports is not None:
            self._reports.deliver()

    def is_ongoing(self, after: int, now: int) -> bool:
        """Return whether the stall behind the chunk with index `after` lasts at `now` (ns)."""
        self.check(now)
        stall = self._stalls.get(after)
        return stall is not None and stall.end is None

    def _start_detecting(self, stream: MonitoredStream) -> StallDetector:
        """Return the detector, which is made when it is first needed; the lock is held."""
        if self._detector is None:
            log = stream.log
            self._detector = StallDetector(self._policy, log.asked, log.arrived, log.codes, stream.requested)
        return self._detector

    def _is_too_short(self, stream: MonitoredStream) -> bool:
        """Return whether a stream that has ended cannot have stalled, so that it needs no detector."""
        return self._detector is None and stream.ended - stream.requested < self._policy.min_threshold

    def _find_threshold(self) -> int:
        """Return the threshold in force (ns) without a detector: that of the phase that the last output began."""
        stream = self._stream()
        codes = () if stream is None else stream.log.codes
        last = next((code for code in reversed(codes) if code & OUTPUT), None)
        return self._policy.find_fixed_threshold(Phase.FIRST_TOKEN if last is None else find_phase(last))

    def _judge(self, stream: MonitoredStream, found: list[Silence], now: int) -> _Changes:
        """Take in the silences that were found, and queue a report of each stall that begins or ends."""
        changes = _Changes([], [])
        if not found:
            stream.evidence.note_reading()
        for silence in found:
            stall = self._stalls.get(silence.after)
            if stall is None:
                stall = self._make_stall(stream, silence, now)
                changes.begun.append(stall)
                self._report(stall, is_over=False)
            elif stall.cause is not Cause.UPSTREAM and not silence.is_over and stream.evidence.is_free(now):
                # What came while the caller did not run was no output: it had all the time since then to hand it out.
                cause, evidence = stream.evidence.find_stall_cause(silence, now)
                stall = replace(stall, cause=cause, evidence=evidence)
            stall = replace(stall, duration=silence.waited / SECOND, is_alive=silence.is_alive)
            if silence.is_over and stall.end is None:
                ended_with_it = self._is_finished and silence.until == stream.ended
                stall = replace(stall, end=stream.outcome.value if ended_with_it else RECOVERED)
                changes.ended.append(stall)
                self._report(stall, is_over=True)
            self._stalls[silence.after] = stall
        return changes

    def _report(self, stall: Stall, *, is_over: bool) -> None:
        """Queue a report of one of the first stalls of the stream: of the others there is none."""
        if stall.number <= MAX_REPORTED_STALLS:
            if self._log is None or self._reports is None:
                self._log, self._reports = self._make_log(), OrderedReports(self._reporting.errors)
            self._reports.add(partial(self._log.stall_ended if is_over else self._log.stall_started, stall))

    def _count(self, changes: _Changes) -> None:
        """Count the stalls that began, and record the durations of those that ended; never raises."""
        try:
            with self._reporting.sections.current:
                for stall in changes.begun:
                    self._counters.stall_started(stall)
                for stall in changes.ended:
                    self._counters.stall_ended(stall)
        except Exception as error:  # noqa: BLE001 - the guard
            self._reporting.errors.report(Where.STALL_REPORT, error)

    def _is_lasting(self, stall: Stall) -> bool:
        current = next((known for known in list(self._stalls.values()) if known.number == stall.number), None)
        return current is not None and current.end is None

    def _make_stall(self, stream: MonitoredStream, silence: Silence, now: int) -> Stall:
        """Describe a silence that reached its threshold as a `Stall`, with the cause by the evidence at `now` (ns)."""
        is_last = silence.is_over and stream.is_over and silence.until == stream.ended
        cause, evidence = stream.evidence.find_stall_cause(
            silence,
            now,
            has_chunk=silence.is_over and not is_last,
            is_complete=is_last and stream.outcome is Outcome.COMPLETED,
        )
        return Stall(
            request=stream.request,
            number=len(self._stalls) + 1,
            phase=silence.phase,
            cause=cause,
            evidence=evidence,
            start=(silence.since - stream.requested) / SECOND,
            duration=silence.waited / SECOND,
            threshold=silence.threshold / SECOND,
            is_alive=silence.is_alive,
            abort=partial(_abort, self._stream, ref(self), silence.after),
        )

    def _abort_if_due(self, stream: MonitoredStream) -> None:
        """Abort the stream if its reader has waited for `abort_after` in a stall of the upstream."""
        limit = self._policy.abort_after
        if limit is None or not (stream.has_reader and stream.log.is_pulling):
            return
        ongoing = self._ongoing
        if ongoing is not None and ongoing.duration >= limit and ongoing.cause is Cause.UPSTREAM:
            stream.abort(ongoing.duration)


def _abort(stream: ref[Any], monitor: ref[StreamStallMonitor], after: int) -> bool:
    """Abort a stream if its stall behind the chunk with index `after` lasts: `Stall.abort()`."""
    stalled, found = stream(), monitor()
    if stalled is None or found is None or not found.is_ongoing(after, stalled.clock()):
        return False
    return bool(stalled.abort())
