"""Renders the stalls of a report by phase and cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.tools.report.render.number_format import ABSENT, format_count, format_duration, make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import (
    NamedTable,
    add_number_columns,
    add_text_column,
    rows_by_provider,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.stalls import DEFAULT_POLICY
from otel_itl.tools.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_WORD_WIDTH = 13
_COLUMNS = (("count", 7), ("total", 9), ("longest", 9))


def stall_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each phase and cause of each model that stalled, and its footnote."""
    rows = [row for row in rows if row.stalls]
    other_columns = 2 * _WORD_WIDTH + sum(width for _, width in _COLUMNS)
    table = NamedTable((row.model for row in rows), terminal, other_columns, "stalls")
    for heading in ("  phase", "  cause"):
        add_text_column(table, heading, _WORD_WIDTH)
    add_number_columns(table, *_COLUMNS)
    for row in rows_by_provider(rows, table.add_head):
        for index, group in enumerate(row.stalls):
            table.add_row(
                "" if index else row.model,
                Text("  " + _word(group.phase)),
                Text("  " + _word(group.cause)),
                Text(format_count(group.count)),
                Text(format_duration(group.duration)),
                Text(format_duration(group.longest), style=STYLES["longest gap"]),
            )
    yield table
    if any(row.streams_with_derived_stalls and group.cause is None for row in rows for group in row.stalls):
        first_token, next_token = f"{DEFAULT_POLICY.first_token:g} s", f"{DEFAULT_POLICY.next_token:g} s"
        thresholds = f"{first_token} (first token, reasoning) or {next_token} (answer)"
        yield Text(f"cause {ABSENT}: judged from the timeline, {thresholds}", style=STYLES["head"])


def _word(value: str | None) -> str:
    return ABSENT if value is None else make_printable(value.replace("_", " "))
