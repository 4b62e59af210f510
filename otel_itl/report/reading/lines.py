"""The lines of a telemetry file, plain or gzip, from disk or from standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from otel_itl.report.reading.skipped_input import Loss, SkippedInput

MOST_BYTES = 256 * 1024 * 1024
"""A longer line is not read: it would be held in memory as a whole."""
STANDARD_INPUT = "-"
Readable = io.BufferedReader | gzip.GzipFile

_LOOKED_AT = 4_096
_GZIP = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class UnreadableError(Exception):
    """A source that cannot be read; the message is one sentence that names it and says why."""


class Line(NamedTuple):
    """One line with its number from 1."""

    number: int
    text: bytes
    ended: bool
    """It ends with a newline: a last line that does not may still be being written."""


def title(source: str) -> str:
    """What a source is called in messages."""
    return "standard input" if source == STANDARD_INPUT else source


def check(source: str) -> None:
    """Find out, without opening it, whether a source can be read.

    Raises:
        UnreadableError: it is missing, a directory, or not ours to read.
    """
    if source == STANDARD_INPUT:
        return
    if not os.path.lexists(source):
        raise UnreadableError(f"{source} does not exist.")
    if Path(source).is_dir():
        raise UnreadableError(f"{source} is a directory: name the files in it.")
    if not os.access(source, os.R_OK):
        raise UnreadableError(f"{source} cannot be read: permission denied.")


def read_lines(source: str, losses: SkippedInput) -> Iterator[Line]:
    """Yield the lines of a file (`-`: standard input), one at a time. Gzip is known by its content.

    Raises:
        UnreadableError: it is missing, a directory, not ours to read, or binary.
    """
    check(source)
    try:
        with nullcontext(sys.stdin.buffer) if source == STANDARD_INPUT else Path(source).open("rb") as file:
            yield from _lines(source, _plain(file), losses)
    except OSError as error:
        raise UnreadableError(f"{title(source)} cannot be read: {error.strerror or error}.") from error


def _plain(file: Any) -> Readable:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
    if buffered.peek(2)[:2] == _GZIP:
        return gzip.GzipFile(fileobj=buffered, mode="rb")
    return buffered


def _lines(source: str, file: Readable, losses: SkippedInput) -> Iterator[Line]:
    number = 0
    try:
        start = file.peek(_LOOKED_AT)[:_LOOKED_AT]
        _refuse_binary(source, start)
        if not start:
            losses.note(Loss.EMPTY, title(source))
            return
        if start.startswith(_UTF8_BOM):
            file.read(len(_UTF8_BOM))
        while text := file.readline(MOST_BYTES):
            number += 1
            ended = text.endswith(b"\n")
            if not ended and len(text) >= MOST_BYTES:
                while text and not text.endswith(b"\n"):
                    text = file.readline(MOST_BYTES)
                losses.note(Loss.NOT_JSON, f"{title(source)}:{number}", f"longer than {MOST_BYTES >> 20} MiB")
                continue
            yield Line(number, text, ended)
    except EOFError:
        losses.note(Loss.HALF_WRITTEN, f"{title(source)}:{number + 1}", "the gzip data ends early")
    except (gzip.BadGzipFile, zlib.error) as error:
        losses.note(Loss.NOT_JSON, f"{title(source)}:{number + 1}", f"the gzip data is damaged from here on ({error})")


def _refuse_binary(source: str, start: bytes) -> None:
    if start.startswith(_UTF16_BOMS):
        raise UnreadableError(f"{title(source)} is UTF-16 text: OTLP JSON is UTF-8.")
    if b"\0" in start:
        raise UnreadableError(f"{title(source)} is binary: a report is made from OTLP JSON, plain or gzip.")
