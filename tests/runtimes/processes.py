"""A program that has ended, and what it told; and what is needed to run it."""

from __future__ import annotations

import http.client
import importlib.util
import json
import socket
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

PATIENCE_SECONDS: Final = 50
"""For a program: a busy machine takes long to import an SDK."""


class Ran(NamedTuple):
    """A program that has ended well, and what it printed."""

    stdout: str
    stderr: str

    @property
    def reports(self) -> list[dict[str, Any]]:
        """The reports that it printed, each a line."""
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(self._path)


def ended(process: subprocess.Popen[str]) -> Ran:
    """Wait for the end of a program, which is to be a good one."""
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, stderr
    return Ran(stdout, stderr)


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip where a package is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")
