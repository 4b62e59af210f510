"""The one rule of how many samples a percentile needs, and the mark of one that has too few, which all tools share.

A percentile of the tail needs ten samples beyond it, and five streams: it would be the value of a few samples, or of a
few streams, otherwise. p95 needs 200 samples, p99 needs 1,000. A median needs five samples.
"""

from __future__ import annotations

from typing import Final

MIN_BEYOND: Final = 10
"""Samples beyond a percentile of the tail."""
MIN_STREAMS: Final = 5
"""Streams, or other independent samples, that any percentile needs."""
MARK: Final = "~"
"""Stands before a percentile of too few samples."""
LEGEND: Final = f"{MARK} of too few samples: p95 needs 200, p99 1,000, of 5 streams; p50 needs 5"

_MEDIAN: Final = 50


def count_needed(q: float) -> int:
    """Return how many samples a percentile needs, from above 0 to below 100: 5 for p50, 200 for p95, 1,000 for p99."""
    return MIN_STREAMS if q <= _MEDIAN else round(MIN_BEYOND / (1 - q / 100))


def has_too_few(q: float, samples: int, streams: int) -> bool:
    """Return whether a percentile has too few samples, or samples of too few streams, to be one of all streams."""
    return samples < count_needed(q) or (q > _MEDIAN and streams < MIN_STREAMS)


def mark_if(text: str, *, is_of_too_few: bool) -> str:
    """Return a shown percentile, marked if it is of too few samples: `~609`."""
    return f"{MARK}{text}" if is_of_too_few else text
