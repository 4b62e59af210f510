"""How many streams and gaps met their objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.report.render.number_format import ABSENT, counted, edge, printable, share
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.tables import INDENT, add_figures, folded, named_table
from otel_itl.report.render.terminal import Screen
from otel_itl.report.slo import Attainment

if TYPE_CHECKING:
    from rich.console import RenderableType

_FIGURES = (("streams", 9), ("met", 8), ("gaps", 9), ("met", 8))


def objective_table(slo: Sequence[Attainment], to: Screen) -> RenderableType:
    """A line for each objective."""
    objectives = [_objective(row) for row in slo]
    widest = max(map(len, objectives)) + INDENT
    rest = widest + sum(width for _, width in _FIGURES)
    table, width = named_table((row.profile for row in slo), to, rest, "objectives")
    table.add_column("", width=widest, overflow="fold")
    add_figures(table, *_FIGURES)
    for row, objective in zip(slo, objectives, strict=True):
        gaps = (ABSENT, ABSENT) if row.gaps is None else (counted(row.gaps), share(row.gaps_met or 0, row.gaps))
        table.add_row(
            folded(row.profile, width),
            Text("  " + objective),
            counted(row.streams),
            Text(share(row.streams_met, row.streams), style=_style(row)),
            *map(Text, gaps),
        )
    return table


def _objective(row: Attainment) -> str:
    times = [f"{what} {edge(time)}" for what, time in (("TTFT", row.ttft), ("ITL", row.itl)) if time]
    said = ", ".join(times) or ABSENT
    return printable(said if row.target is None else f"{said}, {100 * row.target:.6g} %")


def _style(row: Attainment) -> str:
    missed = row.target is not None and row.streams_met < row.target * row.streams
    return STYLES["outcome"] if missed else ""
