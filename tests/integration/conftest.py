"""Real OTLP receivers, applications in processes of their own, and real clients pointed at a scripted server."""

from __future__ import annotations

import gzip
import importlib.metadata
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, captured_telemetry

__all__ = ["captured_telemetry"]

ROOT = Path(__file__).parents[2]
ASKED = [{"role": "user", "content": "hello"}]
PATIENCE_SECONDS = 30
"""For an application in a process of its own: a busy machine takes long to import an SDK."""


def plain(attributes: Any) -> dict[str, Any]:
    """OTLP attributes as Python values; arrays as tuples, as the SDK has them."""
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(member) for member in value.array_value.values)
    return None if kind is None else getattr(value, kind)


def _points(metric: Any, model: str | None) -> list[Any]:
    points = getattr(metric, metric.WhichOneof("data")).data_points
    return [point for point in points if model in {None, plain(point.attributes).get("gen_ai.request.model")}]


class Receiver:
    """What arrived over OTLP, decoded. `url` goes into `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    url: str
    protocol: str

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.encodings: set[str] = set()
        self.plain = plain

    @property
    def setup_notice(self) -> str:
        """The line that an application without providers prints, once: where its telemetry goes."""
        exporter = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}[self.protocol]
        to = ", ".join(f"{signal}: {exporter} {self.url}" for signal in ("traces", "metrics", "logs"))
        return (
            "No OpenTelemetry provider was set: otel_itl exports its own telemetry as the OTEL_* environment has it "
            f"({to}).\n"
        )

    @property
    def raw(self) -> bytes:
        """All that arrived, as protobuf bytes."""
        return b"".join(request.SerializeToString() for request in self.requests)

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The resource of every piece that arrived."""
        return [plain(part.resource.attributes) for part in self._parts("spans", "metrics", "logs")]

    @property
    def scopes(self) -> dict[str, set[tuple[str, str, str]]]:
        """Name, version and schema URL of the instrumentation scopes that arrived, by signal."""
        return {
            kind: {
                (scope.scope.name, scope.scope.version, scope.schema_url)
                for part in self._parts(kind)
                for scope in getattr(part, f"scope_{kind}")
            }
            for kind in ("spans", "metrics", "logs")
        }

    @property
    def spans(self) -> list[Any]:
        """The spans, in order of arrival."""
        return [span for part in self._parts("spans") for scope in part.scope_spans for span in scope.spans]

    @property
    def logs(self) -> list[Any]:
        """The log records, in order of arrival."""
        return [record for part in self._parts("logs") for scope in part.scope_logs for record in scope.log_records]

    @property
    def metrics(self) -> dict[str, Any]:
        """By name, each metric as it arrived last: cumulative, of one process."""
        return {metric.name: metric for metric in self._metrics()}

    def points(self, name: str, model: str | None = None) -> list[Any]:
        """The data points of a metric, those of one requested model or all, as they arrived last."""
        return _points(self.metrics[name], model)

    def exemplars(self, name: str, model: str | None = None) -> list[Any]:
        """The exemplars of a metric: each is in one export only."""
        metrics = (metric for metric in self._metrics() if metric.name == name)
        return [exemplar for metric in metrics for point in _points(metric, model) for exemplar in point.exemplars]

    def span_events(self, span: Any) -> list[tuple[str, int, dict[str, Any]]]:
        """The events of a span, as `otel_itl.core.decoding.decode` takes them."""
        return [(event.name, event.time_unix_nano, plain(event.attributes)) for event in span.events]

    def log_events(self) -> list[tuple[str, int, dict[str, Any]]]:
        """The log events, as `otel_itl.core.decoding.decode` takes them."""
        return [(record.event_name, record.time_unix_nano, plain(record.attributes)) for record in self.logs]

    def _metrics(self) -> Iterator[Any]:
        return (metric for part in self._parts("metrics") for scope in part.scope_metrics for metric in scope.metrics)

    def _parts(self, *kinds: str) -> list[Any]:
        return [
            part
            for request in list(self.requests)
            for kind in kinds
            if hasattr(request, f"resource_{kind}")
            for part in getattr(request, f"resource_{kind}")
        ]


_HTTP_PATHS = {
    "/v1/traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
    "/v1/metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
    "/v1/logs": (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse),
}


class HttpReceiver(Receiver):
    """OTLP over HTTP, protobuf, plain or gzipped."""

    protocol = "http/protobuf"

    def __init__(self) -> None:
        super().__init__()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                encoding = self.headers.get("content-encoding", "identity")
                asked, answered = _HTTP_PATHS[self.path]
                receiver.encodings.add(encoding)
                receiver.requests.append(asked.FromString(gzip.decompress(body) if encoding == "gzip" else body))
                answer = answered().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class GrpcReceiver(Receiver):
    """OTLP over gRPC."""

    protocol = "grpc"

    def __init__(self) -> None:
        super().__init__()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4))
        for add, servicer, response in (
            (
                trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
                trace_service_pb2_grpc.TraceServiceServicer,
                trace_service_pb2.ExportTraceServiceResponse,
            ),
            (
                metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
                metrics_service_pb2_grpc.MetricsServiceServicer,
                metrics_service_pb2.ExportMetricsServiceResponse,
            ),
            (
                logs_service_pb2_grpc.add_LogsServiceServicer_to_server,
                logs_service_pb2_grpc.LogsServiceServicer,
                logs_service_pb2.ExportLogsServiceResponse,
            ),
        ):
            add(self._servicer(servicer, response), self._server)
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _servicer(self, base: type, response: Callable[[], Any]) -> Any:
        receiver = self

        class Servicer(base):  # type: ignore[misc]
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
                receiver.requests.append(request)
                return response()

        return Servicer()

    def stop(self) -> None:
        self._server.stop(grace=0).wait()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    running = HttpReceiver()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def receivers() -> Iterator[Callable[[str], Receiver]]:
    """Make receivers of a protocol, `http/protobuf` or `grpc`; they run until the session ends."""
    started: list[HttpReceiver | GrpcReceiver] = []

    def make(protocol: str = "http/protobuf") -> Receiver:
        started.append(GrpcReceiver() if protocol == "grpc" else HttpReceiver())
        return started[-1]

    yield make
    for running in started:
        running.stop()


@dataclass(frozen=True)
class Finished:
    """An application that has exited."""

    returncode: int
    stdout: str
    stderr: str


class App:
    """A Python program that runs in a process of its own, in a clean environment."""

    def __init__(self, command: list[str], environ: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command, env=environ, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self) -> Finished:
        """Wait for its end, which is to be a good one."""
        try:
            stdout, stderr = self._process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            self._process.kill()
        assert self._process.returncode == 0, stdout + stderr
        return Finished(self._process.returncode, stdout, stderr)


@pytest.fixture(scope="session")
def start_app(tmp_path_factory: pytest.TempPathFactory, distribution_path: str) -> Callable[..., App]:
    """Start a program, given as its source or its path.

    It finds the scripted server and the receiver that are given by the environment, as an application would.
    Keywords are further environment variables. `launcher` goes before the program, in place of `python`.
    """

    def start(
        program: str | Path,
        server: ScriptedServer | None = None,
        receiver: Receiver | None = None,
        launcher: tuple[str, ...] = (sys.executable,),
        **variables: str,
    ) -> App:
        folder = tmp_path_factory.mktemp("app")
        if isinstance(program, str):
            (folder / "app.py").write_text(textwrap.dedent(program))
            program = folder / "app.py"
        foreign = ("OTEL_", "OPENAI_", "ANTHROPIC_", "PYTHON")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), distribution_path)))
        if server is not None:
            environ |= {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "none"}
            environ |= {"ANTHROPIC_BASE_URL": server.anthropic_url, "ANTHROPIC_API_KEY": "none"}
        if receiver is not None:
            environ |= {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                "OTEL_EXPORTER_OTLP_PROTOCOL": receiver.protocol,
                "OTEL_METRIC_EXPORT_INTERVAL": "250",
            }
        return App([*launcher, str(program)], environ | variables, folder)

    return start


@pytest.fixture(scope="session")
def distribution_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the distribution's metadata for who runs the tests from a checkout that is not installed, or ''."""
    try:
        importlib.metadata.distribution("otel-itl")
    except importlib.metadata.PackageNotFoundError:
        tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        folder = tmp_path_factory.mktemp("distribution")
        info = folder / f"otel_itl-{project['version']}.dist-info"
        info.mkdir()
        requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in project["dependencies"])
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{requires}"
        )
        groups = (
            (group, "".join(f"{k} = {v}\n" for k, v in made.items())) for group, made in project["entry-points"].items()
        )
        (info / "entry_points.txt").write_text("".join(f"[{group}]\n{entries}" for group, entries in groups))
        return str(folder)
    return ""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@dataclass(frozen=True)
class Exported:
    """Providers whose telemetry goes through the real OTLP exporters to a receiver, when `flush` is called."""

    receiver: Receiver
    tracer_provider: Any
    meter_provider: Any
    logger_provider: Any

    @property
    def providers(self) -> dict[str, Any]:
        """As `otel_itl.instrument()` takes them."""
        return {name: getattr(self, name) for name in ("tracer_provider", "meter_provider", "logger_provider")}

    def flush(self) -> Receiver:
        """Export what is to be exported, and return where it arrived."""
        for provider in self.providers.values():
            provider.force_flush()
        return self.receiver


@pytest.fixture
def exported(receiver: HttpReceiver) -> Iterator[Exported]:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    def to(signal: str) -> dict[str, Any]:
        return {"endpoint": f"{receiver.url}/v1/{signal}", "compression": Compression.Gzip}

    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(**to("traces"))))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(**to("metrics")), export_interval_millis=60_000)
    meter_provider = MeterProvider([reader], shutdown_on_exit=False)
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(**to("logs"))))
    made = Exported(receiver, tracer_provider, meter_provider, logger_provider)
    yield made
    otel_itl.uninstrument()
    for provider in made.providers.values():
        provider.shutdown()


Instrument = Callable[..., None]


@pytest.fixture
def instrument(captured_telemetry: CapturedTelemetry) -> Iterator[Instrument]:
    """`otel_itl.instrument()` with the captured telemetry's providers, undone when the test ends."""

    def call(**options: Any) -> None:
        providers = {
            "tracer_provider": captured_telemetry.tracer_provider,
            "meter_provider": captured_telemetry.meter_provider,
            "logger_provider": captured_telemetry.logger_provider,
        }
        otel_itl.instrument(**{**providers, **options})

    yield call
    otel_itl.uninstrument()


class HookedFunctions:
    """The functions of the SDKs that the hooks of openai and anthropic change."""

    def __init__(self) -> None:
        import anthropic._streaming
        import openai._base_client
        import openai._streaming

        self._places = [
            (openai._base_client.SyncAPIClient, "request"),
            (openai._base_client.AsyncAPIClient, "request"),
            (openai._streaming.Stream, "__stream__"),
            (openai._streaming.AsyncStream, "__stream__"),
            (openai._streaming.Stream, "_iter_events"),
            (openai._streaming.AsyncStream, "_iter_events"),
            (anthropic._streaming.Stream, "__stream__"),
            (anthropic._streaming.AsyncStream, "__stream__"),
        ]
        self._found = [vars(owner)[name] for owner, name in self._places]

    @property
    def state(self) -> list[tuple[int, int]]:
        """Which functions there are, and what code they have: a hook goes around a function, or into it."""
        functions = [vars(owner)[name] for owner, name in self._places]
        return [(id(function), id(function.__code__)) for function in functions]

    def put_back(self) -> None:
        """Put the functions back that were there when this was made."""
        for (owner, name), function in zip(self._places, self._found, strict=True):
            setattr(owner, name, function)


@pytest.fixture
def hooked_functions() -> HookedFunctions:
    return HookedFunctions()


class Clients:
    """Real clients of the scripted server, and the plainest stream of each. The sync ones are closed after the test."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._options: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 5.0}
        self._made: list[Any] = []

    def openai(self, **options: Any) -> Any:
        import openai

        return self._closed_later(openai.OpenAI, openai.DefaultHttpxClient, self._server.openai_url, options)

    def async_openai(self, **options: Any) -> Any:
        import openai

        return self._client(openai.AsyncOpenAI, openai.DefaultAsyncHttpxClient, self._server.openai_url, options)

    def anthropic(self, **options: Any) -> Any:
        import anthropic

        return self._closed_later(
            anthropic.Anthropic, anthropic.DefaultHttpxClient, self._server.anthropic_url, options
        )

    def async_anthropic(self, **options: Any) -> Any:
        import anthropic

        return self._client(
            anthropic.AsyncAnthropic, anthropic.DefaultAsyncHttpxClient, self._server.anthropic_url, options
        )

    def chat(self, client: Any = None, *, model: str = "gpt-4o", **options: Any) -> list[Any]:
        """Stream a chat completion to its end."""
        client = client or self.openai()
        return list(client.chat.completions.create(model=model, messages=ASKED, stream=True, **options))

    def messages(self, client: Any = None, *, model: str = "claude-opus", **options: Any) -> list[Any]:
        """Stream a message to its end."""
        client = client or self.anthropic()
        return list(client.messages.create(model=model, max_tokens=9, messages=ASKED, stream=True, **options))

    def close(self) -> None:
        for client in self._made:
            client.close()

    def _client(self, kind: Any, http_client: Any, url: str, options: dict[str, Any]) -> Any:
        # `verify=False` loads no certificates: that takes longer than most tests, for no TLS.
        return kind(base_url=url, http_client=http_client(verify=False), **{**self._options, **options})

    def _closed_later(self, *arguments: Any) -> Any:
        self._made.append(self._client(*arguments))
        return self._made[-1]


@pytest.fixture
def clients(server: ScriptedServer) -> Iterator[Clients]:
    made = Clients(server)
    yield made
    made.close()
