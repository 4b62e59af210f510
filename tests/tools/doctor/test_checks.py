"""What the doctor makes of facts: every finding that is not fine names a remedy, and every remedy is the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from otel_itl.tools.doctor.checks import check
from otel_itl.tools.doctor.facts import ExporterFacts, Facts, SDKFacts, SignalFacts, StreamFacts
from otel_itl.tools.doctor.finding import Check, State

ACCEPTED = ExporterFacts(
    name="OTLPSpanExporter", endpoint="localhost:4317", protocol="grpc", status="OK", is_accepted=True
)
TRACES = SignalFacts(
    name="traces", provider="opentelemetry.TracerProvider", set_by="set by the application", exporters=[ACCEPTED]
)
OPENAI = SDKFacts(name="openai", requirement="openai>=1.40", version="3.0.0", is_imported=True, is_hooked=True)
FINE = Facts(
    python="/usr/bin/python3",
    python_version="3.12.1",
    packages={
        **dict.fromkeys(("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-exporter-otlp"), "1.45.2"),
        "otel-itl": "0.2.0",
        "opentelemetry-instrumentation": "0.66b2",
        "wrapt": "2.0",
        "opentelemetry-distro": None,
    },
    sdks=[OPENAI, SDKFacts(name="groq", requirement="groq>=0.13")],
    signals=[TRACES, replace(TRACES, name="metrics"), replace(TRACES, name="logs")],
    variables={},
    refused_variables=[],
    streams_before_code=0,
    is_recording=True,
    streams=2,
    stream=StreamFacts(sdk="openai", trace_id="0af7", is_sampled=True),
)


def wrong(facts: Facts) -> list[Check]:
    return [found for found in check(facts) if found.state is State.WRONG]


def test_fine_facts_have_no_finding_that_is_wrong() -> None:
    assert wrong(FINE) == []


def test_what_the_doctor_alone_has_measured_is_the_first_finding() -> None:
    assert check(replace(FINE, streams_before_code=None))[0].finding.startswith("it is measured only because")


@pytest.mark.parametrize("unlike", [{"launcher": "otel-itl run"}, {"streams": None}, {"is_recording": False}])
def test_who_started_measuring_is_no_finding_where_it_was_not_the_doctor(unlike: dict[str, Any]) -> None:
    facts = replace(FINE, streams_before_code=None, **unlike)
    assert [one for one in wrong(facts) if one.name == "start"] == []


def with_endpoint(**fields: Any) -> Facts:
    """Facts with an endpoint for metrics that does not accept."""
    refusing = replace(ACCEPTED, is_accepted=False, **fields)
    return replace(FINE, signals=[TRACES, replace(TRACES, name="metrics", exporters=[refusing])])


def with_traces(**fields: Any) -> Facts:
    """Facts with another tracer provider."""
    return replace(FINE, signals=[replace(TRACES, **fields), *FINE.signals[1:]])


def with_sdk(**fields: Any) -> Facts:
    return replace(FINE, sdks=[replace(OPENAI, **fields)])


def with_variables(**variables: str) -> Facts:
    return replace(FINE, variables=variables)


def with_package(name: str, version: str | None) -> Facts:
    return replace(FINE, packages={**FINE.packages, name: version})


NOWHERE: dict[str, Any] = {"status": "404", "is_accepted": False, "protocol": "http/protobuf"}
NOWHERE["endpoint"] = "http://localhost:4318/otlp/v1/logs"
HTTP = {"protocol": "http/protobuf", "endpoint": "http://localhost:4318/v1/metrics"}
CASES: list[tuple[Facts, str, str]] = [
    # --- the program
    (
        replace(FINE, streams_before_code=None),
        "it is measured only because of the doctor",
        "call otel_itl.instrument() before its first stream, or start the program by otel-itl run",
    ),
    (replace(FINE, streams_before_code=3), "it had not called otel_itl.instrument() at its first", "before its first"),
    (replace(FINE, was_stopped=True), "it has called otel_itl.uninstrument()", "leave the call out"),
    (
        replace(FINE, streams_before_code=None, is_forked=True),
        "a forked process is measured only because of the doctor",
        "or in each of them",
    ),
    (
        replace(FINE, streams_before_code=None, child="pid 12, SpawnProcess-1"),
        "a child process (pid 12, SpawnProcess-1) is measured only because of the doctor",
        "call otel_itl.instrument() in each child process before its first stream",
    ),
    # --- packages and switches
    (with_package("wrapt", None), "is not installed", "pip install --force-reinstall otel-itl"),
    (
        replace(FINE, packages={**FINE.packages, "opentelemetry-sdk": "1.36.0", "opentelemetry-api": "1.36.0"}),
        "1.36.0 is older than 1.37",
        "pip install --upgrade 'opentelemetry-api>=1.37'",
    ),
    (
        with_package("opentelemetry-sdk", "1.40.0"),
        "are of different releases",
        "pip install --upgrade opentelemetry-api",
    ),
    (with_variables(OTEL_ITL_DISABLED="true"), "nothing is measured", "unset OTEL_ITL_DISABLED"),
    (with_variables(OTEL_SDK_DISABLED="TRUE"), "nothing is measured", "unset OTEL_SDK_DISABLED"),
    (with_variables(OTEL_TRACES_SAMPLER="always_off"), "no span is recorded", "unset OTEL_TRACES_SAMPLER"),
    (
        with_variables(OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none"),
        "no telemetry leaves the process",
        "OTEL_ITL_FILE=otel-itl.jsonl",
    ),
    *(
        (with_variables(**{name: value}), f"is {value}: nothing is exported", f"set {name}=http/protobuf")
        for name, value in {
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http",
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json",
        }.items()
    ),
    (
        replace(FINE, refused_variables=["OTEL_ITL_SLO is not accepted."]),
        "is not accepted",
        "correct or unset OTEL_ITL_SLO",
    ),
    # --- SDKs
    (
        replace(FINE, sdks=[SDKFacts(name="groq", requirement="groq>=0.13")]),
        "no supported SDK is installed",
        "observe()",
    ),
    (with_sdk(is_imported=False), "the program has imported no supported SDK", "otel_itl.observe()"),
    (with_sdk(version="1.2", is_hooked=False), "1.2 is not hooked", "pip install --upgrade 'openai>=1.40'"),
    (
        with_sdk(missing=["openai._base_client:SyncAPIClient.request"]),
        "what passes there is not measured",
        "docs/supported",
    ),
    # --- providers
    (
        replace(FINE, launcher="opentelemetry-instrument"),
        "spans of other instrumentations are not recorded",
        "pip install opentelemetry-distro, or set up the SDK in the program",
    ),
    (with_traces(provider=None), "no span is made", "opentelemetry.trace.set_tracer_provider()"),
    (
        replace(FINE, signals=[TRACES, SignalFacts(name="metrics", exporters=[])], objectives="*=chat"),
        "no alert on the objectives (*=chat) has a series",
        "opentelemetry.metrics.set_meter_provider()",
    ),
    (with_traces(exporters=[]), "no span leaves the process", "BatchSpanProcessor(OTLPSpanExporter())"),
    (
        with_traces(exporters=[], set_by="set by opentelemetry-instrument"),
        "no span leaves the process",
        "set OTEL_TRACES_EXPORTER=otlp, or pip install opentelemetry-distro",
    ),
    (with_traces(sampler="AlwaysOffSampler"), "AlwaysOffSampler records no span", "another sampler"),
    # --- endpoints
    (with_endpoint(status="UNAVAILABLE", problem="refused"), "refuses the connection", "start a Collector there"),
    (with_endpoint(status=None, problem="dns"), "does not resolve", "correct the host"),
    (with_endpoint(status=None, problem="timeout"), "does not answer within 3 s", "can be reached from here"),
    (with_endpoint(status=None, problem="tls"), "fails the TLS handshake", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
    (
        with_endpoint(status=None, problem="closed"),
        "closes the connection",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ),
    (with_endpoint(status=None, problem="closed", **HTTP), "closes the connection", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
    (with_endpoint(status="401", **HTTP), "credentials are missing or wrong", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"),
    (with_endpoint(status="PERMISSION_DENIED"), "credentials are missing or wrong", "OTEL_EXPORTER_OTLP_HEADERS"),
    (with_endpoint(status="404", **HTTP), "it takes no metrics", "set OTEL_METRICS_EXPORTER=none"),
    (with_endpoint(status="UNIMPLEMENTED"), "it takes no metrics", "set OTEL_METRICS_EXPORTER=none"),
    (with_endpoint(status="415", **HTTP), "does not understand http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
    (with_endpoint(status="503", **HTTP), "answers 503", "the log of the backend or the Collector"),
    (with_endpoint(problem="KeyError", status=None), "cannot be asked (KeyError)", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    (
        with_traces(exporters=[replace(ACCEPTED, is_accepted=False, status="404", **HTTP)]),
        "it takes no traces there",
        "/v1/traces is added to OTEL_EXPORTER_OTLP_ENDPOINT alone",
    ),
    (
        with_endpoint(problem="MissingSchema", protocol="http/protobuf", endpoint="localhost:4318/v1/metrics"),
        "has no scheme",
        "begin OTEL_EXPORTER_OTLP_ENDPOINT with http://",
    ),
    (
        replace(FINE, signals=[replace(TRACES, name="logs", exporters=[replace(ACCEPTED, **NOWHERE)])]),
        "it takes no logs there",
        "correct OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_LOGS_ENDPOINT): /v1/logs is added",
    ),
    (
        with_endpoint(status="200", is_page=True, **HTTP),
        "answers with a web page",
        "to the port for OTLP (usually 4318, or 4317 for gRPC)",
    ),
    (
        with_endpoint(status=None, problem="refused", proxy="HTTP_PROXY", **HTTP),
        "through the proxy of HTTP_PROXY",
        "add its host to NO_PROXY",
    ),
    (with_endpoint(status="415", is_compressed=True, **HTTP), "that gzip compresses", "unset OTEL_EXPORTER_OTLP_COMP"),
    (replace(FINE, late_signals=["traces"]), "sets its provider after its first stream", "before the first stream"),
    (with_traces(is_immediate=True), "SimpleSpanProcessor sends each span at once", "use BatchSpanProcessor"),
    # --- streams
    (
        replace(FINE, internal_errors={"callback.on_stall": 1}),
        "the function of the program has raised 1 time",
        "the log has where",
    ),
    (replace(FINE, internal_errors={"file.write": 1}), "could not be written 1 time", "that can be written to"),
    (replace(FINE, streams=0), "no stream that is measured", "ask for a stream"),
    (replace(FINE, internal_errors={"stream.end": 2}), "failed 2 times in stream.end", "report it"),
    (
        replace(FINE, stream=StreamFacts(sdk="openai", error="APIError")),
        "failed in openai with APIError",
        "openai itself",
    ),
    (replace(FINE, stream=StreamFacts(sdk="openai")), "no span was made", "correct what is not fine above"),
    (
        replace(FINE, stream=StreamFacts(sdk="openai", trace_id="0af7")),
        "the sampler dropped it",
        "unset OTEL_TRACES_SAMPLER",
    ),
]


@pytest.mark.parametrize(("facts", "finding", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_what_is_not_fine_is_found_with_its_remedy(facts: Facts, finding: str, remedy: str) -> None:
    found = [one for one in wrong(facts) if finding in one.finding]
    assert [remedy in (one.remedy or "") for one in found][:1] == [True], wrong(facts)


@pytest.mark.parametrize("facts", [FINE, *(case[0] for case in CASES)])
def test_a_remedy_stands_exactly_where_something_is_not_fine(facts: Facts) -> None:
    assert all((one.remedy is not None) == (one.state is State.WRONG) for one in check(facts))


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (with_variables(OTEL_METRICS_EXPORTER="none"), "is none: this signal is not exported"),
        (with_sdk(wrappers={"langfuse.openai": ["Completions.create"]}), "is also wrapped by langfuse.openai"),
        (with_traces(exporters=None), "its exporters are unknown"),
        (replace(FINE, signals=[SignalFacts(name="traces", exporters=[])]), "otel_itl exports by one of its own"),
        (
            replace(with_sdk(is_hooked=False), variables={"OTEL_ITL_SDKS": "groq"}),
            "is left alone: OTEL_ITL_SDKS=groq",
        ),
    ],
)
def test_what_is_worth_knowing_is_a_note(facts: Facts, finding: str) -> None:
    assert [one.state for one in check(facts) if finding in one.finding] == [State.NOTE]


def test_signals_that_share_an_endpoint_and_its_answer_are_one_finding() -> None:
    found = [one for one in check(FINE) if one.topic == "endpoints"]
    assert [one.name for one in found] == ["traces, metrics, logs"]


def test_a_remedy_is_printed_below_its_finding(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    from otel_itl.tools.doctor.render import print_checks
    from otel_itl.tools.report.render.terminal import open_terminal

    printer: Callable[..., None] = print_checks
    printer(check(with_variables(OTEL_ITL_DISABLED="true")), open_terminal(width=100))
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "nothing is measured" in line)
    assert [lines[at].strip()[:2], lines[at + 1].strip(), lines[-1]] == [
        "NO",
        "-> unset OTEL_ITL_DISABLED",
        "1 thing is not fine",
    ]
