"""Builds the tables of a report: a column of names that may be long, and columns of numbers, none of which is cut.

Where a terminal is too narrow for all columns, names are shortened in the middle; where that is not enough, the table
is continued below with the columns that are left, under the same names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size
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
_MIN_NAME_WIDTH = 24
"""Names are not shortened to fewer columns, the indent included."""
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
    """Numbers are aligned on the right; what folds may continue in the next line."""
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
            overflow="fold",
        )
    return table


def fit_columns(columns: Iterable[Column], rows: Sequence[Any]) -> list[Column]:
    """Return the columns that have anything for any row, each as wide as its widest cell with a blank before it.

    Where no column of numbers has anything, all are there.
    """
    fitted = [(column, [str(column.cell(row)) for row in rows]) for column in columns]
    is_empty = all({*cells} == {ABSENT} for column, cells in fitted if column.kind == "number")
    shown = [
        column._replace(
            width=max(column.width, *(cell_len(text) + 1 for text in (column.heading, column.above, *cells)))
        )
        for column, cells in fitted
        if is_empty or {*cells} != {ABSENT} or column.kind != "number"
    ]
    return [column for group, members in groupby(shown, key=_find_group) for column in _widen(list(members), group)]


def _find_group(column: Column) -> str:
    return column.group


def _widen(columns: list[Column], group: str) -> list[Column]:
    """Return the columns of a group, the first of which makes room for the name of the group between its rules."""
    missing = len(group) + 3 - sum(column.width for column in columns) if group else 0
    return [columns[0]._replace(width=columns[0].width + max(missing, 0)), *columns[1:]]


def shorten_middle(name: str, width: int, dots: str) -> str:
    """Return a name that has its beginning, dots and its end where it is longer than a width: `degrad…ing-1`."""
    if cell_len(name) <= width:
        return name
    left = max(width - len(dots), 1)
    return set_cell_size(name, left - left // 2).rstrip() + dots + name[len(name) - left // 2 :]


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
    """A table with a first column of names, and below each other as many parts as its columns need.

    Args:
        names: what the column will contain.
        terminal: where the table is printed.
        columns: the others, as wide as their cells (`fit_columns`).
        title: heading of the column of names.
        reserved: the least width of a column that is added when its `room` is known.
    """

    def __init__(
        self, names: Iterable[str], terminal: Terminal, columns: Sequence[Column], title: str = "", reserved: int = 0
    ) -> None:
        self._terminal = terminal
        self._width = terminal.console.width
        shown = {make_printable(name) for name in names}
        longest = max(map(cell_len, shown), default=0) + INDENT
        all_columns = sum(column.width for column in columns) + reserved
        self._name_width = self._fit_names(shown, max(longest, len(title)), len(title), self._width - all_columns)
        if self._width - self._name_width < _widest_group(columns):
            self._name_width = 0
        self._is_beside = self._name_width > 0
        width = self._name_width or max(len(title), 2 * INDENT)
        self._names = Column(title, width, kind="fold")
        self._bands = list(_split_columns(columns, self._width - width, reserved))
        self._lines: list[tuple[str, Sequence[RenderableType] | None]] = []
        """Each row's name and cells, and each group's name and None."""

    @property
    def room(self) -> int:
        """Columns of the terminal that are left beside the last part."""
        return self._width - self._names.width - sum(column.width for column in self._bands[-1])

    def add_columns(self, *columns: Column) -> None:
        """Add columns that there is room for."""
        self._bands[-1].extend(columns)

    def add_group(self, name: str) -> None:
        """Add a line with the name of what the rows below it belong to."""
        self._lines.append((make_printable(name), None))

    def add_row(self, name: str, *cells: RenderableType) -> None:
        """Add the name of a row (empty: the one before) and its other cells."""
        self._lines.append((make_printable(name), [Text(cell) if isinstance(cell, str) else cell for cell in cells]))

    def add_rows(self, rows: Iterable[_Row], name: Callable[[_Row], str]) -> None:
        """Add a line for each row: its name, and the cells that the columns make of it."""
        for row in rows:
            self._add_line(name(row), row)

    def add_models(
        self,
        rows: Iterable[ModelSummary],
        name: Callable[[ModelSummary], str] = attrgetter("name"),
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

    def __rich__(self) -> Group:
        """Return the headings and the rows of each part."""
        parts: list[RenderableType] = []
        start = 0
        for band in self._bands:
            columns = [self._names, *band]
            above = head_line(columns, self._terminal)
            parts += [*([Text()] if start else []), *([above] if above else []), make_table(columns)]
            for name, cells in self._lines:
                parts += self._draw_line(name, columns, cells and cells[start : start + len(band)])
            start += len(band)
        return Group(*parts)

    def _add_line(self, name: str, row: Any) -> None:
        self.add_row(name, *cells_of([column for band in self._bands for column in band], row))

    def _draw_line(
        self, name: str, columns: Sequence[Column], cells: Sequence[RenderableType] | None
    ) -> Iterator[RenderableType]:
        """Yield the name of a group, or a row with its name beside its cells or above them."""
        if cells is None:
            yield Text(name, style=STYLES["provider"], overflow="fold")
            return
        if name and not self._is_beside:
            yield Padding(Text(name, overflow="fold"), (0, 0, 0, INDENT))
        dots = "..." if self._terminal.is_plain else "…"
        short = shorten_middle(name, self._names.width - INDENT, dots) if self._is_beside else ""
        row = make_table(columns, has_head=False)
        row.add_row(Padding(Text(short, overflow="fold"), (0, 0, 0, INDENT)), *cells)
        yield row

    def _fit_names(self, names: Collection[str], longest: int, least: int, room: int) -> int:
        """Return the width of the column of names; 0: they stand above their numbers.

        They are beside the numbers in full or, if they remain different, shortened; so they are where the table is
        continued below.

        Args:
            names: all of them.
            longest: the width of the longest, with its indent.
            least: the width of the title.
            room: what all other columns leave.
        """
        for width in (room, max(self._width // 3, _MIN_NAME_WIDTH)):
            fitted = min(longest, width)
            short = {shorten_middle(name, fitted - INDENT, "...") for name in names}
            if fitted == longest or (fitted >= max(_MIN_NAME_WIDTH, least) and len(short) == len(names)):
                return fitted
        return 0


def _widest_group(columns: Iterable[Column]) -> int:
    """Return the width of the widest group of columns, which stay side by side below the name of their group."""
    of_group = Counter[str]()
    for column in columns:
        of_group[column.group] += column.width if column.group else 0
    return max(of_group.values(), default=0)


def _split_columns(columns: Iterable[Column], room: int, reserved: int) -> Iterator[list[Column]]:
    """Yield the columns of each part of a table: those of a group together, unless the group alone has no room."""
    band: list[Column] = []
    left = room
    for group, members in groupby(columns, key=lambda column: column.group):
        unit = list(members)
        is_whole = bool(group) and sum(column.width for column in unit) <= room
        for piece in [unit] if is_whole else [[column] for column in unit]:
            needed = sum(column.width for column in piece)
            if band and needed > left:
                yield band
                band, left = [], room
            band += [column._replace(width=min(column.width, room)) for column in piece]
            left -= needed
    if band and reserved > left:
        yield band
        band = []
    yield band
