"""Divides the variance that several drivers explain together among them, by LMG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from statistics import fmean

import numpy as np

from otel_itl.tools.explain.facts import Floats

MAX_DIVIDED = 8
"""Drivers whose share is the average over all orders (2 ** 8 subsets); more share by what each adds as the last."""


def divide_variance(response: Floats, columns: Sequence[Floats]) -> list[float]:
    """Return for each column the share of the variance of the response that it explains.

    It is what a column adds to the explained variance, averaged over all orders of the columns (LMG, by Lindeman,
    Merenda and Gold), so that columns that go together divide what they explain together. What noise would
    explain is taken off.
    """
    count = len(columns)
    if count == 0 or np.var(response) == 0:
        return [0.0] * count
    correlations = np.corrcoef([*columns, response])
    among, with_response = correlations[:count, :count], correlations[:count, count]

    @cache
    def explained(subset: frozenset[int]) -> float:
        chosen = sorted(subset)
        part = with_response[chosen]
        return float(part @ np.linalg.pinv(among[np.ix_(chosen, chosen)]) @ part) if chosen else 0.0

    def average_gain(one: int, size: int) -> float:
        """Return what a column adds to this number of others, on average."""
        others = map(frozenset, combinations(everything - {one}, size))
        return fmean(explained(subset | {one}) - explained(subset) for subset in others)

    everything = frozenset(range(count))
    sizes = range(count) if count <= MAX_DIVIDED else [count - 1]
    by_chance = (1 - explained(everything)) / max(len(response) - count - 1, 1)
    return [max(fmean(average_gain(one, size) for size in sizes) - by_chance, 0.0) for one in range(count)]
