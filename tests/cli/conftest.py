"""The command in processes of its own, and a scripted server for the programs that it launches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from otel_itl.testing import ScriptedServer, chat

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "otel_itl")
PATIENCE_SECONDS = 50
"""For one process: a busy machine takes long to import an SDK."""


class Ended(NamedTuple):
    """A process that has ended."""

    exit_code: int
    stdout: bytes
    stderr: str


class Launched:
    """A running command, in a folder of its own."""

    def __init__(self, arguments: tuple[str, ...], environ: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=environ,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self, stdin: bytes = b"") -> Ended:
        """Send the input, and wait for the end."""
        stdout, stderr = self.process.communicate(stdin, timeout=PATIENCE_SECONDS)
        return Ended(self.process.returncode, stdout, stderr.decode())


Launch = Callable[..., Launched]


@pytest.fixture(scope="session")
def streaming_server() -> Iterator[ScriptedServer]:
    """Ten chunks each, one millisecond apart."""
    with ScriptedServer() as running:
        running.always(chat.reply(10, first=0.01, gaps=0.001))
        yield running


@pytest.fixture(scope="session")
def plain_environ(streaming_server: ScriptedServer) -> dict[str, str]:
    """An environment without settings of telemetry or of Python, in which the openai SDK finds the scripted server."""
    foreign = ("OTEL_", "OPENAI_", "PYTHON", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **environ,
        "PYTHONPATH": str(ROOT),
        "OPENAI_BASE_URL": streaming_server.openai_url,
        "OPENAI_API_KEY": "none",
    }


@pytest.fixture(scope="module")
def launch(plain_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Start `otel-itl` with arguments, in a new folder with these files (name → source); keywords are variables."""
    started: list[Launched] = []

    def start(*arguments: str, files: Mapping[str, str] = {}, **variables: str) -> Launched:
        folder = tmp_path_factory.mktemp("launched")
        for name, source in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(textwrap.dedent(source), encoding="utf-8")
        environ = {name: value.replace("{folder}", str(folder)) for name, value in variables.items()}
        started.append(Launched(arguments, {**plain_environ, **environ}, folder))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.wait()
