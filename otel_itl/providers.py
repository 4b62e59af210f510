"""The OpenTelemetry providers that streams are reported to: those that were given, else the global ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry import _logs, metrics, trace


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

    def resolve(self) -> tuple[trace.TracerProvider, metrics.MeterProvider, _logs.LoggerProvider]:
        """Return the three that are in force now: an application may set the global ones at any time."""
        return (
            self.tracer_provider or trace.get_tracer_provider(),
            self.meter_provider or metrics.get_meter_provider(),
            self.logger_provider or _logs.get_logger_provider(),
        )

    def find_exporting(self) -> list[Any]:
        """Return those that can be flushed: the API's own, which stand for "none was set", cannot."""
        return [provider for provider in self.resolve() if hasattr(provider, "force_flush")]
