"""The finalizer: reports each stream that ended exactly once, where it ended, or later if the collector dropped it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

from otel_itl.conventions import Where
from otel_itl.core.stream import ALONE, Concurrency, FinishedStream
from otel_itl.core.timeline import Outcome
from otel_itl.recording.finished import finish_stream, finish_without_facts, snapshot_stream
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.loop_lag import Lag
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.periodic_thread import PeriodicThread
from otel_itl.recording.recorder import StreamRecorder

INTERVAL_SECONDS: Final = 0.1
MAX_ABANDONED: Final = 16_384
"""Dropped streams that may wait for the finalizer. More are lost, and counted as `queue.abandoned`."""
MAX_DEFERRED: Final = 64
"""Long streams that may wait for the finalizer. More are finalized where they end."""
HELPED_WITH: Final = 2
"""Dropped streams that a new or an ending stream finalizes: no more are dropped than are opened, so these suffice."""
MAX_PER_ROUND: Final = 64
ROUNDS_BETWEEN_SEARCHES: Final = 50
"""Rounds of the thread between two searches for lost streams, each of which looks at every open stream."""
LONG_STREAM: Final = 4_096
"""Chunks from which on a stream is not finalized on its event loop, which that would block for over a millisecond."""
PATIENCE_SECONDS: Final = 1.0
"""How long a flush waits for another thread that is finalizing, which may need a lock of the flush's caller."""


class Finalizer:
    """Reports streams that ended, and owns the thread that does so for those that were dropped.

    The garbage collector may drop a stream anywhere, also inside a lock of the OpenTelemetry SDK. `add_abandoned`
    therefore only appends to a deque. What waits there is finalized by the thread of this class, every 0.1 s, by each
    stream that opens or ends (`help`), and by each flush.

    Args:
        open_streams: the registry that streams are removed from.
        errors: where failures of our own are reported.
        find_pauses: returns the intervals, up to a moment (ns), in which the process did not run.
        interval: seconds between the rounds of the thread.
    """

    def __init__(
        self,
        open_streams: OpenStreams,
        errors: InternalErrors,
        find_pauses: Callable[[int], list[Lag]],
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self.errors = errors
        self._open_streams = open_streams
        self._find_pauses = find_pauses
        self._rounds = 0
        self._round_tasks: list[Callable[[], object]] = []
        self.thread = PeriodicThread("otel_itl finalizer", interval, self._make_round, self._has_work)
        self._forget()

    def _forget(self) -> None:
        self.abandoned: deque[StreamRecorder] = deque()
        self._deferred: deque[tuple[StreamRecorder, Concurrency]] = deque()
        self._finalizing = threading.RLock()

    def forget_after_fork(self) -> None:
        """Drop what waits, which is the parent's to report, and the parent's thread."""
        for recorder in (*self.abandoned, *(recorder for recorder, _ in self._deferred)):
            recorder.end_unreported()
        self._forget()
        self.thread.forget_after_fork()

    def add_round_task(self, task: Callable[[], object]) -> None:
        """Have a function called in every round of the thread, after the dropped streams."""
        self._round_tasks.append(task)

    @property
    def pending(self) -> int:
        """The number of ended streams that wait to be finalized."""
        return len(self.abandoned) + len(self._deferred)

    def pause(self) -> Callable[[], None]:
        """Keep the thread from finalizing, for a fork; returns what lets it go on.

        A lock of the OpenTelemetry SDK that the thread held during a fork would stay locked in the child.
        """
        lock = self._finalizing
        return lock.release if lock.acquire(timeout=PATIENCE_SECONDS) else _do_nothing

    # --- Streams that end ------------------------------------------------------------------------------------------

    def finalize_ended(self, recorder: StreamRecorder) -> None:
        """Report a stream that ended, in the thread that ended it; a long one on an event loop is deferred."""
        if self._can_be_deferred(recorder):
            self._deferred.append((recorder, self._remove(recorder)))
            self.thread.hurry()
        else:
            self._finalize(recorder)
        self.help()

    def add_abandoned(self, recorder: StreamRecorder) -> None:
        """Take a stream that was dropped. Takes no lock and calls no OpenTelemetry API."""
        if len(self.abandoned) < MAX_ABANDONED:
            self.abandoned.append(recorder)
        else:
            self.errors.count_dropped(Where.QUEUE_ABANDONED)

    @never_raises(Where.STREAM_FINALIZE, None)
    def help(self) -> None:
        """Finalize a few dropped streams, so that none pile up while the thread gets no CPU."""
        if self.abandoned and self._finalizing.acquire(blocking=False):
            try:
                for _ in range(HELPED_WITH):
                    self._finalize_next()
            finally:
                self._finalizing.release()

    def snapshot(self, recorder: StreamRecorder) -> FinishedStream:
        """Return a stream as if it ended now, for a span of another instrumentation that ends before it."""
        concurrency = self._open_streams.concurrency_of(recorder.key)
        return snapshot_stream(recorder, concurrency, self._find_pauses(recorder.clock()))

    # --- Streams that wait -----------------------------------------------------------------------------------------

    @never_raises(Where.STREAM_FINALIZE, None)
    def finalize_pending(self, patience: float = PATIENCE_SECONDS) -> None:
        """Finalize what waits now, and wait for what another thread is finalizing, for up to `patience` seconds."""
        is_locked = self._finalizing.acquire(timeout=patience)
        try:
            for _ in range(self.pending):
                self._finalize_next()
        finally:
            if is_locked:
                self._finalizing.release()
        self._run_round_tasks()

    def wait_until_finalized(self) -> None:
        """Wait until the thread has finalized what waits, for up to a second.

        For callers that hold locks which finalizing may need: finalizing themselves, they would wait for themselves.
        """
        deadline = monotonic() + PATIENCE_SECONDS
        while self.pending and monotonic() < deadline:
            self.thread.hurry()
            sleep(0.001)
        if self._finalizing.acquire(timeout=PATIENCE_SECONDS):
            self._finalizing.release()

    @never_raises(Where.STREAM_DROP, None)
    def abandon_all(self, patience: float = PATIENCE_SECONDS) -> None:
        """End every open stream as abandoned and finalize it: the process ends, or `uninstrument()` was called.

        Args:
            patience: how many seconds to wait for what another thread is finalizing.
        """
        for recorder in self._open_streams.recorders():
            recorder.abandon_from_gc()
        self.finalize_pending(patience)

    def _has_work(self) -> bool:
        return bool(self._open_streams or self.abandoned or self._deferred)

    @never_raises(Where.STREAM_FINALIZE, default=False)
    def _make_round(self) -> bool:
        """Finalize up to `MAX_PER_ROUND` streams that wait; returns whether more wait. A round of the thread."""
        with self._finalizing:
            for _ in range(min(self.pending, MAX_PER_ROUND)):
                self._finalize_next()
            self._rounds += 1
            self._run_round_tasks(looks_for_lost=self._rounds % ROUNDS_BETWEEN_SEARCHES == 0)
        return self.pending > 0

    def _run_round_tasks(self, *, looks_for_lost: bool = True) -> None:
        """Run what is due in every round and every flush: forget lost streams, log noted errors, record metrics."""
        if looks_for_lost:
            self._open_streams.remove_lost()
        self.errors.log_noted()
        for task in self._round_tasks:
            try:
                task()
            except Exception as error:  # noqa: BLE001 - the guard: one that fails keeps no other from being done
                self.errors.report(Where.METRICS_RECORD, error)

    def _finalize_next(self) -> None:
        """Finalize one stream that waits, if there is one."""
        concurrency = None
        try:
            recorder, concurrency = self._deferred.popleft()
        except IndexError:
            try:
                recorder = self.abandoned.popleft()
            except IndexError:
                return
        try:
            self._finalize(recorder, concurrency)
        except Exception as error:  # noqa: BLE001 - the guard: nothing else holds a stream that waited
            self.errors.report(Where.STREAM_FINALIZE, error)
            self._finalize(recorder, concurrency)

    # --- One stream ------------------------------------------------------------------------------------------------

    def _finalize(self, recorder: StreamRecorder, concurrency: Concurrency | None = None) -> None:
        """Report one stream, unless that was done. Whatever fails on the way, its span ends and its outcome is counted.

        Args:
            recorder: of the stream.
            concurrency: how many streams were open beside it; None: it is still to be removed from those.
        """
        if recorder.is_reported:
            return
        finished = None
        try:
            concurrency = concurrency or self._remove(recorder)
            finished = finish_stream(recorder, concurrency, self._find_pauses(recorder.ended))
            recorder.report(finished)
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
            recorder.report(finished or finish_without_facts(recorder), is_last_try=True)

    @never_raises(Where.STREAM_END, ALONE)
    def _remove(self, recorder: StreamRecorder) -> Concurrency:
        """Remove a stream that ended from its event loop and the registry; returns its concurrency."""
        recorder.leave_loop()
        return self._open_streams.remove(recorder.key)

    def _can_be_deferred(self, recorder: StreamRecorder) -> bool:
        """Return whether the thread may finalize a stream: it is long, on an event loop, and emits no log event."""
        if not recorder.may_be_deferred or recorder.loop_lag is None or len(recorder.log.codes) < LONG_STREAM:
            return False
        monitor = recorder.stall_monitor
        emits_log_events = recorder.outcome in {Outcome.ERROR, Outcome.TRUNCATED} or (
            monitor is not None and monitor.is_stalled
        )
        return not emits_log_events and len(self._deferred) < MAX_DEFERRED


def _do_nothing() -> None:
    """Do nothing."""
