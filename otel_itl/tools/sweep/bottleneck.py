"""Finds where requests wait at a level that misses the objective: before the first token, at every token, or here."""

from __future__ import annotations

import math

from otel_itl.core.stalls import Cause
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.objective import OVER_REQUESTS
from otel_itl.tools.sweep.results import LevelResult, Standing, tail_of
from otel_itl.tools.worded import WordedEnum

MAX_SET_ASIDE = 0.05
"""Share of requests held up by their caller or this machine, beyond which part of the wait is this machine's. Of more
than twice as many, a round is void."""
MIN_STALLS = 5
"""Stalls below which their causes do not decide."""
LONG_GAP = 3.0
"""Median gaps from which on the tail consists of single long gaps."""
_SLOWER = 1.25
"""Factor from which on a median counts as longer than at the lowest level."""


class Bottleneck(WordedEnum):
    """Where requests wait at a level that misses the objective, as a clause."""

    QUEUE = "queue", "the wait is upstream's, before the first token"
    """Before the first token, while tokens come at the pace of the lowest level."""
    PACE = "pace", "the wait is upstream's, at every token"
    """At every token: the median inter-token latency is longer, as where requests share a batch."""
    GAPS = "gaps", "the wait is upstream's, in single long gaps"
    """In single long gaps: the median inter-token latency is that of the lowest level, the tail far longer."""
    HERE = "here", "part of the wait is this machine's"
    """On this machine."""


def find_bottleneck(level: LevelResult, result: SweepResult) -> Bottleneck:
    """Return where requests wait at a level, compared with the lowest level that counts."""
    reference = result.judged[0]
    if _is_here(level):
        return Bottleneck.HERE
    if level.missed == OVER_REQUESTS:
        return Bottleneck.QUEUE
    is_slower = _ratio(level, reference, "itl_p50") >= _SLOWER
    if level.standing is Standing.SATURATED:
        return Bottleneck.PACE if is_slower and _ratio(level, reference, "ttft_p50") < _SLOWER else Bottleneck.QUEUE
    tail_key = f"itl_p{tail_of(result.sweep.objective):g}"
    median, tail = level.figures["itl_p50"].value, level.figures[tail_key].value
    has_long_gaps = bool(median and tail and tail > LONG_GAP * median)
    return Bottleneck.GAPS if has_long_gaps and not is_slower else Bottleneck.PACE


def _is_here(level: LevelResult) -> bool:
    """Return whether this machine, rather than the endpoint, held many requests up."""
    stalls = level.stall_causes.total()
    upstream = level.stall_causes[Cause.UPSTREAM.value]
    return level.set_aside > MAX_SET_ASIDE * level.due or (stalls >= MIN_STALLS and upstream < stalls / 2)


def _ratio(level: LevelResult, reference: LevelResult, key: str) -> float:
    """Return a figure of a level over that of the lowest one; 1 where either is not known."""
    value, base = level.figures[key].value, reference.figures[key].value
    if not value or not base or math.isinf(base):
        return 1.0
    return value / base
