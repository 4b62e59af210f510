"""The recorder of one stream, from the request to its end: how it ended, and who is to report it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol

from otel_itl.core.conventions import Where
from otel_itl.core.request import Request
from otel_itl.core.stream import FinishedStream
from otel_itl.core.timeline import Outcome
from otel_itl.recording.chunk_log import Classify, ignore
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.loop_end import is_close_cancelled
from otel_itl.recording.stall_monitor import StreamStallMonitor
from otel_itl.recording.stream_facts import StreamFacts

ErrorNamer = Callable[[BaseException], str | None]
"""Names an exception of an SDK, as `error.type` shows it; None: by its class."""


def name_class(error: BaseException) -> str:
    """Return the name of the class of an exception."""
    return type(error).__qualname__


class EndHandler(Protocol):
    """What a recorder hands itself to when its stream ended: the `Finalizer`."""

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        ...

    @property
    def queued(self) -> deque[StreamRecorder]:
        """The streams that ended and are still to be reported."""
        ...

    def finalize_ended(self, recorder: StreamRecorder) -> None:
        """Report a stream that ended, in the thread that ended it."""
        ...

    def add_queued(self, recorder: StreamRecorder) -> None:
        """Take a stream that ended, perhaps inside the garbage collector: takes no lock, calls no OpenTelemetry API."""
        ...


class StreamRecorder(StreamFacts):
    """Records one stream. Every way out leads to one of the `end_…` methods or to `abandon_from_gc`: the first counts.

    A recorder that is dropped while its stream is open abandons itself.

    Args:
        request: what was asked for.
        classify: what a chunk carried.
        end_handler: takes the recorder when the stream ended.
        process: the evidence that the streams of the process share.
        unix_ns: wall-clock time of the request, nanoseconds since the epoch.
        requested: the moment of the request on `clock` (ns).
        clock: a monotonic clock in nanoseconds.
    """

    __slots__ = (
        "_before_outcome",
        "_compute",
        "_deliver",
        "_end_handler",
        "_name_error",
        "ended",
        "error_type",
        "may_be_deferred",
        "outcome",
        "span_handle",
        "stall_monitor",
    )

    def __init__(  # noqa: PLR0913 - the facts of a request
        self,
        request: Request,
        classify: Classify,
        end_handler: EndHandler,
        process: ProcessEvidence,
        *,
        unix_ns: int,
        requested: int,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        super().__init__(request, classify, end_handler.errors, process, unix_ns, requested, clock)
        self.stall_monitor: StreamStallMonitor | None = None
        """Detects the stalls of the stream; None: they are not detected."""
        self.may_be_deferred = False
        """A flush reaches this stream also before it is finalized, so that a long one may be finalized elsewhere."""
        self.ended = requested
        self.outcome = Outcome.ABANDONED
        self.error_type: str | None = None
        self.span_handle: Any = None
        self._before_outcome: Callable[[StreamRecorder], None] = ignore
        self._end_handler = end_handler
        self._name_error: ErrorNamer = name_class
        self._compute: Callable[[FinishedStream], object] | None = None
        self._deliver: Callable[[], object] | None = None

    # --- While the stream is opened --------------------------------------------------------------------------------

    def report_to(
        self,
        compute: Callable[[FinishedStream], object],
        deliver: Callable[[], object],
        span_handle: Any,
        *,
        may_be_deferred: bool = False,
    ) -> None:
        """Set what takes the finished stream.

        Args:
            compute: computes the report of it. It runs no code of the application.
            deliver: delivers that report, which may run code of the application.
            span_handle: the handle of its span, which means nothing here.
            may_be_deferred: a flush reaches the stream also before it is finalized.
        """
        self._compute, self._deliver = compute, deliver
        self.span_handle = span_handle
        self.may_be_deferred = may_be_deferred

    def redescribe(self, request: Request, classify: Classify) -> None:
        """Describe the request as a layer nearer to the wire sees it. Called before the first chunk."""
        self._before_outcome = ignore
        self.request = request
        self.classify = classify

    def name_errors_by(self, name_error: ErrorNamer) -> None:
        """Set what names the exceptions of the SDK (`error.type`), where their class is too general."""
        self._name_error = name_error

    def set_before_outcome(self, process_last_event: Callable[[StreamRecorder], None]) -> None:
        """Set what is called before the outcome is computed, to process the last event of the stream (`[DONE]`)."""
        self._before_outcome = process_last_event

    # --- How the stream ends ---------------------------------------------------------------------------------------

    @never_raises(Where.STREAM_END, None)
    def end_exhausted(self) -> BaseException | None:
        """End a stream whose SDK iterator is exhausted. Returns what the caller gets instead, if it was aborted."""
        outcome = self.exhausted_outcome()
        is_whole = self.has_reader and self.response.is_finished
        replacement = None if is_whole else self._end_aborted()
        self._end(outcome, self.response.error_type)
        return replacement

    def exhausted_outcome(self) -> Outcome:
        """Compute the outcome of a stream that has nothing more to give."""
        self._before_outcome(self)
        if self.response.error_type is not None:
            return Outcome.ERROR
        if self.response.is_interrupted:
            return Outcome.INTERRUPTED
        return Outcome.COMPLETED if self.response.is_finished or not self.has_reader else Outcome.TRUNCATED

    @never_raises(Where.STREAM_END, None)
    def end_failed(self, error: BaseException) -> BaseException | None:
        """End a stream whose SDK raised, or whose wait was interrupted (by anything but an `Exception`).

        Returns what the caller gets instead of `error`, where the error is the effect of an abort.
        """
        replacement = None
        if isinstance(error, GeneratorExit):
            self.abandon_from_gc()
        elif isinstance(error, Exception):
            replacement = self._end_aborted()
            self._end(Outcome.ERROR, self._name_error(error) or name_class(error))
        else:
            replacement = self._end_aborted() if self._abort.has_interrupted(error) else None
            self._end(Outcome.CANCELLED)
        return replacement

    @never_raises(Where.STREAM_END, None)
    def end_closed(self) -> None:
        """End a stream that its caller closed, or whose response was closed.

        While a pull is under way nothing happens: the end of that pull shows how the stream ended.
        """
        if self.log.is_pulling:
            return
        if self.is_collected:
            self.abandon_from_gc()
        else:
            self._end(Outcome.CLOSED)

    @never_raises(Where.STREAM_END, None)
    def end_fed(self, outcome: Outcome, error_type: str | None = None) -> None:
        """End a stream that was fed, and whose connection is over."""
        self._end(outcome, error_type)

    @never_raises(Where.STREAM_END, None)
    def end_with_span(self) -> None:
        """End a stream whose span the SDK has ended: as closed, unless a pull, or a call about to raise, ends it."""
        if self.headers is not None:
            self.end_closed()

    @never_raises(Where.STREAM_END, None)
    def end_thrown(self, error: BaseException) -> None:
        """End a stream that its caller threw an exception into, or dropped right before its event loop ended."""
        if is_close_cancelled(error):
            self.end_iterator_closed()
            return
        self._end(Outcome.CLOSED if isinstance(error, Exception) else Outcome.CANCELLED)

    @never_raises(Where.STREAM_DROP, None, in_finalizer=True)
    def abandon_from_gc(self) -> None:
        """End a stream that was dropped. Takes no lock and calls no OpenTelemetry API: it runs in finalizers."""
        if self._claim_end(Outcome.ABANDONED):
            self._end_handler.add_queued(self)

    @never_raises(Where.STREAM_DROP, None, in_finalizer=True)
    def end_iterator_closed(self) -> None:
        """End a stream whose iterator was closed: by its caller where its holder is alive, else as a dropped one.

        Some SDKs close the iterator of a stream before its response. Reported like a dropped stream in either case, as
        this may run in a finalizer.
        """
        if self._claim_end(Outcome.CLOSED if self._ownership.is_held else Outcome.ABANDONED):
            self._end_handler.add_queued(self)

    def end_unreported(self) -> None:
        """End the recording without a report: it could not be opened, or belongs to the parent of this process."""
        self._open.clear()
        self._compute = self._deliver = None

    @property
    def is_reported(self) -> bool:
        """Whether the report of the finished stream was delivered, or is never to be."""
        return self._deliver is None

    @property
    def is_computed(self) -> bool:
        """Whether the report of the finished stream was computed, or is never to be."""
        return self._compute is None

    def compute_report(self, finished: FinishedStream, *, is_last_try: bool = False) -> None:
        """Compute the report of the finished stream, unless that was done; after the last try it counts as done."""
        compute = self._compute
        if is_last_try:
            self._compute = None
        if compute is not None:
            compute(finished)
            self._compute = None

    def deliver_report(self, *, is_last_try: bool = False) -> None:
        """Deliver the report once it was computed, unless that was done; after the last try it counts as done.

        The chunks and the span are released: the application may keep the stream for long.
        """
        deliver, monitor = self._deliver, self.stall_monitor
        if is_last_try:
            self._deliver = None
        if deliver is None or not self.is_computed:
            return
        if monitor is not None:
            monitor.deliver_reports()
        deliver()
        self._deliver = self.stall_monitor = None
        self.log.clear()
        self.evidence.release()

    def _end_aborted(self) -> BaseException | None:
        """End the stream if `abort()` was called; returns the exception that its reader gets then, else None."""
        error = self._abort.take_error()
        if error is not None:
            self._end(Outcome.ERROR, self._name_error(error) or name_class(error))
        return error

    def _end(self, outcome: Outcome, error_type: str | None = None) -> None:
        """End the recording with an outcome, if this is its first end, and have it finalized.

        Where finalizing fails, the stream is queued for a second try and the exception is raised again.
        """
        try:
            if self._claim_end(outcome, error_type):
                self.evidence.stop()
                self._end_handler.finalize_ended(self)
        except Exception:
            if not self._open:
                self._end_handler.add_queued(self)  # a second try, elsewhere
            raise

    def _claim_end(self, outcome: Outcome, error_type: str | None = None) -> bool:
        """Claim the end of the stream; returns False where it has ended before. `list.pop` is atomic."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self.ended = self.clock()
        self.outcome = outcome
        self.error_type = error_type
        self._before_outcome = ignore  # it may hold text
        return True

    def __del__(self) -> None:
        if getattr(self, "_deliver", None) is None:
            return
        try:
            self._claim_end(Outcome.ABANDONED)
            self._end_handler.add_queued(self)
        except Exception as error:  # noqa: BLE001 - the guard
            self._end_handler.queued.append(self)  # by no function of ours: it is lost unless this succeeds
            self._end_handler.errors.note(Where.STREAM_DROP, error)
