"""Builds the tables of a report: a column of names that may be long, and columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.tools.report.render.number_format import make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

INDENT = 2
_MIN_NAME_WIDTH = 12


class NamedTable:
    """A table with a first column of names. Where it has no room for the longest, names stand above their numbers.

    Args:
        names: what the column will contain.
        terminal: where the table is printed.
        other_columns: the width of all other columns together, each of which has a width of its own.
        title: heading of the column.
    """

    def __init__(self, names: Iterable[str], terminal: Terminal, other_columns: int, title: str = "") -> None:
        longest = max((cell_len(make_printable(name)) + INDENT for name in names), default=0)
        room = max(terminal.console.width - other_columns, _MIN_NAME_WIDTH)
        self._is_beside = longest <= room
        self.width = max(min(longest, room), len(title)) if self._is_beside else max(_MIN_NAME_WIDTH, len(title))
        """Of the column of names."""
        self._columns: list[dict[str, Any]] = [{"header": title, "width": self.width, "overflow": "fold"}]
        self._parts: list[RenderableType] = []

    def add_column(self, header: str, **options: Any) -> None:
        """Add a column; `options` as for rich's."""
        self._columns.append({"header": header, **options})

    def add_head(self, line: RenderableType) -> None:
        """Add a line that the names below it belong to."""
        self._parts.append(line)

    def add_row(self, name: str, *cells: RenderableType) -> None:
        """Add the name of a row (empty: the one before) and its other cells."""
        shown = Padding(Text(make_printable(name), overflow="fold"), (0, 0, 0, INDENT))
        if not self._is_beside and name:
            self._parts.append(shown)
        row = self._new_table(has_head=False)
        row.add_row(shown if self._is_beside and name else "", *cells)
        self._parts.append(row)

    def __rich__(self) -> Group:
        """Return the headings, and below them the rows."""
        return Group(self._new_table(has_head=True), *self._parts)

    def _new_table(self, *, has_head: bool) -> Table:
        """Return a table without rows: all have the same columns, and so stand below each other."""
        table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"], show_header=has_head)
        for column in self._columns:
            table.add_column(**column)
        return table


def rows_by_provider(rows: Sequence[ModelSummary], add_head: Callable[[Text], None]) -> Iterator[ModelSummary]:
    """Yield the rows, after adding a line for each provider before its own rows."""
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        add_head(Text(make_printable(provider), style=STYLES["provider"]))
        yield from of_provider


def add_text_column(table: Table | NamedTable, heading: str, width: int) -> None:
    """Add a left-aligned column."""
    table.add_column(heading, width=width, no_wrap=True, overflow="crop")


def add_number_columns(table: Table | NamedTable, *columns: tuple[str, int]) -> None:
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
