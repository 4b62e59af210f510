"""Builds the tables of a report: a column of names that may be long, and columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.tools.report.model_summary import ModelSummary
from otel_itl.tools.report.render.number_format import ABSENT, format_count, format_milliseconds, make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

INDENT = 2
_MIN_NAME_WIDTH = 12
_Row = TypeVar("_Row")


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    width: int
    above: str = ""
    """Stands above the heading."""
    group: str = ""
    """Stands above this column and the next ones of the same group, between rules."""
    kind: Literal["number", "text", "fold"] = "number"
    """Numbers are aligned on the right; what folds continues in the next line, anything else is cropped."""
    cell: Callable[[Any], RenderableType] = str
    """Makes the cell of what a row is about."""


def count_column(heading: str, field: str, width: int, **more: Any) -> Column:
    """Return a column of counts, given their field (dots lead into fields of fields); a zero is shown as absent."""
    find = attrgetter(field)
    return Column(heading, width, cell=lambda row: format_count(find(row)) if find(row) else ABSENT, **more)


def time_column(heading: str, field: str, width: int = 6, **more: Any) -> Column:
    """Return a column of times in milliseconds, given their field in seconds, as for `count_column`."""
    find = attrgetter(field)
    return Column(heading, width, cell=lambda row: format_milliseconds(find(row)), **more)


def cells_of(columns: Iterable[Column], row: Any) -> Iterator[RenderableType]:
    """Yield the cells that columns make of a row."""
    for column in columns:
        cell = column.cell(row)
        yield Text(cell) if isinstance(cell, str) else cell


def make_table(columns: Iterable[Column], *, has_head: bool = True) -> Table:
    """Return a table of these columns without rows."""
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"], show_header=has_head)
    for column in columns:
        table.add_column(
            column.heading,
            width=column.width,
            justify="right" if column.kind == "number" else "left",
            no_wrap=column.kind != "fold",
            overflow="fold" if column.kind == "fold" else "crop",
        )
    return table


def head_line(columns: Iterable[Column], terminal: Terminal) -> Text:
    """Return the line above the headings of a table; empty where nothing stands above any."""
    line = ""
    for group, members in groupby(columns, key=lambda column: column.group):
        if group:
            width = sum(column.width for column in members) - 1
            line += " " + f" {group} ".center(width, terminal.glyphs.rule)
        else:
            line += "".join(column.above.rjust(column.width) for column in members)
    return Text(line.rstrip(), style=STYLES["head"], no_wrap=True, overflow="crop")


class NamedTable:
    """A table with a first column of names. Where it has no room for the longest, names stand above their numbers.

    Args:
        names: what the column will contain.
        terminal: where the table is printed.
        columns: the others.
        title: heading of the column of names.
        reserved: the least width of a column that is added when its `room` is known.
    """

    def __init__(
        self, names: Iterable[str], terminal: Terminal, columns: Sequence[Column], title: str = "", reserved: int = 0
    ) -> None:
        longest = max((cell_len(make_printable(name)) + INDENT for name in names), default=0)
        other_columns = sum(column.width for column in columns)
        room = max(terminal.console.width - other_columns - reserved, _MIN_NAME_WIDTH)
        self._is_beside = longest <= room
        width = max(min(longest, room), len(title)) if self._is_beside else max(_MIN_NAME_WIDTH, len(title))
        self.room = terminal.console.width - width - other_columns
        """Columns of the terminal that are left."""
        self._terminal = terminal
        self._columns = [Column(title, width, kind="fold"), *columns]
        self._parts: list[RenderableType] = []

    def add_columns(self, *columns: Column) -> None:
        """Add columns that there is room for."""
        self._columns.extend(columns)

    def add_group(self, name: str) -> None:
        """Add a line with the name of what the rows below it belong to."""
        self._parts.append(Text(make_printable(name), style=STYLES["provider"]))

    def add_row(self, name: str, *cells: RenderableType) -> None:
        """Add the name of a row (empty: the one before) and its other cells."""
        shown = Padding(Text(make_printable(name), overflow="fold"), (0, 0, 0, INDENT))
        if not self._is_beside and name:
            self._parts.append(shown)
        row = make_table(self._columns, has_head=False)
        texts = (Text(cell) if isinstance(cell, str) else cell for cell in cells)
        row.add_row(shown if self._is_beside and name else "", *texts)
        self._parts.append(row)

    def add_rows(self, rows: Iterable[_Row], name: Callable[[_Row], str]) -> None:
        """Add a line for each row: its name, and the cells that the columns make of it."""
        for row in rows:
            self._add_line(name(row), row)

    def add_models(
        self,
        rows: Iterable[ModelSummary],
        name: Callable[[ModelSummary], str] = attrgetter("model"),
        lines: Callable[[ModelSummary], Sequence[Any]] = lambda row: [row],
    ) -> None:
        """Add the lines of each model, the first with its name, below a line for each provider.

        Args:
            rows: the models, ordered by provider.
            name: returns the name of a model.
            lines: returns what its lines are about; by default there is one, about the model.
        """
        for provider, of_provider in groupby(rows, key=lambda row: row.provider):
            self.add_group(provider)
            for row in of_provider:
                for index, line in enumerate(lines(row)):
                    self._add_line("" if index else name(row), line)

    def _add_line(self, name: str, row: Any) -> None:
        self.add_row(name, *cells_of(self._columns[1:], row))

    def __rich__(self) -> Group:
        """Return the headings, and below them the rows."""
        above = head_line(self._columns, self._terminal)
        return Group(*([above] if above else []), make_table(self._columns), *self._parts)


def wrap_name(name: str, width: int) -> RenderableType:
    """Return a name for a column of this width; a long one continues in the next line, after a separator if any."""
    room, rest, lines = width - INDENT, make_printable(name), []
    while len(rest) > room:
        cut = max(rest.rfind(separator, 0, room) for separator in "-/:_. ") + 1
        cut = cut if cut > room // 2 else room
        lines.append(rest[:cut])
        rest = rest[cut:]
    return Padding(Text("\n".join([*lines, rest]), overflow="fold"), (0, 0, 0, INDENT))
