"""Finds `OTEL_*` variables that are misspelled, malformed, or name an exporter that is not installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from opentelemetry.sdk import environment_variables

from otel_itl.export.exporters import SIGNALS, find_exporters, find_global_setup
from otel_itl.tools.doctor.finding import Finding, wrong

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PATHS: Final = tuple(f"/v1/{signal}" for signal in SIGNALS)
_QUOTES: Final = ("'", '"')
_KNOWN: Final = frozenset(name for name in vars(environment_variables) if name.startswith("OTEL_"))
_LIKENESS: Final = 0.88
"""`OTEL_EXPORTER_ENDPOINT` is more like `OTEL_EXPORTER_OTLP_ENDPOINT`, and the endpoint of Zipkin is less."""
_OF_SDK: Final = (
    "OTEL_EXPORTER_",
    "OTEL_TRACES_",
    "OTEL_METRICS_",
    "OTEL_LOGS_",
    "OTEL_BSP_",
    "OTEL_SERVICE",
    "OTEL_SDK",
)
"""How the names begin that the SDK alone reads; others may be those of packages that it does not know."""


def find_malformed(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with variables, by their names: a value may be a secret."""
    for name, value in environ.items():
        if not name.startswith("OTEL_"):
            continue
        if value[:1] in _QUOTES and value.endswith(value[:1]) and len(value) > 1:
            yield wrong(
                name,
                "its value has quotation marks, which are part of it: Docker's files of variables take none",
                f"write {name}= and the value without quotation marks",
            )
        meant = (
            get_close_matches(name, _KNOWN, n=1, cutoff=_LIKENESS)
            if name.startswith(_OF_SDK) and name not in _KNOWN
            else []
        )
        if meant and meant[0] not in environ:
            yield wrong(name, "is not known to OpenTelemetry", f"set {meant[0]}, which it is probably meant to be")
        if name.endswith("_HEADERS") and any("=" not in part for part in value.split(",") if part.strip()):
            yield wrong(
                name, "has a header that is not NAME=VALUE, and is left out", f"write {name}=authorization=Bearer%20KEY"
            )
    yield from _find_extra_path(environ)
    variable = find_global_setup(environ)
    if variable is not None:
        yield wrong(
            variable,
            "asks for global providers, which otel_itl leaves to others: without them, nothing is exported",
            "start the program by opentelemetry-instrument, with opentelemetry-distro installed, or unset it",
        )
    yield from _find_missing_exporters(environ)


def _find_extra_path(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield that the endpoint of all signals has the path of one, unless exporters are known to take no path."""
    value = environ.get(_ENDPOINT, "").strip().rstrip("/")
    path = next((path for path in _PATHS if value.endswith(path)), None)
    if path is not None and environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip() != "grpc":
        yield wrong(
            _ENDPOINT,
            f"ends in {path}: an exporter by HTTP adds the path of its signal to that, so that there are two",
            f"leave {path} out of {_ENDPOINT}",
        )


def _find_missing_exporters(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield each exporter that is named and that no installed package provides, or that cannot be imported."""
    try:
        exporters = find_exporters(environ)
    except ValueError:
        return  # of the protocol, which has a finding of its own
    for signal, each in exporters.items():
        for exporter in each:
            try:
                exporter.load()
            except LookupError:
                yield wrong(
                    f"OTEL_{signal.upper()}_EXPORTER",
                    f"names the exporter {exporter.name!r}, which no installed package provides",
                    f"pip install the package that has it, or set OTEL_{signal.upper()}_EXPORTER=otlp",
                )
            except Exception as error:  # noqa: BLE001 - whatever its import raises
                yield wrong(
                    f"OTEL_{signal.upper()}_EXPORTER",
                    f"names the exporter {exporter.name!r}, whose import fails with {type(error).__name__}",
                    "pip install --force-reinstall opentelemetry-exporter-otlp, or the package that has it",
                )
