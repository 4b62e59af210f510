"""Reads telemetry files, and goes on reading while they grow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, Final

from otel_itl.tools.report.reading.documents import (
    MAX_LINE_BYTES,
    STANDARD_INPUT,
    UTF8_BOM,
    Document,
    UnreadableSourceError,
    display_name,
    is_compressed,
    parse_line,
    read_documents,
)
from otel_itl.tools.report.reading.otlp import SHAPE_ERRORS, is_otlp
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.streams import describe_shape_error
from otel_itl.tools.view.server.assembler import Assembler

POLL_SECONDS: Final = 0.1
_HALF_WRITTEN_SECONDS: Final = 2.0
"""A last line that has not grown for this long is called half-written."""


class FileFollower:
    """Reads files in a thread, and then what is appended to them. One that is rotated or replaced is opened anew.

    Standard input and compressed files are read to their end once.

    Args:
        sources: paths of files that can be read, each with the assembler that takes what is read; `-` is standard
            input.
        skipped: receives what cannot be used.
    """

    def __init__(self, sources: Sequence[tuple[str, Assembler]], skipped: SkippedInput) -> None:
        self._sources = sources
        self._skipped = skipped
        self._is_stopping = Event()
        self._thread = Thread(target=self._run, name="otel_itl view files", daemon=True)
        self._tails: list[tuple[_Tail, Assembler]] = []
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
        return sum(tail.is_half_written for tail, _ in tuple(self._tails))

    def describe_change(self) -> str:
        """Return what has become of a file that was followed; empty: all are there, as they were."""
        return next((change for tail, _ in tuple(self._tails) if (change := tail.describe_change())), "")

    def stop(self) -> None:
        """Stop reading, and wait until the thread has ended."""
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        """Read everything, then follow. Runs on the thread."""
        for source, assembler in self._sources:
            if self._can_grow(source):
                tail = _Tail(source, self._skipped)
                self._tails.append((tail, assembler))
                self._add_all(tail.read_appended(), assembler)
                continue
            try:
                self._add_all(read_documents(source, self._skipped), assembler)
            except UnreadableSourceError as error:
                self.unreadable.append(str(error).removesuffix("."))
        for assembler in dict.fromkeys(assembler for _, assembler in self._sources):
            assembler.finish_logged()
        self.is_reading = False
        while self._tails and not self._is_stopping.wait(POLL_SECONDS):
            for tail, assembler in self._tails:
                self._add_all(tail.read_appended(), assembler)
        for tail, _ in self._tails:
            tail.close()

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
            return not is_compressed(file.read(4))

    def _add_all(self, documents: Iterable[Document], assembler: Assembler) -> None:
        """Take in documents, those that are OTLP, until the follower is stopped."""
        for document in documents:
            if self._is_stopping.is_set():
                return
            if not is_otlp(document.value):
                self._skipped.add(SkipReason.NOT_OTLP, document.where)
                continue
            self.has_grown = self.has_grown or not self.is_reading
            try:
                assembler.add(document.value, document.where)
            except SHAPE_ERRORS as error:
                self._skipped.add(SkipReason.NOT_OTLP, document.where, describe_shape_error(error))


class _Tail:
    """One file that grows.

    Args:
        path: of the file.
        skipped: receives what cannot be used.
    """

    def __init__(self, path: str, skipped: SkippedInput) -> None:
        self._path = path
        self._skipped = skipped
        self._file: IO[bytes] | None = None
        self._rest = b""
        """The last line as far as it has been written."""
        self._lines = 0
        self._grown_at = monotonic()
        self._times_opened = 0

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

    def read_appended(self) -> Iterator[Document]:
        """Yield what has been appended since; a file that is missing for the moment is looked for again."""
        try:
            if self._file is None:
                self._file = Path(self._path).open("rb")  # noqa: SIM115 - kept open between two reads
                self._rest, self._lines = b"", 0
                self._times_opened += 1
            yield from self._read_lines(self._file)
            if self._was_replaced(self._file):
                self.close()
        except OSError:
            self._file = None

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_lines(self, file: IO[bytes]) -> Iterator[Document]:
        """Yield the documents of the whole lines up to the end of the file, and of a last one that is whole as well."""
        has_grown = False
        while part := file.readline(MAX_LINE_BYTES):
            has_grown, self._grown_at = True, monotonic()
            self._rest += part
            if part.endswith(b"\n"):
                yield from self._take_line(self._skipped)
            elif len(self._rest) > MAX_LINE_BYTES:
                self._rest = b""
        # Nothing that continues a whole document is JSON.
        if has_grown and self._rest.rstrip().endswith((b"}", b"]")):
            rest = self._rest
            documents = list(self._take_line(SkippedInput()))
            yield from documents
            self._rest = b"" if documents else rest

    def _take_line(self, skipped: SkippedInput) -> Iterator[Document]:
        """Yield the documents of the line that was read."""
        line, self._rest = self._rest, b""
        where = f"{display_name(self._path)}:{self._lines + 1}"
        text = line if self._lines else line.removeprefix(UTF8_BOM)
        self._lines += line.endswith(b"\n")
        yield from parse_line(text, where, skipped)

    def _was_replaced(self, file: IO[bytes]) -> bool:
        """Return whether the path leads to another file by now, or to a shorter one."""
        try:
            current = Path(self._path).stat()
        except FileNotFoundError:
            return True
        known = os.fstat(file.fileno())
        return (current.st_ino, current.st_dev) != (known.st_ino, known.st_dev) or current.st_size < file.seek(
            0, os.SEEK_CUR
        )
