"""The instrumentation scope: name, version and schema URL of our tracer, meter and logger."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from opentelemetry._logs import Logger, LoggerProvider  # noqa: TC002 - annotations stay resolvable
from opentelemetry.metrics import Meter, MeterProvider  # noqa: TC002 - annotations stay resolvable
from opentelemetry.trace import Tracer, TracerProvider  # noqa: TC002 - annotations stay resolvable

from otel_itl.core.conventions import SCOPE
from otel_itl.core.metric_conventions import STANDARD_NAMES


def get_tracer(provider: TracerProvider, generation: str) -> Tracer:
    """Get our tracer, with the schema URL of `generation`, a key of `STANDARD_NAMES`."""
    return provider.get_tracer(SCOPE, package_version(), STANDARD_NAMES[generation].schema_url)


def get_meter(provider: MeterProvider, generation: str) -> Meter:
    """Get our meter, with the schema URL of `generation`, a key of `STANDARD_NAMES`."""
    return provider.get_meter(SCOPE, package_version(), STANDARD_NAMES[generation].schema_url)


def get_logger(provider: LoggerProvider, generation: str) -> Logger:
    """Get our logger, with the schema URL of `generation`, a key of `STANDARD_NAMES`."""
    return provider.get_logger(SCOPE, package_version(), STANDARD_NAMES[generation].schema_url)


@cache
def package_version() -> str:
    """Return the version of this package; empty where it is used without having been installed."""
    try:
        return version("otel-itl")
    except PackageNotFoundError:
        return ""
