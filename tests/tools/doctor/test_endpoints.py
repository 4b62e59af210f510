"""What the doctor finds at real endpoints, with the real OTLP exporters."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from otel_itl.tools.doctor import endpoint
from otel_itl.tools.doctor.endpoint import describe_outlet
from otel_itl.tools.doctor.facts import ExporterFacts


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT", 0.5)


@pytest.fixture
def http_server() -> Iterator[Callable[[int], str]]:
    """Start a server that answers every request with a status; it keeps what was sent in `received`."""
    started = []

    def start(status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                is_authorized = self.headers.get("authorization") == "Bearer key"
                self.send_response(200 if is_authorized else status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        started.append((server, thread := threading.Thread(target=server.serve_forever, args=(0.01,))))
        thread.start()
        return f"http://127.0.0.1:{server.server_port}/v1/traces"

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that listens, and whose connections nobody serves."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def grpc_endpoint() -> Iterator[str]:
    """A gRPC server that takes traces alone, and only with a key."""

    class Servicer(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
            if ("authorization", "Bearer key") not in context.invocation_metadata():
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no key")
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(grace=0).wait()


def found_with(exporter: Any, signal: str = "traces") -> tuple[str | None, bool, str | None]:
    """Return status, acceptance and problem that are found with an exporter."""
    facts: ExporterFacts = describe_outlet(exporter, signal, {})
    exporter.shutdown()
    return facts.status, facts.is_accepted, facts.problem


@pytest.mark.parametrize(
    ("kind", "signal"), [(OTLPSpanExporter, "traces"), (OTLPMetricExporter, "metrics"), (OTLPLogExporter, "logs")]
)
def test_an_endpoint_over_http_accepts(http_server: Callable[[int], str], kind: Any, signal: str) -> None:
    assert found_with(kind(endpoint=http_server(200)), signal) == ("200", True, None)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 413, 415, 429, 503])
def test_a_refusal_over_http_is_its_status(http_server: Callable[[int], str], status: int) -> None:
    assert found_with(OTLPSpanExporter(endpoint=http_server(status))) == (str(status), False, None)


def test_the_headers_of_the_exporter_are_sent(http_server: Callable[[int], str]) -> None:
    exporter = OTLPSpanExporter(endpoint=http_server(401), headers={"authorization": "Bearer key"})
    assert found_with(exporter) == ("200", True, None)


def test_an_exporter_that_was_shut_down_is_asked_all_the_same(
    http_server: Callable[[int], str], grpc_endpoint: str
) -> None:
    over_http = OTLPSpanExporter(endpoint=http_server(200))
    over_grpc = GrpcSpanExporter(endpoint=grpc_endpoint, headers={"authorization": "Bearer key"})
    over_http.shutdown()
    over_grpc.shutdown()
    assert [describe_outlet(one, "traces", {}).is_accepted for one in (over_http, over_grpc)] == [True, True]


def test_an_endpoint_over_grpc_accepts(grpc_endpoint: str) -> None:
    exporter = GrpcSpanExporter(endpoint=grpc_endpoint, headers={"authorization": "Bearer key"})
    assert found_with(exporter) == ("OK", True, None)


def test_a_refusal_over_grpc_is_the_name_of_its_status(grpc_endpoint: str) -> None:
    traces, metrics = GrpcSpanExporter(endpoint=grpc_endpoint), GrpcMetricExporter(endpoint=grpc_endpoint)
    assert found_with(traces) == ("UNAUTHENTICATED", False, None)
    assert found_with(metrics, "metrics") == ("UNIMPLEMENTED", False, None)


@pytest.mark.parametrize("kind", [OTLPSpanExporter, GrpcSpanExporter])
def test_a_closed_port_refuses(kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert found_with(kind(endpoint=f"http://127.0.0.1:{port}"))[1:] == (False, "refused")


@pytest.mark.parametrize("kind", [OTLPSpanExporter, GrpcSpanExporter])
def test_an_endpoint_that_never_answers_is_a_timeout(kind: Any, listener: socket.socket) -> None:
    assert found_with(kind(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}"))[1:] == (False, "timeout")


def test_a_host_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert found_with(OTLPSpanExporter(endpoint="http://collector.invalid:4318"))[1:] == (False, "dns")


def test_grpc_at_a_port_for_http_is_a_wrong_protocol(http_server: Callable[[int], str]) -> None:
    exporter = GrpcSpanExporter(endpoint=http_server(200).removesuffix("/v1/traces"))
    assert found_with(exporter)[1:] in {(False, "closed"), (False, "timeout")}


def test_http_at_a_port_for_grpc_is_a_wrong_protocol(grpc_endpoint: str) -> None:
    assert found_with(OTLPSpanExporter(endpoint=grpc_endpoint))[1:] == (False, "closed")


@pytest.mark.parametrize("kind", [OTLPSpanExporter, GrpcSpanExporter])
def test_an_endpoint_without_tls_fails_the_handshake(kind: Any, http_server: Callable[[int], str]) -> None:
    exporter = kind(endpoint=http_server(200).removesuffix("/v1/traces").replace("http:", "https:"))
    assert found_with(exporter)[1:] == (False, "tls")
