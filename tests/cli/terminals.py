"""Runs a command in a terminal of its own, where a key press reaches every process of it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

CTRL_C = b"\x03"


class Shown(NamedTuple):
    """What a command printed in its terminal, and how it ended."""

    returncode: int
    text: str
    first_output_after: float
    """Seconds from the start of the process."""


def run_in_terminal(
    arguments: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    press: Callable[[str], bytes] = lambda _: b"",
    seconds: float = 50,
) -> Shown:
    """Run a command to its end.

    Args:
        arguments: the command.
        cwd: where it runs.
        env: its environment.
        press: is called with all that was printed so far, ten times a second; what it returns is typed.
        seconds: after these the command is killed, which makes its return code negative.
    """
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[3] |= termios.NOFLSH  # else Ctrl-C discards what was printed and is not read yet
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    started = time.monotonic()
    running = subprocess.Popen(
        arguments,
        cwd=cwd,
        env={**env, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - two system calls, no lock
    )
    os.close(theirs)
    printed, first = b"", 0.0
    try:
        while time.monotonic() - started < seconds:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    chunk = os.read(ours, 65_536)
                except OSError:  # the last process that had the terminal open has ended
                    break
                first = first or time.monotonic() - started
                printed += chunk
            if keys := press(printed.decode(errors="replace")):
                os.write(ours, keys)
        return Shown(running.wait(max(seconds - (time.monotonic() - started), 1)), printed.decode(), first)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
