"""The stalls of a report, by phase and by whose they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.report.render.number_format import ABSENT, counted, duration, printable
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.tables import add_figures, folded, named_table
from otel_itl.report.render.terminal import Screen
from otel_itl.report.stalls import POLICY
from otel_itl.report.summary import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

_WORD = 13
_FIGURES = (("count", 7), ("total", 9), ("longest", 9))


def stall_table(rows: Sequence[Row], to: Screen) -> Iterable[RenderableType]:
    """A line for each phase and cause of each model that stalled."""
    rows = [row for row in rows if row.stalls]
    rest = 2 * _WORD + sum(width for _, width in _FIGURES)
    table, width = named_table((one for row in rows for one in (row.model, row.provider)), to, rest, "stalls")
    for heading in ("  phase", "  cause"):
        table.add_column(heading, width=_WORD, no_wrap=True, overflow="crop")
    add_figures(table, *_FIGURES)
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_row(Text(printable(provider), style=STYLES["provider"]))
        for row in of_provider:
            for place, group in enumerate(row.stalls):
                table.add_row(
                    folded(row.model, width) if not place else "",
                    Text("  " + _word(group.phase)),
                    Text("  " + _word(group.cause)),
                    Text(counted(group.count)),
                    Text(duration(group.duration)),
                    Text(duration(group.longest), style=STYLES["longest gap"]),
                )
    yield table
    if any(row.stalls_judged and group.cause is None for row in rows for group in row.stalls):
        before, after = f"{POLICY.first_token:g} s (first token, reasoning)", f"{POLICY.next_token:g} s (answer)"
        yield Text(f"cause {ABSENT}: judged from the timeline, {before} or {after}", style=STYLES["head"])


def _word(value: str | None) -> str:
    return ABSENT if value is None else printable(value.replace("_", " "))
