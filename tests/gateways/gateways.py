"""The real gateways in front of a scripted server, each in a process of its own, and a receiver of their spans."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_itl.testing import ScriptedServer

PATIENCE_SECONDS: Final = 200.0
"""For a gateway to be ready: LiteLLM takes 10 s on an idle machine."""
KEY: Final = "sk-0123456789abcdef0123456789abcdef"
"""The key of docs/gateways.md."""
PAGE: Final = (Path(__file__).parents[2] / "docs" / "gateways.md").read_text(encoding="utf-8")
NGINX_CONFIG: Final = """
daemon off; worker_processes 1; pid pid; error_log error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  gzip_types text/event-stream; gzip_proxied any;
  server {{
    listen 127.0.0.1:{port};
    location /chunked/ {{ proxy_pass {upstream}/; proxy_http_version 1.1; }}
    # What the hop above asks for in HTTP/1.0 has no chunks and no length: it ends with its connection.
    location /hop/ {{ proxy_pass {upstream}/; proxy_http_version 1.1; proxy_buffering off; }}
    location /buffered/ {{ proxy_pass http://127.0.0.1:{port}/hop/; proxy_http_version 1.0; }}
    location /unbuffered/ {{ proxy_pass http://127.0.0.1:{port}/hop/; proxy_http_version 1.0; proxy_buffering off; }}
    location /compressed/ {{ proxy_pass {upstream}/; proxy_http_version 1.1; gzip on; }}
    location /compressed-unbuffered/ {{
      proxy_pass {upstream}/; proxy_http_version 1.1; gzip on; proxy_buffering off;
    }}
  }}
}}
"""
HAS_NGINX: Final = shutil.which("nginx") is not None or Path("/usr/sbin/nginx").exists()


@dataclass(frozen=True)
class ExportedSpan:
    """A span as it was exported: ids in hex, '' without a parent."""

    service: str
    scope: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]


class SpanReceiver:
    """An OTLP receiver of spans; `url` goes into `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    def __init__(self) -> None:
        requests: list[ExportTraceServiceRequest] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._requests = requests
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def spans(self) -> list[ExportedSpan]:
        """The spans that have arrived."""
        return [
            _read_span(_plain(part.resource.attributes)["service.name"], scope.scope.name, span)
            for request in list(self._requests)
            for part in request.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        ]

    def wait_for_spans(self, service: str, name: str, count: int) -> dict[str, ExportedSpan]:
        """The spans of that service and name by their trace id, as soon as there are that many."""
        until = time.monotonic() + PATIENCE_SECONDS
        while len(found := [span for span in self.spans() if (span.service, span.name) == (service, name)]) < count:
            assert time.monotonic() < until, f"{len(found)} spans {name!r} of {service} arrived, not {count}"
            time.sleep(0.05)
        return {span.trace_id: span for span in found}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _read_span(service: str, scope: str, span: Any) -> ExportedSpan:
    return ExportedSpan(
        service=service,
        scope=scope,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes=_plain(span.attributes),
    )


def _plain(attributes: Any) -> dict[str, Any]:
    def value_of(value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return [value_of(member) for member in value.array_value.values]
        return getattr(value, kind)

    return {attribute.key: value_of(attribute.value) for attribute in attributes}


def blocks(language: str) -> list[str]:
    """The fenced blocks of docs/gateways.md in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def environment(receiver: SpanReceiver, service: str, **more: str) -> dict[str, str]:
    """The environment of a program that exports to the receiver; it finds the programs of this Python first."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "OPENAI_", "ANTHROPIC_"))
    }
    return kept | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", ""))),
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        **more,
    }


@contextmanager
def litellm_proxy(folder: Path, server: ScriptedServer, receiver: SpanReceiver) -> Iterator[str]:
    """Run LiteLLM's proxy as docs/gateways.md has it, in front of a server; yields its URL as soon as it answers."""
    if not (Path(sys.executable).parent / "litellm").exists():
        pytest.skip("litellm[proxy] is not installed")
    port = free_port()
    (folder / "config.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    variables = environment(
        receiver,
        "gateway",
        LITELLM_MASTER_KEY=KEY,
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # the prices of models are not fetched
        OPENAI_BASE_URL=server.openai_url,
        OPENAI_API_KEY="none",
        ANTHROPIC_API_BASE=server.anthropic_url,
        ANTHROPIC_API_KEY="none",
    )
    command = shlex.split(blocks("bash")[0].splitlines()[-1])
    url = f"http://127.0.0.1:{port}"
    with running([*command, "--host", "127.0.0.1", "--port", str(port)], folder, variables) as process:
        wait_until_ready(f"{url}/health/liveliness", process, folder)
        yield url


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[str]:
    """Run nginx; yields its URL. Each of its locations passes a stream on in a way of its own."""
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX_CONFIG.format(port=port, upstream=upstream), encoding="utf-8")
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    command = [program, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    with running(command, folder, dict(os.environ)) as process:
        wait_until_ready(f"http://127.0.0.1:{port}/", process, folder)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(command: list[str], folder: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; what it prints is in `output.txt` of its folder."""
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until something answers there, whatever its status."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - an address of our own
        except urllib.error.HTTPError:
            return
        except OSError:
            output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
            assert process.poll() is None, output
            assert time.monotonic() < until, output
            time.sleep(0.1)
        else:
            return


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
