"""Reads telemetry files, and goes on reading while they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, Final

from otel_itl.report.reading.documents import read_documents
from otel_itl.report.reading.lines import MAX_LINE_BYTES, STANDARD_INPUT, UnreadableSourceError
from otel_itl.report.reading.otlp import is_otlp
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import SHAPE_ERRORS
from otel_itl.view.server.assembler import Assembler
from otel_itl.view.server.records import read_json

POLL_SECONDS: Final = 0.1
_PART_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"


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
        self.is_reading = True
        """What was there at first has not been read to its end yet."""

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait until the thread has ended."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        """Read everything, then follow. Runs on the thread."""
        tails = []
        for source in self._sources:
            if self._can_grow(source):
                tail = _Tail(source, self._add_line, self._is_stopping.is_set)
                tail.read()
                tails.append(tail)
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
                self._add(document.value)
        except UnreadableSourceError:
            self._assembler.unusable += 1

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
            return file.read(2) != _GZIP

    def _add_line(self, line: bytes) -> None:
        """Take in one whole line; a line that is no JSON is counted and left out."""
        if not line.strip():
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            self._assembler.unusable += 1
            return
        for document in value if isinstance(value, list) else (value,):
            self._add(document)

    def _add(self, document: Any) -> None:
        """Take in one document, if it is OTLP."""
        if not is_otlp(document):
            return
        try:
            self._assembler.add(read_json(document))
        except SHAPE_ERRORS:
            self._assembler.unusable += 1


class _Tail:
    """The lines of one file that grows.

    Args:
        path: of the file.
        take: called with each whole line.
        is_stopping: returns whether to leave the rest.
    """

    def __init__(self, path: str, take: Callable[[bytes], None], is_stopping: Callable[[], bool]) -> None:
        self._path = path
        self._take = take
        self._is_stopping = is_stopping
        self._file: IO[bytes] | None = None
        self._rest = b""
        self._read_bytes = 0

    def read(self) -> None:
        """Read what has been appended since; a file that is missing for the moment is looked for again."""
        try:
            if self._file is None:
                self._file = Path(self._path).open("rb")  # noqa: SIM115 - kept open between two reads
                self._rest, self._read_bytes = b"", 0
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
                return
            self._read_bytes += len(part)
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self._take(line)
            if len(self._rest) > MAX_LINE_BYTES:
                self._rest = b""

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
