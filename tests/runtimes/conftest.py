"""Programs in processes of their own, which stream from a scripted server and tell what was recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Tests are collected by path, so that a folder of them is no package: what they share is found here.
sys.path.insert(0, str(HERE))

from processes import Ran, ended

from otel_itl.testing import ScriptedServer, chat


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedServer]:
    """Five chunks, 40 ms to the first and 30 ms apart: enough to tell from nothing on a busy machine."""
    with ScriptedServer() as running:
        running.always(chat.reply(["a", "b", "c", "d", "e"], first=0.04, gaps=0.03))
        running.always(chat.reply(400, first=0.01, gaps=0.1), model="endless")
        yield running


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(server: ScriptedServer, tmp_path: Path) -> Iterator[Start]:
    """Start a program, given as its source; `launcher` goes in place of `python`, keywords are variables."""
    started: list[subprocess.Popen[str]] = []

    def begin(source: str, *launcher: str, **variables: str) -> subprocess.Popen[str]:
        program = tmp_path / f"program_{len(started)}.py"
        program.write_text(textwrap.dedent(source), encoding="utf-8")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "OPENAI_"))}
        paths = (str(HERE.parents[1]), str(HERE), str(tmp_path))
        environ |= {"PYTHONPATH": os.pathsep.join(paths), "SERVER": server.openai_url, **variables}
        process = subprocess.Popen(
            [*(launcher or (sys.executable,)), str(program)],
            env=environ,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run(start: Start) -> Callable[..., Ran]:
    """Run a program to its end."""
    return lambda source, *launcher, **variables: ended(start(source, *launcher, **variables))
