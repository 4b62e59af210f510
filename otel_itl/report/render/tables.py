"""Builds the tables of a report: a column of names that may be long, and columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.report.render.number_format import make_printable
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.terminal import Terminal
from otel_itl.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

INDENT = 2
_MIN_NAME_WIDTH = 12


def new_table(names: Iterable[str], terminal: Terminal, other_columns: int, title: str = "") -> tuple[Table, int]:
    """Make a table with a first column for names.

    Args:
        names: what the column will contain.
        terminal: where the table is printed.
        other_columns: the width of all other columns together.
        title: heading of the column.

    Returns:
        The table, and the width of the column: that of the longest name, where the other columns leave the room.
    """
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    longest = max((cell_len(make_printable(name)) + INDENT for name in names), default=0)
    width = max(min(max(longest, len(title)), terminal.console.width - other_columns), _MIN_NAME_WIDTH)
    table.add_column(title, width=width, overflow="fold")
    return table, width


def names_of(rows: Sequence[ModelSummary]) -> Iterator[str]:
    """Yield the names that a table of models shows."""
    for row in rows:
        yield row.model
        yield row.provider


def rows_by_provider(rows: Sequence[ModelSummary], table: Table) -> Iterator[ModelSummary]:
    """Yield the rows, after adding a line for each provider to the table before its own rows."""
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_row(Text(make_printable(provider), style=STYLES["provider"]))
        yield from of_provider


def add_text_column(table: Table, heading: str, width: int) -> None:
    """Add a left-aligned column."""
    table.add_column(heading, width=width, no_wrap=True, overflow="crop")


def add_number_columns(table: Table, *columns: tuple[str, int]) -> None:
    """Add right-aligned columns of these headings and widths."""
    for heading, width in columns:
        table.add_column(heading, width=width, justify="right", no_wrap=True, overflow="crop")


def head_line(text: str) -> Text:
    """Return a line above a table, for headings that span several columns."""
    return Text(text, style=STYLES["head"], no_wrap=True, overflow="crop")


def wrap_name(name: str, width: int) -> RenderableType:
    """Return a name for a column of this width; a long one continues in the next line, after a separator if any."""
    room, rest, lines = width - INDENT, make_printable(name), []
    while len(rest) > room:
        cut = max(rest.rfind(separator, 0, room) for separator in "-/:_. ") + 1
        cut = cut if cut > room // 2 else room
        lines.append(rest[:cut])
        rest = rest[cut:]
    return Padding(Text("\n".join([*lines, rest]), overflow="fold"), (0, 0, 0, INDENT))
