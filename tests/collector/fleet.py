"""The real programs of a fleet, each in a process of its own on this machine, with the files of `collector/`."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
FILES = ROOT / "collector"
COLLECTOR = FILES / "otelcol-itl"
PATIENCE_SECONDS = 60.0
"""For a program to be ready, or for telemetry to have passed through all of them, on a busy machine."""

SHORTENED = 60
"""So many times shorter than in `rules.yml` is every duration in the tests: an hour is a minute."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIGNALS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


def missing() -> str:
    """Which programs are not on this machine, as the reason to skip a test; '' when all are."""
    absent = [
        name for name in ("prometheus", "promtool", "amtool", "prometheus-alertmanager") if not shutil.which(name)
    ]
    if not COLLECTOR.exists():
        absent.append("collector/otelcol-itl (`make collector` builds it)")
    return "not on this machine: " + ", ".join(absent) if absent else ""


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for something to be true, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.1)
    message = f"{what}: not within {seconds:.0f} s"
    raise TimeoutError(message)


def free_ports(number: int) -> list[int]:
    """Ports that are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def shorten(rules: str) -> str:
    """Rules with every duration divided by `SHORTENED`; nothing else changes."""

    def shorter(found: re.Match[str]) -> str:
        milliseconds = int(found[2]) * _UNITS[found[3]] * 1000 // SHORTENED
        return f"{found[1]}{milliseconds}ms"

    return re.sub(r"(\[|offset |for: |interval: )(\d+)([smhd])\b", shorter, rules)


def get_json(url: str, **query: Any) -> Any:
    """What a program answers to a GET."""
    if query:
        url += "?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


class Program:
    """A program that can be started, stopped, killed, and started again.

    Args:
        name: for its log.
        command: with its arguments.
        folder: where its log and its state are.
        ready: the address that answers 200 when it is up.
        environ: variables beside those of this process; the `OTEL_*` of this process are not passed on.
    """

    def __init__(
        self, name: str, command: list[str], folder: Path, ready: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.log = folder / f"{name}.log"
        self._name = name
        self._command = command
        self._folder = folder
        self._ready = ready
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "ITL_"))}
        self._environ = inherited | dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is up."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environ, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            wait_until(self._is_up, f"{self._name} is up")
        except TimeoutError as error:
            self.stop()
            raise TimeoutError(f"{error}\n{self.log.read_text()[-4000:]}") from None

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has taken so far, on Linux."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it without a chance to save anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _is_up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self._name} has ended:\n{self.log.read_text()[-4000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(self._ready, timeout=5) as response:
            return bool(response.status == 200)
        return False


class Collector(Program):
    """A Collector with configurations of `collector/`.

    Args:
        name: for its log and its queue.
        configurations: file names in `collector/`, the later laid over the earlier.
        folder: where its log and its queue are.
        variables: the `ITL_*` of the configurations, ports left out.
    """

    def __init__(self, name: str, configurations: Iterable[str], folder: Path, variables: Mapping[str, str]) -> None:
        self.grpc_port, self.http_port, health_port, self_port = free_ports(4)
        self.self_url = f"http://127.0.0.1:{self_port}/metrics"
        self.http_url = f"http://127.0.0.1:{self.http_port}"
        environ = {
            "ITL_GRPC_ENDPOINT": f"127.0.0.1:{self.grpc_port}",
            "ITL_HTTP_ENDPOINT": f"127.0.0.1:{self.http_port}",
            "ITL_HEALTH_ENDPOINT": f"127.0.0.1:{health_port}",
            "ITL_SELF_PORT": str(self_port),
            "ITL_QUEUE_DIRECTORY": str(folder / f"{name}-queue"),
        }
        command = [str(COLLECTOR), *(f"--config={FILES / configuration}" for configuration in configurations)]
        super().__init__(name, command, folder, f"http://127.0.0.1:{health_port}", environ | variables)

    def own_metric(self, name: str) -> float:
        """The sum of one of the Collector's own metrics over its labels."""
        with urllib.request.urlopen(self.self_url, timeout=5) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}(_total)?[{{ ]", line))


class Prometheus(Program):
    """Prometheus with `prometheus.yml` and the shortened `rules.yml`."""

    def __init__(self, folder: Path, alertmanager: str) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        configuration = (FILES / "prometheus.yml").read_text()
        configuration = configuration.replace("127.0.0.1:9093", alertmanager).replace(
            "interval: 30s", "interval: 500ms"
        )
        (folder / "prometheus.yml").write_text(configuration)
        (folder / "rules.yml").write_text(shorten((FILES / "rules.yml").read_text()))
        command = [
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=prometheus",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver",
            "--enable-feature=native-histograms,exemplar-storage",
            "--rules.alert.resend-delay=1s",
        ]
        super().__init__("prometheus", command, folder, f"{self.url}/-/ready")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query, now."""
        try:
            return list(get_json(f"{self.url}/api/v1/query", query=expression)["data"]["result"])
        except urllib.error.HTTPError as error:
            raise ValueError(f"{expression}: {error.read().decode()}") from None

    def value(self, expression: str) -> float | None:
        """The only value of an instant query, None where there is none."""
        result = self.query(expression)
        return float(result[0]["value"][1]) if result else None

    def exemplars(self, selector: str) -> list[dict[str, Any]]:
        """The exemplars of the last hour."""
        answer = get_json(
            f"{self.url}/api/v1/query_exemplars", query=selector, start=time.time() - 3600, end=time.time()
        )
        return [exemplar for series in answer["data"] for exemplar in series["exemplars"]]


class Alertmanager(Program):
    """Alertmanager with `alertmanager.yml`, with short waits and a webhook as receiver."""

    def __init__(self, folder: Path, webhook: str) -> None:
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        configuration = (FILES / "alertmanager.yml").read_text().replace("http://127.0.0.1:9095", webhook)
        configuration = re.sub(r"(group_wait|group_interval): \w+", r"\1: 500ms", configuration)
        (folder / "alertmanager.yml").write_text(configuration)
        command = [
            "prometheus-alertmanager",
            "--config.file=alertmanager.yml",
            "--storage.path=alertmanager",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]
        super().__init__("alertmanager", command, folder, f"http://{self.address}/-/ready")


class Listener:
    """An HTTP server that takes POSTs."""

    def __init__(self) -> None:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                listener.take(self.path, body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def take(self, path: str, body: bytes) -> None:
        """Keep what was sent."""
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Backend(Listener):
    """Where the gateways send what they keep, over OTLP/HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: list[tuple[str, Any]] = []

    def take(self, path: str, body: bytes) -> None:
        self._requests.append((path, _SIGNALS[path].FromString(body)))

    def spans(self, service: str) -> list[Any]:
        """The spans of a service, in order of arrival, as often as they came."""
        return [span for part, span in self._each("/v1/traces", "spans") if _service(part) == service]

    def received(self, service: str) -> Counter[bytes]:
        """How often each span of a service came."""
        return Counter(span.span_id for span in self.spans(service))

    def log_events(self, service: str) -> list[str]:
        """The names of the log events of a service."""
        return [record.event_name for part, record in self._each("/v1/logs", "logs") if _service(part) == service]

    def _each(self, path: str, kind: str) -> Iterator[tuple[Any, Any]]:
        member = {"spans": "spans", "logs": "log_records"}[kind]
        for where, request in list(self._requests):
            if where == path:
                for part in getattr(request, f"resource_{kind}"):
                    for scope in getattr(part, f"scope_{kind}"):
                        for each in getattr(scope, member):
                            yield part, each


def _service(part: Any) -> str:
    return next((str(item.value.string_value) for item in part.resource.attributes if item.key == "service.name"), "")


class Webhook(Listener):
    """Receives the notifications of Alertmanager, and keeps each with the Unix time at which it came."""

    def __init__(self) -> None:
        super().__init__()
        self.notified: list[tuple[float, str, dict[str, Any]]] = []

    def take(self, path: str, body: bytes) -> None:
        self.notified += [(time.time(), path, alert) for alert in json.loads(body)["alerts"]]

    def find(self, status: str, since: float = 0.0, **labels: str) -> tuple[float, str, dict[str, Any]] | None:
        """The first telling of an alert with these labels."""
        for moment, path, alert in list(self.notified):
            if moment >= since and alert["status"] == status and labels.items() <= alert["labels"].items():
                return moment, path, alert
        return None


class Certificates:
    """An authority of one's own, with what it signed: `ca.pem`, `gateway.pem`, `agent.pem` and the keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        self._run("req", "-x509", *key, "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem")
        (folder / "san").write_text("subjectAltName=IP:127.0.0.1")
        for name in ("gateway", "agent"):
            self._run("req", *key[:5], "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
            signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san"]
            self._run("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")

    def of(self, name: str) -> dict[str, str]:
        """The variables of who goes by that name."""
        files = {"ITL_TLS_CA": "ca.pem", "ITL_TLS_CERT": f"{name}.pem", "ITL_TLS_KEY": f"{name}.key"}
        return {variable: str(self._folder / file) for variable, file in files.items()}

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)


class Fleet:
    """An agent, two gateways, Prometheus, Alertmanager, a webhook, and what the gateways keep.

    Args:
        folder: an empty one.
        keep_percent: the share of traces that are kept without a reason.
        hold_seconds: how long a gateway holds what it has not kept.
    """

    def __init__(self, folder: Path, keep_percent: float, hold_seconds: int) -> None:
        certificates = Certificates(folder)
        self.backend = Backend()
        self.webhook = Webhook()
        self.alertmanager = Alertmanager(folder, self.webhook.url)
        self.prometheus = Prometheus(folder, self.alertmanager.address)
        variables = certificates.of("gateway") | {
            "ITL_OTLP_URL": self.backend.url,
            "ITL_REMOTE_WRITE_URL": f"{self.prometheus.url}/api/v1/write",
            "ITL_KEEP_PERCENT": str(keep_percent),
            "ITL_HOLD": f"{hold_seconds}s",
            "ITL_SPAN_METRICS_INTERVAL": "1s",
        }
        layers = ("gateway.yaml", "gateway-traces.yaml", "gateway-tls.yaml")
        self.gateways = [Collector(f"gateway-{n}", layers, folder, variables) for n in (1, 2)]
        hosts = ", ".join(f"127.0.0.1:{gateway.grpc_port}" for gateway in self.gateways)
        variables = certificates.of("agent") | {"ITL_GATEWAYS": f"{{static: {{hostnames: [{hosts}]}}}}"}
        self.agent = Collector("agent", ("agent.yaml", "agent-tls.yaml"), folder, variables)
        self._parts: list[Any] = [
            self.backend,
            self.webhook,
            self.alertmanager,
            self.prometheus,
            *self.gateways,
            self.agent,
        ]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for part in self._parts:
                part.start()
                stack.callback(part.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
