"""Where we set up the SDK: an endpoint that refuses connections, and a backend that takes traces alone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from otel_itl.testing import ScriptedServer, chat

if TYPE_CHECKING:
    from conftest import App, Receiver

PROTOCOLS = ["grpc", "http/protobuf"]
README = Path(__file__).parents[2] / "README.md"

STREAM = """
import otel_itl

otel_itl.instrument()

def stream():
    return list(otel_itl.observe(iter("abc"), provider="test", model="m"))

"""
ENDS = """
import time
print("", time.time(), flush=True)
"""
"""Prints when the program's own code ends."""
QUIET = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address that refuses connections: its port is taken, and not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def readme_snippet() -> str:
    """The README's first program: the one line, and a stream of the openai SDK."""
    blocks = README.read_text(encoding="utf-8").split("```python\n")
    one_line, program = (block.partition("```")[0] for block in blocks[1:3])
    assert "instrument()" in one_line
    assert "stream=True" in program
    return one_line + program


def refusal(endpoint: str) -> str:
    """The one sentence of an endpoint that refuses connections."""
    return (
        f"Telemetry is not delivered, as {endpoint} does not accept connections (Connection refused): set "
        "OTEL_EXPORTER_OTLP_ENDPOINT to an endpoint that does, or OTEL_ITL_FILE to a path, to have the telemetry in a "
        "file instead (`otel-itl run` does that).\n"
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_program_of_the_readme_ends_within_a_second_with_one_sentence(
    protocol: str, start_app: Callable[..., App], refusing: str
) -> None:
    def end_of(server: ScriptedServer, **variables: str) -> tuple[float, str]:
        """The seconds from the end of the program's code to the end of its process, and what it printed as errors."""
        finished = start_app(readme_snippet() + ENDS, server, **variables).wait()
        return time.time() - float(finished.stdout.split()[-1]), finished.stderr

    exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": refusing, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    added = []
    with ScriptedServer() as server:
        server.always(chat.reply(5), model="gpt-5-mini")
        # The exporters' own retries take ten seconds a signal. A busy machine only adds to a run: the best one counts,
        # without what the interpreter takes for its own end.
        for _ in range(3):
            seconds, printed = end_of(server, **exporting)
            added.append(seconds - end_of(server, **QUIET)[0])
            assert printed == refusal(refusing)
            if added[-1] < 1.0:
                break
    assert min(added) < 1.0


def test_with_a_file_the_other_way_out_is_not_to_send(
    start_app: Callable[..., App], refusing: str, tmp_path: Path
) -> None:
    path = tmp_path / "otel-itl.jsonl"
    finished = start_app(
        f"{STREAM}stream()",
        OTEL_ITL_FILE=str(path),
        OTEL_EXPORTER_OTLP_ENDPOINT=refusing,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    ).wait()
    assert finished.stderr.endswith(
        "set OTEL_EXPORTER_OTLP_ENDPOINT to an endpoint that does, or OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and "
        f"OTEL_LOGS_EXPORTER to none; {path} is written anyway.\n"
    )
    assert '"name":"chat m"' in path.read_text()


def test_a_flush_does_not_wait_for_an_endpoint_that_refuses(start_app: Callable[..., App], refusing: str) -> None:
    app = start_app(
        f"""{STREAM}
import time
stream()
started = time.monotonic()
print(otel_itl.flush(10), time.monotonic() - started < 1)
""",
        OTEL_EXPORTER_OTLP_ENDPOINT=refusing,
    )
    assert app.wait().stdout == "True True\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_when_a_collector_starts_later_the_spans_from_before_arrive_as_well(
    protocol: str, start_app: Callable[..., App], receivers: Callable[[str], Receiver]
) -> None:
    later = receivers(protocol)
    app = start_app(
        f"""{STREAM}
import socket

# Until the collector is there, its port refuses connections.
connect = socket.create_connection

def refuse(*_, **__):
    raise ConnectionRefusedError(111, "Connection refused")

socket.create_connection = refuse
stream()
otel_itl.flush(10)
socket.create_connection = connect
stream()
""",
        receiver=later,
        OTEL_METRICS_EXPORTER="none",
    )
    finished = app.wait()
    assert [span.name for span in later.spans] == ["chat m", "chat m"]
    assert len(finished.stderr.splitlines()) == 2  # it refused, and then where the telemetry goes


# --- A backend that takes traces alone -------------------------------------------------------------------------------


class TracesOverHttp:
    """An OTLP backend that answers anything but traces with a status."""

    def __init__(self, status: int) -> None:
        self.spans = 0
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                is_traces = self.path == "/v1/traces"
                backend.spans += is_traces
                self.send_response(200 if is_traces else status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class TracesOverGrpc:
    """An OTLP backend without any service but that of traces."""

    def __init__(self) -> None:
        self.spans = 0
        backend = self

        class Servicer(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc, name-defined]
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
                backend.spans += 1
                return trace_service_pb2.ExportTraceServiceResponse()

        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), self._server)
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=0).wait()


@pytest.mark.parametrize(("protocol", "status"), [("http/protobuf", 404), ("http/protobuf", 405), ("grpc", None)])
def test_a_backend_that_takes_traces_alone_is_reported_once_for_each_other_signal(
    protocol: str, status: int | None, start_app: Callable[..., App]
) -> None:
    backend = TracesOverGrpc() if status is None else TracesOverHttp(status)
    app = start_app(
        f"""{STREAM}
import warnings
import opentelemetry.sdk._logs
warnings.simplefilter("ignore")  # old releases of the SDK warn of log records that they make themselves
for _ in range(3):
    stream()
    otel_itl.flush(10)
""",
        OTEL_ITL_TOKEN_EVENTS="log",
        OTEL_EXPORTER_OTLP_ENDPOINT=backend.url,
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
    )
    finished = app.wait()
    backend.stop()
    shown = status or "UNIMPLEMENTED"
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("No OpenTelemetry provider was set")]
    assert sorted(lines) == sorted(
        f"{backend.url} does not take {signal} ({shown}): OTEL_{signal.upper()}_EXPORTER=none keeps them from "
        "being sent."
        for signal in ("metrics", "logs")
    )
    assert backend.spans == 3


# --- A line for each stream ------------------------------------------------------------------------------------------


def test_a_summary_is_a_line_on_the_standard_error_for_each_stream(start_app: Callable[..., App]) -> None:
    finished = start_app(
        f"{STREAM}print(stream())\nleft = otel_itl.observe(iter('abc'), provider='test', model='left')\nnext(left)",
        OTEL_ITL_SUMMARY="1",
        **QUIET,
    ).wait()
    lines = [line.split("  ") for line in finished.stderr.splitlines()]
    assert finished.stdout == "['a', 'b', 'c']\n"
    assert [(line[0], line[1], line[-2], line[-1]) for line in lines] == [
        ("otel_itl", "m", "0 stalls", "completed"),
        ("otel_itl", "left", "0 stalls", "abandoned"),
    ]


def test_a_standard_error_that_is_closed_or_full_keeps_no_application_from_ending(
    start_app: Callable[..., App],
) -> None:
    full = """
import os, sys
reading, writing = os.pipe()
os.set_blocking(writing, False)
while True:
    try:
        os.write(writing, b"x" * 65536)
    except BlockingIOError:
        break
os.set_blocking(writing, True)
sys.stderr = os.fdopen(writing, "w")  # whoever writes to it waits for ever
"""
    programs = {"closed": "import sys\nsys.stderr.close()\n", "full": full}
    started = [
        start_app(f"{program}{STREAM}print(len([stream() for _ in range(50)]))", OTEL_ITL_SUMMARY="1", **QUIET)
        for program in programs.values()
    ]
    assert [app.wait().stdout for app in started] == ["50\n", "50\n"]
