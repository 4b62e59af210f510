"""Runs llama.cpp's `llama-server` with a model."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_SECONDS: Final = 60.0
CONTEXT: Final = 1_024
"""Tokens of a slot."""


@contextmanager
def serving(server: str, model: Path, slots: int) -> Iterator[str]:
    """Run the server with a model on one thread, for as many streams at a time as it has slots; yields its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = ["--host", "127.0.0.1", "--port", str(port), "-m", str(model)]
    limits = ["-t", "1", "-np", str(slots), "-c", str(slots * CONTEXT)]
    child = subprocess.Popen([server, *places, *limits], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/health", child)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:  # it finishes what it has queued first
            child.kill()
            child.wait()


def find_version(server: str) -> str:
    """Return the server's version as it prints it."""
    done = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    found = re.search(r"version:? *(.+)", done.stderr + done.stdout)
    return found[1] if found else "unknown"


def _wait_until_ready(url: str, child: subprocess.Popen[bytes]) -> None:
    """Wait until the server has loaded its model.

    Raises:
        SystemExit: it ended, or did not get ready in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - our own
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"llama-server did not get ready (exit code {child.poll()}).")
