"""From facts to findings: what is fine, what is worth knowing, and what is not fine, with its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from otel_itl.tools.doctor.endpoint_remedies import remedy_for
from otel_itl.tools.doctor.facts import ExporterFacts, Facts, SDKFacts, SignalFacts, StreamFacts
from otel_itl.tools.report.certainty import Flag, describe_remedies, format_with_error
from otel_itl.tools.report.render.number_format import pluralize

OLDEST_OPENTELEMETRY: Final = (1, 37)
_NO_EXPORTER: Final = "none"
_OFF_SAMPLERS: Final = ("AlwaysOffSampler", "ParentBased{root:AlwaysOffSampler", "TraceIdRatioBased{0.0}")


class State(str, Enum):
    """How a finding is to be taken."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"


class Check(NamedTuple):
    """One finding."""

    topic: str
    name: str
    state: State
    finding: str
    """What was found, without a full stop."""
    remedy: str | None = None
    """What to do; there is one exactly where the state is `wrong`."""


Finding = tuple[str, State, str, str | None]
"""A check without its topic."""


def check(facts: Facts) -> list[Check]:
    """Check the facts of a process; the order is that of the report."""
    checks = {
        "packages": (_check_packages,),
        "environment": (_check_switches,),
        "SDKs": (_check_sdks,),
        "providers": (_check_launcher, _check_providers),
        "endpoints": (_check_endpoints,),
        "streams": (_check_streams,),
    }
    return [Check(topic, *one) for topic, finders in checks.items() for find in finders for one in find(facts)]


def describe_findings(facts: Facts) -> dict[str, Any]:
    """Describe the findings on a process as JSON, for the command that has launched it.

    `importance` is higher for a process that streamed, and then for one that uses an SDK.
    """
    return {
        "importance": [bool(facts.streams), any(sdk.is_imported for sdk in facts.sdks)],
        "trace_id": None if facts.stream is None else facts.stream.trace_id,
        "checks": check(facts),
    }


def _fine(name: str, finding: str) -> Finding:
    return name, State.FINE, finding, None


def _note(name: str, finding: str) -> Finding:
    return name, State.NOTE, finding, None


def _wrong(name: str, finding: str, remedy: str) -> Finding:
    return name, State.WRONG, finding, remedy


# --- packages and switches -----------------------------------------------------------------------------------------


def _check_packages(facts: Facts) -> Iterator[Finding]:
    """Check that what otel_itl needs is installed, recent enough, and of one release."""
    yield _fine("python", f"{facts.python_version} ({facts.python})")
    for name, version in facts.packages.items():
        if version is not None:
            is_old = name in {"opentelemetry-api", "opentelemetry-sdk"} and _numbers(version) < OLDEST_OPENTELEMETRY
            oldest = ".".join(map(str, OLDEST_OPENTELEMETRY))
            if is_old:
                yield _wrong(name, f"{version} is older than {oldest}", f"pip install --upgrade '{name}>={oldest}'")
            else:
                yield _fine(name, version)
        elif name != "opentelemetry-distro":  # needed under `opentelemetry-instrument` alone
            yield _wrong(name, "is not installed", "pip install --force-reinstall otel-itl")
    api, sdk = facts.packages.get("opentelemetry-api"), facts.packages.get("opentelemetry-sdk")
    if api and sdk and _numbers(api) != _numbers(sdk):
        yield _wrong(
            "opentelemetry-api",
            f"{api} and opentelemetry-sdk {sdk} are of different releases",
            "pip install --upgrade opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _check_switches(facts: Facts) -> Iterator[Finding]:
    """Check the variables that switch something off, or that nothing accepts."""
    for name in ("OTEL_ITL_DISABLED", "OTEL_SDK_DISABLED"):
        if facts.variables.get(name, "").strip().lower() == "true":
            yield _wrong(name, "is true: nothing is measured", f"unset {name}")
    for sentence in facts.refused_variables:
        variable = sentence.partition(" ")[0]
        yield _wrong(variable, sentence.rstrip("."), f"correct or unset {variable}: see docs/configuration.md")
    disabled = facts.variables.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "")
    ours = [name.strip() for name in disabled.split(",") if name.strip().startswith(("itl_", "*"))]
    if ours and facts.launcher is not None and not any(sdk.is_hooked for sdk in facts.sdks):
        yield _wrong(
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
            f"disables {', '.join(ours)}",
            "remove those names from OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
        )
    sampler = facts.variables.get("OTEL_TRACES_SAMPLER", "")
    if sampler.endswith("always_off"):
        yield _wrong(
            "OTEL_TRACES_SAMPLER", f"{sampler}: no span is recorded", "unset OTEL_TRACES_SAMPLER, or always_on"
        )
    yield from _check_exporter_variables(facts)


def _check_exporter_variables(facts: Facts) -> Iterator[Finding]:
    """Report the exporters that are `none`: wrong where all are and no file is written, else a note for each."""
    names = [f"OTEL_{signal}_EXPORTER" for signal in ("TRACES", "METRICS", "LOGS")]
    off = [name for name in names if facts.variables.get(name, "").strip().lower() == _NO_EXPORTER]
    if len(off) == len(names) and "OTEL_ITL_FILE" not in facts.variables:
        yield _wrong(
            "OTEL_*_EXPORTER",
            "each is none: no telemetry leaves the process",
            f"unset {off[0]}, or set OTEL_ITL_FILE=otel-itl.jsonl",
        )
    else:
        yield from (_note(name, "is none: this signal is not exported") for name in off)


# --- SDKs ----------------------------------------------------------------------------------------------------------


def _check_sdks(facts: Facts) -> Iterator[Finding]:
    """Check every SDK that is installed, and that the program uses one."""
    for sdk in facts.sdks:
        if sdk.version is not None:
            yield _check_sdk(sdk, facts)
        for origin, functions in sdk.wrappers.items():
            yield _note(sdk.name, f"is also wrapped by {origin}: {', '.join(functions)}")
    if not any(sdk.version for sdk in facts.sdks):
        yield _wrong(
            "supported",
            "no supported SDK is installed",
            "pip install 'otel-itl[openai]' (docs/supported.md has the others), or use otel_itl.observe()",
        )
    elif facts.streams is not None and not any(sdk.is_imported for sdk in facts.sdks):
        yield _wrong(
            "supported",
            "the program has imported no supported SDK",
            "measure what it streams with otel_itl.observe(): see README.md",
        )


def _check_sdk(sdk: SDKFacts, facts: Facts) -> Finding:
    """Check one SDK that is installed."""
    found = f"{sdk.version}"
    if sdk.missing:
        return _wrong(
            sdk.name,
            f"{found} has no {', '.join(sdk.missing)}: what passes there is not measured",
            f"install a release that docs/supported.md names: pip install '{sdk.requirement}'",
        )
    if sdk.is_hooked:
        imported = "" if sdk.is_imported else ", not imported so far"
        return _fine(sdk.name, f"{found} is hooked{imported}")
    if not facts.is_recording:
        return _wrong(
            sdk.name,
            f"{found} is not hooked: instrument() was not called, or measuring is switched off",
            "call otel_itl.instrument(), or start the program by otel-itl run",
        )
    names = facts.variables.get("OTEL_ITL_SDKS")
    if names is not None:
        return _note(sdk.name, f"{found} is left alone: OTEL_ITL_SDKS={names}")
    return _wrong(sdk.name, f"{found} is not hooked: it is not supported", f"pip install --upgrade '{sdk.requirement}'")


def _check_launcher(facts: Facts) -> Iterator[Finding]:
    """Check that a process of `opentelemetry-instrument` gets its SDK."""
    if facts.launcher is None:
        return
    if facts.has_distro:
        yield _fine("distro", f"{facts.launcher} has one to set up the SDK with")
    else:
        yield _wrong(
            "distro",
            f"{facts.launcher} finds no distro, and sets up no SDK: spans of other instrumentations are not recorded",
            "pip install opentelemetry-distro, or set up the SDK in the program",
        )


# --- providers and endpoints ---------------------------------------------------------------------------------------


def _check_providers(facts: Facts) -> Iterator[Finding]:
    """Check the provider of each signal, and that its sampler keeps spans."""
    for signal in facts.signals:
        yield _check_provider(signal, facts)
        if signal.sampler is not None and signal.sampler.startswith(_OFF_SAMPLERS):
            yield _wrong(
                signal.name,
                f"the sampler {signal.sampler} records no span",
                "set up the provider with another sampler, or unset OTEL_TRACES_SAMPLER",
            )


def _check_provider(signal: SignalFacts, facts: Facts) -> Finding:
    """Check that a signal has a provider, and that the provider has an exporter."""
    if signal.provider is None:
        return _check_missing_provider(signal, facts)
    found = f"{signal.provider}, {signal.set_by}"
    if signal.exporters is None:
        return _note(signal.name, f"{found}; its exporters are unknown")
    if not signal.exporters:
        is_off = facts.variables.get(f"OTEL_{signal.name.upper()}_EXPORTER", "").strip().lower() == _NO_EXPORTER
        if is_off or signal.name != "traces":
            return _note(signal.name, f"{found}; without an exporter")
        return _wrong(
            signal.name, f"{found}; it has no exporter, so that no span leaves the process", _exporter_remedy(signal)
        )
    return _fine(signal.name, f"{found}; {', '.join(map(_describe_exporter, signal.exporters))}")


def _check_missing_provider(signal: SignalFacts, facts: Facts) -> Finding:
    """Check whether a signal without a provider gets one of ours with the first stream: only if no signal has one."""
    others = [other for other in facts.signals if other.provider is not None]
    if not others:
        return _note(signal.name, "no provider is set; with the first stream, otel_itl exports by one of its own")
    if signal.name != "traces":
        return _note(signal.name, "no provider is set: this signal is not made")
    return _wrong(
        signal.name,
        f"no provider is set, and so no span is made: the one for {others[0].name} was {others[0].set_by}",
        "set a tracer provider as well: opentelemetry.trace.set_tracer_provider()",
    )


def _exporter_remedy(signal: SignalFacts) -> str:
    """Return how to get the spans of a provider without an exporter out of the process."""
    if signal.set_by == "set by opentelemetry-instrument":
        return "set OTEL_TRACES_EXPORTER=otlp, or pip install opentelemetry-distro"
    return "add one, such as BatchSpanProcessor(OTLPSpanExporter()), or set OTEL_ITL_FILE=otel-itl.jsonl"


def _describe_exporter(exporter: ExporterFacts) -> str:
    return exporter.name if exporter.endpoint is None else f"{exporter.name} to {exporter.endpoint}"


def _check_endpoints(facts: Facts) -> Iterator[Finding]:
    """Check what each endpoint answered."""
    found: dict[tuple[str, str | None], list[str]] = {}
    for signal in facts.signals:
        for exporter in signal.exporters or ():
            if exporter.protocol is None:
                continue
            finding, remedy = ("accepts them", None) if exporter.is_accepted else remedy_for(signal.name, exporter)
            where = f"{exporter.endpoint} ({exporter.protocol})"
            found.setdefault((f"{where} {finding}", remedy), []).append(signal.name)
    for (finding, remedy), signals in found.items():
        yield ", ".join(dict.fromkeys(signals)), State.FINE if remedy is None else State.WRONG, finding, remedy


# --- streams -------------------------------------------------------------------------------------------------------


def _check_streams(facts: Facts) -> Iterator[Finding]:
    """Check what became of the program's streams and of the scripted one."""
    if facts.streams == 0:
        yield _wrong(
            "program",
            "it has made no stream that is measured",
            "ask for one (stream=True) in the calls that docs/supported.md lists, and let the program make one",
        )
    elif facts.streams is not None:
        yield _fine("program", f"{pluralize(facts.streams, 'stream')} measured when this was written")
    yield from (
        _wrong(
            "otel_itl",
            f"failed {count} times in {where}; no failure reached the program",
            "report it with the log of otel_itl: see SECURITY.md and CONTRIBUTING.md",
        )
        for where, count in _failures(facts.internal_errors).items()
    )
    stream = facts.stream
    if stream is None:
        return
    if stream.error is not None:
        remedy = f"stream once with {stream.sdk} itself: its installation, or a wrapper named above, fails"
        yield _wrong("scripted stream", f"failed in {stream.sdk} with {stream.error}", remedy)
    elif stream.trace_id is None:
        yield _wrong(
            "scripted stream",
            f"{stream.sdk} streamed, but no span was made",
            "correct what is not fine above; if all else is, report it",
        )
    elif not stream.is_sampled:
        yield _wrong(
            "scripted stream",
            f"trace {stream.trace_id} was made, and the sampler dropped it",
            "sample the spans of streams: unset OTEL_TRACES_SAMPLER, or set up another sampler",
        )
    else:
        yield _fine("scripted stream", f"went through {stream.sdk}; look for trace {stream.trace_id} (itl.test)")
        yield from _check_certainty(stream)


def _check_certainty(stream: StreamFacts) -> Iterator[Finding]:
    """Note how well the TTFT of the scripted stream is known, and what to do, unless it is exact."""
    if stream.ttft_uncertainty is not None or stream.flags:
        remedies = " ".join(describe_remedies(Counter(map(Flag, stream.flags))) or [Flag.NOT_KNOWN.remedy])
        ttft = format_with_error(stream.ttft, stream.ttft_uncertainty)
        yield _note("how well it is known", f"TTFT {ttft}; {remedies}")


def _failures(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the failures of our own code; what an endpoint or the environment causes is found above."""
    return {where: count for where, count in counts.items() if count and where != "sdk.setup"}
