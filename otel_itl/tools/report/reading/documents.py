"""Reads the JSON documents of a telemetry file, one per line: plain or compressed, from disk or from standard input."""

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
from otel_itl.tools.report.json_text import parse_json
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.zstandard_file import MAGIC, DamagedZstandardError, ZstandardFile

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is skipped, because a line is held in memory as a whole."""
STANDARD_INPUT = "-"

_SNIFFED_BYTES = 4_096
_GZIP = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
_DAMAGED = (gzip.BadGzipFile, zlib.error, DamagedZstandardError)
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class UnreadableSourceError(CommandError):
    """A source cannot be read; the message is one sentence that names it and the reason."""


class Document(NamedTuple):
    """One JSON document, and its place in the input as `FILE:LINE`."""

    where: str
    value: Any


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
    """Check by its beginning that a file is text, plain or compressed. One that is empty, or no regular file, passes.

    Raises:
        UnreadableSourceError: it is binary, UTF-16, or cannot be read.
    """
    if source == STANDARD_INPUT or not Path(source).is_file():
        return
    try:
        with Path(source).open("rb") as file, suppress(EOFError, *_DAMAGED):
            _sniff(source, _decompressed(source, file))
    except OSError as error:
        raise UnreadableSourceError(f"{source} cannot be read: {error.strerror or error}.") from error


def read_documents(source: str, skipped: SkippedInput) -> Iterator[Document]:
    """Yield the JSON documents of a source: one per line, or a list of several.

    Gzip and Zstandard are recognized by their content.

    A line that is not JSON, or is incomplete at the end of the file, is added to `skipped`; the next line is read.

    Args:
        source: path of a file, or `-` for standard input.
        skipped: receives what cannot be read.

    Raises:
        UnreadableSourceError: the source is missing, a directory, binary, or the permission is missing; or it is
            Zstandard, and nothing that decompresses it is installed.
    """
    check_readable(source)
    try:
        with nullcontext(sys.stdin.buffer) if source == STANDARD_INPUT else Path(source).open("rb") as file:
            yield from _read(display_name(source), _decompressed(display_name(source), file), skipped)
    except OSError as error:
        raise UnreadableSourceError(f"{display_name(source)} cannot be read: {error.strerror or error}.") from error


def parse_line(text: bytes, where: str, skipped: SkippedInput) -> Iterator[Document]:
    """Yield the JSON documents of one line; a line that cannot be parsed is added to `skipped`.

    Args:
        text: of the line. Without a newline it is the last one, and may be in the middle of being written.
        where: its place, as `FILE:LINE`.
        skipped: receives what cannot be used.
    """
    if not text.strip():
        return
    try:
        value = parse_json(text)
    except (ValueError, RecursionError) as error:
        reason = SkipReason.NOT_JSON if text.endswith(b"\n") else SkipReason.HALF_WRITTEN
        skipped.add(reason, where, _describe(error))
        return
    for document in value if isinstance(value, list) else (value,):
        yield Document(where, document)


def _read(name: str, file: io.BufferedReader | gzip.GzipFile, skipped: SkippedInput) -> Iterator[Document]:
    """Yield the documents of an open file; what is damaged or too long is added to `skipped`."""
    number = 0
    try:
        start = _sniff(name, file)
        if not start:
            skipped.add(SkipReason.EMPTY, name)
            return
        if start.startswith(UTF8_BOM):
            file.read(len(UTF8_BOM))
        while text := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(text) >= MAX_LINE_BYTES and not text.endswith(b"\n"):
                while text and not text.endswith(b"\n"):
                    text = file.readline(MAX_LINE_BYTES)
                skipped.add(SkipReason.NOT_JSON, f"{name}:{number}", f"longer than {MAX_LINE_BYTES >> 20} MiB")
                continue
            yield from parse_line(text, f"{name}:{number}", skipped)
    except EOFError:
        skipped.add(SkipReason.HALF_WRITTEN, f"{name}:{number + 1}", "the compressed data ends early")
    except _DAMAGED:
        skipped.add(SkipReason.NOT_JSON, f"{name}:{number + 1}", "the compressed data is damaged from here on")


def is_compressed(start: bytes) -> bool:
    """Return whether the first bytes of a file are those of gzip or Zstandard."""
    return start.startswith((_GZIP, MAGIC))


def _decompressed(name: str, file: Any) -> io.BufferedReader | gzip.GzipFile:
    """Return what decompresses an open file, or the file itself.

    Raises:
        UnreadableSourceError: nothing that decompresses it is installed.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
    start = buffered.peek(len(MAGIC))[: len(MAGIC)]
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=buffered, mode="rb")
    if start != MAGIC:
        return buffered
    try:
        return io.BufferedReader(ZstandardFile(buffered))
    except ImportError as error:
        raise UnreadableSourceError(f"{name} is compressed by Zstandard: pip install zstandard.") from error


def _sniff(name: str, file: io.BufferedReader | gzip.GzipFile) -> bytes:
    """Return the beginning of an open file, without reading on.

    Raises:
        UnreadableSourceError: it is binary or UTF-16.
    """
    start = file.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
    if start.startswith(_UTF16_BOMS):
        raise UnreadableSourceError(f"{name} is UTF-16 text: OTLP JSON is UTF-8.")
    if b"\0" in start:
        raise UnreadableSourceError(f"{name} is binary: a report is made from OTLP JSON, plain, gzip or Zstandard.")
    return start


def _describe(error: Exception) -> str:
    """Return why a line cannot be parsed. The parser's own words are left out: they differ from one to the other."""
    column = getattr(error, "colno", None)
    if column is not None:
        return f"it cannot be parsed from column {column:,} on"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it is not UTF-8 text" if isinstance(error, UnicodeError) else "it has a number that is too long"
