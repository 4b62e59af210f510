"""Whether a level is more than the endpoint can carry: its queue grows for as long as the load lasts.

Of an endpoint that keeps up, concurrency and waits vary around a level. Of one that does not, both rise until the load
ends: the figures then depend on how long it was measured, and a higher level would only add to the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import Final

import numpy as np
from scipy.stats import mannwhitneyu

from otel_itl.tools.sweep.concurrency import mean_open
from otel_itl.tools.sweep.records import Round

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


def is_over_saturated(one: Round) -> bool:
    """Return whether concurrency and TTFT both kept rising over the steady part of a round, which has ended.

    Of requests that got no token, those count that still wait, not those that failed or ended empty.
    """
    if one.steady_from is None or one.steady_until is None:
        return False
    edges = np.linspace(one.steady_from, one.steady_until, PARTS + 1)
    waits: list[list[float]] = [[] for _ in range(PARTS)]
    for request in one.requests:
        if request.is_steady and (request.first_token is not None or request.ended is None):
            wait = inf if request.first_token is None else request.first_token - request.due
            waits[int(np.searchsorted(edges[1:-1], request.due, "right"))].append(wait)
    if min(map(len, waits)) < MIN_PER_THIRD:
        return False
    if not _rises([median(third) for third in waits], MIN_WAIT_GROWTH):
        return False
    if not _rises([mean_open(one.spans, start, end) for start, end in pairwise(edges)], MIN_CONCURRENCY_GROWTH):
        return False
    return float(mannwhitneyu(waits[-1], waits[0], alternative="greater").pvalue) < MAX_P


def _rises(values: Sequence[float], growth: float) -> bool:
    first, middle, last = values
    return first <= middle <= last and last >= growth * first and last > 0
