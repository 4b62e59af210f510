"""Checks what the program finds around it: the installed packages, and the variables of the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from otel_itl.config import find_off_switches
from otel_itl.export.exporters import OTLP_EXPORTERS
from otel_itl.tools.doctor.facts import Facts
from otel_itl.tools.doctor.finding import Finding, fine, note, wrong

OLDEST_OPENTELEMETRY: Final = (1, 37)
NO_EXPORTER: Final = "none"
_LIST: Final = re.compile(r", which reads [A-Z_, ]+")
"""The list of all variables in the warning of one that is unknown."""


def check_packages(facts: Facts) -> Iterator[Finding]:
    """Check that what otel_itl needs is installed, recent enough, and of one release."""
    yield fine("python", f"{facts.python_version} ({facts.python})")
    for name, version in facts.packages.items():
        if version is not None:
            is_old = name in {"opentelemetry-api", "opentelemetry-sdk"} and _numbers(version) < OLDEST_OPENTELEMETRY
            oldest = ".".join(map(str, OLDEST_OPENTELEMETRY))
            if is_old:
                yield wrong(name, f"{version} is older than {oldest}", f"pip install --upgrade '{name}>={oldest}'")
            else:
                yield fine(name, version)
        elif name != "opentelemetry-distro":  # needed under `opentelemetry-instrument` alone
            yield wrong(name, "is not installed", "pip install --force-reinstall otel-itl")
    api, sdk = facts.packages.get("opentelemetry-api"), facts.packages.get("opentelemetry-sdk")
    if api and sdk and _numbers(api) != _numbers(sdk):
        yield wrong(
            "opentelemetry-api",
            f"{api} and opentelemetry-sdk {sdk} are of different releases",
            "pip install --upgrade opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def check_variables(facts: Facts) -> Iterator[Finding]:
    """Check the variables that switch measuring, a sampler or exporters off, name no protocol, or are not accepted."""
    for name in find_off_switches(facts.variables):
        yield wrong(name, f"is {facts.variables[name].strip().lower()}: nothing is measured", f"unset {name}")
    for sentence in facts.refused_variables:
        variable = sentence.partition(" ")[0]
        finding = _LIST.sub("", sentence.removeprefix(variable).strip().rstrip("."))
        yield wrong(variable, finding, f"correct or unset {variable}: see docs/configuration.md")
    yield from facts.malformed
    disabled = facts.variables.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "")
    ours = [name.strip() for name in disabled.split(",") if name.strip().startswith(("itl_", "*"))]
    if ours and facts.launcher == "opentelemetry-instrument" and facts.streams_before_code is None:
        yield wrong(
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
            f"disables {', '.join(ours)}: streams are measured only because of the doctor",
            "remove those names from OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
        )
    sampler = facts.variables.get("OTEL_TRACES_SAMPLER", "")
    if sampler.endswith("always_off"):
        yield wrong("OTEL_TRACES_SAMPLER", f"{sampler}: no span is recorded", "unset OTEL_TRACES_SAMPLER, or always_on")
    yield from _check_protocols(facts)
    yield from _check_exporter_variables(facts)


def _check_protocols(facts: Facts) -> Iterator[Finding]:
    """Report each variable that names a protocol for which OpenTelemetry has no exporter in Python."""
    for name, value in facts.variables.items():
        if name.endswith("_PROTOCOL") and value.strip() not in OTLP_EXPORTERS:
            yield wrong(
                name,
                f"is {value}: nothing is exported, as that is none of {' and '.join(OTLP_EXPORTERS)}",
                f"set {name}=http/protobuf, or unset it for grpc",
            )


def _check_exporter_variables(facts: Facts) -> Iterator[Finding]:
    """Report the exporters that are `none`: wrong where all are and no file is written, else a note for each."""
    names = [f"OTEL_{signal}_EXPORTER" for signal in ("TRACES", "METRICS", "LOGS")]
    off = [name for name in names if facts.variables.get(name, "").strip().lower() == NO_EXPORTER]
    if len(off) == len(names) and "OTEL_ITL_FILE" not in facts.variables:
        yield wrong(
            "OTEL_*_EXPORTER",
            "each is none: no telemetry leaves the process",
            f"unset {off[0]}, or set OTEL_ITL_FILE=otel-itl.jsonl",
        )
    else:
        yield from (note(name, "is none: this signal is not exported") for name in off)
