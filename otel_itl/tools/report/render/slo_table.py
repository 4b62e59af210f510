"""Renders how many streams and gaps met their SLOs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_count,
    format_edge,
    format_share,
    make_printable,
    pluralize,
)
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import INDENT, Column, NamedTable
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.slo import SLOSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (Column("streams", 9), Column("met", 13), Column("gaps", 9), Column("met", 8))
_FLUIDITY = Column("fluidity", 10)


def slo_table(summaries: Sequence[SLOSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each SLO; where there is room, with the fluidity index."""
    objectives = [_objectives(summary) for summary in summaries]
    widest = max(map(len, objectives)) + INDENT
    names_width = max(len(summary.profile) for summary in summaries) + INDENT
    columns = [Column("", widest, kind="fold"), *_COLUMNS]
    has_fluidity = any(summary.fluidity is not None for summary in summaries)
    if has_fluidity and names_width + sum(one.width for one in (*columns, _FLUIDITY)) <= terminal.console.width:
        columns.append(_FLUIDITY)
    table = NamedTable((summary.profile for summary in summaries), terminal, columns, "objectives")
    for summary, objective in zip(summaries, objectives, strict=True):
        cells = ["  " + objective, *_cells(summary)]
        table.add_row(summary.profile, *cells[: len(columns)])
    yield table
    unknown = [
        f"{summary.streams_not_known:,} of {pluralize(_count_all(summary), 'stream')} by {summary.profile}"
        for summary in summaries
        if summary.streams_not_known
    ]
    if unknown:
        yield Text(f"not known, as their bounds contain the objective: {make_printable(', '.join(unknown))}")


def _cells(summary: SLOSummary) -> Iterator[RenderableType]:
    """Yield the numbers of an SLO's line, the fluidity index last."""
    streams, most = _count_all(summary), summary.streams_met + summary.streams_not_known
    is_missed = summary.target is not None and most < summary.target * streams
    yield format_count(streams)
    yield Text(_format_met(summary.streams_met, most, streams), style=STYLES["outcome"] if is_missed else "")
    yield ABSENT if summary.gaps is None else format_count(summary.gaps)
    yield format_share(summary.gaps_met or 0, summary.gaps) if summary.gaps else ABSENT
    yield ABSENT if summary.fluidity is None else f"{summary.fluidity:.3f}"


def _count_all(summary: SLOSummary) -> int:
    return summary.streams + summary.streams_not_known


def _format_met(least: int, most: int, streams: int) -> str:
    """Format the share of streams that met an SLO: `62.5 %`, or between which two it is: `38 to 75 %`."""
    if not streams:
        return ABSENT
    return (
        format_share(least, streams)
        if least == most
        else f"{100 * least / streams:.0f} to {100 * most / streams:.0f} %"
    )


def _objectives(summary: SLOSummary) -> str:
    """Return the objectives in words: `TTFT 500 ms, ITL 100 ms, 99 %`."""
    times = [f"{name} {format_edge(time)}" for name, time in (("TTFT", summary.ttft), ("ITL", summary.itl)) if time]
    words = ", ".join(times) or ABSENT
    return make_printable(words if summary.target is None else f"{words}, {100 * summary.target:.6g} %")
