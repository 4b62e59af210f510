"""Processes that keep the cores of the machine busy beside the soak."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# A process whose parent was killed has another parent: it ends by itself then, so that none is ever left behind.
_BURN: Final = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `count` processes that do nothing but compute, and kill them at the end of the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        command = [sys.executable, "-c", _BURN, str(os.getpid())]
        processes.extend(subprocess.Popen(command) for _ in range(count))  # noqa: S603 - our own interpreter and code
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
