"""Writes what a command was asked for, without harming what is read or what is somebody else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from otel_itl.tools.command_error import CommandError


class CannotWriteError(CommandError):
    """The output cannot be written; the message is one sentence."""


def check_output(output: str | Path, sources: Sequence[str]) -> None:
    """Check that an output names a file, and none of those that are read, by whichever name.

    Raises:
        CannotWriteError: it does not.
    """
    if str(output) in {"", "-"}:
        raise CannotWriteError(f"{str(output)!r} is not the name of a file: name the output.")
    for source in sources:
        if Path(output).exists() and Path(source).exists() and Path(output).samefile(source):
            raise CannotWriteError(f"{output} is an input, and is left as it is: name another output.")


@contextmanager
def open_output(output: str | Path) -> Iterator[IO[str]]:
    """Open the output for the `with` block.

    Raises:
        CannotWriteError: it cannot be opened or written.
    """
    try:
        with Path(output).open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise CannotWriteError(f"{output} cannot be written to ({error.strerror or error}).") from error


@contextmanager
def let_reader_go() -> Iterator[None]:
    """Go on behind the `with` block where the reader of what it prints has gone, as in `otel-itl compare … | head`.

    For commands whose exit code is an answer.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_rest()


def discard_rest() -> None:
    """Have what is still buffered for standard output, which cannot be written, not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
