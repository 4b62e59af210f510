"""Reads telemetry files, and goes on reading while they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, Final

from otel_itl.tools.report.reading.documents import Document, parse_line, read_documents
from otel_itl.tools.report.reading.lines import (
    GZIP,
    MAX_LINE_BYTES,
    STANDARD_INPUT,
    UTF8_BOM,
    Line,
    UnreadableSourceError,
    display_name,
)
from otel_itl.tools.report.reading.otlp import is_otlp
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.streams import SHAPE_ERRORS, describe_shape_error
from otel_itl.tools.view.server.assembler import Assembler

POLL_SECONDS: Final = 0.1
_PART_BYTES: Final = 1 << 20
_HALF_WRITTEN_SECONDS: Final = 2.0
"""A last line that has not grown for this long is called half-written."""


class FileFollower:
    """Reads files in a thread, and then what is appended to them. One that is rotated or replaced is opened anew.

    Standard input and gzip are read to their end once.

    Args:
        sources: paths of files that can be read; `-` is standard input.
        assembler: takes what is read.
        skipped: receives what cannot be used.
    """

    def __init__(self, sources: Sequence[str], assembler: Assembler, skipped: SkippedInput) -> None:
        self._sources = sources
        self._assembler = assembler
        self._skipped = skipped
        self._is_stopping = Event()
        self._thread = Thread(target=self._run, name="otel_itl view files", daemon=True)
        self._tails: list[_Tail] = []
        self.is_reading = True
        """What was there at first has not been read to its end yet."""
        self.has_grown = False
        """Something was added after that."""
        self.unreadable: list[str] = []
        """Sentences about sources that could not be read."""

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    @property
    def half_written(self) -> int:
        """The number of files with a last line that is incomplete."""
        return sum(tail.is_half_written for tail in tuple(self._tails))

    def describe_change(self) -> str:
        """Return what has become of a file that was followed; empty: all are there, as they were."""
        return next((change for tail in tuple(self._tails) if (change := tail.describe_change())), "")

    def stop(self) -> None:
        """Stop reading, and wait until the thread has ended."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        """Read everything, then follow. Runs on the thread."""
        tails = self._tails
        for source in self._sources:
            if self._can_grow(source):
                tails.append(_Tail(source, self._add_line, self._is_stopping.is_set))
                tails[-1].read()
            else:
                self._read_once(source)
        self._assembler.finish_logged()
        self.is_reading = False
        while tails and not self._is_stopping.wait(POLL_SECONDS):
            for tail in tails:
                tail.read()
        for tail in tails:
            tail.close()

    def _read_once(self, source: str) -> None:
        """Read a source that does not grow."""
        try:
            for document in read_documents(source, self._skipped):
                if self._is_stopping.is_set():
                    return
                self._add(document)
        except UnreadableSourceError as error:
            self.unreadable.append(str(error).removesuffix("."))

    @staticmethod
    def _can_grow(source: str) -> bool:
        """Return whether a source is a plain file: a compressed one is not appended to."""
        if source == STANDARD_INPUT:
            return False
        if not Path(source).exists():
            return True  # it is about to be written
        if not Path(source).is_file():
            return False
        with Path(source).open("rb") as file:
            return file.read(2) != GZIP

    def _add_line(self, line: Line, name: str) -> None:
        """Take in one whole line."""
        for document in parse_line(line, name, self._skipped):
            self._add(document)

    def _add(self, document: Document) -> None:
        """Take in one document, if it is OTLP."""
        if not is_otlp(document.value):
            self._skipped.add(SkipReason.NOT_OTLP, document.where)
            return
        self.has_grown = self.has_grown or not self.is_reading
        try:
            self._assembler.add(document.value, document.where)
        except SHAPE_ERRORS as error:
            self._skipped.add(SkipReason.NOT_OTLP, document.where, describe_shape_error(error))


class _Tail:
    """The lines of one file that grows.

    Args:
        path: of the file.
        take: called with each whole line, and the name of the file.
        is_stopping: returns whether to leave the rest.
    """

    def __init__(self, path: str, take: Callable[[Line, str], None], is_stopping: Callable[[], bool]) -> None:
        self._path = path
        self._take = take
        self._is_stopping = is_stopping
        self._file: IO[bytes] | None = None
        self._rest = b""
        self._read_bytes = 0
        self._lines = 0
        self._grown_at = monotonic()
        self._times_opened = 0
        self._is_last_new = False
        """The last line has grown since it was last parsed."""

    @property
    def is_half_written(self) -> bool:
        """Whether the last line is incomplete, and has not grown for a while."""
        return bool(self._rest.strip()) and monotonic() - self._grown_at > _HALF_WRITTEN_SECONDS

    def describe_change(self) -> str:
        """Return what has become of the file; empty: it is there, and was never replaced."""
        name = Path(self._path).name
        if self._file is None:
            return f"{name} was deleted" if self._times_opened else f"waiting for {name}"
        return f"following {name}, which was begun anew" if self._times_opened > 1 else ""

    def read(self) -> None:
        """Read what has been appended since; a file that is missing for the moment is looked for again."""
        try:
            if self._file is None:
                self._file = Path(self._path).open("rb")  # noqa: SIM115 - kept open between two reads
                self._rest, self._read_bytes, self._lines = b"", 0, 0
                self._times_opened += 1
            self._read_rest()
            if self._was_replaced():
                self.close()
        except OSError:
            self._file = None

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_rest(self) -> None:
        """Take the whole lines up to the end of the file."""
        while self._file is not None and not self._is_stopping():
            part = self._file.read(_PART_BYTES)
            if not part:
                self._take_last()
                return
            is_first = self._read_bytes == 0
            self._read_bytes += len(part)
            part = part.removeprefix(UTF8_BOM) if is_first else part
            self._grown_at, self._is_last_new = monotonic(), True
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self._take_line(line)
            if len(self._rest) > MAX_LINE_BYTES:
                self._rest = b""

    def _take_last(self) -> None:
        """Take the last line without a newline, if it is a whole document: nothing that continues it is JSON."""
        if self._is_last_new and self._rest.rstrip().endswith((b"}", b"]")):
            self._is_last_new = False
            with suppress(ValueError, RecursionError):
                json.loads(self._rest)
                self._take_line(self._rest)
                self._rest = b""
                self._lines -= 1  # its newline, when that comes, counts it

    def _take_line(self, line: bytes) -> None:
        self._lines += 1
        self._take(Line(self._lines, line, is_complete=True), display_name(self._path))

    def _was_replaced(self) -> bool:
        """Return whether the path leads to another file by now, or to a shorter one."""
        if self._file is None:
            return False
        try:
            current = Path(self._path).stat()
        except FileNotFoundError:
            return True
        known = os.fstat(self._file.fileno())
        return (current.st_ino, current.st_dev) != (known.st_ino, known.st_dev) or current.st_size < self._read_bytes
