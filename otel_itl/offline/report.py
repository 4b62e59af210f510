"""Streams → a report: for each provider and model the latency of its streams taken together. Plain data."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress, pairwise
from math import fsum
from typing import Any, NamedTuple

from otel_itl.conventions import LATENCY_BUCKETS
from otel_itl.measures import SECOND, percentile
from otel_itl.offline.losses import Loss, Losses
from otel_itl.offline.streams import Stream
from otel_itl.timeline import OUTPUT, Timeline

SCHEMA = "otel-itl.report.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Samples pooled over streams, in seconds; None where there are too few."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The streams of one provider and model."""

    provider: str
    model: str
    operations: Sequence[str]
    streams: int
    outcomes: dict[str, int]
    """How the streams ended → how many; outcomes that did not occur are left out."""
    time_to_first_token: Distribution
    """One sample per stream whose first token was observed."""
    inter_token_latency: Distribution
    """Every gap of every stream; from two samples on, as for a single stream."""
    latency_buckets: Sequence[int]
    """The same samples counted between the edges `conventions.LATENCY_BUCKETS`: (0, e_0], (e_0, e_1], …, (e_n, ∞)."""
    time_per_output_token: float | None
    """Seconds, over all streams whose token count is known: time between first and last token by tokens after the
    first."""
    output_speed: float | None
    """Tokens per second of one stream, the reciprocal of `time_per_output_token`."""
    output_tokens: int
    """By the provider's count, else output chunks."""
    output_chunks: int
    imputed: int
    """Gaps that share the time between two observed arrivals."""
    excluded: int
    """Gaps of which nothing is known."""
    consumer_bound: int
    """Streams whose caller was too slow to tell the upstream's pace."""


class Gap(NamedTuple):
    """Two successive output chunks: when the first and the second came, in nanoseconds after the request."""

    start: int
    end: int
    position: int
    """Number of the second among the output chunks, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The stream with the longest inter-token latency of all."""

    stream: Stream
    longest: float
    """That latency, in seconds."""
    gap: Gap | None
    """Where it lies; None where it is shared out between arrivals that the caller was too slow to observe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a number of streams say together."""

    rows: Sequence[Row]
    """Ordered by provider and model."""
    streams: int
    worst: Worst | None
    """None where no stream has a gap."""
    losses: dict[str, int] = field(default_factory=dict)
    """What of the input could not be used, by the values of `Loss`."""


def summarise(streams: Iterable[Stream], losses: Losses | None = None) -> Report:
    """Pool the samples of many streams. Percentiles are of the pooled samples, never averages of percentiles.

    Streams are taken one at a time and not kept, but for the worst: what stays is 8 bytes a sample.
    """
    pools: dict[tuple[str, str], _Pool] = {}
    worst: Stream | None = None
    count = 0
    for stream in streams:
        count += 1
        pools.setdefault((stream.provider, stream.model), _Pool()).add(stream)
        if stream.measures.samples and (worst is None or _longest(stream) > _longest(worst)):
            worst = stream
    return Report(
        rows=[pool.row(provider, model) for (provider, model), pool in sorted(pools.items())],
        streams=count,
        worst=None
        if worst is None
        else Worst(stream=worst, longest=_longest(worst) / SECOND, gap=_gap_of(worst.timeline, _longest(worst))),
        losses={loss.value: losses.counts[loss] if losses else 0 for loss in Loss},
    )


def as_data(report: Report) -> dict[str, Any]:
    """The report in types of JSON, with stable keys: the schema of `otel-itl report --json`."""
    return {
        "schema": SCHEMA,
        "streams": report.streams,
        "latency_bucket_edges": list(LATENCY_BUCKETS),
        "rows": [asdict(row) for row in report.rows],
        "worst": None if report.worst is None else _worst_as_data(report.worst),
        "losses": report.losses,
    }


def _worst_as_data(worst: Worst) -> dict[str, Any]:
    stream, gap = worst.stream, worst.gap
    return {
        "provider": stream.provider,
        "model": stream.model,
        "operation": stream.operation,
        "trace_id": stream.trace_id,
        "span_id": stream.span_id,
        "where": stream.where,
        "outcome": stream.timeline.outcome.value,
        "duration": stream.measures.duration,
        "time_to_first_token": stream.measures.time_to_first_token,
        "output_chunks": stream.measures.output_chunk_count,
        "longest_latency": worst.longest,
        "gap": None
        if gap is None
        else {"start": gap.start / SECOND, "end": gap.end / SECOND, "position": gap.position},
    }


def _longest(stream: Stream) -> float:
    return stream.measures.samples[-1]


def _gap_of(timeline: Timeline, longest: float) -> Gap | None:
    """The gap that a sample is of."""
    by_choice: dict[int, list[int]] = {}
    for index, kind in enumerate(timeline.kinds):
        if kind & OUTPUT:
            by_choice.setdefault(timeline.choices[index] if timeline.choices else 0, []).append(index)
    for indexes in by_choice.values():
        for position, (before, after) in enumerate(pairwise(indexes), start=2):
            start, end = timeline.arrived[before], timeline.arrived[after]
            tokens = timeline.tokens[after] if timeline.tokens else 1
            if longest in {end - start, (end - start) / (tokens or 1)}:
                return Gap(start, end, position)
    return None


class _Pool:
    """The streams of one row, while they come in."""

    def __init__(self) -> None:
        self._operations: set[str] = set()
        self._outcomes: Counter[str] = Counter()
        self._samples = array("d")
        self._first_tokens = array("d")
        self._decode_time = 0
        self._later_tokens = 0
        self._sums: Counter[str] = Counter()

    def add(self, stream: Stream) -> None:
        measures = stream.measures
        self._operations.add(stream.operation)
        self._outcomes[stream.timeline.outcome.value] += 1
        self._samples.extend(measures.samples)
        if measures.time_to_first_token is not None:
            self._first_tokens.append(round(measures.time_to_first_token * SECOND))
        if measures.time_per_output_token:
            outputs = compress(stream.timeline.arrived, map(OUTPUT.__and__, stream.timeline.kinds))
            first, *_, last = outputs
            self._decode_time += last - first
            self._later_tokens += round((last - first) / (measures.time_per_output_token * SECOND))
        self._sums.update(
            output_tokens=measures.token_count,
            output_chunks=measures.output_chunk_count,
            imputed=measures.imputed,
            excluded=measures.excluded,
            consumer_bound=measures.consumer_bound,
        )

    def row(self, provider: str, model: str) -> Row:
        samples = sorted(self._samples)
        per_token = self._decode_time / self._later_tokens / SECOND if self._later_tokens else None
        return Row(
            provider=provider,
            model=model,
            operations=sorted(self._operations),
            streams=self._outcomes.total(),
            outcomes=dict(sorted(self._outcomes.items())),
            time_to_first_token=_distribution(sorted(self._first_tokens), fewest=1),
            inter_token_latency=_distribution(samples, fewest=2),
            latency_buckets=_bucketed(samples),
            time_per_output_token=per_token,
            output_speed=1 / per_token if per_token else None,
            output_tokens=self._sums["output_tokens"],
            output_chunks=self._sums["output_chunks"],
            imputed=self._sums["imputed"],
            excluded=self._sums["excluded"],
            consumer_bound=self._sums["consumer_bound"],
        )


def _distribution(ordered: list[float], *, fewest: int) -> Distribution:
    """The distribution of ascending nanoseconds."""
    count = len(ordered)
    if count < fewest:
        return Distribution(count=count, p50=None, p95=None, p99=None, max=None, mean=None)
    return Distribution(
        count=count,
        p50=percentile(ordered, 50) / SECOND,
        p95=percentile(ordered, 95) / SECOND,
        p99=percentile(ordered, 99) / SECOND,
        max=ordered[-1] / SECOND,
        mean=fsum(ordered) / count / SECOND,
    )


def _bucketed(ordered: list[float]) -> list[int]:
    """How many samples lie between successive edges, an edge belonging to what is below it."""
    above = [bisect_right(ordered, edge * SECOND) for edge in LATENCY_BUCKETS]
    return [after - before for before, after in pairwise([0, *above, len(ordered)])]
