"""Renders how well the figures of each model are known, and what to do about what is marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from otel_itl.report.certainty import describe_known, describe_remedies
from otel_itl.report.render.number_format import make_printable
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.tables import INDENT
from otel_itl.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_TITLES: Final = {"time_to_first_token": "TTFT", "inter_token_latency": "ITL p99", "time_per_output_token": "TPOT"}


def known_notes(rows: Sequence[ModelSummary]) -> Iterator[RenderableType]:
    """Yield for each model a line for each figure that is uncertain: of how many streams, by how much, and why."""
    for row in rows:
        notes = {title: describe_known(row.known[figure]) for figure, title in _TITLES.items()}
        if any(notes.values()):
            head = Text(f"{make_printable(row.provider)} ", style=STYLES["head"])
            yield head.append(make_printable(row.model), style=STYLES["provider"])
        for title, note in notes.items():
            if note:
                yield Padding(Text(f"{title}: {note}"), (0, 0, 0, INDENT))


def remedies(rows: Sequence[ModelSummary]) -> Iterator[RenderableType]:
    """Yield a line for each flag that is on any stream or gap: what to do."""
    for line in describe_remedies(flag for row in rows for flag in row.flags):
        yield Text(line, style=STYLES["head"])
