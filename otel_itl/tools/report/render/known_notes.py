"""Renders how well the figures of all models are known, and what to do about what is marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from otel_itl.tools.report.certainty import Flag, Known, describe_figures, describe_remedies
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.summary import ModelSummary

_TITLES: Final = {"time_to_first_token": "TTFT", "inter_token_latency": "ITL p99", "time_per_output_token": "TPOT"}


def known_notes(known: Mapping[str, Known]) -> Iterator[Text]:
    """Yield a line for each figure and cause: of how many streams of all models it is uncertain, and by how much."""
    yield from map(Text, describe_figures({title: known[figure] for figure, title in _TITLES.items()}))


def remedies(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each flag that something has to be done about."""
    for line in describe_remedies(sum((row.flags for row in rows), Counter[Flag]())):
        yield Text(line, style=STYLES["head"])
