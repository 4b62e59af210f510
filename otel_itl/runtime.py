"""The composition root: the one running instrumentation of this process, and everything that it owns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import RLock
from time import perf_counter_ns, time_ns
from typing import Any
from weakref import ref

from otel_itl.config import Config, is_disabled
from otel_itl.core.conventions import Where
from otel_itl.core.option_values import SessionFrom
from otel_itl.core.request import Request
from otel_itl.export.file.output import MAX_WAIT_FOR_FILE, FileOutput
from otel_itl.export.flushes import Export
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.metrics import MetricsRegistry
from otel_itl.export.other_instrumentations import is_suppressed
from otel_itl.export.others_spans import give_back_ends, hold_end, move_to_span
from otel_itl.export.pipeline import Pipeline
from otel_itl.export.providers import Providers
from otel_itl.export.stand_ins import SHUTDOWN_SECONDS
from otel_itl.export.stream_report import SpanHandle
from otel_itl.export.summary_lines import SummaryLines
from otel_itl.process.connection import Connection
from otel_itl.process.end import ProcessEnd
from otel_itl.process.flushing import Flusher
from otel_itl.process.forks import register_fork_handlers
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.evidence.of_process import ProcessEvidence
from otel_itl.recording.finalizer import DELIVERY_SECONDS, Finalizer
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.progress import ProgressRounds
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.reporters import ReporterThreads
from otel_itl.recording.stall_monitor import StallReporting, StreamStallMonitor
from otel_itl.recording.test_scope import apply_test_scope
from otel_itl.recording.watchdog import Watchdog
from otel_itl.sdks.installer import SDKInstaller
from otel_itl.sdks.open_call import EmitEvent, Moment

MAX_RECORDED_PER_ROUND = 64
"""Ended streams whose metrics one round of the finalizer's thread records."""
MAX_WAIT_FOR_REPORTS = 1.0
"""Seconds that the end of the process, or `uninstrument()`, waits for stall reports that are being emitted."""
PATIENCE_AT_SIGNAL = 0.25
"""The same where a signal ends the process: what is waited for may wait for the thread that the signal interrupted."""


class Runtime:
    """Opens recordings for the hooks of every SDK, and owns what runs while streams are open.

    The OpenTelemetry providers are looked up with each stream: an application may set its own at any time.

    Args:
        clock: a monotonic clock in nanoseconds.
        wall_clock: nanoseconds since the epoch.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns, wall_clock: Callable[[], int] = time_ns) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self.errors = InternalErrors()
        self.sections = CriticalSections()
        self.open_streams = OpenStreams(clock)
        self.evidence = ProcessEvidence(self.errors, clock)
        self.watchdog = Watchdog(self.open_streams, self.errors, self.sections, clock, evidence=self.evidence)
        self.progress = ProgressRounds(self.errors, self.sections, clock)
        self.finalizer = Finalizer(self.open_streams, self.errors, self.sections)
        self.log_threads = ReporterThreads(
            "reports", self.errors, where=Where.STALL_REPORT, max_threads=8, max_waiting=4_096
        )
        self.callback_threads = ReporterThreads(
            "callbacks", self.errors, where=Where.CALLBACK_ON_STALL, max_threads=1, max_waiting=1_000
        )
        self.file = FileOutput(self.errors, self.sections)
        self.summary_lines = SummaryLines(self.errors, self.sections)
        self.measured_spans = MeasuredSpans()
        self.metrics = MetricsRegistry(
            self.errors,
            self.sections,
            open_streams=self._requests_in_flight,
            before_collection=self.finalizer.count_pending,
            wake=self.finalizer.thread.wake,
        )
        pending = self.metrics.pending
        self.finalizer.add_round_task(partial(pending.record_some, MAX_RECORDED_PER_ROUND), lambda: pending.has_many)
        self._stall_reporting = StallReporting(self.log_threads, self.callback_threads, self.errors, self.sections)
        self._lock = RLock()
        self._is_connecting = False
        self.session_from: SessionFrom | None = None
        """Where a request names its session; None: nowhere."""
        self.config: Config | None = None
        """The options in force; None: nothing is recorded."""
        self.providers = Providers()
        """The providers that were given."""
        self.was_stopped = False
        """Whether `uninstrument()` was called since the last start."""
        self.streams_before_code: int | None = None
        """Streams that were opened before `instrument()` was called; None: it was not, entry points alone were."""
        self.connection = Connection(
            self.file, self.summary_lines, self.metrics, self.measured_spans, self._flush, self.sections
        )
        self._pipeline: Pipeline | None = None
        self._exports: list[Export] = []
        self.flusher = Flusher(partial(self._end_streams, PATIENCE_AT_SIGNAL), self._flush, lambda: self._exports)
        self.process_end = ProcessEnd(self.flusher, self._end_program, self.errors)
        self.installer = SDKInstaller(self)

    @property
    def is_started_by_code(self) -> bool:
        """Whether `instrument()` was called, rather than entry points alone."""
        return self.streams_before_code is not None

    # --- Start and stop --------------------------------------------------------------------------------------------

    def start(self, config: Config, providers: Providers, *, by_code: bool = False) -> None:
        """Record from now on, with these options and providers.

        Args:
            config: the options.
            providers: those that were given.
            by_code: `instrument()` was called; else an entry point, or `observe()`, starts the runtime.
        """
        self.sections.follow_collector()
        with self.sections.current, self._lock:
            self.config, self.providers, self._pipeline = config, providers, None
            self.session_from = config.session_from
            self.was_stopped = False
            if by_code and self.streams_before_code is None:
                self.streams_before_code = self.open_streams.newest_key + 1
            self.file.start(config.file)
        self.process_end.watch_signals()

    def stop(self) -> None:
        """Stop recording; streams that are open end as abandoned."""
        with self.sections.current, self._lock:
            self.config, self.session_from, self.providers = None, None, Providers()
            self.was_stopped, self.streams_before_code = True, None
            self.connection.disable_processors()
        self.process_end.leave_signals()
        self.callback_threads.drop_waiting()
        give_back_ends(self.open_streams.recorders())
        self._end_all()
        self.connection.close(0)  # which goes on in the background
        self.file.start(None)
        self.sections.leave_collector()

    # --- Open a recording ------------------------------------------------------------------------------------------

    def read_clocks(self) -> Moment:
        """Return the present moment."""
        return Moment(self._wall_clock(), self._clock())

    def open(
        self, request: Request, classify: Classify, *, sent: Moment | None = None, sdk_span: Any = None
    ) -> StreamRecorder | None:
        """Open the recording of a request made at `sent` (None: now); None where nothing is measured now.

        `sdk_span` is the span that the SDK has started for the request; None: it has none that records.
        """
        self.finalizer.help()
        with self.sections.current:
            pipeline, config = self._find_pipeline(), self.config
            if pipeline is None or config is None:
                return None
            request = apply_test_scope(request)
            unix_ns, requested = sent or self.read_clocks()
            handle = SpanHandle()
            recorder: StreamRecorder | None = None
            try:
                pipeline.spans.start(handle, request, unix_ns, sdk_span)
                recorder = StreamRecorder(
                    request, classify, self.finalizer, self.evidence,
                    unix_ns=unix_ns, requested=requested, clock=self._clock,
                )  # fmt: skip
                self._begin(recorder, pipeline, handle, config)
            except BaseException:
                pipeline.discard(handle, request, unix_ns)
                if recorder is not None:
                    recorder.end_unreported()
                    self.open_streams.remove(recorder.key)
                raise
            if self.config is None:  # stopped meanwhile, before this stream was registered
                recorder.abandon_from_gc()
                return None
            return recorder

    def _find_pipeline(self) -> Pipeline | None:
        """Return what reports a stream that opens now; None where nothing is measured now."""
        if self.config is None or is_suppressed():
            return None
        pipeline = self._pipeline
        if pipeline is None or self.connection.choice.is_outdated:
            # The environment is read until the first stream, as OpenTelemetry reads it when a provider is made.
            pipeline = None if is_disabled() else self._connect()
        if pipeline is not None and self.process_end.must_watch:
            self.process_end.watch_signals()
        return pipeline

    def _begin(self, recorder: StreamRecorder, pipeline: Pipeline, handle: SpanHandle, config: Config) -> None:
        """Connect a recorder with what reports it, register it, and have it watched for stalls."""
        # Requests of a session follow one another: what one leaves to the session is there for the next.
        may_be_deferred = self.connection.may_defer and handle.is_own and handle.session_request is None
        recorder.report_to(
            partial(pipeline.compute, handle),
            partial(pipeline.deliver, handle),
            handle,
            may_be_deferred=may_be_deferred,
        )
        self.open_streams.add(recorder)
        if config.stall is not None and not recorder.request.is_test:
            monitor = StreamStallMonitor(
                recorder,
                config.stall,
                self._stall_reporting,
                counters=pipeline.metrics,
                make_log=partial(pipeline.stall_log, handle, recorder.request, recorder.unix_ns),
                on_stall=config.on_stall,
            )
            recorder.stall_monitor = monitor
        if config.progress is not None and not recorder.request.is_test:
            emit = pipeline.progress_log(handle, recorder.request, recorder.unix_ns)
            self.progress.follow(recorder, emit, config.progress)
        if handle.is_adopted:
            hold_end(recorder)
        elif not handle.is_own:
            pipeline.follow_foreign_span(handle, partial(self.finalizer.snapshot, ref(recorder)))
        self.watchdog.thread.wake()

    def connection_log(self, request: Request) -> EmitEvent | None:
        """Return what emits log events about a connection that carries several requests; None: nothing is measured."""
        with self.sections.current:
            pipeline = self._find_pipeline()
        return None if pipeline is None else pipeline.connection_log(request, self._wall_clock)

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Classify) -> None:
        """Describe a recording as the layer nearer to the wire sees the request."""
        request = apply_test_scope(request)
        recorder.redescribe(request, classify)
        pipeline = self._pipeline
        if pipeline is not None:
            with self.sections.current:
                pipeline.spans.redescribe(recorder.span_handle, request)

    move = staticmethod(move_to_span)

    # --- Connect to OpenTelemetry ----------------------------------------------------------------------------------

    def _connect(self) -> Pipeline | None:
        """Return the pipeline, which the first stream makes; None: recording was stopped before that.

        It is made again where the application has set a provider since. A stream that a handler of a signal opens while
        this thread connects is not measured.
        """
        with self.sections.current, self._lock:
            is_current = self._pipeline is not None and not self.connection.choice.is_outdated
            if not is_current and self.config is not None and not self._is_connecting:
                self._is_connecting = True
                try:
                    self._pipeline = self.connection.connect(self.config, self.providers, self._pipeline)
                    self._exports = [*self.connection.exports, self.file.finish, self.summary_lines.queue.flush]
                    self.process_end.register()
                finally:
                    self._is_connecting = False
            return self._pipeline

    def _end_streams(self, patience: float) -> None:
        """End every open stream as abandoned, and give reports of stalls `patience` seconds to be emitted."""
        self.finalizer.abandon_all(patience)
        self.log_threads.wait_until_idle(patience)

    def _end_all(self) -> None:
        """End every open stream as abandoned, and wait, for a bounded time, until all of it is reported and written."""
        self._end_streams(MAX_WAIT_FOR_REPORTS)
        self.metrics.pending.record_all()
        self.file.finish(MAX_WAIT_FOR_FILE)
        self.summary_lines.queue.flush(MAX_WAIT_FOR_REPORTS)

    def _end_program(self) -> None:
        """End every open stream as abandoned, and wait until all of it is exported: as long as exporters need."""
        self._end_all()
        self.connection.close(SHUTDOWN_SECONDS)
        self.sections.leave_collector()  # what it calls needs threads that the interpreter takes apart next

    def _flush(self, patience: float = DELIVERY_SECONDS) -> None:
        """Finalize the streams that ended, and record their metrics.

        A finalizer of the application, or its handler of a signal, may flush a tracer provider inside a lock that this
        needs: then the thread of the finalizer does it.

        Args:
            patience: how many seconds to wait for processors of the application in other threads.
        """
        if self.sections.is_inside:
            self.finalizer.thread.hurry()
            return
        self.finalizer.finalize_pending(min(patience, DELIVERY_SECONDS))
        self.metrics.pending.record_all()

    def _requests_in_flight(self) -> Iterable[tuple[Request, bool]]:
        """Return the request of every open stream but those of tests, and whether the stream is stalled now."""
        return [
            (recorder.request, recorder.stall_monitor is not None and recorder.stall_monitor.is_stalled)
            for recorder in self.open_streams.recorders()
            if not recorder.request.is_test
        ]

    # --- Forks -----------------------------------------------------------------------------------------------------

    def find_round_locks(self) -> Iterable[Any]:
        """Return the locks that threads of ours hold while they make a round. A fork waits for them."""
        parts = (self.watchdog.thread, self.progress.thread, self.finalizer.thread, self.file, self.summary_lines.queue)
        return (self.sections.current, *(part.in_round for part in parts))

    def forget_after_fork(self) -> None:
        """Drop what is the parent's: its streams, its threads, and what waits to be reported."""
        self._lock, self._is_connecting = RLock(), False
        self._pipeline, self._exports = None, []
        parts = (
            *(self.flusher, self.finalizer, self.open_streams, self.evidence, self.watchdog, self.progress),
            *(self.metrics, self.log_threads, self.callback_threads, self.file, self.summary_lines.queue),
            *(self.connection, self.installer.driver),
        )
        for part in parts:
            part.forget_after_fork()


runtime = Runtime()
"""The one of this process."""
register_fork_handlers(runtime.find_round_locks, runtime.forget_after_fork)
