"""From facts to findings, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from otel_itl.core.conventions import Where
from otel_itl.tools.doctor.endpoint_remedies import is_unsupported, remedy_for
from otel_itl.tools.doctor.environment_checks import NO_EXPORTER, check_packages, check_variables
from otel_itl.tools.doctor.facts import ExporterFacts, Facts, SDKFacts, SignalFacts
from otel_itl.tools.doctor.finding import Check, Finding, State, fine, note, wrong
from otel_itl.tools.report.render.number_format import pluralize

_CAUSED_BY_ENDPOINTS: Final = frozenset({Where.SDK_SETUP, Where.QUEUE_UNSENT})
"""Failures whose cause is found in the environment or at an endpoint."""
_OFF_SAMPLERS: Final = tuple(
    parent + sampler
    for parent in ("", "ParentBased{root:")
    for sampler in ("AlwaysOffSampler", "TraceIdRatioBased{0.0}")
)
"""How the descriptions of samplers begin that drop every span of a new trace."""


def check(facts: Facts) -> list[Check]:
    """Check the facts of a process, in the order of the report: a cause before what follows from it."""
    checks = {
        "program": (_check_start,),
        "packages": (check_packages,),
        "environment": (check_variables,),
        "SDKs": (_check_sdks,),
        "streams": (_check_streams,),
        "providers": (_check_launcher, _check_providers),
        "endpoints": (_check_endpoints,),
        "scripted stream": (_check_scripted_stream,),
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


# --- the program ---------------------------------------------------------------------------------------------------


def _check_start(facts: Facts) -> Iterator[Finding]:
    """Check that measuring is started without the doctor, before the first stream, and is not stopped."""
    if facts.was_stopped and facts.streams is not None:
        yield wrong(
            "start",
            "it has called otel_itl.uninstrument(): no stream is measured after that",
            "leave the call out, or call otel_itl.instrument() again before the next stream",
        )
    if not facts.streams or not facts.is_recording:
        return
    if facts.launcher is not None:
        yield fine("start", f"{facts.launcher} starts measuring in it")
    elif facts.streams_before_code == 0:
        yield fine("start", "it has called otel_itl.instrument() before its first stream")
    elif facts.is_forked:
        yield wrong(
            "start",
            "a forked process is measured only because of the doctor: otel_itl.instrument() was not called before the "
            "fork, nor in it",
            "call otel_itl.instrument() before the processes are forked, or in each of them before its first stream",
        )
    elif facts.child is not None:
        yield wrong(
            "start",
            f"a child process ({facts.child}) is measured only because of the doctor: otel_itl.instrument() was not "
            "called in it before its first stream, and a call in its parent does not count there",
            "call otel_itl.instrument() in each child process before its first stream, or start the program by "
            "otel-itl run",
        )
    else:
        yield wrong(
            "start",
            "it is measured only because of the doctor: it had not called otel_itl.instrument() at its first stream",
            "call otel_itl.instrument() before its first stream, or start the program by otel-itl run",
        )


# --- SDKs ----------------------------------------------------------------------------------------------------------


def _check_sdks(facts: Facts) -> Iterator[Finding]:
    """Check every SDK that is installed, and that the program uses one."""
    for sdk in facts.sdks:
        if sdk.version is not None and (facts.streams is None or sdk.is_imported):
            yield _check_sdk(sdk, facts)
        for origin, functions in sdk.wrappers.items():
            yield note(sdk.name, f"is also wrapped by {origin}: {', '.join(functions)}")
    if not any(sdk.version for sdk in facts.sdks):
        yield wrong(
            "SDK",
            "no supported SDK is installed",
            "pip install 'otel-itl[openai]' (docs/supported.md has the others), or use otel_itl.observe()",
        )
    elif facts.streams is not None and not any(sdk.is_imported for sdk in facts.sdks):
        yield wrong(
            "SDK",
            f"the program has imported no supported SDK{_describe_clients(facts.http_clients)}",
            "measure what it streams with otel_itl.observe(): see README.md",
        )


def _check_sdk(sdk: SDKFacts, facts: Facts) -> Finding:
    """Check one SDK that is installed."""
    found = f"{sdk.version}"
    if sdk.missing:
        return wrong(
            sdk.name,
            f"{found} has no {_list_few(sdk.missing)}: what passes there is not measured",
            f"install a release that docs/supported.md names: pip install '{sdk.requirement}'",
        )
    if sdk.is_hooked:
        return fine(sdk.name, f"{found} is hooked")
    if not facts.is_recording:
        return note(sdk.name, f"{found} is not hooked")
    names = facts.variables.get("OTEL_ITL_SDKS")
    if names is not None and facts.streams == 0:
        remedy = f"add {sdk.name} to OTEL_ITL_SDKS, or unset that"
        return wrong(sdk.name, f"{found} is used by the program, and not measured: OTEL_ITL_SDKS={names}", remedy)
    if names is not None:
        return note(sdk.name, f"{found} is left alone: OTEL_ITL_SDKS={names}")
    return wrong(
        sdk.name, f"{found} is not hooked: it is too old, or incomplete", f"pip install --upgrade '{sdk.requirement}'"
    )


def _list_few(names: list[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _describe_clients(clients: list[str]) -> str:
    return f", but {' and '.join(clients)}, whose own streams are not measured" if clients else ""


def _check_launcher(facts: Facts) -> Iterator[Finding]:
    """Check that a process of `opentelemetry-instrument` gets its SDK."""
    if facts.launcher != "opentelemetry-instrument":
        return
    if facts.has_distro:
        yield fine("distro", f"{facts.launcher} has one to set up the SDK with")
    else:
        yield wrong(
            "distro",
            f"{facts.launcher} finds no distro, and sets up no SDK: spans of other instrumentations are not recorded",
            "pip install opentelemetry-distro, or set up the SDK in the program",
        )


# --- providers and endpoints ---------------------------------------------------------------------------------------


def _check_providers(facts: Facts) -> Iterator[Finding]:
    """Check the provider of each signal, and that its sampler keeps spans."""
    for signal in facts.signals:
        if signal.name in facts.late_signals:
            yield wrong(
                signal.name,
                "the program sets its provider after its first stream, whose telemetry went elsewhere",
                "set up OpenTelemetry before the first stream",
            )
        yield _check_provider(signal, facts)
        if signal.is_immediate:
            yield wrong(
                signal.name,
                "SimpleSpanProcessor sends each span at once, and the program waits for the endpoint meanwhile",
                "use BatchSpanProcessor in its place",
            )
        if signal.sampler is not None and signal.sampler.startswith(_OFF_SAMPLERS):
            yield wrong(
                signal.name,
                f"the sampler {signal.sampler.partition(',')[0]} records no span",
                "set up the provider with another sampler, or unset OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG",
            )


def _check_provider(signal: SignalFacts, facts: Facts) -> Finding:
    """Check that a signal has a provider, and that the provider has an exporter."""
    if signal.provider is None:
        return _check_missing_provider(signal, facts)
    found = f"{signal.provider}, {signal.set_by}"
    if signal.exporters is None:
        return note(signal.name, f"{found}; its exporters are unknown")
    if not signal.exporters:
        is_off = facts.variables.get(f"OTEL_{signal.name.upper()}_EXPORTER", "").strip().lower() == NO_EXPORTER
        if is_off or signal.name != "traces":
            return note(signal.name, f"{found}; without an exporter")
        return wrong(
            signal.name, f"{found}; it has no exporter, so that no span leaves the process", _exporter_remedy(signal)
        )
    return fine(signal.name, f"{found}; {', '.join(map(_describe_exporter, signal.exporters))}")


def _check_missing_provider(signal: SignalFacts, facts: Facts) -> Finding:
    """Check whether a signal without a provider gets one of ours with the first stream: only if no signal has one."""
    others = [other for other in facts.signals if other.provider is not None]
    if not others:
        return note(signal.name, "no provider is set; with the first stream, otel_itl exports by one of its own")
    if signal.name == "metrics" and facts.objectives is not None:
        return wrong(
            signal.name,
            f"no provider is set, and so no alert on the objectives ({facts.objectives}) has a series",
            "set a meter provider as well: opentelemetry.metrics.set_meter_provider()",
        )
    if signal.name != "traces":
        return note(signal.name, "no provider is set: this signal is not made")
    return wrong(
        signal.name,
        f"no provider is set, and so no span is made: the one for {others[0].name} was {others[0].set_by}",
        "set a tracer provider as well: opentelemetry.trace.set_tracer_provider()",
    )


def _exporter_remedy(signal: SignalFacts) -> str:
    """Return how to get the spans of a provider without an exporter out of the process."""
    if signal.set_by == "set by opentelemetry-instrument":
        return "set OTEL_TRACES_EXPORTER=otlp, or pip install opentelemetry-distro"
    return (
        "add one to the first provider that is set (OpenTelemetry ignores a second), such as "
        "BatchSpanProcessor(OTLPSpanExporter()), or set OTEL_ITL_FILE=otel-itl.jsonl"
    )


def _describe_exporter(exporter: ExporterFacts) -> str:
    return exporter.name if exporter.endpoint is None else f"{exporter.name} to {exporter.endpoint}"


def _check_endpoints(facts: Facts) -> Iterator[Finding]:
    """Check what each endpoint answered."""
    found: dict[tuple[str, str | None], list[str]] = {}
    asked = [(each.name, one) for each in facts.signals for one in each.exporters or () if one.protocol is not None]
    is_alone = not all(is_unsupported(exporter) for _, exporter in asked)
    for signal, exporter in asked:
        finding, remedy = (
            ("accepts them", None) if exporter.is_accepted else remedy_for(signal, exporter, is_alone=is_alone)
        )
        where = f"{exporter.endpoint} ({exporter.protocol})"
        found.setdefault((f"{where} {finding}", remedy), []).append(signal)
    for (finding, remedy), signals in found.items():
        yield ", ".join(dict.fromkeys(signals)), State.FINE if remedy is None else State.WRONG, finding, remedy


# --- streams -------------------------------------------------------------------------------------------------------


def _check_streams(facts: Facts) -> Iterator[Finding]:
    """Check that the program made a stream, and that nothing failed inside otel_itl."""
    if facts.streams == 0:
        is_possible = facts.is_recording and any(sdk.is_imported and sdk.is_hooked for sdk in facts.sdks)
        if is_possible:
            yield wrong(
                "made",
                "the program has made no stream that is measured: no request, or none with stream=True",
                "ask for a stream in the calls that docs/supported.md lists, and let the program make one",
            )
    elif facts.streams is not None:
        yield fine("made", f"{pluralize(facts.streams, 'stream')} measured when this was written")
    for where, count in facts.internal_errors.items():
        if count and where not in _CAUSED_BY_ENDPOINTS:
            yield _check_failure(where, pluralize(count, "time"))


def _check_failure(where: str, times: str) -> Finding:
    """Return the finding on what failed in otel_itl, by the value of `itl.self.where`."""
    if where.startswith("callback."):
        name = where.removeprefix("callback.")
        return wrong(name, f"the function of the program has raised {times}", "correct it: the log has where it raised")
    if where == Where.FILE_WRITE:
        return wrong("OTEL_ITL_FILE", f"could not be written {times}", "name a file that can be written to")
    return wrong(
        "otel_itl",
        f"failed {times} in {where}; no failure reached the program",
        "report it with the log of otel_itl: see SECURITY.md and CONTRIBUTING.md",
    )


def _check_scripted_stream(facts: Facts) -> Iterator[Finding]:
    """Check what became of the scripted stream."""
    stream = facts.stream
    if stream is None:
        return
    if stream.error is not None:
        remedy = f"stream once with {stream.sdk} itself: its installation, or a wrapper named above, fails"
        yield wrong("end", f"failed in {stream.sdk} with {stream.error}", remedy)
    elif stream.trace_id is None:
        yield wrong(
            "span",
            f"{stream.sdk} streamed, but no span was made",
            "correct what is not fine above; if all else is, report it",
        )
    elif not stream.is_sampled:
        yield wrong(
            "span",
            f"trace {stream.trace_id} was made, and the sampler dropped it",
            "sample the spans of streams: unset OTEL_TRACES_SAMPLER, or set up another sampler",
        )
    else:
        yield fine("span", f"went through {stream.sdk}; look for trace {stream.trace_id} (itl.test)")
