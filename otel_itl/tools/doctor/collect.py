"""Collects the facts of this process."""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from multiprocessing import current_process, parent_process
from pathlib import Path
from typing import Any, Final

from opentelemetry import _logs, metrics, trace

from otel_itl.config import load, logger
from otel_itl.export.sdk_internals.outlets import exports_immediately, find_outlets
from otel_itl.launched import NOTES_VARIABLE
from otel_itl.runtime import runtime
from otel_itl.sdks.registry import REGISTRY, SDKEntry
from otel_itl.tools.doctor.endpoint import describe_outlet
from otel_itl.tools.doctor.facts import ExporterFacts, Facts, SDKFacts, SignalFacts, StreamFacts
from otel_itl.tools.doctor.variables import find_malformed
from otel_itl.tools.doctor.wrappers import find_wrappers
from otel_itl.tools.launch.environment import LAUNCHER_VARIABLE
from otel_itl.tools.launch.notes import Notes

PACKAGES: Final = (
    "otel-itl",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp",
    "opentelemetry-instrumentation",
    "opentelemetry-distro",
    "wrapt",
)
_AUTO_INSTRUMENTATION: Final = "opentelemetry.instrumentation.auto_instrumentation"
_AUTO_VERSION: Final = "telemetry.auto.version"
"""The resource attribute that `opentelemetry-instrument` sets where it sets up the SDK."""
_HTTP_CLIENTS: Final = ("httpx", "requests", "aiohttp")
_VARIABLES: Final = (
    *("OTEL_SDK_DISABLED", "OTEL_ITL_DISABLED", "OTEL_ITL_SDKS", "OTEL_ITL_FILE", "OTEL_TRACES_SAMPLER"),
    *("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"),
    *(f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL" for signal in ("", "TRACES_", "METRICS_", "LOGS_")),
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
)
"""None of them holds a secret."""


def collect_facts(
    stream: StreamFacts | None, streams: int | None = None, *, is_forked: bool = False, late_signals: Sequence[str] = ()
) -> Facts:
    """Collect the facts of this process. It takes the time that the endpoints take to answer, 3 s each at most.

    Args:
        stream: the scripted stream, which has been sent.
        streams: the streams that the program has made; None: this process is the command's own.
        is_forked: the process was forked from another one of the program.
        late_signals: those whose provider the program set after its first stream.
    """
    sdks = [_describe_sdk(entry) for entry in REGISTRY.values()]
    is_program = streams is not None
    has_sdk = any(sdk.is_imported for sdk in sdks)
    answered: dict[tuple[str, str], ExporterFacts] = {}
    return Facts(
        python=sys.executable,
        python_version=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        sdks=sdks,
        signals=[_describe_signal(name, provider, answered) for name, provider in _providers().items()],
        variables={name: os.environ[name] for name in _VARIABLES if os.environ.get(name, "").strip()},
        refused_variables=_refused_variables(),
        malformed=list(find_malformed(os.environ)),
        launcher=_find_launcher() if is_program else None,
        has_distro=bool(entry_points(group="opentelemetry_distro")),
        objectives=_describe_objectives(),
        streams_before_code=runtime.streams_before_code,
        was_stopped=runtime.was_stopped,
        is_forked=is_forked,
        child=_describe_child() if is_program else None,
        late_signals=list(late_signals),
        http_clients=[name for name in _HTTP_CLIENTS if name in sys.modules and is_program and not has_sdk],
        is_recording=runtime.config is not None,
        streams=streams,
        internal_errors=dict(runtime.errors.counts),
        stream=stream,
    )


def _find_launcher() -> str | None:
    """Return what has started this process and starts measuring in it, the doctor aside; None: nothing does."""
    if _AUTO_INSTRUMENTATION in sys.modules:
        return "opentelemetry-instrument"
    return os.environ.get(LAUNCHER_VARIABLE)


def _describe_child() -> str | None:
    """Return the pid of this process, and its name if it has one, where a process that was launched has started it."""
    notes = os.environ.get(NOTES_VARIABLE)
    if not notes or os.getppid() not in {note.get("pid") for note in Notes(Path(notes)).read()}:
        return None
    worker = f", {current_process().name}" if parent_process() is not None else ""
    return f"pid {os.getpid()}{worker}"


def _describe_objectives() -> str | None:
    config = runtime.config
    return None if config is None or not config.slo.by_model else str(config.slo)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _describe_sdk(entry: SDKEntry) -> SDKFacts:
    """Describe one supported SDK: whether it is there and hooked, and who else has wrapped it."""
    is_imported = entry.package in sys.modules
    return SDKFacts(
        name=entry.name,
        requirement=entry.requirement,
        version=_version(entry.distribution),
        is_imported=is_imported,
        is_hooked=entry.name in runtime.installer.installed,
        missing=runtime.installer.missing_targets(entry.name),
        wrappers=find_wrappers(entry.package) if is_imported else {},
    )


def _providers() -> Mapping[str, Any]:
    """Return the provider in force of each signal: that of the next stream, if the program makes one."""
    given = runtime.providers
    choice = runtime.connection.choice
    found = (not choice.is_outdated and choice.chosen) or (
        given.tracer_provider or trace.get_tracer_provider(),
        given.meter_provider or metrics.get_meter_provider(),
        given.logger_provider or _logs.get_logger_provider(),
    )
    return dict(zip(("traces", "metrics", "logs"), found, strict=True))


def _describe_signal(name: str, provider: Any, answered: dict[tuple[str, str], ExporterFacts]) -> SignalFacts:
    """Describe a provider and its exporters. The API's own providers, which do nothing, are called proxies."""
    if "Proxy" in type(provider).__name__ or "NoOp" in type(provider).__name__:
        return SignalFacts(name=name, exporters=[])
    outlets = find_outlets(provider)
    sampler = getattr(provider, "sampler", None)
    return SignalFacts(
        name=name,
        provider=f"{type(provider).__module__.partition('.')[0]}.{type(provider).__qualname__}",
        set_by=_who_set(name, provider),
        sampler=None if sampler is None else _describe_sampler(sampler),
        exporters=None if outlets is None else list(_describe_outlets(outlets, name, answered)),
        is_immediate=exports_immediately(provider),
    )


def _describe_outlets(
    outlets: list[Any], signal: str, answered: dict[tuple[str, str], ExporterFacts]
) -> Iterator[ExporterFacts]:
    """Describe where a signal leaves the process: our own processors count only if they write a file."""
    for outlet in outlets:
        module = type(outlet).__module__
        if not module.startswith("otel_itl.") or module.startswith("otel_itl.export.file"):
            yield describe_outlet(outlet, signal, answered)


def _who_set(signal: str, provider: Any) -> str:
    """Return who has set a provider, in the words of the report."""
    if any(provider is given for given in runtime.providers):
        return "given to instrument()"
    if provider in runtime.connection.stand_ins:
        is_exported = runtime.connection.stand_ins.has_exporters
        return f"of otel_itl, {'from the OTEL_* environment' if is_exported else 'for OTEL_ITL_FILE alone'}"
    resource = getattr(provider, "resource", None)
    if _AUTO_VERSION in getattr(resource, "attributes", {}):
        return "set by opentelemetry-instrument"
    variable = {"traces": "OTEL_PYTHON_TRACER_PROVIDER", "metrics": "OTEL_PYTHON_METER_PROVIDER"}.get(signal, "")
    return f"set by {variable}" if os.environ.get(variable) else "set by the application"


def _describe_sampler(sampler: Any) -> str:
    try:
        return str(sampler.get_description())
    except Exception:  # noqa: BLE001 - a sampler of the application
        return type(sampler).__name__


def _refused_variables() -> list[str]:
    """Return what `instrument()` warns of in the `OTEL_ITL_*` variables."""
    sentences: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        """Keep a warning, which gets nowhere else."""
        sentences.append(record.getMessage())
        return False

    logger.addFilter(collect)
    try:
        load({})
    finally:
        logger.removeFilter(collect)
    return sentences
