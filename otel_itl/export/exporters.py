"""The exporters that the `OTEL_*` environment asks for, found and made by OpenTelemetry's public entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from otel_itl.core.without_secrets import show_address

SIGNALS: Final = ("traces", "metrics", "logs")
_OTLP_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
OTLP_EXPORTERS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""Protocol → the entry point of its exporters."""
_DEFAULT_ENDPOINTS: Final = {"otlp_proto_grpc": "http://localhost:4317", "otlp_proto_http": "http://localhost:4318"}
_GLOBAL_SETUP: Final = ("OTEL_CONFIG_FILE", "OTEL_PYTHON_CONFIGURATOR")
_SDK: Final = "opentelemetry.sdk."

Environ = Mapping[str, str]


class NamedExporter(NamedTuple):
    """An exporter of one signal, as the environment names it; made by `find_exporters`."""

    signal: str
    name: str
    """Its entry point."""
    endpoint: str | None
    """Where it sends to, as the environment has it; None: it is no OTLP exporter."""

    def __str__(self) -> str:
        return self.name if self.endpoint is None else f"{self.name} {show_address(self.endpoint)}"

    def load(self) -> Any:
        """Load the class of the exporter. A metric reader, which needs no reader of the SDK, is one as well.

        Raises:
            LookupError: no installed package provides it.
        """
        return load_entry_point(f"opentelemetry_{self.signal}_exporter", self.name)


def find_exporters(environ: Environ, *, has_file: bool = False) -> dict[str, list[NamedExporter]]:
    """Find each signal's exporters; a signal without an `OTEL_*_EXPORTER` is exported by OTLP.

    Args:
        environ: the variables.
        has_file: the telemetry is also written to a file, so that a signal is exported only where a variable about
            OTLP or about its exporter asks for that.

    Raises:
        ValueError: the environment asks for a protocol that does not exist.
    """
    return {signal: _find_exporters_of(signal, environ, has_file=has_file) for signal in SIGNALS}


def describe_exporters(exporters: Mapping[str, list[NamedExporter]]) -> str:
    """Describe each signal's exporters: names and endpoints, without what may be a secret."""
    return ", ".join(f"{signal}: {' and '.join(map(str, named)) or 'none'}" for signal, named in exporters.items())


def find_global_setup(environ: Environ) -> str | None:
    """Return the variable that asks for another set-up, of global providers; None: there is none."""
    return next((name for name in _GLOBAL_SETUP if environ.get(name)), None)


def make_sampler(environ: Environ) -> Any | None:
    """Make the sampler that `OTEL_TRACES_SAMPLER` names; None: the SDK's tracer provider makes its own by that name."""
    for entry_point in _find("opentelemetry_traces_sampler", environ.get("OTEL_TRACES_SAMPLER", "").strip()):
        if not entry_point.value.startswith(_SDK):
            return entry_point.load()(environ.get("OTEL_TRACES_SAMPLER_ARG"))
    return None


def make_id_generator(environ: Environ) -> Any | None:
    """Make the id generator that `OTEL_PYTHON_ID_GENERATOR` names; None: that of the SDK's tracer provider.

    Raises:
        LookupError: no installed package provides it.
    """
    name = environ.get("OTEL_PYTHON_ID_GENERATOR", "").strip()
    return load_entry_point("opentelemetry_id_generator", name)() if name else None


def _find_exporters_of(signal: str, environ: Environ, *, has_file: bool) -> list[NamedExporter]:
    """Find the exporters of one signal; OTLP by the protocol asked for where none is named."""
    default = "otlp" if not has_file or _asks_for_otlp(signal, environ) else "none"
    named = environ.get(f"OTEL_{signal.upper()}_EXPORTER", default).strip()
    if not named or named.lower() == "none":
        return []
    found = []
    for name in map(str.strip, named.split(",")):
        entry_point = _otlp_exporter(signal, environ) if name == "otlp" else name
        endpoint = _otlp_variable(signal, "ENDPOINT", environ) or _DEFAULT_ENDPOINTS.get(entry_point, "")
        is_otlp = entry_point in _DEFAULT_ENDPOINTS
        found.append(NamedExporter(signal, entry_point, endpoint if is_otlp else None))
    return found


def _otlp_exporter(signal: str, environ: Environ) -> str:
    """Return the entry point of a signal's OTLP exporter."""
    protocol = (_otlp_variable(signal, "PROTOCOL", environ) or "grpc").strip()
    if protocol not in OTLP_EXPORTERS:
        raise ValueError(f"Unsupported OTLP protocol '{protocol}' is configured")
    return OTLP_EXPORTERS[protocol]


def _otlp_variable(signal: str, name: str, environ: Environ) -> str:
    """Return the value of a variable about OTLP for a signal, else of that for all signals; empty: neither is set."""
    return environ.get(f"{_OTLP_PREFIX}{signal.upper()}_{name}") or environ.get(f"{_OTLP_PREFIX}{name}") or ""


def _asks_for_otlp(signal: str, environ: Environ) -> bool:
    """Return whether any variable about OTLP holds for a signal: for all signals, or for this one."""
    of_others = tuple(f"{_OTLP_PREFIX}{other.upper()}_" for other in SIGNALS if other != signal)
    return any(
        value and name.startswith(_OTLP_PREFIX) and not name.startswith(of_others) for name, value in environ.items()
    )


def load_entry_point(group: str, name: str) -> Any:
    """Load an entry point.

    Raises:
        LookupError: no installed package provides it.
    """
    for entry_point in _find(group, name):
        return entry_point.load()
    raise LookupError(f"no installed package provides {name!r} ({group})")


def _find(group: str, name: str) -> list[EntryPoint]:
    """Return the entry points of that name; there may be several, of several packages."""
    return list(entry_points(group=group, name=name))
