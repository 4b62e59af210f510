"""Renders a note for each model whose pace is a proxy's, and the mark in the tables that refers to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.tools.report.render.number_format import format_duration, format_share, make_printable
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_MARK = "*"
"""Stands behind the name of a model whose figures have a note."""


def marked_model(row: ModelSummary) -> str:
    """Return the name of a model, marked if any of its streams is buffered."""
    return row.model if row.buffered is None else row.model + _MARK


def buffering_notes(rows: Sequence[ModelSummary]) -> Iterator[RenderableType]:
    """Yield a line for each model with buffered streams."""
    for row in rows:
        if row.buffered is None:
            continue
        share = format_share(round(row.buffered.burst_ratio * 1_000), 1_000)
        note = Text()
        note.append(f"{_MARK} {make_printable(row.provider)} ", style=STYLES["head"])
        note.append(make_printable(row.model), style=STYLES["provider"])
        if row.buffered.streams < row.streams:
            note.append(f", {row.buffered.streams:,} of {row.streams:,} streams")
        note.append(f": {share} of the chunks came in bursts: the pace is the proxy's")
        if row.buffered.pace is not None:
            note.append(f", {format_duration(row.buffered.pace)} a chunk from burst to burst")
        yield note
