"""Parses the JSON documents of a telemetry file, one per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from otel_itl.tools.report.json_text import parse_json
from otel_itl.tools.report.reading.lines import Line, display_name, read_lines
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason


class Document(NamedTuple):
    """One JSON document, and its place in the input as `FILE:LINE`."""

    where: str
    value: Any


def read_documents(source: str, skipped: SkippedInput) -> Iterator[Document]:
    """Yield the JSON documents of a source: one per line, or a list of several.

    A line that is not JSON, or is incomplete at the end of the file, is added to `skipped`; the next line is read.

    Raises:
        UnreadableSourceError: see `read_lines`.
    """
    for line in read_lines(source, skipped):
        yield from parse_line(line, display_name(source), skipped)


def parse_line(line: Line, name: str, skipped: SkippedInput) -> Iterator[Document]:
    """Yield the JSON documents of one line; a line that cannot be parsed is added to `skipped`.

    Args:
        line: of a source.
        name: of the source, for messages.
        skipped: receives what cannot be used.
    """
    if not line.text.strip():
        return
    where = f"{name}:{line.number}"
    try:
        value = parse_json(line.text)
    except (ValueError, RecursionError) as error:
        reason = SkipReason.NOT_JSON if line.is_complete else SkipReason.HALF_WRITTEN
        skipped.add(reason, where, _describe(error))
        return
    for document in value if isinstance(value, list) else (value,):
        yield Document(where, document)


def _describe(error: Exception) -> str:
    """Return why a line cannot be parsed. The parser's own words are left out: they differ from one to the other."""
    column = getattr(error, "colno", None)
    if column is not None:
        return f"it cannot be parsed from column {column:,} on"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it is not UTF-8 text" if isinstance(error, UnicodeError) else "it has a number that is too long"
