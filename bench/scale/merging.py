"""Percentiles over many processes: averaged, from merged buckets, from merged exponential histograms; and exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from otel_itl.core.metric_conventions import LATENCY_BUCKETS

Samples = list[np.ndarray]

QUANTILES: Final = (0.5, 0.95, 0.99)
MOST_BUCKETS: Final = 160
LARGEST_SCALE: Final = 20


class Merged(NamedTuple):
    """One percentile (s) of a fleet: exact, and by each way of merging."""

    fleet: str
    quantile: float
    true: float
    averaged: float
    classic: float
    exponential: float


def merged(processes: int, streams: int) -> Iterator[Merged]:
    """Yield every percentile of every fleet.

    Args:
        processes: in each fleet.
        streams: of 200 tokens, per process on average.
    """
    for name, samples in _fleets(processes, streams).items():
        pooled = np.concatenate(samples)
        counts, scale = _merged_exponential(samples)
        for quantile in QUANTILES:
            yield Merged(
                name,
                quantile,
                float(np.quantile(pooled, quantile)),
                float(np.mean([np.quantile(each, quantile) for each in samples])),
                _of_classic(samples, quantile),
                of_exponential(counts, scale, quantile),
            )


def _fleets(processes: int, streams: int) -> dict[str, Samples]:
    """Return the samples of fleets, which differ in which processes are slow and which are busy.

    The gaps are log-normal with sigma 0.4, as those of a steady decoder.
    """
    draw = np.random.default_rng(1)

    def process(median: float, tokens: float) -> np.ndarray:
        return draw.lognormal(np.log(median), 0.4, max(20, round(tokens)))

    mean = streams * 200
    alike = [process(0.02, mean) for _ in range(processes)]
    one_in_ten = [process(0.2 if index % 10 == 0 else 0.02, mean) for index in range(processes)]
    quiet_and_slow = [process(0.4, mean / 20) if index % 5 == 0 else process(0.02, mean) for index in range(processes)]
    busy = mean * processes / sum(1 / rank for rank in range(1, processes + 1))
    uneven = [process(draw.lognormal(np.log(0.03), 0.7), busy / rank) for rank in range(1, processes + 1)]
    pausing = [process(0.02, mean) for _ in range(processes)]
    for each in pausing:
        each[draw.random(len(each)) < 0.008] = 2.0
    return {
        "all alike": alike,
        "one in ten is slow": one_in_ten,
        "one in five is slow and has little to do": quiet_and_slow,
        "every one is different, a few have most of the work": uneven,
        "all alike, 0.8 % of the gaps are 2 s": pausing,
    }


def _of_classic(samples: Samples, quantile: float) -> float:
    """Return a percentile from merged buckets, as `histogram_quantile` does: linear within the bucket."""
    edges = np.array([0.0, *LATENCY_BUCKETS])
    counts = sum(np.histogram(each, [*edges, np.inf])[0] for each in samples)
    cumulative = np.cumsum(counts)
    rank = quantile * cumulative[-1]
    bucket = int(np.searchsorted(cumulative, rank))
    if bucket >= len(edges) - 1:
        return float(edges[-1])
    below = cumulative[bucket - 1] if bucket else 0
    share = (rank - below) / (cumulative[bucket] - below)
    return float(edges[bucket] + share * (edges[bucket + 1] - edges[bucket]))


def scale_of(smallest: float, largest: float) -> int:
    """Return the scale at which 160 buckets reach from one value to the other, as the SDK's aggregation does."""
    for scale in range(LARGEST_SCALE, -11, -1):
        low, high = (int(np.ceil(np.log2(value) * 2.0**scale)) - 1 for value in (smallest, largest))
        if high - low < MOST_BUCKETS:
            return scale
    message = f"no scale spans {smallest} to {largest}"
    raise ValueError(message)


def exponential(samples: np.ndarray, scale: int) -> dict[int, int]:
    """Return the counts by bucket index: bucket i holds values above base**i, up to base**(i + 1)."""
    indexes, counts = np.unique(np.ceil(np.log2(samples) * 2.0**scale).astype(int) - 1, return_counts=True)
    return dict(zip(indexes.tolist(), counts.tolist(), strict=True))


def _merged_exponential(samples: Samples) -> tuple[dict[int, int], int]:
    """Merge the histograms of all processes at the coarsest of their scales; return counts and scale."""
    scales = [scale_of(float(each.min()), float(each.max())) for each in samples]
    coarsest = min(scales)
    counts: dict[int, int] = {}
    for each, scale in zip(samples, scales, strict=True):
        for index, count in exponential(each, scale).items():
            counts[index >> (scale - coarsest)] = counts.get(index >> (scale - coarsest), 0) + count
    return counts, coarsest


def of_exponential(counts: dict[int, int], scale: int, quantile: float) -> float:
    """Return a percentile, as `histogram_quantile` of Prometheus 2 does: linear within the bucket."""
    rank, below = quantile * sum(counts.values()), 0
    for index in sorted(counts):
        if below + counts[index] >= rank:
            low, high = (2.0 ** (edge / 2.0**scale) for edge in (index, index + 1))
            return low + (rank - below) / counts[index] * (high - low)
        below += counts[index]
    message = "an empty histogram has no quantile"
    raise ValueError(message)
