"""Prints a sweep to a terminal: the answer, a table of levels and figures, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_itl.tools.compare.quantities import Unit
from otel_itl.tools.report.render.number_format import ABSENT, make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal, print_to
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render import words
from otel_itl.tools.sweep.render.backlog import note_backlog
from otel_itl.tools.sweep.render.server import describe_server, note_server
from otel_itl.tools.sweep.results import Figure, LevelResult, Standing, quantities_of

_STYLES: Final = {
    Standing.WITHIN: "green",
    Standing.UNCERTAIN: "yellow",
    Standing.BEYOND: "bold red",
    Standing.FAILING: "bold red",
    Standing.SATURATED: "bold red",
}
_TITLE_COLUMNS: Final = 20
_LEVEL_COLUMNS: Final = 12
_MAX_NOTES: Final = 20


def print_sweep(result: SweepResult, terminal: Terminal) -> None:
    """Print a sweep, which begins with the answer in one sentence."""
    print_to(terminal, Group(*_parts(result, terminal)))


def _parts(result: SweepResult, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the parts of a sweep, with empty lines between them."""
    sweep, width = result.sweep, terminal.console.width
    yield Text(make_printable(words.headline(result)), style=STYLES["provider"])
    yield Text()
    yield Text(f"{make_printable(sweep.model)} at {make_printable(sweep.endpoint)}")
    yield Text(f"{words.describe_load(result)}; objective: {make_printable(words.describe_objective(sweep.objective))}")
    capacity = words.describe_capacity(result)
    if capacity is not None:
        yield Text(capacity)
    beside = max((width - _TITLE_COLUMNS) // _LEVEL_COLUMNS, 1)
    for start in range(0, len(result.levels), beside):
        yield Text()
        yield _table(result.levels[start : start + beside], result)
    notes = [*words.describe_notes(result), *note_backlog(result), *note_server(result)]
    if notes:
        yield Text()
        yield Text("Notes", style=STYLES["head"])
        yield from (Padding(Text(make_printable(note)), (0, 0, 0, 2)) for note in notes[:_MAX_NOTES])
        if len(notes) > _MAX_NOTES:
            yield Text(f"  … and {len(notes) - _MAX_NOTES:,} more: --json has them all.")


def _table(levels: Sequence[LevelResult], result: SweepResult) -> Table:
    """Return the figures of some levels, a column for each, with the intervals below the values."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style=STYLES["head"])
    table.add_column("", no_wrap=True)
    for level in levels:
        table.add_column(words.format_level(level.level), justify="right", no_wrap=True)
    table.add_row("streams", *_known(levels, lambda level: words.format_streams(level.concurrency)))
    table.add_row("objective" if result.sweep.objective else "throughput", *(_standing(one, result) for one in levels))
    for quantity in quantities_of(result.sweep.objective):
        figures = [level.figures.get(quantity.key) for level in levels]
        table.add_row(quantity.heading, *(words.format_level_figure(level, quantity) for level in levels))
        intervals = [_interval(figure, quantity.unit) for figure in figures]
        if any(intervals):
            table.add_row("", *(Text(interval, style=STYLES["head"]) for interval in intervals))
    table.add_row("requests", *_known(levels, lambda level: f"{level.due:,}"))
    table.add_row("failed", *_known(levels, lambda level: f"{level.errors.total():,}"))
    for title, cells in describe_server(levels):
        table.add_row(title, *cells)
    return table


def _known(levels: Sequence[LevelResult], cell: Callable[[LevelResult], str]) -> list[str]:
    """Return a cell for each level; `ABSENT` for a void one."""
    return [cell(level) if level.figures else ABSENT for level in levels]


def _standing(level: LevelResult, result: SweepResult) -> Text:
    """Return how a level stands to the objective, in its colour."""
    style = STYLES["head"] if level.standing is None else _STYLES[level.standing]
    return Text(words.describe_standing(level, result), style=style)


def _interval(figure: Figure | None, unit: Unit) -> str:
    """Return the interval of a figure for a narrow column; empty, where it has none, or no width."""
    if figure is None or figure.interval is None or len(set(figure.interval)) == 1:
        return ""
    return "-".join(words.format_value(end, unit) for end in figure.interval)
