"""Providers of ours for the signals whose global provider the application has not set. They are never global."""

# ruff: noqa: PLC0415 - the SDK and its exporters are slow to import, and an application may have all providers itself

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Final

from otel_itl.core.conventions import Where
from otel_itl.core.without_secrets import hide_secrets
from otel_itl.export.delivery import DeliveryNotices, GuardedExporter
from otel_itl.export.exporters import (
    NamedExporter,
    describe_exporters,
    find_exporters,
    find_global_setup,
    make_id_generator,
    make_sampler,
)
from otel_itl.export.file.output import FileOutput
from otel_itl.export.flushes import flushes_of
from otel_itl.export.sdk_internals.global_providers import without_own_metrics
from otel_itl.recording.background_call import BackgroundCall, call_side_by_side
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")

SHUTDOWN_SECONDS: Final = 30.0
"""How long the end of the program waits for exporters: as the SDK does where it shuts providers down itself."""


class StandIns:
    """Makes a provider for a signal when it is needed, and gives it up when the application has set its own.

    They export what the `OTEL_*` environment asks for, once `read_environment` was called; else the telemetry file
    alone gets what they produce. All methods but `flush` and `shut_down` are called under the lock of the runtime.

    Args:
        file: the telemetry file; it has no path where none is written.
        errors: counts a set-up that fails, and what exporters drop.
    """

    def __init__(self, file: FileOutput, errors: InternalErrors) -> None:
        self._file = file
        self._errors = errors
        self._inherited: list[Any] = []
        """Those of the process that this one was forked from: to be shut down, exporting nothing."""
        self._forget()

    def _forget(self) -> None:
        """Start over: nothing is made, and the environment has not been read."""
        self._exporters: dict[str, list[NamedExporter]] | None = None
        self._sampler: Any = None
        self._id_generator: Any = None
        self._notices: DeliveryNotices | None = None
        self._resource: Any = None
        self._made: dict[str, Any] = {}
        self._idle: list[Any] = []
        """Providers that the application has replaced: spans that are still open end there."""
        self._under_way: list[BackgroundCall] = []

    def __contains__(self, provider: object) -> bool:
        """Return whether a provider is one of these, and stands in now."""
        return any(provider is made for made in list(self._made.values()))

    @property
    def has_exporters(self) -> bool:
        """Whether any exporter is set up, from the `OTEL_*` environment."""
        return any((self._exporters or {}).values())

    def read_environment(self) -> None:
        """Have the providers export what the environment asks for, and log that. Does nothing the second time."""
        if self._exporters is not None:
            return
        self._exporters, path = {}, self._file.path
        variable = find_global_setup(os.environ)
        if variable is not None:
            logger.warning(
                "No OpenTelemetry provider was set, and %s is for those that set global ones, which otel_itl does not: "
                "start the program by opentelemetry-instrument, with opentelemetry-distro installed, or set up the SDK "
                "in it. Until then otel_itl exports nothing%s.",
                variable,
                "" if path is None else f" but {path}",
            )
            return
        try:
            exporters = find_exporters(os.environ, has_file=path is not None)
            for named in exporters.values():
                for exporter in named:
                    exporter.load()
            self._sampler, self._id_generator = make_sampler(os.environ), make_id_generator(os.environ)
        except Exception as error:  # noqa: BLE001 - an exporter that cannot be imported may raise anything
            self._report(error)
            return
        self._exporters = exporters
        sentence = (
            "No OpenTelemetry provider was set: otel_itl exports its own telemetry as the OTEL_* environment has it "
            f"({describe_exporters(exporters)})."
        )
        way_out = (
            "OTEL_ITL_FILE to a path, to have the telemetry in a file instead (`otel-itl run` does that)"
            if path is None
            else f"OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER to none; {path} is written anyway"
        )
        self._notices = DeliveryNotices(sentence, way_out)
        if not self.has_exporters:
            logger.info("%s", sentence)
        elif not any(exporter.endpoint for named in exporters.values() for exporter in named):
            self._notices.delivered()

    def provider_of(self, signal: str) -> Any | None:
        """Return the provider of a signal, which is made with the first call; with the `OTEL_*` resource.

        Returns:
            None where neither an exporter nor the telemetry file would get anything from it.
        """
        self._shut_down_inherited()
        exporters = (self._exporters or {}).get(signal, [])
        if signal not in self._made and (exporters or self._file.path is not None):
            try:
                self._made[signal] = self._make(signal, exporters)
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises for an environment that it refuses
                self._report(error)
                self._made[signal] = self._make(signal, [])
        return self._made.get(signal)

    def give_up_all_but(self, chosen: Iterable[Any], record_pending: Callable[[], object]) -> None:
        """Flush what is not among the chosen providers, and shut that of metrics down. The caller does not wait for it.

        A span ends at the provider that started it, so that the one of traces is kept. Two meter providers, though,
        would report the same series.

        Args:
            chosen: the providers in force.
            record_pending: records the streams that wait to be recorded, and waits for those that are just recorded.
        """
        kept = list(chosen)
        for signal, provider in list(self._made.items()):
            if any(provider is other for other in kept):
                continue
            del self._made[signal]
            if signal == "metrics":
                self._call_in_background(partial(_record_and_shut_down, record_pending, provider))
            else:
                self._idle.append(provider)
                self._call_in_background(provider.force_flush)

    def flush(self, seconds: float) -> bool:
        """Export what these providers have, and those that were given up; returns whether `seconds` were enough."""
        deadline = monotonic() + seconds
        calls = flushes_of(*self._made.values(), *self._idle)
        return call_side_by_side([partial(call, seconds) for call in calls], deadline) and self._wait(deadline)

    def shut_down(self, seconds: float = SHUTDOWN_SECONDS) -> bool:
        """Export what is left and shut all down, side by side; returns whether that was done within `seconds`.

        What takes longer goes on in the background. The environment is read again for the next stream.
        """
        providers, under_way = [*self._made.values(), *self._idle], self._under_way
        self._forget()
        self._under_way = under_way
        for provider in providers:
            self._call_in_background(provider.shutdown)
        return self._wait(monotonic() + seconds)

    def forget_after_fork(self) -> None:
        """Leave the providers to the parent, in a forked child: they hold its figures. The child makes its own."""
        self._inherited += [*self._made.values(), *self._idle]
        self._made, self._idle, self._under_way = {}, [], []
        if self._notices is not None:
            self._notices.forget_after_fork()

    def _shut_down_inherited(self) -> None:
        """End the threads that the SDK has started again in this process for the providers of its parent."""
        for provider in self._inherited:
            self._file.detach(provider)
            self._call_in_background(provider.shutdown)
        self._inherited = []

    def _make(self, signal: str, named: list[NamedExporter]) -> Any:
        """Make the provider of a signal, with its exporters. `ProcessEnd` shuts it down, and not the SDK."""
        if self._resource is None:
            from opentelemetry.sdk.resources import Resource

            self._resource = Resource.create()
        exporters = [self._make_exporter(each) for each in named]
        if signal == "metrics":
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

            readers = [
                each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in exporters
            ]
            return MeterProvider(readers, self._resource, shutdown_on_exit=False)
        if signal == "logs":
            from opentelemetry.sdk._logs import LoggerProvider
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

            logger_provider = without_own_metrics(LoggerProvider)(self._resource, shutdown_on_exit=False)
            for each in exporters:
                logger_provider.add_log_record_processor(without_own_metrics(BatchLogRecordProcessor)(each))
            return logger_provider
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        tracer_provider = without_own_metrics(TracerProvider)(
            self._sampler, self._resource, shutdown_on_exit=False, id_generator=self._id_generator
        )
        for each in exporters:
            tracer_provider.add_span_processor(without_own_metrics(BatchSpanProcessor)(each))
        return tracer_provider

    def _make_exporter(self, named: NamedExporter) -> Any:
        """Make an exporter, guarded; a metric reader of its own kind, which is pulled from, needs no guard."""
        made = without_own_metrics(named.load())()
        if self._notices is None or not hasattr(made, "export"):
            return made
        return GuardedExporter(made, named.signal, named.endpoint, self._notices, self._errors)

    def _report(self, error: Exception) -> None:
        """Log and count that the set-up failed."""
        self._errors.counts[Where.SDK_SETUP] += 1
        reason = hide_secrets(str(error), os.environ)
        logger.warning("otel_itl could not set up its exporters from the OTEL_* environment: %s", reason)

    def _call_in_background(self, function: Callable[[], object]) -> None:
        """Call a function that may wait for an endpoint, on a thread of its own."""
        self._under_way = [call for call in self._under_way if not call.is_over]
        call = BackgroundCall(function)
        self._under_way.append(call)
        call.start()

    def _wait(self, deadline: float) -> bool:
        """Wait for what is called in the background; returns whether all of it succeeded by the deadline."""
        return all([call.wait(deadline) for call in list(self._under_way)])  # noqa: C419 - each, also after one that failed


def _record_and_shut_down(record_pending: Callable[[], object], meter_provider: Any) -> None:
    """Record what was to be recorded by a meter provider, have it collect and export a last time, and end it."""
    record_pending()
    meter_provider.shutdown()
