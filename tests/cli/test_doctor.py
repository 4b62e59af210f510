"""`otel-itl doctor`, whole: of this environment, and of programs from inside; with a real OTLP receiver."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_itl.cli import main

if TYPE_CHECKING:
    from conftest import Ended, Launch

pytest.importorskip("openai")
pytest.importorskip("rich")

APP = """
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

import openai, otel_itl, wrapt
from openai.resources.chat.completions import Completions

def theirs(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)

theirs.__module__ = "theirtool.patches"
wrapt.wrap_function_wrapper(Completions, "create", theirs)
otel_itl.instrument()

client = openai.OpenAI(http_client=openai.DefaultHttpxClient(verify=False))
asked = [{"role": "user", "content": "hello"}]
for chunk in client.chat.completions.create(model="gpt-4o", messages=asked, stream=True):
    pass
print("its output", sys.argv[1:])
sys.exit(5)
"""
STREAM = """
import openai

client = openai.OpenAI(http_client=openai.DefaultHttpxClient(verify=False))
asked = [{"role": "user", "content": "hello"}]
for chunk in client.chat.completions.create(model="gpt-4o", messages=asked, stream=True):
    pass
"""
COMMAND = (sys.executable, "-m", "otel_itl")
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")


class Receiver:
    """Takes traces; has no room for logs; keeps what arrived."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.keep(self.path, body)
                self.send_response(404 if self.path == "/v1/logs" else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_LOGS_EXPORTER": "none",
        }

    def keep(self, path: str, body: bytes) -> None:
        """Decode a request and keep what it has."""
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric.name for scope in resource.scope_metrics for metric in scope.metrics]

    def span(self, name: str) -> Any:
        """Return the one span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, Receiver]]:
    """One for each process."""
    started = {name: Receiver() for name in ("here", "app", "launcher")}
    threads = [threading.Thread(target=one.server.serve_forever, args=(0.01,)) for one in started.values()]
    for thread in threads:
        thread.start()
    yield started
    for one, thread in zip(started.values(), threads, strict=True):
        one.server.shutdown()
        thread.join()
        one.server.server_close()


@pytest.fixture(scope="module")
def ended(launch: Launch, receivers: dict[str, Receiver]) -> dict[str, Ended]:
    """Every examination of this page, at once."""
    variables = {name: receiver.variables for name, receiver in receivers.items()}
    launched = {
        "here": launch("doctor", "--json", OTEL_ITL_SDKS="openai", **variables["here"]),  # the others take seconds
        "app": launch("doctor", "--json", "app.py", "--verbose", files={"app.py": APP}, **variables["app"]),
        "launcher": launch(
            *("doctor", "--json", str(LAUNCHER), sys.executable, "app.py"),
            files={"app.py": STREAM},
            OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="httpx,requests,urllib3,openai",
            **variables["launcher"],
        ),
        "run": launch(*("doctor", "--json", *COMMAND, "run", "app.py"), files={"app.py": STREAM}),
        "refused": launch(
            *("doctor", "app.py"),
            files={"app.py": "print('nothing')"},
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        ),
    }
    return {name: process.end() for name, process in launched.items()}


@pytest.fixture(scope="module")
def found(ended: dict[str, Ended]) -> dict[str, dict[str, Any]]:
    """The JSON of those that print JSON."""
    return {name: json.loads(each.stdout) for name, each in ended.items() if name != "refused"}


def findings(report: dict[str, Any], topic: str, name: str) -> str:
    """The findings under a topic and a name, in one text."""
    found = [one["finding"] for one in report["checks"] if (one["topic"], one["name"]) == (topic, name)]
    return " | ".join(found)


def wrong(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["topic"], one["name"]) for one in report["checks"] if one["state"] == "wrong"]


# --- This environment -------------------------------------------------------------------------------------------------


def test_an_environment_that_is_fine_is_exit_code_0(ended: dict[str, Ended], found: dict[str, Any]) -> None:
    assert (wrong(found["here"]), found["here"]["is_fine"], ended["here"].exit_code) == ([], True, 0)


def test_the_scripted_stream_arrives_marked_under_the_trace_that_is_named(
    found: dict[str, Any], receivers: dict[str, Receiver]
) -> None:
    span = receivers["here"].span("chat otel-itl-doctor")
    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert (span.trace_id.hex(), attributes["itl.test"].bool_value) == (found["here"]["trace_id"], True)


def test_the_scripted_stream_is_in_no_metric(ended: dict[str, Ended], receivers: dict[str, Receiver]) -> None:
    assert ended["here"].exit_code == 0
    assert [name for name in receivers["here"].metrics if name.startswith(("itl.client", "gen_ai"))] == []


def test_each_installed_sdk_is_hooked(found: dict[str, Any]) -> None:
    assert findings(found["here"], "SDKs", "openai").endswith(" is hooked")


def test_endpoints_that_accept_are_named(found: dict[str, Any], receivers: dict[str, Receiver]) -> None:
    url = receivers["here"].url
    assert findings(found["here"], "endpoints", "traces") == f"{url}/v1/traces (http/protobuf) accepts them"


# --- A program from inside --------------------------------------------------------------------------------------------


def test_the_providers_of_the_application_are_named(found: dict[str, Any], receivers: dict[str, Receiver]) -> None:
    assert findings(found["app"], "providers", "traces") == (
        f"opentelemetry.TracerProvider, set by the application; OTLPSpanExporter to {receivers['app'].url}/v1/traces"
    )
    assert findings(found["app"], "providers", "metrics") == "no provider is set: this signal is not made"


def test_a_program_of_otel_itl_run_is_measured_without_the_doctor(
    found: dict[str, Any], ended: dict[str, Ended]
) -> None:
    assert findings(found["run"], "program", "start") == "otel-itl run starts measuring in it"
    assert (wrong(found["run"]), ended["run"].exit_code) == ([], 0)


def test_the_report_of_otel_itl_run_is_printed_as_without_the_doctor(ended: dict[str, Ended]) -> None:
    assert "telemetry: otel-itl.jsonl" in ended["run"].stderr


def test_who_else_wraps_an_sdk_is_named(found: dict[str, Any]) -> None:
    assert "is also wrapped by theirtool.patches: Completions.create" in findings(found["app"], "SDKs", "openai")


def test_the_scripted_stream_takes_the_applications_way(found: dict[str, Any], receivers: dict[str, Receiver]) -> None:
    names = sorted(span.name for span in receivers["app"].spans)
    span = receivers["app"].span("chat otel-itl-doctor")
    assert (names, span.trace_id.hex()) == (["chat gpt-4o", "chat otel-itl-doctor"], found["app"]["trace_id"])


def test_the_programs_output_is_kept_apart_and_its_end_is_reported(
    ended: dict[str, Ended], found: dict[str, Any]
) -> None:
    assert "its output ['--verbose']" in ended["app"].stderr
    assert findings(found["app"], "program", "end") == "ended with exit code 5"
    assert (wrong(found["app"]), ended["app"].exit_code) == ([], 0)


@pytest.mark.skipif(not LAUNCHER.exists(), reason="there is no opentelemetry-instrument beside this Python")
def test_a_missing_distro_is_found_under_opentelemetry_instrument(found: dict[str, Any]) -> None:
    assert ("providers", "distro") in wrong(found["launcher"])
    assert findings(found["launcher"], "streams", "made") == "1 stream measured when this was written"


def test_a_program_without_a_stream_is_not_fine_and_the_remedies_are_printed(ended: dict[str, Ended]) -> None:
    printed = ended["refused"].stdout.decode()
    assert ended["refused"].exit_code == 1
    assert "the program has imported no supported SDK" in printed
    assert printed.endswith("1 thing is not fine\n")


def test_a_program_that_cannot_be_started_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "missing.py"]) == 2
    assert capsys.readouterr().err == "otel-itl doctor: missing.py does not exist.\n"
