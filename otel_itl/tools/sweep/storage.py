"""Reads the streams that a sweep has measured, as a report does, and stores them in a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from typing import Final

from otel_itl.core import conventions as names
from otel_itl.export.file.encoding import Document as OTLPDocument
from otel_itl.export.file.encoding import to_line
from otel_itl.tools.report.reading.documents import Document
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, StreamReader
from otel_itl.tools.sweep.measurement import SERVICE_NAME, take_document
from otel_itl.tools.sweep.records import DueRequest

_STREAMS_PER_TURN: Final = 20
"""Streams that are read before the event loop gets a turn: for Ctrl-C, and the display."""
_OWNER_ONLY: Final = 0o600


class StreamStore:
    """Reads and stores the streams of requests that have ended.

    Args:
        output: a new file, readable by its owner only; None: no file.

    Raises:
        OSError: the file cannot be created; FileExistsError: it exists.
    """

    def __init__(self, output: str | None) -> None:
        self._output = output
        self._file = None if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        self._reader = StreamReader(SkippedInput())
        self._unwritten: list[OTLPDocument] = []

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        if self._file is not None and self._output is not None:
            is_empty = not os.fstat(self._file).st_size
            os.close(self._file)
            if is_empty:
                os.unlink(self._output)  # noqa: PTH108 - as it was opened

    async def collect(self, requests: Iterable[DueRequest]) -> AsyncIterator[tuple[DueRequest, StoredStream]]:
        """Read the streams of requests that have ended, as a report does. Their spans are dropped.

        Args:
            requests: the requests of one round; `store` writes them.

        Yields:
            Each request whose stream began, with its stream.
        """
        for number, request in enumerate(requests):
            document = take_document(request)
            if document is None:
                continue
            self._unwritten.append(document)
            for stream in self._reader.read(Document(SERVICE_NAME, document)):
                yield request, stream
            if number % _STREAMS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def store(self, *, is_counted: bool) -> None:
        """Write what was collected to the file, if there is one.

        Args:
            is_counted: the round counts; else its streams are stored without their level, so that no comparison of
                levels includes them.

        Raises:
            OSError: the file cannot be written.
        """
        documents, self._unwritten = self._unwritten, []
        if self._file is None:
            return
        for number, document in enumerate(documents):
            rest = memoryview(to_line(document if is_counted else _without_level(document)))
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if number % _STREAMS_PER_TURN == 0:
                await asyncio.sleep(0)


def _without_level(document: OTLPDocument) -> OTLPDocument:
    """Remove the level from the spans of a document."""
    for of_resource in document["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                span["attributes"] = [one for one in span["attributes"] if one["key"] != names.SWEEP_LEVEL]
    return document
