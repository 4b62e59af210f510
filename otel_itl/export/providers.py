"""Chooses the OpenTelemetry providers of a pipeline: given ones, the application's, the file's, or those we set up."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import _logs, metrics, trace

from otel_itl.conventions import Where
from otel_itl.export.delivery import DeliveryNotices, GuardedExporter
from otel_itl.export.file.output import FileOutput
from otel_itl.export.sdk_internals.configurator import application_has_providers, configure_sdk, has_exporters, is_proxy
from otel_itl.export.sdk_internals.exporters import wrap_otlp_exporters
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")

_GLOBAL: Final[tuple[Callable[[], Any], ...]] = (
    trace.get_tracer_provider,
    metrics.get_meter_provider,
    _logs.get_logger_provider,
)
"""Return the global providers, in the order of the fields of `Providers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The OpenTelemetry providers that were given; None stands for the global one."""

    tracer_provider: trace.TracerProvider | None = None
    meter_provider: metrics.MeterProvider | None = None
    logger_provider: _logs.LoggerProvider | None = None

    @property
    def are_given(self) -> bool:
        """Whether any provider was given."""
        return any((self.tracer_provider, self.meter_provider, self.logger_provider))


class ProviderChoice:
    """Chooses the providers when the first stream opens, and attaches the telemetry file to them.

    Args:
        file: the telemetry file; it has no path where none is written.
        errors: counts a set-up that fails, and what set-up exporters drop.
    """

    def __init__(self, file: FileOutput, errors: InternalErrors) -> None:
        self._file = file
        self._errors = errors
        self._awaited: tuple[Callable[[], Any], ...] = ()
        """The global providers that the application has not set, and for which the file's own stand in."""
        self._notices: DeliveryNotices | None = None
        self._chosen: tuple[Any, Any, Any] | None = None

    @property
    def has_set_up_sdk(self) -> bool:
        """Whether the OpenTelemetry SDK was set up here, from the `OTEL_*` environment."""
        return self._notices is not None

    @property
    def chosen(self) -> tuple[Any, Any, Any] | None:
        """The tracer, meter and logger provider that the last call of `choose` returned; None: there was none."""
        return self._chosen

    @property
    def is_outdated(self) -> bool:
        """Whether the application has set a global provider since, for which one of the file's own stands in."""
        return bool(self._awaited) and not all(is_proxy(get()) for get in self._awaited)

    def choose(self, given: Providers) -> tuple[Any, Any, Any]:
        """Return the tracer, meter and logger provider for these given ones.

        Where the application has no provider at all, the SDK is set up from the environment, globally. Not so where
        there is a file and the environment asks for nothing else: the file has providers of its own, and the
        application may set the global ones at any time.
        """
        has_file = self._file.path is not None
        if not given.are_given and not application_has_providers() and not (has_file and not self._has_exporters()):
            self._set_up_sdk()
        chosen = [given.tracer_provider, given.meter_provider, given.logger_provider]
        awaited = []
        for position, get in enumerate(_GLOBAL):
            if chosen[position] is None:
                chosen[position] = get()
                if has_file and is_proxy(chosen[position]):
                    chosen[position] = self._file.own_providers()[position]
                    awaited.append(get)
        self._awaited = tuple(awaited)
        self._file.attach(*chosen)
        self._chosen = chosen[0], chosen[1], chosen[2]
        return self._chosen

    def forget_after_fork(self) -> None:
        """Drop what is the parent's."""
        self._awaited = ()
        if self._notices is not None:
            self._notices.forget_after_fork()

    def _has_exporters(self) -> bool:
        """Return whether the environment asks for exporters; also where it is wrong, which the set-up reports."""
        try:
            return has_exporters(os.environ, has_file=True)
        except ValueError:
            return True

    def _set_up_sdk(self) -> None:
        """Set up the OpenTelemetry SDK from the `OTEL_*` environment, which is never written to."""
        path = self._file.path
        try:
            exporters = configure_sdk(has_file=path is not None)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises for an environment it does not accept
            # Nothing here comes from a prompt: the text may be logged.
            self._errors.counts[Where.SDK_SETUP] += 1
            logger.warning("otel_itl could not set up the OpenTelemetry SDK from the OTEL_* environment: %s", error)
            return
        sentence = (
            f"No OpenTelemetry provider was set: otel_itl has set up the SDK from the OTEL_* environment ({exporters})."
        )
        way_out = (
            "OTEL_ITL_FILE to a path, to have the telemetry in a file instead (`otel-itl run` does that)"
            if path is None
            else f"OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER to none; {path} is written anyway"
        )
        notices = self._notices = DeliveryNotices(sentence, way_out)

        def guard(exporter: Any, signal: str, endpoint: str | None) -> GuardedExporter:
            return GuardedExporter(exporter, signal, endpoint, notices, self._errors)

        if not has_exporters(os.environ):
            logger.info("%s", sentence)
        elif not wrap_otlp_exporters(guard, *(get() for get in _GLOBAL)):
            # A warning, so that it is seen where logging is not configured.
            logger.warning("%s", sentence)
