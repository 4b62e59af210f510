"""The finalizer: reports each stream that ended exactly once, where it ended, or later where that is not safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import ref

from otel_itl.core.conventions import Where
from otel_itl.core.stream import ALONE, Concurrency, FinishedStream
from otel_itl.core.timeline import Outcome
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.finished import finish_stream, finish_without_facts, snapshot_stream
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.periodic_thread import NOW, PeriodicThread
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.under_way import UnderWay

INTERVAL_SECONDS: Final = 0.1
MAX_QUEUED: Final = 16_384
"""Streams that may wait for the finalizer. More are lost, and counted as `queue.abandoned`."""
MAX_DEFERRED: Final = 64
"""Long streams that may wait for the finalizer. More are finalized where they end."""
HELPED_WITH: Final = 2
"""Queued streams that a new or an ending stream finalizes: no more are queued than are opened, so these suffice."""
MAX_PER_ROUND: Final = 64
ROUNDS_BETWEEN_SEARCHES: Final = 50
"""Rounds of the thread between two searches for lost streams, each of which looks at every open stream."""
LONG_STREAM: Final = 4_096
"""Chunks from which on a stream is not finalized on its event loop, which that would block for over a millisecond."""
PATIENCE_SECONDS: Final = 1.0
"""How long a flush or a collection waits for what another thread computes. No code of the application runs there."""
DELIVERY_SECONDS: Final = 0.05
"""How long a flush waits for what another thread delivers, where a processor of the application may block."""


class Finalizer:
    """Reports streams that ended, and owns the thread that does so for those that were queued.

    A stream is finalized in two steps. *Computing* makes its figures and queues its metrics; no code of the application
    runs there. *Delivering* describes it in log events and on its span and ends that: processors of the application run
    there, and may block.

    The garbage collector or a handler of a signal may end a stream anywhere, also inside a lock of ours or of the
    OpenTelemetry SDK. `add_queued` therefore only appends to a deque. What waits there is finalized by the thread of
    this class, by each stream that opens or ends (`help`), and by each flush.

    Args:
        open_streams: the registry that streams are removed from.
        errors: where failures of our own are reported.
        sections: the critical sections of the process: what ends inside of them is queued.
        interval: seconds until the thread begins with what was queued.
    """

    def __init__(
        self,
        open_streams: OpenStreams,
        errors: InternalErrors,
        sections: CriticalSections,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self.errors = errors
        self._open_streams = open_streams
        self._sections = sections
        self._rounds = 0
        self._round_tasks: list[tuple[Callable[[], object], Callable[[], bool]]] = []
        self.thread = PeriodicThread(
            "otel_itl finalizer",
            interval,
            make_round=self._make_round,
            has_work=self._has_work,
            errors=errors,
            sections=sections,
        )
        self._forget()

    def _forget(self) -> None:
        self.queued: deque[StreamRecorder] = deque()
        self._deferred: deque[tuple[StreamRecorder, Concurrency]] = deque()
        self._undelivered: deque[StreamRecorder] = deque()
        self._computing, self._delivering = UnderWay(), UnderWay()

    def forget_after_fork(self) -> None:
        """Drop what waits, which is the parent's to report, and the parent's thread."""
        for recorder in (*self.queued, *(recorder for recorder, _ in self._deferred), *self._undelivered):
            recorder.end_unreported()
        self._forget()
        self.thread.forget_after_fork()

    def add_round_task(self, task: Callable[[], object], is_due: Callable[[], bool]) -> None:
        """Have a function called in the rounds of the thread, after the queued streams, whenever it is due.

        Args:
            task: the function.
            is_due: whether there is enough for it to do that the thread makes rounds for it.
        """
        self._round_tasks.append((task, is_due))

    @property
    def pending(self) -> int:
        """The number of ended streams that wait to be finalized."""
        return len(self.queued) + len(self._deferred) + len(self._undelivered)

    # --- Streams that end ------------------------------------------------------------------------------------------

    def finalize_ended(self, recorder: StreamRecorder) -> None:
        """Report a stream that ended, in the thread that ended it.

        It is queued instead where the thread is inside a critical section, and a long one on an event loop is deferred.
        """
        if self._sections.is_inside:
            self.add_queued(recorder)
            return
        with self._sections.current:
            if self._can_be_deferred(recorder):
                self._deferred.append((recorder, self._remove(recorder)))
                self.thread.hurry()
                if not self.thread.is_alive:  # none can be started
                    self._finalize_next()
            else:
                self._finalize(recorder)
        if recorder.evidence.loop_lag is not None:
            recorder.evidence.note_finishing(recorder.ended)
        self.help()

    def add_queued(self, recorder: StreamRecorder) -> None:
        """Take a stream that ended where nothing may be waited for. Takes no lock and calls no OpenTelemetry API."""
        if len(self.queued) < MAX_QUEUED:
            self.queued.append(recorder)
            self.thread.wake()
        else:
            self.errors.count_dropped(Where.QUEUE_ABANDONED)
            recorder.leave_loop()

    @never_raises(Where.STREAM_FINALIZE, None)
    def help(self) -> None:
        """Finalize a few queued streams, so that none pile up while the thread gets no CPU, and log noted failures."""
        if not (self.queued or self.errors.has_noted) or self._sections.is_inside:  # the first, as nearly always
            return
        self.errors.log_noted()
        with self._sections.current:
            for _ in range(HELPED_WITH):
                self._finalize_next()

    def snapshot(self, reference: ref[StreamRecorder]) -> FinishedStream | None:
        """Return a stream as if it ended now, for a span of another instrumentation that ends before it.

        Returns None where the stream is gone, or was reported already.
        """
        recorder = reference()
        if recorder is None or recorder.is_reported:
            return None
        with self._sections.current:
            monitor = recorder.stall_monitor
            concurrency = self._open_streams.concurrency_of(recorder.key)
            snapshot = snapshot_stream(recorder, concurrency)
            if monitor is not None:
                monitor.deliver_reports()
            return snapshot

    # --- Streams that wait -----------------------------------------------------------------------------------------

    @never_raises(Where.STREAM_FINALIZE, None)
    def finalize_pending(self, patience: float = DELIVERY_SECONDS) -> None:
        """Finalize what waits now, and wait for what another thread is finalizing.

        Args:
            patience: how many seconds to wait for the processors of the application in other threads.
        """
        if self._sections.is_inside:  # this thread may hold a lock that finalizing needs
            self.thread.hurry()
            return
        with self._sections.current:
            for _ in range(self.pending):
                self._finalize_next()
            self._computing.wait(PATIENCE_SECONDS)
            self._delivering.wait(patience)
            self._open_streams.remove_lost()
        self.errors.log_noted()

    @never_raises(Where.STREAM_FINALIZE, None)
    def count_pending(self) -> None:
        """Have the metrics of the streams that ended queued, and leave the rest of the report to the thread.

        For collections, which hold locks of the OpenTelemetry SDK and may run on an event loop: no code of the
        application runs here, and none is waited for.
        """
        if self._sections.is_inside:
            return
        with self._sections.current:
            for _ in range(len(self.queued) + len(self._deferred)):
                self._compute_next()
            self._computing.wait(PATIENCE_SECONDS)
        if self._undelivered:
            self.thread.hurry()

    @never_raises(Where.STREAM_DROP, None)
    def abandon_all(self, patience: float = PATIENCE_SECONDS) -> None:
        """End every open stream as abandoned and finalize it: the process ends, or `uninstrument()` was called.

        Args:
            patience: how many seconds to wait for the processors of the application in other threads.
        """
        for recorder in self._open_streams.recorders():
            recorder.abandon_from_gc()
        self.finalize_pending(patience)

    def _has_work(self) -> bool:
        return self.pending > 0 or any(is_due() for _, is_due in self._round_tasks)

    @never_raises(Where.STREAM_FINALIZE, default=INTERVAL_SECONDS)
    def _make_round(self) -> float | None:
        """Finalize up to `MAX_PER_ROUND` streams that wait. A round of the thread: returns the pause until the next."""
        for _ in range(min(self.pending, MAX_PER_ROUND)):
            self._finalize_next()
        self._rounds += 1
        if self._rounds % ROUNDS_BETWEEN_SEARCHES == 0:
            self._open_streams.remove_lost()
        self.errors.log_noted()
        for task, is_due in self._round_tasks:
            try:
                if is_due():
                    task()
            except Exception as error:  # noqa: BLE001 - the guard: one that fails keeps no other from being done
                self.errors.report(Where.METRICS_RECORD, error)
        if self.pending:
            return NOW
        return self.thread.interval if self._has_work() else None

    def _finalize_next(self) -> None:
        """Finalize one stream that waits, if there is one."""
        self._delivering.do(self._deliver_next)

    def _deliver_next(self) -> None:
        """Deliver the report of one stream that waits, which is computed first where none is."""
        if not self._undelivered:
            self._compute_next()
        try:
            recorder = self._undelivered.popleft()
        except IndexError:
            return
        self._deliver(recorder)

    def _compute_next(self) -> None:
        """Compute the report of one stream that waits, if there is one, and have it wait for its delivery."""
        self._computing.do(self._compute_waiting)

    def _compute_waiting(self) -> None:
        """Do what `_compute_next` does."""
        recorder, concurrency = None, None
        try:
            try:
                recorder, concurrency = self._deferred.popleft()
            except IndexError:
                recorder = self.queued.popleft() if self.queued else None
            if recorder is not None:
                self._compute(recorder, concurrency)
        except Exception as error:  # noqa: BLE001 - the guard: nothing else holds a stream that waited
            self.errors.report(Where.STREAM_FINALIZE, error)
            if recorder is not None:
                self._compute(recorder, concurrency)
        finally:
            if recorder is not None:
                self._undelivered.append(recorder)

    # --- One stream ------------------------------------------------------------------------------------------------

    def _finalize(self, recorder: StreamRecorder) -> None:
        """Report one stream, unless that was done. Whatever fails, its span ends and its outcome is counted."""
        self._compute(recorder)
        self._deliver(recorder)

    def _compute(self, recorder: StreamRecorder, concurrency: Concurrency | None = None) -> None:
        """Compute the report of one stream, unless that was done.

        Args:
            recorder: of the stream.
            concurrency: how many streams were open beside it; None: it is still to be removed from those.
        """
        if recorder.is_computed:
            return
        finished = None
        try:
            concurrency = concurrency or self._remove(recorder)
            finished = finish_stream(recorder, concurrency)
            recorder.compute_report(finished)
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
            recorder.compute_report(finished or finish_without_facts(recorder), is_last_try=True)

    def _deliver(self, recorder: StreamRecorder) -> None:
        """Deliver the report of one stream, unless that was done: its log events, its span."""
        try:
            recorder.deliver_report()
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
            recorder.deliver_report(is_last_try=True)

    @never_raises(Where.STREAM_END, ALONE)
    def _remove(self, recorder: StreamRecorder) -> Concurrency:
        """Remove a stream that ended from its event loop and the registry; returns its concurrency."""
        recorder.leave_loop()
        return self._open_streams.remove(recorder.key)

    def _can_be_deferred(self, recorder: StreamRecorder) -> bool:
        """Return whether the thread may finalize a stream: it is long, on an event loop, and emits no log event."""
        if not recorder.may_be_deferred or recorder.evidence.loop_lag is None or len(recorder.log.codes) < LONG_STREAM:
            return False
        monitor = recorder.stall_monitor
        emits_log_events = recorder.outcome in {Outcome.ERROR, Outcome.TRUNCATED} or (
            monitor is not None and monitor.is_stalled
        )
        return not emits_log_events and len(self._deferred) < MAX_DEFERRED
