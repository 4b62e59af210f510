"""An application that sets its OpenTelemetry providers at any time: none is refused, nothing is lost or sent twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import App, Receiver

pytestmark = pytest.mark.requirement("R67")

BEGIN = """
import json, warnings
import otel_itl
from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

warnings.simplefilter("ignore")  # old releases of the SDK warn of log records that they make themselves
exporter, reader, logged = InMemorySpanExporter(), InMemoryMetricReader(), []
tracing, metering, logging_ = TracerProvider(), MeterProvider([reader]), LoggerProvider()
tracing.add_span_processor(SimpleSpanProcessor(exporter))

class Logged:
    def on_emit(self, record):
        logged.append(record.log_record.attributes)

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=0):
        return True

logging_.add_log_record_processor(Logged())

def set_providers(*signals):
    if "traces" in signals:
        trace.set_tracer_provider(tracing)
    if "metrics" in signals:
        metrics.set_meter_provider(metering)
    if "logs" in signals:
        _logs.set_logger_provider(logging_)

def observe(model, chunks="abc"):
    return otel_itl.observe(iter(chunks), provider="test", model=model)

def stream(model):
    return list(observe(model))

def counted():
    data = reader.get_metrics_data()
    scopes = [scope for part in data.resource_metrics for scope in part.scope_metrics] if data else []
    return {
        point.attributes["gen_ai.request.model"]: point.value
        for scope in scopes
        for metric in scope.metrics
        if metric.name == "itl.client.stream.outcomes"
        for point in metric.data.data_points
    }

def show(**more):
    if not otel_itl.flush(20):
        raise SystemExit("the flush has not ended in time")
    spans = [span.name.partition(" ")[2] for span in exporter.get_finished_spans()]
    events = [attributes["gen_ai.request.model"] for attributes in logged]
    print(json.dumps({"traces": sorted(spans), "metrics": counted(), "logs": sorted(events), **more}))

"""
"""Providers of an application, a stream that needs no SDK, and what the application's providers have got."""

LOGGED = {"OTEL_ITL_PROGRESS": "60"}
"""With this, each stream has a log event at its end, with its model."""
SIGNALS = ("traces", "metrics", "logs")
SOME = [SIGNALS[:1], SIGNALS[1:2], SIGNALS[2:], SIGNALS]
"""Signals of which the application sets providers: any two of them are set together, apart, and not at all."""


def outcomes(receiver: Receiver) -> dict[str, int]:
    """Requested model → its streams, summed over all that our provider has sent of it: each may be sent once."""
    if "itl.client.stream.outcomes" not in receiver.metrics:
        return {}
    points = receiver.points("itl.client.stream.outcomes")
    return {receiver.plain(point.attributes)["gen_ai.request.model"]: point.as_int for point in points}


def arrived(receiver: Receiver) -> dict[str, Any]:
    """Which streams are in each signal that our providers have sent."""
    return {
        "traces": sorted(span.name.partition(" ")[2] for span in receiver.spans),
        "metrics": outcomes(receiver),
        "logs": sorted(receiver.plain(event.attributes)["gen_ai.request.model"] for event in receiver.logs),
    }


def shown(app: App, receiver: Receiver) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What the application's providers got, what ours sent, and what was printed but for where telemetry goes."""
    finished = app.wait()
    return json.loads(finished.stdout), arrived(receiver), finished.stderr.replace(receiver.setup_notice, "")


@pytest.mark.parametrize("signals", SOME, ids=" ".join)
def test_what_is_set_after_the_first_stream_gets_the_streams_from_then_on(
    signals: tuple[str, ...], start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
otel_itl.instrument()
stream("first")
still_open = observe("open")
next(still_open)
set_providers(*{signals!r})
stream("second")
list(still_open)
show()
""",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    # A span ends, and log events are emitted, where their stream began. Metrics are those of when a stream ends.
    later = {"traces": ["second"], "metrics": {"second": 1, "open": 1}, "logs": ["second"]}
    before = {"traces": ["first", "open"], "metrics": {"first": 1}, "logs": ["first", "open"]}
    nothing = {"traces": [], "metrics": {}, "logs": []}
    every = {
        "traces": ["first", "open", "second"],
        "metrics": {"first": 1, "second": 1, "open": 1},
        "logs": ["first", "open", "second"],
    }
    assert printed == ""
    assert got == {each: (later if each in signals else nothing)[each] for each in SIGNALS}
    assert sent == {each: (before if each in signals else every)[each] for each in SIGNALS}


SET_FIRST, SET_LAST = "set_providers(*{}); otel_itl.instrument()", "otel_itl.instrument(); set_providers(*{})"


@pytest.mark.parametrize(
    ("signals", "order"), [*zip(SOME, [SET_FIRST, SET_LAST, SET_FIRST, SET_LAST], strict=True), (SIGNALS, SET_FIRST)]
)
def test_what_is_set_before_the_first_stream_gets_all_streams_and_ours_send_nothing(
    signals: tuple[str, ...], order: str, start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(f"{BEGIN}{order.format(repr(signals))}; stream('m'); show()", receiver=receiver, **LOGGED)
    all_of_it = {"traces": ["m"], "metrics": {"m": 1}, "logs": ["m"]}
    nothing: dict[str, Any] = {"traces": [], "metrics": {}, "logs": []}
    got, sent, printed = shown(app, receiver)
    assert (printed, sent) == ("", nothing)
    assert got == {each: (all_of_it if each in signals else nothing)[each] for each in SIGNALS}


def test_signals_that_are_set_one_after_the_other_lose_no_stream(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
otel_itl.instrument()
still_open = observe("open")
next(still_open)
for number, signal in enumerate(("logs", "traces", "metrics")):
    stream(str(number))
    set_providers(signal)
stream("last")
list(still_open)
show()
""",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    assert printed == ""
    assert got == {"traces": ["2", "last"], "metrics": {"last": 1, "open": 1}, "logs": ["1", "2", "last"]}
    assert sent == {"traces": ["0", "1", "open"], "metrics": {"0": 1, "1": 1, "2": 1}, "logs": ["0", "open"]}


NAMED = {
    "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider",
    "OTEL_PYTHON_METER_PROVIDER": "sdk_meter_provider",
    "OTEL_PYTHON_LOGGER_PROVIDER": "sdk_logger_provider",
}


def test_what_is_set_after_the_first_stream_is_not_refused_where_the_environment_names_providers(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""
import otel_itl
otel_itl.instrument()
list(otel_itl.observe(iter("abc"), provider="test", model="first"))

import os
del os.environ["OTEL_PYTHON_METER_PROVIDER"]  # the SDK's own tracer provider asks for the global one, and so sets it
{BEGIN}
set_providers(*{SIGNALS!r})
stream("second")
show()
""",
        receiver=receiver,
        **NAMED,
        **LOGGED,
    )
    got, _, printed = shown(app, receiver)
    assert got == {"traces": ["second"], "metrics": {"second": 1}, "logs": ["second"]}
    assert "Overriding of current" not in printed


def test_a_provider_that_the_environment_names_gets_the_streams_until_another_is_set(
    start_app: Callable[..., App],
) -> None:
    app = start_app(
        f"""{BEGIN}
from otel_itl.runtime import runtime
otel_itl.instrument()
stream("first")
chosen = runtime.connection.chosen
print([type(each).__name__ for each in chosen], [each in runtime.connection.stand_ins for each in chosen])
""",
        **NAMED,
    )
    assert app.wait().stdout.strip() == "['TracerProvider', 'MeterProvider', 'LoggerProvider'] [False, False, False]"


def test_our_metrics_are_sent_a_last_time_and_then_no_more(start_app: Callable[..., App], receiver: Receiver) -> None:
    app = start_app(
        f"""{BEGIN}
import time, threading
otel_itl.instrument()
stream("first")
set_providers("metrics")
stream("second")
limit = time.monotonic() + 20
while time.monotonic() < limit and "OtelPeriodicExportingMetricReader" in [each.name for each in threading.enumerate()]:
    time.sleep(0.01)
ended = time.time_ns()
time.sleep(0.2)  # four intervals
print(ended)
""",
        receiver=receiver,
        OTEL_METRIC_EXPORT_INTERVAL="50",
    )
    ended = int(app.wait().stdout)
    collected = [point.time_unix_nano for point in receiver.points("itl.client.stream.outcomes")]
    assert (outcomes(receiver), [moment < ended for moment in collected]) == ({"first": 1}, [True])


def test_a_stream_does_not_wait_for_an_endpoint_that_hangs_when_providers_change(
    start_app: Callable[..., App],
) -> None:
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        app = start_app(
            f"""{BEGIN}
import os, time
otel_itl.instrument()
stream("first")
set_providers("traces", "metrics", "logs")
started = time.monotonic()
stream("second")
print(time.monotonic() - started < 1, [span.name for span in exporter.get_finished_spans()], flush=True)
os._exit(0)
""",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{hanging.getsockname()[1]}",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        )
        assert app.wait().stdout == "True ['chat second']\n"


def test_providers_that_are_set_while_threads_stream_lose_nothing_and_count_nothing_twice(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
import sys, threading, time
otel_itl.instrument()
sys.setswitchinterval(1e-5)
barrier = threading.Barrier(9)

def work():
    barrier.wait()
    for _ in range(200):
        stream("m")

threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
barrier.wait()
for signal in ("metrics", "traces", "logs"):
    time.sleep(0.02)
    set_providers(signal)
[thread.join() for thread in threads]
stream("m")
show()
""",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    assert printed == ""
    assert [len(got[each]) + len(sent[each]) for each in ("traces", "logs")] == [1601, 1601]
    assert got["metrics"]["m"] + sent["metrics"].get("m", 0) == 1601


LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
RUN = (sys.executable, "-m", "otel_itl", "run", "--quiet")


@pytest.mark.parametrize("starts", ["opentelemetry-instrument", "otel-itl run", "both"])
def test_without_a_line_of_code_a_provider_may_be_set_as_late(
    starts: str, start_app: Callable[..., App], receiver: Receiver
) -> None:
    if starts != "otel-itl run" and not LAUNCHER.exists():
        pytest.skip("there is no opentelemetry-instrument beside this Python")
    launcher = {
        "opentelemetry-instrument": (str(LAUNCHER), sys.executable),
        "otel-itl run": RUN,
        "both": (*RUN, str(LAUNCHER), sys.executable),
    }[starts]
    others = {point.name for point in entry_points(group="opentelemetry_instrumentor")}
    app = start_app(
        f"""{BEGIN}
stream("first")
set_providers("traces", "metrics", "logs")
stream("second")
show()
""",
        receiver=receiver,
        launcher=launcher,
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=",".join(name for name in others if not name.startswith("itl_")),
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    assert "Overriding" not in printed
    assert got == {"traces": ["second"], "metrics": {"second": 1}, "logs": ["second"]}
    assert sent == {"traces": ["first"], "metrics": {"first": 1}, "logs": ["first"]}


# --- Providers of any make --------------------------------------------------------------------------------------------


FRAMEWORK = """
from dataclasses import dataclass

# Of a framework, which sets them once and exchanges what is behind them. They have neither a flush nor a shutdown.

@dataclass
class ProxyTracerProvider(trace.TracerProvider):
    "Unhashable, as data classes are."

    def get_tracer(self, *arguments, **options):
        return tracing.get_tracer(*arguments, **options)

@dataclass
class ProxyMeterProvider(metrics.MeterProvider):
    def get_meter(self, *arguments, **options):
        return metering.get_meter(*arguments, **options)

@dataclass
class ProxyLoggerProvider(_logs.LoggerProvider):
    def get_logger(self, *arguments, **options):
        return logging_.get_logger(*arguments, **options)

def set_proxies():
    trace.set_tracer_provider(ProxyTracerProvider())
    metrics.set_meter_provider(ProxyMeterProvider())
    _logs.set_logger_provider(ProxyLoggerProvider())

"""


@pytest.mark.parametrize("has_streamed", [False, True])
def test_a_provider_of_a_framework_that_is_called_a_proxy_and_is_neither_hashed_nor_flushed_is_an_applications(
    has_streamed: bool, start_app: Callable[..., App], receiver: Receiver
) -> None:
    before = "stream('first')" if has_streamed else ""
    app = start_app(
        f"{BEGIN}{FRAMEWORK}otel_itl.instrument()\n{before}\nset_proxies(); stream('second'); show()",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    first = ["first"] if has_streamed else []
    assert (printed, got) == ("", {"traces": ["second"], "metrics": {"second": 1}, "logs": ["second"]})
    assert sent == {"traces": first, "metrics": dict.fromkeys(first, 1), "logs": first}


@pytest.mark.parametrize("variable", ["OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER"])
def test_a_provider_that_a_variable_of_the_api_names_is_the_applications(
    variable: str, start_app: Callable[..., App], receiver: Receiver
) -> None:
    named = {"OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider", "OTEL_PYTHON_METER_PROVIDER": "sdk_meter_provider"}
    app = start_app(f"{BEGIN}otel_itl.instrument(); stream('m')", receiver=receiver, **{variable: named[variable]})
    assert (app.wait().stderr, receiver.requests) == ("", [])


def test_the_apis_own_provider_that_is_given_stands_for_the_global_one(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
held = trace.get_tracer("application")
otel_itl.instrument(tracer_provider=trace.get_tracer_provider(), meter_provider=metrics.get_meter_provider())
stream("first")
set_providers("traces", "metrics", "logs")
with held.start_as_current_span("POST /chat") as outer:
    stream("second")
parents = [span.parent and span.parent.span_id for span in exporter.get_finished_spans()]
print(json.dumps([parents == [outer.get_span_context().span_id, None], counted()]))
""",
        receiver=receiver,
    )
    finished = app.wait()
    assert json.loads(finished.stdout) == [True, {"second": 1}]
    assert (arrived(receiver)["traces"], outcomes(receiver)) == (["first"], {"first": 1})


def test_beside_a_given_provider_those_of_the_other_signals_may_be_set_later(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
otel_itl.instrument(tracer_provider=tracing)
still_open = observe("open")
next(still_open)
set_providers("metrics", "logs")
stream("second")
list(still_open)
counting = observe("counted")
next(counting)
data = str(reader.get_metrics_data())
show(has_open_streams="itl.client.stream.count" in data and "itl.stream.state" in data)
""",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    assert (printed, sent) == ("", {"traces": [], "metrics": {}, "logs": []})
    assert got == {
        "traces": ["open", "second"],
        "metrics": {"second": 1, "open": 1},
        "logs": ["open", "second"],
        "has_open_streams": True,
    }


# --- What goes on -----------------------------------------------------------------------------------------------------


def test_a_session_goes_on(start_app: Callable[..., App], receiver: Receiver) -> None:
    app = start_app(
        f"""{BEGIN}
otel_itl.instrument()
with otel_itl.session("s"):
    stream("first")
    set_providers("traces")
    stream("second")
(span,) = exporter.get_finished_spans()
print(span.attributes["itl.session.request.index"], [link.context.span_id for link in span.links])
""",
        receiver=receiver,
    )
    index, linked = app.wait().stdout.split(maxsplit=1)
    (first,) = receiver.spans
    indexes = [receiver.plain(first.attributes)["itl.session.request.index"], int(index)]
    assert indexes[1] == indexes[0] + 1
    assert json.loads(linked) == [int.from_bytes(first.span_id, "big")]


def test_a_tracer_without_a_provider_passes_our_span_on(start_app: Callable[..., App], receiver: Receiver) -> None:
    """As the instrumentation of an HTTP client does, which uses the global provider."""
    app = start_app(
        f"""{BEGIN}
from opentelemetry.propagate import inject
from otel_itl.runtime import runtime

foreign, headers = trace.get_tracer("opentelemetry.instrumentation.client"), {{}}
otel_itl.instrument()
open_stream = observe("m")
next(open_stream)
(recorder,) = runtime.open_streams.recorders()
with trace.use_span(recorder.span_handle.span), foreign.start_as_current_span("POST"):
    inject(headers)
list(open_stream)
print(headers["traceparent"])
""",
        receiver=receiver,
    )
    parent = app.wait().stdout.split("-")
    (span,) = receiver.spans
    assert parent[1:3] == [span.trace_id.hex(), span.span_id.hex()]


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="signals end no process as here")
def test_a_signal_right_after_the_change_loses_nothing(start_app: Callable[..., App], receiver: Receiver) -> None:
    app = start_app(
        f"""{BEGIN}
import os, signal
if os.fork():
    os.wait()
else:
    otel_itl.instrument()
    stream("first")
    still_open = observe("open")
    next(still_open)
    set_providers("traces", "metrics", "logs")
    stream("second")
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        pass
""",
        receiver=receiver,
    )
    app.wait()
    assert (arrived(receiver)["traces"], outcomes(receiver)) == (["first", "open"], {"first": 1})


def test_after_uninstrument_all_is_sent_no_thread_is_left_and_measuring_may_begin_again(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        f"""{BEGIN}
import threading, time
for model in ("first", "second"):
    otel_itl.instrument()
    stream(model)
    otel_itl.uninstrument()
limit = time.monotonic() + 20
while time.monotonic() < limit and any("Otel" in each.name for each in threading.enumerate()):
    time.sleep(0.01)
print([each.name for each in threading.enumerate() if "Otel" in each.name], otel_itl.flush())
""",
        receiver=receiver,
    )
    finished = app.wait()
    assert finished.stdout == "[] True\n"
    assert arrived(receiver)["traces"] == ["first", "second"]


# --- Forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_worker_exports_its_own_streams_and_the_master_its_own(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    """As under gunicorn with `--preload`: the master has streamed."""
    app = start_app(
        f"""{BEGIN}
import os, sys
otel_itl.instrument()
stream("master")
if not os.fork():
    stream("worker")
    sys.exit(0)
os.wait()
stream("master")
""",
        receiver=receiver,
        OTEL_METRIC_EXPORT_INTERVAL="50",
    )
    finished = app.wait()
    exports = [outcomes_of(request, receiver) for request in receiver.requests if hasattr(request, "resource_metrics")]
    assert finished.stderr == receiver.setup_notice
    assert sorted(span.name for span in receiver.spans) == ["chat master", "chat master", "chat worker"]
    assert {tuple(export) for export in exports if export} == {("master",), ("worker",)}


def outcomes_of(request: Any, receiver: Receiver) -> list[str]:
    """The requested models of the streams that one export counts."""
    return [
        receiver.plain(point.attributes)["gen_ai.request.model"]
        for part in request.resource_metrics
        for scope in part.scope_metrics
        for metric in scope.metrics
        if metric.name == "itl.client.stream.outcomes"
        for point in metric.sum.data_points
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.parametrize("streams_before", [False, True])
def test_a_forked_worker_may_set_providers_of_its_own(
    streams_before: bool, start_app: Callable[..., App], receiver: Receiver
) -> None:
    before = "stream('worker')" if streams_before else "pass"
    app = start_app(
        f"""{BEGIN}
import os, sys
otel_itl.instrument()
stream("master")
if not os.fork():
    {before}
    set_providers("traces", "metrics", "logs")
    stream("set")
    show()
    sys.exit(0)
os.wait()
""",
        receiver=receiver,
        **LOGGED,
    )
    got, sent, printed = shown(app, receiver)
    assert (printed, got) == ("", {"traces": ["set"], "metrics": {"set": 1}, "logs": ["set"]})
    assert sent["traces"] == ["master", "worker"] if streams_before else ["master"]


# --- What the environment asks for ------------------------------------------------------------------------------------


def test_the_sampler_of_the_environment_is_that_of_our_provider(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    start_app(f"{BEGIN}otel_itl.instrument(); stream('m')", receiver=receiver, OTEL_TRACES_SAMPLER="always_off").wait()
    assert (receiver.spans, outcomes(receiver)) == ([], {"m": 1})


@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("variable", ["OTEL_CONFIG_FILE", "OTEL_PYTHON_CONFIGURATOR"])
def test_what_sets_up_global_providers_is_left_alone_with_one_warning(
    variable: str, has_file: bool, start_app: Callable[..., App], receiver: Receiver, tmp_path: Path
) -> None:
    path = tmp_path / "otel-itl.jsonl"
    app = start_app(
        f"{BEGIN}otel_itl.instrument(); stream('m'); stream('m'); print(type(trace.get_tracer_provider()).__name__)",
        receiver=receiver,
        **{variable: "otel.yaml"},
        **({"OTEL_ITL_FILE": str(path)} if has_file else {}),
    )
    finished = app.wait()
    assert (finished.stdout, finished.stderr.count("\n"), variable in finished.stderr) == (
        "ProxyTracerProvider\n",
        1,
        True,
    )
    assert (receiver.requests, path.exists()) == ([], has_file)
