"""The way out where the answers are so short that this machine, not the endpoint, made the streams that were open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from otel_itl.tools.report.render.number_format import format_three_digits
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render.words import describe_streams, format_level

_SHORT: Final = 0.05
"""Seconds that no model takes for an answer."""


def note_backlog(result: SweepResult) -> Iterator[str]:
    """Yield for each level that is void as far more streams than planned were open what to do about it, a sentence."""
    for level in result.levels:
        streams = level.level * result.sweep.peak
        rate = max((one.rate or 0.0 for one in level.rounds), default=0.0)
        is_piled_up = any(one.end is RoundEnd.SATURATED for one in level.rounds)
        if not level.figures and is_piled_up and streams < _SHORT * rate:
            yield (
                f"{format_level(level.level)}: {describe_streams(streams)} of so short answers are "
                f"{format_three_digits(rate)} requests/s, and what else was open waited for this machine: "
                "ask for longer answers, or with --closed again only when one has ended."
            )
