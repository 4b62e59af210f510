"""Set up the SDK from the `OTEL_*` environment as `opentelemetry-instrument` does, without changing the environment."""

# ruff: noqa: PLC0415 - exporters are slow to import, and an application with providers of its own never needs them

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, Final, NamedTuple

from opentelemetry import _logs, metrics, trace


class _Signal(NamedTuple):
    """How the exporters of one signal are asked for."""

    name: str
    exporters_variable: str
    argument: str
    """The argument of the SDK's configurator that adds exporters."""


_SIGNALS: Final = (
    _Signal("traces", "OTEL_TRACES_EXPORTER", "trace_exporter_names"),
    _Signal("metrics", "OTEL_METRICS_EXPORTER", "metric_exporter_names"),
    _Signal("logs", "OTEL_LOGS_EXPORTER", "log_exporter_names"),
)
_OTLP_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_OTLP_EXPORTERS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_DEFAULT_ENDPOINTS: Final = {"otlp_proto_grpc": "http://localhost:4317", "otlp_proto_http": "http://localhost:4318"}


def application_has_providers() -> bool:
    """Return whether any global provider was set. The API's own are called proxies, and have no common base."""
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider())
    return not all(map(is_proxy, providers))


def is_proxy(provider: object) -> bool:
    """Return whether a global provider is the API's own, which stands in until one is set."""
    return "Proxy" in type(provider).__name__


def configure_sdk(*, has_file: bool = False) -> str:
    """Set the global providers from the environment; a signal without an `OTEL_*_EXPORTER` is exported by OTLP.

    Samplers, id generators, resources, limits, `OTEL_PYTHON_CONFIGURATOR` and `OTEL_CONFIG_FILE` have the effect that
    they have under `opentelemetry-instrument`. Only reads the environment.

    Args:
        has_file: the telemetry is also written to a file, so that a signal is exported only where a variable about
            OTLP or about its exporter asks for that.

    Returns:
        The exporters and their endpoints, for a log line.

    Raises:
        Exception: whatever the SDK raises for an environment that it does not accept.
    """
    if os.environ.get("OTEL_CONFIG_FILE"):
        # The file takes the place of all the rest: arguments would only be warned about.
        _configurator().configure()
        return f"OTEL_CONFIG_FILE={os.environ['OTEL_CONFIG_FILE']}"
    exporters = {signal: _exporter_names(signal, os.environ, has_file=has_file) for signal in _SIGNALS}
    if can_name_exporters():
        missing = [signal for signal in _SIGNALS if signal.exporters_variable not in os.environ]
        _configurator().configure(**{signal.argument: exporters[signal] for signal in missing})
    else:
        _set_providers(exporters)
    return describe_exporters(os.environ, has_file=has_file)


def describe_exporters(environ: Mapping[str, str], *, has_file: bool = False) -> str:
    """Describe each signal's exporters as `configure_sdk()` sets them up: names and endpoints, without credentials."""
    described = []
    for signal in _SIGNALS:
        endpoint = (
            environ.get(f"OTEL_EXPORTER_OTLP_{signal.name.upper()}_ENDPOINT")
            or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
            or ""
        )
        endpoint = re.sub(r"^(\w+://)?[^@/]*@", r"\1", endpoint)
        names = [
            f"{name} {endpoint or _DEFAULT_ENDPOINTS[name]}" if name in _DEFAULT_ENDPOINTS else name
            for name in _exporter_names(signal, environ, has_file=has_file)
        ]
        described.append(f"{signal.name}: {' and '.join(names) or 'none'}")
    return ", ".join(described)


def has_exporters(environ: Mapping[str, str], *, has_file: bool = False) -> bool:
    """Return whether `configure_sdk()` sets up any exporter: not where each `OTEL_*_EXPORTER` is `none`.

    Raises:
        ValueError: the environment asks for a protocol that does not exist.
    """
    is_configured = environ.get("OTEL_CONFIG_FILE") or environ.get("OTEL_PYTHON_CONFIGURATOR")
    return bool(is_configured) or any(_exporter_names(signal, environ, has_file=has_file) for signal in _SIGNALS)


@cache
def can_name_exporters() -> bool:
    """Prove, once, that the SDK's configurator takes the names of exporters as arguments."""
    try:
        from opentelemetry.sdk._configuration import _initialize_components, _OTelSDKConfigurator

        parameters = signature(_initialize_components).parameters
        return hasattr(_OTelSDKConfigurator, "configure") and all(signal.argument in parameters for signal in _SIGNALS)
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False


def _exporter_names(signal: _Signal, environ: Mapping[str, str], *, has_file: bool) -> list[str]:
    """Return the entry points of a signal's exporters; OTLP by the protocol asked for where none is named."""
    default = "otlp" if not has_file or _asks_for_otlp(signal, environ) else "none"
    named = environ.get(signal.exporters_variable, default).strip()
    if not named or named.lower() == "none":
        return []
    protocol = (
        environ.get(f"OTEL_EXPORTER_OTLP_{signal.name.upper()}_PROTOCOL")
        or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    ).strip()
    names = [name.strip() for name in named.split(",")]
    if "otlp" in names and protocol not in _OTLP_EXPORTERS:
        raise ValueError(f"Unsupported OTLP protocol '{protocol}' is configured")
    return [_OTLP_EXPORTERS[protocol] if name == "otlp" else name for name in names]


def _asks_for_otlp(signal: _Signal, environ: Mapping[str, str]) -> bool:
    """Return whether any variable about OTLP holds for a signal: for all signals, or for this one."""
    of_one_signal = tuple(f"{_OTLP_PREFIX}{each.name.upper()}_" for each in _SIGNALS)
    return any(
        value
        and name.startswith(f"{_OTLP_PREFIX}{signal.name.upper()}_" if name.startswith(of_one_signal) else _OTLP_PREFIX)
        for name, value in environ.items()
    )


def _configurator() -> Any:
    """Make the configurator that `OTEL_PYTHON_CONFIGURATOR` names, or the SDK's own."""
    named = os.environ.get("OTEL_PYTHON_CONFIGURATOR")
    if named:
        return _load("opentelemetry_configurator", named)()
    from opentelemetry.sdk._configuration import _OTelSDKConfigurator

    return _OTelSDKConfigurator()


def _set_providers(exporters: Mapping[_Signal, list[str]]) -> None:
    """Set the global providers by the SDK's public API: what is left where its configurator has changed."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = {
        signal.name: [_load(f"opentelemetry_{signal.name}_exporter", name)() for name in names]
        for signal, names in exporters.items()
    }
    tracing, logging = TracerProvider(), LoggerProvider()
    for exporter in made["traces"]:
        tracing.add_span_processor(BatchSpanProcessor(exporter))
    for exporter in made["logs"]:
        logging.add_log_record_processor(BatchLogRecordProcessor(exporter))
    readers = [
        each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in made["metrics"]
    ]
    trace.set_tracer_provider(tracing)
    metrics.set_meter_provider(MeterProvider(readers))
    _logs.set_logger_provider(logging)


def _load(group: str, name: str) -> Any:
    """Load an entry point.

    Raises:
        LookupError: no installed package provides it.
    """
    for entry_point in entry_points(group=group, name=name):
        return entry_point.load()
    raise LookupError(f"no installed package provides {name!r} ({group})")
