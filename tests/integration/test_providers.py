"""Whose providers are used, when there is nothing to record, and what an application's own set-up is spared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_itl.testing import CapturedTelemetry

if TYPE_CHECKING:
    from conftest import App, Clients, Instrument, Receiver

STREAM = """
def stream():
    return list(otel_itl.observe(iter(["Hel", "lo"]), provider="test", model="m"))
"""
"""A stream that needs no SDK to be imported; its providers are found as those of every other stream."""

SETS_ITS_OWN = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

def provider():
    exporter = InMemorySpanExporter()
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made, exporter
"""


@pytest.mark.requirement("R67")
def test_a_global_provider_is_used_and_never_replaced_whenever_it_is_set(start_app: Callable[..., App]) -> None:
    order = {
        "before": "own, exporter = provider(); trace.set_tracer_provider(own); otel_itl.instrument()",
        "after": "otel_itl.instrument(); own, exporter = provider(); trace.set_tracer_provider(own)",
    }
    ends = "print(stream(), len(exporter.get_finished_spans()), trace.get_tracer_provider() is own)"
    started = [start_app(f"import otel_itl\n{STREAM}\n{SETS_ITS_OWN}\n{setting}\n{ends}") for setting in order.values()]
    assert [app.wait().stdout for app in started] == ["['Hel', 'lo'] 1 True\n"] * 2


@pytest.mark.requirement("R67")
def test_setting_a_provider_before_the_first_stream_is_not_too_late_for_opentelemetry(
    start_app: Callable[..., App],
) -> None:
    app = start_app(
        f"import otel_itl\n{STREAM}\n{SETS_ITS_OWN}\n"
        "otel_itl.instrument(); trace.set_tracer_provider(provider()[0]); stream()"
    )
    assert app.wait().stderr == ""


@pytest.mark.requirement("R67")
def test_a_provider_that_is_given_wins_over_the_global_one(start_app: Callable[..., App]) -> None:
    app = start_app(f"""
import otel_itl
{STREAM}
{SETS_ITS_OWN}
own, exporter = provider()
given, other = provider()
trace.set_tracer_provider(own)
otel_itl.instrument(tracer_provider=given)
stream()
print(len(exporter.get_finished_spans()), len(other.get_finished_spans()))
""")
    assert app.wait().stdout == "0 1\n"


@pytest.mark.requirement("R67")
def test_with_one_provider_of_the_application_the_sdk_is_not_set_up_for_the_others(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""
import otel_itl
{STREAM}
{SETS_ITS_OWN}
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
otel_itl.instrument()
stream()
print(type(trace.get_tracer_provider()).__name__, reader.get_metrics_data() is not None)
""",
        receiver=receiver,
    )
    assert (app.wait().stdout, receiver.requests) == ("ProxyTracerProvider True\n", [])


def test_without_any_provider_the_sdk_is_set_up_from_the_environment_and_that_is_logged(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""
import logging, os
import otel_itl
{STREAM}
logging.basicConfig(level="INFO", format="%(levelname)s %(name)s %(message)s")
before = dict(os.environ)
otel_itl.instrument()
stream()
print(before == dict(os.environ))
""",
        receiver=receiver,
    )
    finished = app.wait()
    said = f"WARNING otel_itl {receiver.setup_notice}"
    counted = finished.stderr.splitlines(keepends=True).count(said)
    assert (finished.stdout, counted, [span.name for span in receiver.spans]) == ("True\n", 1, ["chat m"])


def test_setting_up_the_sdk_is_logged_once_however_many_streams_are_opened_at_once(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""
import threading
import otel_itl
{STREAM}
otel_itl.instrument()
barrier = threading.Barrier(8)
threads = [threading.Thread(target=lambda: (barrier.wait(), stream(), stream())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""",
        receiver=receiver,
    )
    assert (app.wait().stderr, len(receiver.spans)) == (receiver.setup_notice, 16)


@pytest.mark.requirement("R67")
@pytest.mark.parametrize(
    "variables", [{}, {"OTEL_TRACES_EXPORTER": "otlp"}, {"OTEL_METRICS_EXPORTER": "none"}], ids=str
)
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_no_variable_is_written_while_the_sdk_is_set_up(
    protocol: str, variables: dict[str, str], start_app: Callable[..., App], receivers: Callable[[str], Receiver]
) -> None:
    """Not even for a moment: other threads, and exporters that are being made, read the environment meanwhile."""
    app = start_app(
        f"""
import sys
import otel_itl
{STREAM}
written = []
sys.addaudithook(lambda event, args: event in ("os.putenv", "os.unsetenv") and written.append(args[0]))
otel_itl.instrument()
stream()
print(written)
""",
        receiver=receivers(protocol),
        **variables,
    )
    assert app.wait().stdout == "[]\n"


def test_an_exporter_of_none_is_respected(start_app: Callable[..., App], receiver: Receiver) -> None:
    app = start_app(
        f"import otel_itl\n{STREAM}\notel_itl.instrument()\nprint(stream())",
        receiver=receiver,
        OTEL_TRACES_EXPORTER="none",
        OTEL_LOGS_EXPORTER="none",
    )
    assert (app.wait().stdout, receiver.spans, "itl.client.stream.outcomes" in receiver.metrics) == (
        "['Hel', 'lo']\n",
        [],
        True,
    )


def test_a_set_up_that_fails_is_one_sentence_and_the_stream_goes_on(start_app: Callable[..., App]) -> None:
    app = start_app(
        f"import otel_itl\n{STREAM}\notel_itl.instrument()\nprint(stream())\nprint(stream())",
        OTEL_TRACES_EXPORTER="nonsense",
    ).wait()
    assert (
        app.stdout,
        app.stderr.count("\n"),
        "could not set up its exporters" in app.stderr,
        "nonsense" in app.stderr,
    ) == (
        "['Hel', 'lo']\n['Hel', 'lo']\n",
        1,
        True,
        True,
    )


def test_with_opentelemetry_disabled_nothing_is_recorded_and_the_application_works(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"import otel_itl\n{STREAM}\notel_itl.instrument()\nprint(stream())",
        receiver=receiver,
        OTEL_SDK_DISABLED="true",
    )
    finished = app.wait()
    assert (finished.stdout, finished.stderr, receiver.requests) == ("['Hel', 'lo']\n", "", [])


@pytest.mark.parametrize("value", ["true", "TRUE", " true "])
def test_with_opentelemetry_disabled_nothing_goes_to_given_providers_either(
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    instrument()
    monkeypatch.setenv("OTEL_SDK_DISABLED", value)
    chunks = clients.chat()
    assert (len(chunks) > 0, captured_telemetry.spans, captured_telemetry.metrics) == (True, [], {})


def test_a_stream_opened_while_instrumentation_is_suppressed_is_not_recorded(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    with suppress_instrumentation():
        chunks = clients.chat()
    assert (len(chunks) > 0, captured_telemetry.spans, captured_telemetry.metrics) == (True, [], {})


def test_streams_are_recorded_again_when_instrumentation_is_no_longer_suppressed(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    with suppress_instrumentation():
        clients.chat()
    clients.chat()
    assert len(captured_telemetry.spans) == 1


@pytest.mark.requirement("R43")
def test_without_a_tracer_provider_metrics_are_recorded_all_the_same(
    start_app: Callable[..., App],
) -> None:
    app = start_app(f"""
import otel_itl
{STREAM}
{SETS_ITS_OWN}
reader = InMemoryMetricReader()
otel_itl.instrument(meter_provider=MeterProvider([reader]))
stream()
scopes = [scope for part in reader.get_metrics_data().resource_metrics for scope in part.scope_metrics]
print({{metric.name for scope in scopes for metric in scope.metrics}} >= {{"itl.client.stream.outcomes"}})
""")
    assert app.wait().stdout == "True\n"
