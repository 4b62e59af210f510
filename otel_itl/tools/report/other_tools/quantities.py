"""The quantities and statistics that definitions can name.

Times are nanoseconds, and moments count from the request; None is absent. The values of a statistic are ascending, and
there is at least one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, compress, pairwise
from math import ceil, nan, sqrt
from statistics import fmean, quantiles
from typing import Any, Final, NamedTuple

from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Timeline

ANSWER_OR_TOOL: Final = int(Kind.ANSWER | Kind.TOOL)
UNKNOWN: Final = nan
"""The tool has a number here that a timeline does not contain. Arithmetic propagates it; it is reported as None."""


class StreamFacts:
    """What the quantities of one stream are computed from; `token_flags` as in `TokenChunks`."""

    def __init__(self, timeline: Timeline, token_flags: int | None) -> None:
        self.timeline = timeline
        self.tokens = list(timeline.arrived) if token_flags is None else self.arrivals(token_flags)
        """Arrival of each token."""

    def arrivals(self, flags: int) -> list[int]:
        """Return the arrivals of the chunks with any of these flags."""
        return list(compress(self.timeline.arrived, (kind & flags for kind in self.timeline.kinds)))

    def count_decode_chunks(self) -> int:
        """Return the number of chunks from the first token on, without usage and pings; 0 without a token."""
        chunks = zip(self.timeline.arrived, self.timeline.kinds, strict=True)
        first = self.tokens[0] if self.tokens else self.timeline.end + 1
        return sum(moment >= first and kind not in {Kind.USAGE, Kind.PING} for moment, kind in chunks)

    @cached_property
    def measures(self) -> Measures:
        """Our own figures of the stream; its times are seconds."""
        return measure(self.timeline)


STREAM_QUANTITIES: Final[Mapping[str, Callable[[StreamFacts], Any]]] = {
    "first_token": lambda stream: stream.tokens[0] if stream.tokens else None,
    "second_token": lambda stream: stream.tokens[1] if len(stream.tokens) > 1 else None,
    "last_token": lambda stream: stream.tokens[-1] if stream.tokens else None,
    "token_chunks": lambda stream: len(stream.tokens),
    "gaps": lambda stream: [after - before for before, after in pairwise(stream.tokens)],
    "first_answer": lambda stream: min(stream.arrivals(ANSWER_OR_TOOL), default=None),
    # The finish chunk, or the last output chunk where that is later or alone.
    "finish": lambda stream: max(stream.arrivals(OUTPUT | Kind.FINISH), default=None),
    "last_chunk": lambda stream: stream.timeline.arrived[-1] if stream.timeline.arrived else None,
    "chunks_but_usage": lambda stream: sum(kind != Kind.USAGE for kind in stream.timeline.kinds),
    "decode_chunks": StreamFacts.count_decode_chunks,
    "headers": lambda stream: stream.timeline.headers,
    # The `[DONE]` line where the SDK stops there, else the end of the connection: a timeline holds one of the two.
    "end": lambda stream: stream.timeline.end,
    "usage": lambda stream: stream.timeline.output_tokens,
    # As `usage`, for a tool that counts the text with its own tokenizer where the provider does not count.
    "tokens": lambda stream: UNKNOWN if stream.timeline.output_tokens is None else stream.timeline.output_tokens,
    "reasoning_tokens": lambda stream: stream.timeline.reasoning_tokens,
    "measures": lambda stream: stream.measures,
    "itl_samples": lambda stream: stream.measures.itl_samples.nanoseconds,
    "one_second": lambda _: SECOND,
}
"""Name → quantity of one stream."""


class StreamInRun(NamedTuple):
    """One of several streams, as a tool reads it."""

    timeline: Timeline
    ttft: int | None
    """None: the stream does not count."""
    itl: Sequence[float]
    """The tool's list of latencies."""


def busiest_second(streams: Sequence[StreamInRun]) -> float:
    """Return the most tokens in one second; seconds are counted from the first request."""
    start = min(stream.timeline.request_unix_ns for stream in streams)
    seconds: Counter[float] = Counter()
    for timeline, ttft, itl in streams:
        if ttft is not None:
            moments = accumulate([timeline.request_unix_ns - start + ttft, *itl])
            seconds.update(moment // SECOND for moment in moments)
    return float(max(seconds.values(), default=0))


def longest_gap(streams: Sequence[StreamInRun]) -> float | None:
    """Return the longest latency of all streams; None without any."""
    return max((gap for stream in streams for gap in stream.itl), default=None)


def request_rate(streams: Sequence[StreamInRun]) -> float | None:
    """Return streams per second, from the first request to the last end; None where these are one moment."""
    start = min(stream.timeline.request_unix_ns for stream in streams)
    duration = max(stream.timeline.request_unix_ns + stream.timeline.end for stream in streams) - start
    return len(streams) * SECOND / duration if duration > 0 else None


RUN_QUANTITIES: Final[Mapping[str, Callable[[Sequence[StreamInRun]], float | None]]] = {
    function.__name__: function for function in (busiest_second, longest_gap, request_rate)
}
"""Name → quantity of several streams, of which there is at least one."""

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
