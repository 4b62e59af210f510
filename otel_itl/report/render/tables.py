"""What the tables of a report share: a column of names that may be long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.report.render.number_format import printable
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.terminal import Screen

if TYPE_CHECKING:
    from rich.console import RenderableType

INDENT = 2
_LEAST_NAME = 12


def named_table(names: Iterable[str], to: Screen, rest: int, title: str = "") -> tuple[Table, int]:
    """A table with a column for names: as wide as the longest, if the `rest` of the table leaves it room."""
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    longest = max((cell_len(printable(name)) + INDENT for name in names), default=0)
    width = max(min(max(longest, len(title)), to.console.width - rest), _LEAST_NAME)
    table.add_column(title, width=width, overflow="fold")
    return table, width


def add_figures(table: Table, *headings: tuple[str, int]) -> None:
    """Columns of figures, with their headings and widths."""
    for heading, width in headings:
        table.add_column(heading, width=width, justify="right", no_wrap=True, overflow="crop")


def folded(text: str, width: int) -> RenderableType:
    """A name; one that is too long goes on in the next line, after a separator where it has one."""
    room, rest, lines = width - INDENT, printable(text), []
    while len(rest) > room:
        cut = max(rest.rfind(separator, 0, room) for separator in "-/:_. ") + 1
        cut = cut if cut > room // 2 else room
        lines.append(rest[:cut])
        rest = rest[cut:]
    return Padding(Text("\n".join([*lines, rest]), overflow="fold"), (0, 0, 0, INDENT))
