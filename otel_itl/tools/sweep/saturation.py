"""Whether a level is more than the endpoint can carry: its queue grows for as long as the load lasts.

Of an endpoint that keeps up, concurrency and waits vary around a level. Of one that does not, both rise until the load
ends: the figures then depend on how long it was measured, and a higher level would only add to the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from scipy.stats import mannwhitneyu

PARTS: Final = 3
MIN_PER_THIRD: Final = 5
"""Requests in each third of the steady part; with fewer, nothing is concluded."""
MIN_WAIT_GROWTH: Final = 2.0
"""The median TTFT of the last third over that of the first."""
MIN_CONCURRENCY_GROWTH: Final = 1.5
"""The streams open at a time in the last third over those in the first.

Of every 100 simulated queues with 32 places and 4 s a request, over 30 s, these limits find none at 70 % of the
capacity, 3 at 85 %, 55 at 115 % and 98 at 150 %; over 60 s, 90 at 115 %.
"""
MAX_P: Final = 0.01
"""Largest p-value of a Mann-Whitney U test of the waits of the last third against those of the first."""


class FirstTokenWait(NamedTuple):
    """How long a request waited for its first token, in seconds; infinite: it got none."""

    due: float
    """When the request was due, in seconds on the clock of the event loop."""
    seconds: float


def is_over_saturated(waits: Sequence[FirstTokenWait], concurrency: Sequence[float], start: float, end: float) -> bool:
    """Return whether concurrency and TTFT both kept rising over a steady part.

    Args:
        waits: waits of the requests that were due in the steady part.
        concurrency: streams open at a time, on average, in the three thirds of the steady part.
        start: when the steady part began.
        end: when the steady part ended.
    """
    thirds: list[list[float]] = [[] for _ in range(PARTS)]
    for wait in waits:
        thirds[min(max(int(PARTS * (wait.due - start) / (end - start)), 0), PARTS - 1)].append(wait.seconds)
    if min(map(len, thirds)) < MIN_PER_THIRD:
        return False
    if not _rises([median(third) for third in thirds], MIN_WAIT_GROWTH):
        return False
    if not _rises(concurrency, MIN_CONCURRENCY_GROWTH):
        return False
    return float(mannwhitneyu(thirds[-1], thirds[0], alternative="greater").pvalue) < MAX_P


def _rises(values: Sequence[float], growth: float) -> bool:
    first, middle, last = values
    return first <= middle <= last and last >= growth * first and last > 0
