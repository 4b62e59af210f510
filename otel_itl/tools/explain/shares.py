"""Divides the variance that several drivers explain together among them, by LMG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

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

    def explained(subset: tuple[int, ...]) -> float:
        if not subset:
            return 0.0
        chosen = list(subset)
        part = with_response[chosen]
        return float(part @ np.linalg.pinv(among[np.ix_(chosen, chosen)]) @ part)

    if count > MAX_DIVIDED:
        everything = tuple(range(count))
        return [explained(everything) - explained(everything[:one] + everything[one + 1 :]) for one in everything]
    by_subset = {subset: explained(subset) for size in range(count + 1) for subset in combinations(range(count), size)}
    by_chance = (1 - by_subset[tuple(range(count))]) / max(len(response) - count - 1, 1)
    return [max(_average_gain(one, by_subset, count) - by_chance, 0.0) for one in range(count)]


def _average_gain(one: int, by_subset: dict[tuple[int, ...], float], count: int) -> float:
    """Average over all orders what a column adds to those before it."""
    return sum(
        (gain - by_subset[tuple(other for other in subset if other != one)])
        / (count * comb(count - 1, len(subset) - 1))
        for subset, gain in by_subset.items()
        if one in subset
    )
