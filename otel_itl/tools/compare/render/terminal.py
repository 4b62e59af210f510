"""Prints a comparison to a terminal: the answer, a table for each model, and what the answers rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from otel_itl.tools.compare.render import words
from otel_itl.tools.compare.results import Comparison, Figure, Row
from otel_itl.tools.compare.verdicts import Answer
from otel_itl.tools.report.render.number_format import ABSENT, format_three_digits, make_printable, pluralize
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import INDENT, Column, NamedTable
from otel_itl.tools.report.render.terminal import Terminal, print_to

_STYLES: Final = {
    Answer.SLOWER: "bold red",
    Answer.SLOWER_SOMEHOW: "red",
    Answer.SAME: "green",
    Answer.NOT_SLOWER: "green",
    Answer.LONGER: "",
    Answer.SHORTER: "",
    Answer.MORE: "",
    Answer.FEWER: "",
    Answer.BUFFERED: "yellow",
    Answer.FASTER: "green",
    Answer.NOT_ENOUGH_DATA: "yellow",
    Answer.MACHINE_DECIDES: "yellow",
}
_MAX_NOTES = 10
_BASIS = ("clusters", "samples", "worth", "design effect")


def print_comparison(comparison: Comparison, sentence: str, terminal: Terminal) -> None:
    """Print a comparison, which begins with the answer in one sentence."""
    print_to(terminal, Group(*_parts(comparison, sentence, terminal)))


def _parts(comparison: Comparison, sentence: str, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the parts of a comparison, with empty lines between them."""
    yield Text(make_printable(sentence), style=STYLES["provider"])
    yield Text()
    for letter, side in comparison.sides.items():
        yield Text(f"{letter}  {make_printable(side.name)}: {words.describe_side(side)}")
        yield from (Padding(Text(note), (0, 0, 0, 3)) for note in words.describe_errors(side))
    if comparison.is_paired:
        yield Text(words.PAIRED)
    if comparison.rows:
        yield Text()
        yield _answers(comparison, terminal)
        yield from (Text(line) for line in words.describe_compared_prompts(comparison))
        yield Text()
        yield Text("What the answers rest on, A / B", style=STYLES["head"])
        yield _basis(comparison, terminal)
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


def _note(rows: Sequence[Row], comparison: Comparison) -> str:
    """Return what is missing of rows for the same reason: `12 rows, such as TPOT of openai / m: the interval …`."""
    first = f"{rows[0].quantity.title} of {rows[0].model}"
    which = first if len(rows) == 1 else f"{len(rows):,} rows, such as {first}"
    return f"{which}: {words.note_of(rows[0], comparison)}."


def _answers(comparison: Comparison, terminal: Terminal) -> NamedTable:
    """Return the figures of both sides, the ratios and the answers."""
    lines = [["", *words.HEADINGS], *([row.quantity.heading, *words.cells_of(row)] for row in comparison.rows)]
    if _find_width(lines) > terminal.console.width:
        lines = [[cell.replace(" (", "\n(") for cell in line] for line in lines]
    return _table(comparison, lines, terminal, [_STYLES[row.answer] for row in comparison.rows])


def _basis(comparison: Comparison, terminal: Terminal) -> NamedTable:
    """Return what the answers rest on: how many samples, and how many independent ones they are worth."""
    lines = [["", *_BASIS]]
    for row in comparison.rows:
        pairs = zip(_basis_cells(row.a), _basis_cells(row.b), strict=True)
        lines.append([row.quantity.title, *map(" / ".join, pairs)])
    return _table(comparison, lines, terminal)


def _table(
    comparison: Comparison, lines: Sequence[Sequence[str]], terminal: Terminal, styles: Sequence[str] = ()
) -> NamedTable:
    """Return a table with a line for each model and below it its rows.

    Args:
        comparison: whose rows they are.
        lines: the headings, and the cells of each row, of which the first is its title.
        terminal: where the table is printed.
        styles: of the last cell of each row, which is text then, and wrapped where there is no room; empty: it is a
            number.
    """
    room, (titles, *columns) = terminal.console.width, zip(*lines, strict=True)
    gap = 2 if _find_width(lines) <= room else 1
    described = [Column(heading, gap + _longest_line([heading, *cells])) for heading, *cells in columns]
    if styles:
        left = room - INDENT - _longest_line(titles) - sum(column.width for column in described[:-1])
        heading, longest_word = columns[-1][0], _longest_line(" ".join(columns[-1]).split())
        described[-1] = Column(" " * gap + heading, max(left, gap + longest_word), kind="fold")
    table = NamedTable(titles, terminal, described)
    for model, of_model in groupby(zip_longest(comparison.rows, lines[1:], styles), key=lambda one: one[0].model):
        table.add_group(model)
        for _, (title, *cells), style in of_model:
            last = Padding(Text(cells[-1], style=style), (0, 0, 0, gap)) if styles else cells[-1]
            table.add_row(title, *cells[:-1], last)
    return table


def _find_width(lines: Sequence[Sequence[str]]) -> int:
    """Return the columns of the terminal that a table takes with two between its columns."""
    columns = list(zip(*lines, strict=True))
    return INDENT + sum(map(_longest_line, columns)) + 2 * len(columns) - 2


def _longest_line(cells: Sequence[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _basis_cells(figure: Figure) -> tuple[str, ...]:
    """Return what one side's figure rests on, in the order of `_BASIS`."""
    effect = ABSENT if figure.design_effect is None else format_three_digits(figure.design_effect)
    return f"{figure.clusters:,}", f"{figure.samples:,}", f"{figure.effective_samples:,}", effect
