"""Phoenix and MLflow as servers of their own, and an application that sends to each as docs/viewers.md describes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from otel_itl.testing import ScriptedServer, chat, faults, messages

ROOT = Path(__file__).parents[2]
APPLICATION = Path(__file__).with_name("application.py")
MAX_START = 300.0
"""Seconds within which a viewer has started: its first start on a busy machine imports for minutes."""
MAX_INGESTION = 60.0
"""Seconds within which a viewer shows what it took."""
CLAUDE = 3
"""Streams of the anthropic SDK."""
GPT = 2
"""Streams of the openai SDK that complete; one more fails."""
TOKENS = 10 + 20
"""Input and output tokens of one stream."""


def ask(url: str, body: Any = None) -> Any:
    """Ask a viewer's API for JSON."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"content-type": "application/json"}), timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    """Return the first true value of `what`; raises TimeoutError after that many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except (URLError, OSError, ValueError):
            pass
        time.sleep(0.2)
    message = f"nothing within {seconds} s"
    raise TimeoutError(message)


def bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PHOENIX_", "MLFLOW_"))}


class Viewer:
    """A viewer that runs as a process of its own."""

    def __init__(self, port: int, documented_port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._documented = f"localhost:{documented_port}"

    def variables(self, title: str) -> dict[str, str]:
        """Read the variables that docs/viewers.md has under a title, with the port of this very process."""
        section = (ROOT / "docs" / "viewers.md").read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
        block = section.partition("```sh\n")[2].partition("```")[0]
        found = dict(re.findall(r"^export (\w+)=(.*)$", block, re.MULTILINE))
        return {name: value.replace(self._documented, self.url.partition("//")[2]) for name, value in found.items()}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(command: list[str], folder: Path, **variables: str) -> Iterator[None]:
    """Run a server for as long as the block lasts; its output is shown where it does not start."""
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder, env=bare_environment() | variables, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        yield
    except TimeoutError:
        pytest.fail(log.read_text(encoding="utf-8", errors="replace")[-4_000:])
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


class Viewers(NamedTuple):
    """Both viewers, after both were sent the same streams."""

    phoenix: Viewer
    mlflow: Viewer


def stream_to(variables: dict[str, str]) -> None:
    """Run the application with the variables of a viewer."""
    with ScriptedServer() as server:
        for _ in range(CLAUDE):
            server.play(messages.reply(20, first=0.1, gaps=0.01), model="claude-opus")
        for _ in range(GPT):
            server.play(chat.reply(20, first=0.1, gaps=0.01), model="gpt-5-mini")
        server.play(faults.status(500, "the canary"), model="gpt-5-mini")
        done = subprocess.run(
            [sys.executable, str(APPLICATION), server.anthropic_url, server.openai_url, str(CLAUDE), str(GPT)],
            env=bare_environment() | variables, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
