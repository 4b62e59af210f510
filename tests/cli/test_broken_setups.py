"""What the doctor finds first in set-ups that do not work: real programs, one process each, examined from inside."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from broken_setups import ENDPOINTS, SETUPS, Setup

from otel_itl.testing import ScriptedServer, chat
from otel_itl.tools.doctor.conclude import conclude
from otel_itl.tools.doctor.examine import INSPECTOR
from otel_itl.tools.doctor.finding import Check
from otel_itl.tools.doctor.inspector import SERVER_VARIABLE
from otel_itl.tools.doctor.scripted_stream import scripts
from otel_itl.tools.launch.environment import launch_environment
from otel_itl.tools.launch.notes import open_notes

pytest.importorskip("groq")

RELEASES = {"groq": version("groq"), "sdk": version("opentelemetry-sdk")}
LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")


class Receiver(BaseHTTPRequestHandler):
    """Answers with the status that begins the path; a page for `/page`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        first = self.path.split("/")[1]
        self.send_response(int(first) if first.isdigit() else 200 if first == "page" else 404)
        self.send_header("content-type", "text/html" if first == "page" else "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Whose clients may leave in the middle of a handshake."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Addresses to export to, by what is there."""
    certificate = tmp_path_factory.mktemp("tls") / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=localhost", "-keyout", certificate, "-out", certificate.with_suffix(".crt")),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_suffix(".crt"), certificate)
    plain, encrypted = Server(("127.0.0.1", 0), Receiver), Server(("127.0.0.1", 0), Receiver)
    encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, encrypted):
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    rpc = grpc.server(ThreadPoolExecutor(max_workers=2))
    rpc_port = rpc.add_insecure_port("127.0.0.1:0")
    rpc.start()
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as closed:
        closed_port = closed.getsockname()[1]
        closed.close()
        yield {
            "python": sys.executable,
            "http": f"http://127.0.0.1:{plain.server_port}",
            "host": f"127.0.0.1:{plain.server_port}",
            "tls": f"https://127.0.0.1:{encrypted.server_port}",
            "tls_as_http": f"http://127.0.0.1:{encrypted.server_port}",
            "grpc": f"http://127.0.0.1:{rpc_port}",
            "refused": f"http://127.0.0.1:{closed_port}",
            "refused_host": f"127.0.0.1:{closed_port}",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }
    rpc.stop(grace=0).wait()
    for server in (plain, encrypted):
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedServer]:
    """Plays the streams of the programs, and those of the doctor."""
    with ScriptedServer(chat.reply(3)) as server:
        for name, script in scripts().items():
            server.always(script, model=name)
        yield server


def examine(setup: Setup, folder: Path, environ: Mapping[str, str]) -> Check:
    """Run a program as the doctor runs it, and return the first finding."""
    for name, text in {"app.py": setup.program, **setup.files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with open_notes() as notes:
        launched = launch_environment(environ, notes.path, inspector=INSPECTOR)
        command = [word.format(python=sys.executable, launcher=LAUNCHER) for word in setup.command]
        ran = subprocess.run(command, env=launched, cwd=folder, capture_output=True, timeout=50, check=False)
        return conclude(notes, ran.returncode, environ)[1][0]


QUICK = ("nothing listens, by gRPC", "TLS to a plain port, by gRPC", "no scheme", "no key")
"""Endpoints that every `make test` asks; tests/tools/doctor/test_endpoints.py asks the others, without a program."""


@pytest.mark.parametrize(
    "name", [*SETUPS, *(name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ENDPOINTS)]
)
def test_the_first_sentence_names_the_cause_and_what_to_do(
    name: str, places: dict[str, str], model: ScriptedServer, plain_environ: dict[str, str], tmp_path: Path
) -> None:
    setup = {**SETUPS, **ENDPOINTS}[name]
    variables = {variable: value.format(**places) for variable, value in setup.variables.items()}
    first = examine(
        setup,
        tmp_path,
        {
            **plain_environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), plain_environ["PYTHONPATH"]]),
            "GROQ_BASE_URL": model.url,
            "GROQ_API_KEY": "none",
            SERVER_VARIABLE: model.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            **variables,
        },
    )
    remedy = "" if first.remedy is None else f" → {first.remedy}"
    shown = f"{first.subject}: {first.finding}{remedy}"
    shown = re.sub(r"\(pid \d+\)", "(pid {pid})", shown)
    for place, address in {**places, "folder": str(tmp_path), **RELEASES}.items():
        shown = shown.replace(address, f"{{{place}}}")
    assert shown == setup.first
