"""How tools compute percentiles and other statistics of ascending values, of which there is at least one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil, sqrt
from statistics import fmean, quantiles
from typing import Final

CLIENT_HISTOGRAM: Final = tuple(10.0 * (1 << doubling) for doubling in range(14))
"""Bucket edges (ms) of OpenTelemetry's client histograms: 0.01 s to 81.92 s, doubling."""


def nearest_rank(values: Sequence[float], q: float) -> float:
    """Return the smallest value that at least `q` percent of the values do not exceed."""
    return values[max(ceil(len(values) * q / 100) - 1, 0)]


def floored_index(values: Sequence[float], q: float) -> float:
    """Return the value at index floor(n * q / 100)."""
    return values[min(int(len(values) * q / 100), len(values) - 1)]


def exclusive_quantile(values: Sequence[float], q: int) -> float:
    """Interpolate as Python's `statistics.quantiles` does, which extrapolates beyond the largest value."""
    cuts: list[float] = quantiles(values, n=100) if len(values) > 1 else [values[0]] * 99
    return cuts[q - 1]


def histogram_quantile(values: Sequence[float], q: float) -> float:
    """Count milliseconds in the buckets of `CLIENT_HISTOGRAM`, and interpolate within a bucket as PromQL does."""
    rank = len(values) * q / 100
    counts = Counter(bisect_left(CLIENT_HISTOGRAM, value) for value in values)
    below = 0
    for bucket, edge in enumerate(CLIENT_HISTOGRAM):
        inside = counts[bucket]
        if inside and below + inside >= rank:
            floor = CLIENT_HISTOGRAM[bucket - 1] if bucket else 0.0
            return floor + (edge - floor) * (rank - below) / inside
        below += inside
    return CLIENT_HISTOGRAM[-1]


def standard_deviation(values: Sequence[float], delta: int) -> float | None:
    """Divide the squared deviations by n - `delta`: 0 for a population, 1 for a sample. None for too few values."""
    if len(values) <= delta:
        return None
    mean = fmean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - delta))


STATISTICS: Final[Mapping[str, Callable[[Sequence[float]], float | None]]] = {
    "mean": fmean,
    "avg": fmean,
    "average": fmean,
    "min": lambda values: values[0],
    "max": lambda values: values[-1],
    "count": len,
    "std": lambda values: standard_deviation(values, 0),
    "stddev": lambda values: standard_deviation(values, 1),
}
"""Name → statistic, of those that are no percentile."""
