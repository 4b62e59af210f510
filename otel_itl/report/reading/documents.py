"""The JSON documents of a telemetry file: one a line, or written over several lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from otel_itl.report.reading.lines import MOST_BYTES, Line, read_lines, title
from otel_itl.report.reading.skipped_input import Loss, SkippedInput

try:
    from orjson import loads as _orjson_loads

    _loads: Callable[[bytes], Any] = _orjson_loads
except ImportError:
    _loads = json.loads

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OPENS_A_LINE = (b'{"resource', b'[{"resource')


class Document(NamedTuple):
    """One JSON document and where it begins, as `FILE:LINE`."""

    where: str
    value: Any


def read_documents(source: str, losses: SkippedInput) -> Iterator[Document]:
    """Yield the JSON documents of a source, line by line.

    A document may also span lines (indented JSON), and several may stand on one line. A line that is not JSON is a
    loss, and reading goes on after it; so is a last line that was still being written.

    Raises:
        UnreadableError: see `read_lines`.
    """
    spread = _Spread()
    for line in read_lines(source, losses):
        text = line.text.strip()
        if not text:
            continue
        if spread.depth:
            if not text.startswith(_OPENS_A_LINE):
                whole = spread.add(text)
                if whole is not None:
                    yield from _parsed(source, spread.first, whole, losses)
                continue
            losses.note(Loss.NOT_JSON, f"{title(source)}:{spread.first.number}", "it breaks off")
            spread = _Spread()
        if not spread.begin(line, text):
            yield from _parsed(source, line, text, losses)
    if spread.depth:
        losses.note(Loss.HALF_WRITTEN, f"{title(source)}:{spread.first.number}")


class _Spread:
    """A document that spans lines. No string of JSON does, so brackets outside of strings tell where it ends."""

    def __init__(self) -> None:
        self.first = Line(0, b"", ended=True)
        self.depth = 0
        self._parts: list[bytes] = []
        self._size = 0

    def begin(self, line: Line, text: bytes) -> bool:
        """Whether a line is the first of a document that goes on after it."""
        if not line.ended or text[:1] not in b"{[" or text[-1:] not in b"{[,":
            return False
        self.depth = _depth(text)
        if self.depth > 0:
            self.first, self._parts, self._size = line, [text], len(text)
            return True
        self.depth = 0
        return False

    def add(self, text: bytes) -> bytes | None:
        """Take the next line; returns the document when it is whole."""
        self._parts.append(text)
        self._size += len(text)
        self.depth = max(self.depth + _depth(text), 0)
        if self.depth and self._size <= MOST_BYTES:
            return None
        self.depth = 0
        return b"\n".join(self._parts)


def _depth(text: bytes) -> int:
    bare = _STRING.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _parsed(source: str, line: Line, text: bytes, losses: SkippedInput) -> Iterator[Document]:
    where = f"{title(source)}:{line.number}"
    try:
        values = [_loads(text)]
    except (ValueError, RecursionError) as error:
        values = _side_by_side(text)
        if not values:
            losses.note(Loss.NOT_JSON if line.ended else Loss.HALF_WRITTEN, where, _reason(error))
            return
    for value in values:
        for document in value if isinstance(value, list) else (value,):
            yield Document(where, document)


def _side_by_side(text: bytes) -> list[Any]:
    """The documents of a line that holds several; none where any of them is broken."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    try:
        rest = text.decode()
        while rest := rest.lstrip():
            value, end = decoder.raw_decode(rest)
            if not isinstance(value, dict):
                return []
            values.append(value)
            rest = rest[end:]
    except (ValueError, RecursionError):
        return []
    return values


def _reason(error: Exception) -> str:
    """Why a parser refused, without its position in a line that may be megabytes long."""
    return str(getattr(error, "msg", error)).partition(": line ")[0]
