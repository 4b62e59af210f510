"""Reads the lines of a telemetry file, plain or gzip, from disk or from standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is skipped, because a line is held in memory as a whole."""
STANDARD_INPUT = "-"

_SNIFFED_BYTES = 4_096
GZIP = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class UnreadableSourceError(CommandError):
    """A source cannot be read; the message is one sentence that names it and the reason."""


class Line(NamedTuple):
    """One line with its number, counted from 1."""

    number: int
    text: bytes
    is_complete: bool
    """It ends with a newline; an incomplete last line may be in the middle of being written."""


def display_name(source: str) -> str:
    """Return the name of a source for messages."""
    return "standard input" if source == STANDARD_INPUT else source


def check_readable(source: str) -> None:
    """Check, without opening it, that a source can be read.

    Raises:
        UnreadableSourceError: it is missing, a directory, or the permission is missing.
    """
    if source == STANDARD_INPUT:
        return
    if not os.path.lexists(source):
        raise UnreadableSourceError(f"{source} does not exist.")
    if Path(source).is_dir():
        raise UnreadableSourceError(f"{source} is a directory: name the files in it.")
    if not os.access(source, os.R_OK):
        raise UnreadableSourceError(f"{source} cannot be read: permission denied.")


def check_text(source: str) -> None:
    """Check by its beginning that a file is text, plain or gzip. One that is empty, or no regular file, passes.

    Raises:
        UnreadableSourceError: it is binary, UTF-16, or cannot be read.
    """
    if source == STANDARD_INPUT or not Path(source).is_file():
        return
    try:
        with Path(source).open("rb") as file, suppress(EOFError, gzip.BadGzipFile, zlib.error):
            _refuse_binary(source, _decompressed(file).peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES])
    except OSError as error:
        raise UnreadableSourceError(f"{source} cannot be read: {error.strerror or error}.") from error


def read_lines(source: str, skipped: SkippedInput) -> Iterator[Line]:
    """Yield the lines of a source, one at a time. Gzip is recognized by its content.

    Args:
        source: path of a file, or `-` for standard input.
        skipped: receives what cannot be read.

    Raises:
        UnreadableSourceError: the source is missing, a directory, binary, or the permission is missing.
    """
    check_readable(source)
    try:
        with nullcontext(sys.stdin.buffer) if source == STANDARD_INPUT else Path(source).open("rb") as file:
            yield from _lines(source, _decompressed(file), skipped)
    except OSError as error:
        raise UnreadableSourceError(f"{display_name(source)} cannot be read: {error.strerror or error}.") from error


def _decompressed(file: Any) -> io.BufferedReader | gzip.GzipFile:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
    if buffered.peek(2)[:2] == GZIP:
        return gzip.GzipFile(fileobj=buffered, mode="rb")
    return buffered


def _lines(source: str, file: io.BufferedReader | gzip.GzipFile, skipped: SkippedInput) -> Iterator[Line]:
    """Yield the lines of an open file; what is damaged or too long is added to `skipped`."""
    name = display_name(source)
    number = 0
    try:
        start = file.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
        _refuse_binary(name, start)
        if not start:
            skipped.add(SkipReason.EMPTY, name)
            return
        if start.startswith(UTF8_BOM):
            file.read(len(UTF8_BOM))
        while text := file.readline(MAX_LINE_BYTES):
            number += 1
            is_complete = text.endswith(b"\n")
            if not is_complete and len(text) >= MAX_LINE_BYTES:
                while text and not text.endswith(b"\n"):
                    text = file.readline(MAX_LINE_BYTES)
                skipped.add(SkipReason.NOT_JSON, f"{name}:{number}", f"longer than {MAX_LINE_BYTES >> 20} MiB")
                continue
            yield Line(number, text, is_complete)
    except EOFError:
        skipped.add(SkipReason.HALF_WRITTEN, f"{name}:{number + 1}", "the gzip data ends early")
    except (gzip.BadGzipFile, zlib.error):
        skipped.add(SkipReason.NOT_JSON, f"{name}:{number + 1}", "the gzip data is damaged from here on")


def _refuse_binary(name: str, start: bytes) -> None:
    if start.startswith(_UTF16_BOMS):
        raise UnreadableSourceError(f"{name} is UTF-16 text: OTLP JSON is UTF-8.")
    if b"\0" in start:
        raise UnreadableSourceError(f"{name} is binary: a report is made from OTLP JSON, plain or gzip.")
