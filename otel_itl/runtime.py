"""The composition root: the one running instrumentation of this process, and everything that it owns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from time import perf_counter_ns, time_ns
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from opentelemetry import context

from otel_itl import conventions as names
from otel_itl.config import Config, is_disabled
from otel_itl.conventions import Where
from otel_itl.core.request import Request
from otel_itl.core.sessions import Sessions
from otel_itl.core.stream import FinishedStream
from otel_itl.export.file.output import MAX_WAIT_FOR_FILE, FileOutput
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.metrics import MetricsRegistry, StreamMetrics
from otel_itl.export.other_instrumentations import is_suppressed
from otel_itl.export.others_spans import give_back_ends, hold_end, move_to_span
from otel_itl.export.pipeline import Pipeline
from otel_itl.export.providers import ProviderChoice, Providers
from otel_itl.export.scope import get_logger, get_meter, get_tracer
from otel_itl.export.sdk_internals.processor_order import prepend_processor
from otel_itl.export.span import SpanSink, SpanStarter
from otel_itl.export.span_processor import SpanEventProcessor
from otel_itl.export.stream_log import EndLog
from otel_itl.export.stream_report import SpanHandle
from otel_itl.export.summary_lines import SummaryLines
from otel_itl.flushing import Export, Flusher, flushes_of
from otel_itl.option_values import SessionFrom
from otel_itl.process_end import ProcessEnd
from otel_itl.recording.chunk_log import Classify
from otel_itl.recording.finalizer import PATIENCE_SECONDS, Finalizer
from otel_itl.recording.host_delay import HostClock, HostDelay
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.loop_lag import LoopLags
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.progress import ProgressRounds
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.reporters import ReporterThreads
from otel_itl.recording.stall_monitor import StallReporting, StreamStallMonitor
from otel_itl.recording.watchdog import Watchdog
from otel_itl.sdks.installer import SDKInstaller
from otel_itl.sdks.open_call import Moment
from otel_itl.session_scope import apply_session
from otel_itl.test_scope import apply_test_scope

MAX_RECORDED_PER_ROUND = 64
"""Ended streams whose metrics one round of the finalizer's thread records."""
MAX_WAIT_FOR_REPORTS = 1.0
"""Seconds that the end of the process, or `uninstrument()`, waits for stall reports that are being emitted."""
PATIENCE_AT_SIGNAL = 0.25
"""The same where a signal ends the process: what is waited for may wait for the thread that the signal interrupted."""


class Runtime:
    """Opens recordings for the hooks of every SDK, and owns what runs while streams are open.

    The OpenTelemetry providers are looked up with the first stream: an application may set its own after
    `instrument()`.

    Args:
        clock: a monotonic clock in nanoseconds.
        wall_clock: nanoseconds since the epoch.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns, wall_clock: Callable[[], int] = time_ns) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self.errors = InternalErrors()
        self.open_streams = OpenStreams(clock)
        self.loop_lags = LoopLags(self.errors)
        self.host_clock = HostClock(self.errors)
        self.watchdog = Watchdog(self.open_streams, self.errors, clock, lateness=self.host_clock.wake_lateness)
        self.progress = ProgressRounds(self.errors, clock)
        self.finalizer = Finalizer(self.open_streams, self.errors, self.watchdog.find_pauses)
        self.log_threads = ReporterThreads(
            "reports", self.errors, where=Where.STALL_REPORT, max_threads=8, max_waiting=4_096
        )
        self.callback_threads = ReporterThreads(
            "callbacks", self.errors, where=Where.CALLBACK_ON_STALL, max_threads=1, max_waiting=1_000
        )
        self.file = FileOutput(self.errors)
        self.summary_lines = SummaryLines(self.errors)
        self.measured_spans = MeasuredSpans()
        self.installer = SDKInstaller(self)
        self.metrics = MetricsRegistry(
            self.errors,
            open_streams=self._requests_in_flight,
            before_collection=self.finalizer.wait_until_finalized,
        )
        self.finalizer.add_round_task(partial(self.metrics.pending.record_some, MAX_RECORDED_PER_ROUND))
        self._stall_reporting = StallReporting(
            self.log_threads, self.callback_threads, self.watchdog.find_pauses, self.errors
        )
        self._lock = Lock()
        self._config: Config | None = None
        self._providers = Providers()
        self._provider_choice = ProviderChoice(self.file, self.errors)
        self._was_stopped = self._is_started_by_code = False
        self._pipeline: Pipeline | None = None
        self._may_defer = False
        self._processors: WeakKeyDictionary[Any, SpanEventProcessor] = WeakKeyDictionary()
        self._runs_first: WeakSet[Any] = WeakSet()
        """Tracer providers on which our processor runs first: a flush finalizes pending streams before it exports."""
        self._exports: list[Export] = []
        self.flusher = Flusher(partial(self._end_streams, PATIENCE_AT_SIGNAL), self._flush, lambda: self._exports)
        self.process_end = ProcessEnd(self.flusher, self._end_all, self.errors)

    # --- Start and stop --------------------------------------------------------------------------------------------

    def start(self, config: Config, providers: Providers, *, by_code: bool = False) -> None:
        """Record from now on, with these options and providers.

        Args:
            config: the options.
            providers: those that were given.
            by_code: `instrument()` was called; else an entry point, or `observe()`, starts the runtime.
        """
        with self._lock:
            self._config, self._providers, self._pipeline = config, providers, None
            self._was_stopped = False
            self._is_started_by_code = by_code or self._is_started_by_code
            self.file.start(config.file)
        self.process_end.watch_signals()

    def stop(self) -> None:
        """Stop recording; streams that are open end as abandoned."""
        with self._lock:
            self._config, self._providers = None, Providers()
            self._was_stopped, self._is_started_by_code = True, False
            for processor in self._processors.values():
                processor.disable()
        self.process_end.leave_signals()
        self.callback_threads.drop_waiting()
        give_back_ends(self.open_streams.recorders())
        self._end_all()
        self.file.start(None)

    @property
    def config(self) -> Config | None:
        """The options in force; None: nothing is recorded."""
        return self._config

    @property
    def providers(self) -> Providers:
        """The providers that were given."""
        return self._providers

    @property
    def is_started_by_code(self) -> bool:
        """Whether `instrument()` was called, rather than entry points alone."""
        return self._is_started_by_code

    @property
    def provider_choice(self) -> ProviderChoice:
        """Which OpenTelemetry providers the streams are reported to."""
        return self._provider_choice

    @property
    def was_stopped(self) -> bool:
        """Whether `uninstrument()` was called since the last start."""
        return self._was_stopped

    @property
    def session_from(self) -> SessionFrom | None:
        """Where a request names its session; None: nowhere."""
        return None if self._config is None else self._config.session_from

    # --- Open a recording ------------------------------------------------------------------------------------------

    def prepare(self) -> Moment:
        """Connect to OpenTelemetry, so that an SDK's own span of the first request records; returns the moment."""
        if self._pipeline is None and not (is_suppressed() or is_disabled()):
            self._connect()
        return Moment(self._wall_clock(), self._clock())

    def open(
        self, request: Request, classify: Classify, *, sent: Moment | None = None, sdk_span: Any = None
    ) -> StreamRecorder | None:
        """Open the recording of a request made at `sent` (None: now); None where it is not to be measured.

        `sdk_span` is the span that the SDK has started for the request; None: it has none that records.
        """
        config = self._config
        if config is None or is_suppressed():
            return None
        pipeline = self._pipeline
        if pipeline is None or self._provider_choice.is_outdated:
            # The environment is read until the first stream, as OpenTelemetry reads it when a provider is made.
            pipeline = None if is_disabled() else self._connect()
        if pipeline is None:
            return None
        if self.process_end.awaits_main_thread:
            self.process_end.watch_signals()
        request = apply_test_scope(apply_session(request))
        unix_ns, requested = sent or Moment(self._wall_clock(), self._clock())
        handle = SpanHandle()
        recorder: StreamRecorder | None = None
        try:
            pipeline.start(handle, request, unix_ns, sdk_span)
            recorder = StreamRecorder(
                request, classify, self.finalizer, self.loop_lags,
                unix_ns=unix_ns, requested=requested, clock=self._clock, host=HostDelay(self.host_clock),
            )  # fmt: skip
            self._begin(recorder, pipeline, handle, config)
        except BaseException:
            pipeline.discard(handle, request, unix_ns)
            if recorder is not None:
                recorder.end_unreported()
                self.open_streams.remove(recorder.key)
            raise
        if self._config is None:  # stopped meanwhile, before this stream was registered
            recorder.abandon_from_gc()
            return None
        return recorder

    def _begin(self, recorder: StreamRecorder, pipeline: Pipeline, handle: SpanHandle, config: Config) -> None:
        """Connect a recorder with what reports it, register it, and have it watched for stalls."""
        # Requests of a session follow one another: what one leaves to the session is there for the next.
        may_be_deferred = self._may_defer and handle.is_own and handle.session_request is None
        recorder.report_to(partial(pipeline.finish, handle), handle, may_be_deferred=may_be_deferred)
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
            recorder.watch_with(monitor)
        if config.progress is not None and not recorder.request.is_test:
            emit = pipeline.progress_log(handle, recorder.request, recorder.unix_ns)
            self.progress.follow(recorder, emit, config.progress)
        if handle.is_adopted:
            hold_end(recorder)
        elif not handle.is_own:
            pipeline.follow_foreign_span(handle, partial(_snapshot, self.finalizer, ref(recorder)))
        self.watchdog.thread.wake()
        self.finalizer.thread.wake()
        self.finalizer.help()

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Classify) -> None:
        """Describe a recording as the layer nearer to the wire sees the request."""
        request = apply_test_scope(apply_session(request))
        recorder.redescribe(request, classify)
        pipeline = self._pipeline
        if pipeline is not None:
            pipeline.redescribe(recorder.span_handle, request)

    move = staticmethod(move_to_span)
    attach = staticmethod(context.attach)
    """Makes a context current, and returns what `detach` takes."""
    detach = staticmethod(context.detach)
    """Makes the context that was current before current again."""
    current_context = staticmethod(context.get_current)
    """Returns the context that is current."""

    # --- Connect to OpenTelemetry ----------------------------------------------------------------------------------

    def _connect(self) -> Pipeline | None:
        """Return the pipeline, which the first stream makes; None: recording was stopped before that.

        It is made again where the application has set a provider for which one of the telemetry file's stands in.
        """
        with self._lock:
            is_current = self._pipeline is not None and not self._provider_choice.is_outdated
            if not is_current and self._config is not None:
                self._pipeline = self._make_pipeline(self._config, self._providers)
            return self._pipeline

    def _make_pipeline(self, config: Config, given: Providers) -> Pipeline:
        """Make the pipeline for these options and providers, when the first stream opens.

        It also adds our processor to the tracer provider, makes the metrics, and registers what is called at exit.
        """
        tracer_provider, meter_provider, logger_provider = self._provider_choice.choose(given)
        generation = names.STANDARD_NAMES[config.standard_names]
        stream_metrics = self.metrics.create(
            get_meter(meter_provider, config.standard_names),
            generation,
            model_limit=config.model_limit,
            objectives=config.slo,
            reports_process=True,
        )
        self._add_processor(tracer_provider, stream_metrics, config)
        is_flushed = tracer_provider in self._runs_first or not hasattr(tracer_provider, "add_span_processor")
        # A flush of log events reaches nothing of ours.
        self._may_defer = is_flushed and config.token_events != "log"
        flushes = flushes_of(tracer_provider, meter_provider, logger_provider)
        self._exports = [*flushes, self.file.finish, self.summary_lines.queue.flush]
        self.process_end.register()
        stream_logger = get_logger(logger_provider, config.standard_names)
        return Pipeline(
            SpanStarter(get_tracer(tracer_provider, config.standard_names), Sessions(), self.measured_spans),
            SpanSink(self.measured_spans, generation, config.token_events, self.errors),
            EndLog(stream_logger, config.token_events, has_progress=config.progress is not None),
            logger=stream_logger,
            metrics=stream_metrics,
            objectives=config.slo,
            errors=self.errors,
            more_sinks=(self.summary_lines,) if config.summary else (),
        )

    def _add_processor(self, provider: Any, stream_metrics: StreamMetrics, config: Config) -> None:
        """Have the spans of a provider pass our processor; there is one for each, as none can be removed."""
        processor = self._processors.get(provider)
        if processor is not None:
            processor.reconfigure(
                chunk_events=config.chunk_events,
                stall=config.stall,
                objectives=config.slo,
                stream_metrics=stream_metrics,
            )
        elif hasattr(provider, "add_span_processor"):
            processor = SpanEventProcessor(
                chunk_events=config.chunk_events,
                stall=config.stall,
                objectives=config.slo,
                stream_metrics=stream_metrics,
                measured_spans=self.measured_spans,
                errors=self.errors,
                flush=self._flush,
            )
            if prepend_processor(provider, processor):
                self._runs_first.add(provider)
            self._processors[provider] = processor

    def _end_streams(self, patience: float) -> None:
        """End every open stream as abandoned, and give reports of stalls `patience` seconds to be emitted."""
        self.finalizer.abandon_all(patience)
        self.log_threads.wait_until_idle(patience)

    def _end_all(self) -> None:
        """End every open stream as abandoned, and wait, for a bounded time, until all of it is reported and written."""
        self._end_streams(MAX_WAIT_FOR_REPORTS)
        self.file.finish(MAX_WAIT_FOR_FILE)
        self.summary_lines.queue.flush(MAX_WAIT_FOR_REPORTS)

    def _flush(self, patience: float = PATIENCE_SECONDS) -> None:
        """Finalize the streams that ended, and record their metrics, waiting `patience` seconds for other threads."""
        self.finalizer.finalize_pending(min(patience, PATIENCE_SECONDS))
        self.metrics.pending.record_all()

    def _requests_in_flight(self) -> Iterable[tuple[Request, bool]]:
        """Return the request of every open stream but those of tests, and whether the stream is stalled now."""
        return [
            (recorder.request, recorder.stall_monitor is not None and recorder.stall_monitor.is_stalled)
            for recorder in self.open_streams.recorders()
            if not recorder.request.is_test
        ]

    # --- Forks -----------------------------------------------------------------------------------------------------

    def register_fork_handlers(self) -> None:
        """Have the threads and what they hold survive `os.fork()`. Called once, for the runtime of the process."""
        if not hasattr(os, "register_at_fork"):
            return
        resume: list[Callable[[], None]] = []

        def before() -> None:
            threads = (self.watchdog, self.progress, self.finalizer, self.file, self.summary_lines.queue)
            resume.extend(thread.pause() for thread in threads)

        def after_in_parent() -> None:
            while resume:
                resume.pop()()

        def after_in_child() -> None:
            resume.clear()
            self.forget_after_fork()

        os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)

    def forget_after_fork(self) -> None:
        """Drop what is the parent's: its streams, its threads, and what waits to be reported."""
        self._lock = Lock()
        self._pipeline, self._exports = None, []
        for part in (
            *(self.flusher, self.finalizer, self.open_streams, self.watchdog, self.progress, self.metrics),
            *(self.log_threads, self.callback_threads, self.file, self.summary_lines.queue, self._provider_choice),
        ):
            part.forget_after_fork()


def _snapshot(finalizer: Finalizer, reference: ref[StreamRecorder]) -> FinishedStream | None:
    """Return a stream as if it ended now; None: it is gone."""
    recorder = reference()
    return None if recorder is None else finalizer.snapshot(recorder)


runtime = Runtime()
"""The one of this process."""
runtime.register_fork_handlers()
