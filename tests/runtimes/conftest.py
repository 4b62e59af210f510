"""Programs in processes of their own, which stream from a scripted server and tell what was recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from processes import Ran, ended

from otel_itl.testing import ScriptedServer, chat

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedServer]:
    """Five chunks, 40 ms to the first and 30 ms apart: enough to tell from nothing on a busy machine."""
    with ScriptedServer() as running:
        running.always(chat.reply(["a", "b", "c", "d", "e"], first=0.04, gaps=0.03))
        running.always(chat.reply(400, first=0.01, gaps=0.1), model="endless")
        yield running


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def start(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a program, given as its source.

    `launcher` goes in place of `python`, `argument` in place of the program's path; keywords are variables.
    """
    started: list[subprocess.Popen[str]] = []

    def begin(source: str, *launcher: str, argument: str = "", **variables: str) -> subprocess.Popen[str]:
        folder = tmp_path_factory.mktemp("program")
        program = folder / "program.py"
        program.write_text(textwrap.dedent(source), encoding="utf-8")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "OPENAI_"))}
        paths = (str(ROOT), str(ROOT / "tests" / "runtimes"), str(folder))
        environ |= {"PYTHONPATH": os.pathsep.join(paths), "SERVER": server.openai_url, **variables}
        process = subprocess.Popen(
            [*(launcher or (sys.executable,)), argument or str(program)],
            env=environ,
            cwd=folder,
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


@pytest.fixture(scope="session")
def run(start: Start) -> Callable[..., Ran]:
    """Run a program to its end, once: a second test of the same program sees what the first one did."""
    return cache(lambda source, *launcher, **variables: ended(start(source, *launcher, **variables)))
