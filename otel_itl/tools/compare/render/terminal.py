"""Prints a comparison to a terminal: the answer, a table for each model, and what the answers rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.tools.compare.comparison import Comparison, Figure, Row
from otel_itl.tools.compare.render.words import HEADINGS, cells_of, describe_errors, describe_side, note_of, title_of
from otel_itl.tools.compare.verdicts import Answer
from otel_itl.tools.report.render.number_format import ABSENT, format_three_digits, make_printable, pluralize
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal, print_to

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES: Final = {
    Answer.SLOWER: "bold red",
    Answer.SAME: "green",
    Answer.FASTER: "green",
    Answer.NOT_ENOUGH_DATA: "yellow",
    Answer.MACHINE_DECIDES: "yellow",
}
_MAX_NOTES = 10
_LESS_NEEDED: Final = ("p", "B / A")
_MIN_ANSWER_WIDTH = len("not enough")
"""An answer of two or three words takes two lines where the terminal is narrow."""
_BASIS = ("clusters", "samples", "worth", "design effect")


def print_comparison(comparison: Comparison, sentence: str, terminal: Terminal) -> None:
    """Print a comparison, which begins with the answer in one sentence."""
    print_to(terminal, Group(*_parts(comparison, sentence, terminal.console.width)))


def _parts(comparison: Comparison, sentence: str, width: int) -> Iterator[RenderableType]:
    """Yield the parts of a comparison, with empty lines between them."""
    yield Text(make_printable(sentence), style=STYLES["provider"])
    yield Text()
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield Text(f"{letter}  {make_printable(side.name)}: {describe_side(side)}")
        yield from (Padding(Text(note), (0, 0, 0, 3)) for note in describe_errors(side))
    if comparison.is_paired:
        yield Text("Both sides have the same sessions or requests: each is compared with itself.")
    if comparison.rows:
        yield Text()
        yield from _answers(comparison, width)
        yield Text()
        yield Text("What the answers rest on, A / B", style=STYLES["head"])
        yield from _basis(comparison, width)
    missing: dict[str, list[Row]] = {}
    for row in comparison.rows:
        if row.why:
            missing.setdefault(row.why, []).append(row)
    if missing:
        yield Text()
        yield Text("What is missing", style=STYLES["head"])
        groups = sorted(missing.values(), key=len, reverse=True)
        notes = [_note(rows, comparison) for rows in groups[:_MAX_NOTES]]
        yield from (Padding(Text(make_printable(note)), (0, 0, 0, 2)) for note in notes)
        if len(groups) > _MAX_NOTES:
            more = sum(map(len, groups[_MAX_NOTES:]))
            yield Text(f"  … and in {pluralize(more, 'more row')}: --json has them all.")
    if comparison.only_in:
        models = ", ".join(
            f"{make_printable(model)} (only in {make_printable(side)})" for model, side in comparison.only_in
        )
        yield Text()
        yield Text(f"Not compared: {models}.")


def _note(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return what is missing of rows for the same reason: `12 rows, such as TPOT of openai / m: the interval …`."""
    first = f"{rows[0].quantity.title} of {rows[0].model}"
    return f"{first if len(rows) == 1 else f'{len(rows):,} rows, such as {first}'}: {note_of(rows[0], comparison)}."


class _Column(NamedTuple):
    """A column of a table: its heading, and a cell for each row."""

    heading: str
    cells: Sequence[str]
    styles: Sequence[str] = ()
    """Of the cells, which are text then, and wrapped where there is no room; empty: they are numbers."""

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        return max(map(len, (self.heading, *self.cells)))


def _answers(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """Yield the figures of both sides, the ratios and the answers; in a narrow terminal without p and the ratio."""
    cells = zip(*map(cells_of, comparison.rows), strict=True)
    *numbers, answers = (_Column(heading, of_column) for heading, of_column in zip(HEADINGS, cells, strict=True))
    answers = answers._replace(styles=[_STYLES[row.answer] for row in comparison.rows])
    titles = _Column("", [f"  {title_of(row.quantity)}" for row in comparison.rows])
    for heading in _LESS_NEEDED:
        if sum(column.width + 1 for column in (titles, *numbers)) + _MIN_ANSWER_WIDTH > width:
            numbers = [column for column in numbers if column.heading != heading]
    yield from _tables(comparison, [titles, *numbers, answers], width)


def _basis(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """Yield what the answers rest on: how many samples, and how many independent ones they are worth."""
    cells = [
        [" / ".join(pair) for pair in zip(_basis_cells(row.a), _basis_cells(row.b), strict=True)]
        for row in comparison.rows
    ]
    columns = [_Column(heading, of_column) for heading, of_column in zip(_BASIS, zip(*cells, strict=True), strict=True)]
    titles = _Column("", [f"  {row.quantity.title}" for row in comparison.rows])
    yield from _tables(comparison, [titles, *columns], width)


def _tables(comparison: Comparison, columns: Sequence[_Column], width: int) -> Iterator[RenderableType]:
    """Yield the headings, and for each model its name and a table of its rows; all tables have the same columns."""
    widths = [column.width for column in columns]
    gap = 2 if sum(widths) + 2 * len(widths) - 2 <= width else 1
    if columns[-1].styles:
        widths[-1] = max(min(widths[-1], width - sum(widths[:-1]) - gap * len(widths[:-1])), _MIN_ANSWER_WIDTH)

    def new_table(*, has_head: bool) -> Table:
        """Return a table of these columns without rows."""
        table = Table(
            box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style=STYLES["head"], show_header=has_head
        )
        for number, column in enumerate(columns):
            is_text = number == 0 or bool(column.styles)
            table.add_column(
                column.heading,
                width=widths[number],
                justify="left" if is_text else "right",
                no_wrap=not column.styles,
            )
        return table

    yield new_table(has_head=True)
    for model, numbered in groupby(enumerate(comparison.rows), key=lambda one: one[1].model):
        yield Text(make_printable(model), style=STYLES["provider"])
        table = new_table(has_head=False)
        for number, _ in numbered:
            table.add_row(
                *(
                    Text(column.cells[number], style=column.styles[number] if column.styles else "")
                    for column in columns
                )
            )
        yield table


def _basis_cells(figure: Figure) -> tuple[str, ...]:
    """Return what one side's figure rests on, in the order of `_BASIS`."""
    effect = ABSENT if figure.design_effect is None else format_three_digits(figure.design_effect)
    return f"{figure.clusters:,}", f"{figure.samples:,}", f"{figure.effective_samples:,}", effect
