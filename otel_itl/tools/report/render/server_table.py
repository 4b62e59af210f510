"""Renders the times that servers report of their own work, beside those that were measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.tools.report.render.number_format import format_count, format_milliseconds
from otel_itl.tools.report.render.tables import (
    NamedTable,
    add_number_columns,
    head_line,
    rows_by_provider,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 7
"""Columns of a time, with the blank before it."""
_COUNT_WIDTH = 8
_REPORTED = ("load", "prompt", "decode", "byte 1", "total")
_MEASURED = ("TTFT", "decode", "total")


def server_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with the medians of each model that has server times."""
    times = (*_REPORTED, *_MEASURED)
    rows = [row for row in rows if row.server is not None]
    table = NamedTable((row.model for row in rows), terminal, _COUNT_WIDTH + len(times) * _WIDTH)
    add_number_columns(table, ("streams", _COUNT_WIDTH), *((heading, _WIDTH) for heading in times))
    above = " " * (table.width + _COUNT_WIDTH)
    for title, columns in (("by the server, ms", _REPORTED), ("measured here, ms", _MEASURED)):
        above += " " + f" {title} ".center(len(columns) * _WIDTH - 1, terminal.glyphs.rule)
    for row in rows_by_provider(rows, table.add_head):
        table.add_row(row.model, *map(Text, _cells(row)))
    yield head_line(above)
    yield table


def _cells(row: ModelSummary) -> Iterator[str]:
    """Yield the numbers of a row."""
    server = row.server
    if server is None:
        return
    yield format_count(server.streams)
    reported = (server.load, server.prompt, server.decode, server.first_byte, server.total)
    yield from map(format_milliseconds, (*reported, server.time_to_first_token, server.decode_time, server.duration))
