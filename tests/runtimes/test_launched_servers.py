"""Servers with worker processes under `otel-itl run`: every worker is measured, and a signal ends all of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from processes import PATIENCE_SECONDS, needs

from otel_itl.testing import ScriptedServer

pytestmark = [needs("uvicorn"), pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")]

ROOT = Path(__file__).parents[2]
APPLICATION: Final = """
import os
import openai

http_client = openai.DefaultHttpxClient(verify=False)
client = openai.OpenAI(base_url=os.environ["SERVER"], api_key="none", http_client=http_client)

def answer():
    asked = [{"role": "user", "content": "hello"}]
    for chunk in client.chat.completions.create(model=f"worker-{os.getpid()}", messages=asked, stream=True):
        pass

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    answer()
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""


class Served(NamedTuple):
    """What two workers answered, how the command ended, and which spans it left."""

    workers: set[str]
    exit_code: int
    stdout: str
    stderr: str
    models: set[str]


@pytest.fixture(scope="module")
def served(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Ask until both workers have answered, then end the command as a supervisor does."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "app.py").write_text(APPLICATION)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "OPENAI_"))}
    environ |= {"PYTHONPATH": str(ROOT), "SERVER": server.openai_url}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "otel_itl", "run", sys.executable, "-m", "uvicorn", "app:app", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--port", port, "--log-level", "warning"],
        env=environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        workers = ask_until_two_answered(f"http://127.0.0.1:{port}/")
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    return Served(workers, process.returncode, stdout, stderr, models_in(folder / "otel-itl.jsonl"))


def ask_until_two_answered(url: str) -> set[str]:
    """Send requests until they were answered by two processes; return their ids."""
    workers: set[str] = set()
    until = time.monotonic() + PATIENCE_SECONDS
    while len(workers) < 2 and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own server
                workers.add(response.read().decode())
        except OSError:
            time.sleep(0.1)
    return workers


def models_in(file: Path) -> set[str]:
    """Return the models of the spans in a file."""
    return {
        span["name"].removeprefix("chat ")
        for line in file.read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line).get("resourceSpans", ())
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }


def test_every_worker_is_measured(served: Served) -> None:
    assert len(served.workers) == 2
    assert served.models == {f"worker-{pid}" for pid in served.workers}


def test_a_signal_to_the_command_ends_the_server_gracefully(served: Served) -> None:
    assert (served.exit_code, served.stdout) == (0, ""), served.stderr


def test_the_report_has_the_streams_of_both_workers(served: Served) -> None:
    assert all(f"worker-{pid}" in served.stderr for pid in served.workers)
