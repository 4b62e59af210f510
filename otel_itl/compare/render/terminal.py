"""Prints a comparison to a terminal: the answer, a table for each model, and what the answers rest on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.compare.comparison import Comparison, Figure, Row
from otel_itl.compare.render.words import HEADINGS, cells_of, describe_errors, describe_side, note_of, title_of
from otel_itl.compare.verdicts import Answer
from otel_itl.report.render.number_format import ABSENT, format_three_digits, make_printable
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.terminal import Terminal, print_to

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
_MIN_TITLE_WIDTH = 15
_MIN_ANSWER_WIDTH = len("not enough")
"""An answer of two or three words takes two lines where the terminal is narrow."""
_BASIS = ("clusters", "samples", "worth", "design effect")


def print_comparison(comparison: Comparison, sentence: str, terminal: Terminal) -> None:
    """Print a comparison, which begins with the answer in one sentence."""
    print_to(terminal, Group(*_parts(comparison, sentence)))


def _parts(comparison: Comparison, sentence: str) -> Iterator[RenderableType]:
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
        yield _answers(comparison)
        yield Text()
        yield Text("What the answers rest on, A / B", style=STYLES["head"])
        yield _basis(comparison)
    notes = [f"{row.model}, {row.quantity.title}: {note_of(row, comparison)}." for row in comparison.rows if row.why]
    if notes:
        yield Text()
        yield Text("What is missing", style=STYLES["head"])
        yield from (Padding(Text(make_printable(note)), (0, 0, 0, 2)) for note in notes[:_MAX_NOTES])
        if len(notes) > _MAX_NOTES:
            yield Text(f"  … and in {len(notes) - _MAX_NOTES:,} more rows: --json has them all.")
    if comparison.only_in:
        models = ", ".join(
            f"{make_printable(model)} (only in {make_printable(side)})" for model, side in comparison.only_in
        )
        yield Text()
        yield Text(f"Not compared: {models}.")


def _answers(comparison: Comparison) -> Table:
    """Return the figures of both sides, the ratios and the answers."""
    table = _new_table()
    for heading in HEADINGS[:-1]:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(HEADINGS[-1], min_width=_MIN_ANSWER_WIDTH)
    for row in _rows_by_model(comparison, table):
        *cells, answer = cells_of(row)
        table.add_row(f"  {title_of(row.quantity)}", *cells, Text(answer, style=_STYLES[row.answer]))
    return table


def _basis(comparison: Comparison) -> Table:
    """Return what the answers rest on: how many samples, and how many independent ones they are worth."""
    table = _new_table()
    for heading in _BASIS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows_by_model(comparison, table):
        cells = zip(*(_basis_cells(figure) for figure in (row.a, row.b)), strict=True)
        table.add_row(f"  {row.quantity.title}", *(" / ".join(pair) for pair in cells))
    return table


def _basis_cells(figure: Figure) -> tuple[str, ...]:
    """Return what one side's figure rests on, in the order of `_BASIS`."""
    effect = ABSENT if figure.design_effect is None else format_three_digits(figure.design_effect)
    return f"{figure.clusters:,}", f"{figure.samples:,}", f"{figure.effective_samples:,}", effect


def _new_table() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=STYLES["head"])
    table.add_column("", overflow="fold", min_width=_MIN_TITLE_WIDTH)
    return table


def _rows_by_model(comparison: Comparison, table: Table) -> Iterator[Row]:
    """Yield the rows, after adding a line for each model to the table before its own rows."""
    for model, rows in groupby(comparison.rows, key=lambda row: row.model):
        table.add_row(Text(make_printable(model), style=STYLES["provider"]))
        yield from rows
