"""The running instrumentation of this process: opens recordings, and reports them through the providers in force."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import perf_counter_ns, time_ns
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import _logs, context, metrics, trace

from otel_itl import conventions as names
from otel_itl.config import Config, SessionFrom, load
from otel_itl.core.stream import Request
from otel_itl.export import scope
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.metrics import MetricsRegistry, StreamMetrics
from otel_itl.export.other_instrumentations import is_suppressed
from otel_itl.export.pipeline import SpanHandle, Telemetry
from otel_itl.export.sdk_internals.configurator import application_has_providers, configure_sdk
from otel_itl.export.sdk_internals.processor_order import prepend_processor
from otel_itl.export.span_processor import SpanEventProcessor
from otel_itl.recording.internal_errors import failures, report_error
from otel_itl.recording.open_streams import open_streams
from otel_itl.recording.recorder import Classify, StreamRecorder
from otel_itl.recording.watchdog import StreamStallMonitor
from otel_itl.session_scope import in_session

logger = logging.getLogger("otel_itl")


class _Errors:
    """The guard, as the export takes it."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many failures there were, by where."""
        return failures

    def report(self, where: str, error: BaseException) -> None:
        """Count and log a failure."""
        report_error(where, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The OpenTelemetry providers that were given; None is the global one."""

    tracer_provider: trace.TracerProvider | None = None
    meter_provider: metrics.MeterProvider | None = None
    logger_provider: _logs.LoggerProvider | None = None

    @property
    def given(self) -> bool:
        """Any was given."""
        return any((self.tracer_provider, self.meter_provider, self.logger_provider))


class Runtime:
    """What the hooks of every SDK record through.

    The providers are asked for with the first stream, not before: an application may set its own after `instrument()`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self._config: Config | None = None
        self._providers = Providers()
        self._telemetry: Telemetry | None = None
        self.errors = _Errors()
        self.measured_spans = MeasuredSpans()
        self.metrics = MetricsRegistry(
            self.errors,
            open_streams=_in_flight,
            before_collection=lambda: open_streams.settle(),  # noqa: PLW0108
        )
        self._processors: WeakKeyDictionary[Any, SpanEventProcessor] = WeakKeyDictionary()
        self._first: WeakSet[Any] = WeakSet()
        """Tracer providers whose flush reaches what is still to be concluded before it reaches their exporters."""
        self._may_wait = False

    def start(self, config: Config, providers: Providers) -> None:
        """Record from now on, with these options."""
        with self._lock:
            self._config, self._providers, self._telemetry = config, providers, None

    def stop(self) -> None:
        """Record no more; streams that are open end as abandoned."""
        with self._lock:
            self._config = None
            for processor in self._processors.values():
                processor.disable()
        open_streams.abandon()

    @property
    def config(self) -> Config | None:
        """The options in force, if any are."""
        return self._config

    def open(self, request: Request, classify: Classify) -> StreamRecorder | None:
        """Begin the recording of a request; None where it is suppressed."""
        if self._config is None or is_suppressed() or _disabled():
            return None
        config, telemetry = self._config, self._telemetry or self._connect()
        request = in_session(request)
        unix_ns, requested = time_ns(), perf_counter_ns()
        ticket = telemetry.begin(request, unix_ns)
        probe = StreamRecorder(
            request,
            classify,
            partial(telemetry.conclude, ticket),
            unix_ns=unix_ns,
            requested=requested,
            ticket=ticket,
        )
        if config.stall is not None:
            reports = telemetry.stall_reports(ticket, request, unix_ns)
            probe.watched(StreamStallMonitor(probe, config.stall, reports, config.on_stall))
        if ticket.own:
            # Streams of a session follow on one another: what one leaves behind is there for the next.
            probe.may_wait = self._may_wait and ticket.turn is None
        else:
            telemetry.follow(ticket, probe.so_far)
        return probe

    @property
    def session_from(self) -> SessionFrom | None:
        """Where a request says which session it belongs to."""
        return None if self._config is None else self._config.session_from

    def open_observed(self, request: Request, classify: Classify) -> StreamRecorder | None:
        """As `open`, for a stream that no SDK's hook sees: it is measured whether or not `instrument()` was called."""
        if self._config is None:
            self.start(load({}), Providers())
        return self.open(request, classify)

    def attach(self, probe: StreamRecorder) -> Any:
        """Make the request's span current."""
        ticket = cast("SpanHandle", probe.ticket)
        return context.attach(ticket.context)

    def detach(self, token: Any) -> None:
        """Give back the context of the caller."""
        context.detach(token)

    def _forked(self) -> None:
        """A lock may have been held in the parent, and what waits to be recorded is the parent's."""
        self._lock = Lock()
        self._telemetry = None
        self.metrics.forget_after_fork()

    def _connect(self) -> Telemetry:
        with self._lock:
            if self._telemetry is None:
                self._telemetry = self._connected(self._config or Config())
            return self._telemetry

    def _connected(self, config: Config) -> Telemetry:
        if not self._providers.given and not application_has_providers():
            _configure_from_environment()
        given = self._providers
        tracer_provider = given.tracer_provider or trace.get_tracer_provider()
        stream_metrics = self._stream_metrics(given.meter_provider or metrics.get_meter_provider(), config)
        self._wire(tracer_provider, stream_metrics, config)
        spans_wait = tracer_provider in self._first or not hasattr(tracer_provider, "add_span_processor")
        # A flush of log events reaches nothing of ours.
        self._may_wait = spans_wait and config.token_events != "log"
        if self.metrics.pending.record_all not in open_streams.chores:
            open_streams.chores.append(self.metrics.pending.record_all)
        # Again for every set of providers: what is registered last runs first, before they shut down.
        atexit.unregister(open_streams.abandon)
        atexit.register(open_streams.abandon)
        return Telemetry(
            scope.get_tracer(tracer_provider, config.standard_names),
            scope.get_logger(given.logger_provider or _logs.get_logger_provider(), config.standard_names),
            stream_metrics,
            token_events=config.token_events,
            objectives=config.slo,
            standard_names=names.STANDARD_NAMES[config.standard_names],
            claim=self.measured_spans.mark,
            errors=self.errors,
        )

    def _stream_metrics(self, provider: metrics.MeterProvider, config: Config) -> StreamMetrics:
        return self.metrics.create(
            scope.get_meter(provider, config.standard_names),
            names.STANDARD_NAMES[config.standard_names],
            model_limit=config.model_limit,
            objectives=config.slo,
            reports_process=True,
        )

    def _wire(self, provider: Any, stream_metrics: StreamMetrics, config: Config) -> None:
        """Have the spans of a provider pass by our processor; there is one for each, as none can be taken off."""
        options: dict[str, Any] = {
            "chunk_events": config.chunk_events,
            "stall": config.stall,
            "objectives": config.slo,
            "stream_metrics": stream_metrics,
        }
        processor = self._processors.get(provider)
        if processor is not None:
            processor.reconfigure(**options)
        elif hasattr(provider, "add_span_processor"):
            processor = SpanEventProcessor(
                **options, measured_spans=self.measured_spans, errors=self.errors, flush=self._flush
            )
            if prepend_processor(provider, processor):
                self._first.add(provider)
            self._processors[provider] = processor

    def _flush(self) -> None:
        """Finalize what ended, and record it."""
        open_streams.sweep()
        self.metrics.pending.record_all()


def _in_flight() -> Iterable[tuple[Request, bool]]:
    return [(probe.request, probe.watch is not None and probe.watch.stalled) for probe in open_streams.probes()]


def _disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _configure_from_environment() -> None:
    """Set up the SDK as `opentelemetry-instrument` does: exporters are OTLP unless `OTEL_*` says otherwise."""
    try:
        configure_sdk()
        logger.info("No OpenTelemetry provider was set: otel_itl has set up the SDK from the OTEL_* environment.")
    except Exception as error:  # noqa: BLE001 - the fence
        # Nothing here comes from a prompt: what is wrong with the environment may be said.
        failures[names.Where.SDK_SETUP] += 1
        logger.warning("otel_itl could not set up the OpenTelemetry SDK from the OTEL_* environment: %s", error)


runtime = Runtime()
"""The one of this process."""
