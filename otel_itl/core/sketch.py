"""Sketches: latency samples as sparse exponential histograms that add up over streams, sessions, users and models.

The buckets are those of OpenTelemetry's exponential histograms: at scale `s`, bucket `i` holds the values in seconds
above `2 ** (i / 2**s)` and up to `2 ** ((i + 1) / 2**s)`. At scale 5 a bucket is 2.2 % wide, so that any value in it
stands for each of its samples with at most that error. Each further scale down halves the number of buckets.

    left, right = sketch(measures.itl_samples.nanoseconds), sketch(other.itl_samples.nanoseconds)
    percentile(merge(left, right), 99)  # of the pooled samples, in seconds
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from otel_itl.core.timeline import SECOND

MAX_SCALE: Final = 5
MAX_BUCKETS: Final = 160
"""Non-empty buckets of a sketch. Where more would be needed, the scale is lowered."""
_MIN_OCTAVE, _MAX_OCTAVE = -30, 34
"""The buckets begin at 2**-30 s, just below a nanosecond; no timeline holds a time above 2**34 s."""
_FRACTIONS: Final = tuple(2 ** (position / 32) for position in range(1, 33))
_BOUNDS: Final = tuple(
    math.ldexp(SECOND * part, octave) for octave in range(_MIN_OCTAVE, _MAX_OCTAVE) for part in _FRACTIONS
)
"""Upper bounds (ns) of the buckets at scale 5. Those at powers of two of a second are exact."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Samples counted by bucket. Merging sketches gives the sketch of the pooled samples, exactly."""

    scale: int
    indexes: tuple[int, ...]
    """The non-empty buckets, ascending."""
    counts: tuple[int, ...]
    """How many samples each of them holds, in the same order."""
    zero_count: int
    """Samples below a nanosecond, which are in no bucket: of chunks that arrived together."""


def sketch(ordered_nanoseconds: Sequence[float]) -> Sketch:
    """Count ascending samples in nanoseconds by bucket, at scale 5 or the highest that needs at most 160 buckets.

    Each bucket costs one search in the samples, whatever their number.
    """
    zero_count = bisect_right(ordered_nanoseconds, math.ldexp(SECOND, _MIN_OCTAVE))
    return _fit(MAX_SCALE, _count_buckets(ordered_nanoseconds, zero_count), zero_count)


def merge(a: Sketch, b: Sketch) -> Sketch:
    """Add up two sketches: the result is that of their pooled samples, at the scale that those need."""
    scale = min(a.scale, b.scale)
    buckets: Counter[int] = Counter()
    for each in (a, b):
        for index, count in zip(each.indexes, each.counts, strict=True):
            buckets[index >> (each.scale - scale)] += count
    return _fit(scale, sorted(buckets.items()), a.zero_count + b.zero_count)


def percentile(sketched: Sketch, q: float) -> float:
    """Estimate the `q`-th percentile (0 to 100) of the samples in seconds, within 1.1 % at scale 5.

    It interpolates linearly between closest ranks, as the percentiles of samples do, with each sample taken to be at
    the middle of its bucket.

    Raises:
        ValueError: the sketch is empty, or `q` is outside 0 to 100.
    """
    # The samples up to the end of each bucket, zeros first.
    cumulative = list(accumulate(sketched.counts, initial=sketched.zero_count))
    if not cumulative[-1] or not 0 <= q <= 100:  # noqa: PLR2004 - percent
        message = f"percentile needs at least one sample and a q from 0 to 100: got {cumulative[-1]} and q={q}."
        raise ValueError(message)
    rank = (cumulative[-1] - 1) * (q / 100)
    low, high = (
        _middle(sketched, bisect_right(cumulative, position)) for position in (math.floor(rank), math.ceil(rank))
    )
    return low + (high - low) * (rank % 1)


def _middle(sketched: Sketch, place: int) -> float:
    """Return the value (seconds) that stands for the samples at one place of a sketch: 0 the zeros, 1 the first bucket.

    It is between the bounds of the bucket such that its relative error is the same towards both.
    """
    if not place:
        return 0.0
    index = sketched.indexes[place - 1]
    lower, upper = (math.pow(2, (index + edge) / 2**sketched.scale) for edge in (0, 1))
    return 2 * lower * upper / (lower + upper)


def _count_buckets(ordered: Sequence[float], start: int) -> Iterator[tuple[int, int]]:
    """Yield index and count of each non-empty bucket at scale 5 of the samples from `start` on."""
    while start < len(ordered):
        position = bisect_left(_BOUNDS, ordered[start])
        end = bisect_right(ordered, _BOUNDS[position], lo=start)
        yield position + (_MIN_OCTAVE << MAX_SCALE), end - start
        start = end


def _fit(scale: int, buckets: Iterable[tuple[int, int]], zero_count: int) -> Sketch:
    """Make a sketch of ascending buckets, with the scale lowered until there are at most `MAX_BUCKETS`."""
    counts = dict(buckets)
    while len(counts) > MAX_BUCKETS:
        merged: Counter[int] = Counter()
        for index, count in counts.items():
            merged[index >> 1] += count
        counts, scale = merged, scale - 1
    return Sketch(scale, tuple(counts), tuple(counts.values()), zero_count)
