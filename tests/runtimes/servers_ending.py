"""Processes that end, each with an OTLP receiver of its own: scripts, and web servers that are asked before."""

from __future__ import annotations

import http.client
import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from processes import PATIENCE_SECONDS, UnixConnection

from tests.integration.conftest import HttpReceiver

ROOT: Final = Path(__file__).parents[2]
OTHERS: Final = ",".join(
    point.name
    for point in importlib.metadata.entry_points(group="opentelemetry_instrumentor")
    if not point.name.startswith("itl_")
)
"""Instrumentations that are installed beside ours, and would take seconds to load."""


@dataclass(frozen=True)
class Ended:
    """A process that has ended, and what arrived from it and from its children."""

    returncode: int
    seconds: float
    """From the signal to the end; without a signal, from when the program announced it."""
    outcomes: dict[str, str]
    """By model."""
    response: bytes
    """What was streamed while the signal came."""
    stderr: str
    file: str
    """What the telemetry file of the name `FILE` holds."""


FILE: Final = "telemetry.jsonl"
Send = Callable[["subprocess.Popen[str]", HttpReceiver], object]


def send(signum: int) -> Send:
    """Send a signal to a program."""
    return lambda process, _: process.send_signal(signum)


SEND_SIGTERM: Final = send(signal.SIGTERM)


@dataclass(frozen=True)
class Scenario:
    """A program, how it is ended, and what is to come of it."""

    program: str
    command: tuple[str, ...] = ("program",)
    """What is run; `{socket}` is the path that a server listens at."""
    launcher: tuple[str, ...] = (sys.executable, "-m")
    end: Send | None = SEND_SIGTERM
    """Ends the program once it has announced that it is ready; None: it ends by itself."""
    asks_slowly: bool = True
    """Of a server: a response is being streamed when the signal comes."""
    endpoint: str = ""
    """Where telemetry goes instead of to the receiver."""
    packages: tuple[str, ...] = ()
    returncode: int = -signal.SIGTERM
    """As without otel_itl."""
    outcomes: Mapping[str, str] = field(default_factory=lambda: {"complete": "completed", "open": "abandoned"})
    max_seconds: float = 2.0

    @property
    def is_server(self) -> bool:
        """Whether the program listens."""
        return any("{socket}" in word for word in self.command)

    def run(self, folder: Path, server: str) -> Ended:
        """Run the program in a folder of its own, to its end; `server` is the URL that it finds in `SERVER`."""
        receiver = HttpReceiver()
        process = self._start(folder, self.endpoint or receiver.url, server)
        response = b""
        slow: http.client.HTTPResponse | None = None
        try:
            if self.is_server:
                ask(folder / "socket", "/", process).read()
                slow = ask(folder / "socket", "/slow", process) if self.asks_slowly else None
            else:
                wait_for_announcement(process)
            if slow is not None:
                response = slow.read(1)
            begin = time.monotonic()
            if self.end is not None:
                self.end(process, receiver)
            if slow is not None:
                response += slow.read()
            _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
            seconds = time.monotonic() - begin
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            receiver.stop()
        outcomes = [receiver.plain(span.attributes) for span in receiver.spans]
        return Ended(
            process.returncode,
            seconds,
            {found["gen_ai.request.model"]: found["itl.stream.outcome"] for found in outcomes},
            response,
            stderr.replace(receiver.setup_notice, ""),
            (folder / FILE).read_text(encoding="utf-8") if (folder / FILE).exists() else "",
        )

    def _start(self, folder: Path, endpoint: str, server: str) -> subprocess.Popen[str]:
        """Start the program, in a process group of its own: a server that is killed leaves no children behind."""
        (folder / "program.py").write_text(self.program, encoding="utf-8")
        paths = (str(ROOT), str(ROOT / "tests" / "runtimes"), str(folder))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        environ |= {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore",
            "SERVER": server,
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS,
        }
        words = [word.replace("{socket}", str(folder / "socket")) for word in self.command]
        return subprocess.Popen(
            [*self.launcher, *words],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def ask(path: Path, target: str, process: subprocess.Popen[str]) -> http.client.HTTPResponse:
    """Ask a server, as soon as it listens."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection = UnixConnection(path)
        try:
            connection.request("GET", target)
            return connection.getresponse()
        except (FileNotFoundError, ConnectionError):
            if time.monotonic() > until or process.poll() is not None:
                raise
            time.sleep(0.05)


def wait_for_announcement(process: subprocess.Popen[str]) -> None:
    """Wait until the program has printed that it is ready; Celery prints a banner before."""
    assert process.stdout is not None
    for line in process.stdout:
        if line == "ready\n":
            return
    raise AssertionError(process.communicate()[1])
