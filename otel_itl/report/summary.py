"""Streams → a report: for each provider and model the latency of its streams taken together. Plain data."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import fsum
from typing import Any, NamedTuple

from otel_itl.conventions import LATENCY_BUCKETS
from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.core.timeline import OUTPUT, SECOND, Outcome, Timeline
from otel_itl.report import sessions
from otel_itl.report.other_tools import DEFINITIONS, speak, speak_all
from otel_itl.report.reading.skipped_input import Loss, SkippedInput
from otel_itl.report.reading.span_facts import Stall
from otel_itl.report.reading.streams import Stream
from otel_itl.report.sessions import SessionRow, SessionTable
from otel_itl.report.slo import Attainment, Attainments
from otel_itl.report.stalls import StallGroup, grouped, stalls_of

SCHEMA = "otel-itl.report.v1"
FINISHED = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
"""The streams that another tool's figures are of: to it, every other request has failed."""
_LATENCY = ("time_to_first_token", "inter_token_latency", "latency_buckets", "time_per_output_token", "output_speed")
"""Our figures of a row, which those of another tool take the place of."""


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
    stalls: Sequence[StallGroup]
    """By phase and cause, what cost most first."""
    stalls_judged: int
    """Streams whose spans say nothing of stalls: theirs are those that the default policy finds in the timelines."""
    finished: int
    """Streams that were completed or truncated."""
    figures: Mapping[str, float | None] | None = None
    """Those of the finished streams together, in another tool's words; None where they were not asked for."""


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
    figures: Mapping[str, float | None] | None = None
    """The stream's own, in another tool's words; None where they were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a number of streams say together."""

    rows: Sequence[Row]
    """Ordered by provider and model."""
    streams: int
    worst: Worst | None
    """None where no stream has a gap."""
    slo: Sequence[Attainment] = ()
    """One for each objective that any stream was held against."""
    sessions: Sequence[SessionRow] = ()
    """The worst first."""
    losses: dict[str, int] = field(default_factory=dict)
    """What of the input could not be used, by the values of `Loss`."""
    tool: str | None = None
    """In whose words the latency figures are: one of `definitions.TOOLS`; None: in ours."""


def summarise(
    streams: Iterable[Stream],
    losses: SkippedInput | None = None,
    tool: str | None = None,
    objectives: Objectives | None = None,
) -> Report:
    """Pool the samples of many streams. Percentiles are of the pooled samples, never averages of percentiles.

    Streams are taken one at a time and not kept, but for the worst: what stays is 8 bytes a sample, twice that of
    streams that belong to a session. In the words of another `tool`, one of `definitions.TOOLS`, the timelines of
    finished streams stay: 24 bytes a chunk. Streams are held against `objectives`, or else against those that their
    spans name.
    """
    pools: dict[tuple[str, str], _Pool] = {}
    attainments, table = Attainments(objectives), SessionTable()
    worst: Stream | None = None
    count = 0
    for stream in streams:
        count += 1
        stalls = stalls_of(stream)
        pools.setdefault((stream.provider, stream.model), _Pool(tool)).add(stream, stalls)
        attainments.add(stream, stalls)
        table.add(stream, sum(stall.count for stall in stalls))
        if stream.measures.itl_samples.nanoseconds and (worst is None or _longest(stream) > _longest(worst)):
            worst = stream
    return Report(
        rows=[pool.row(provider, model) for (provider, model), pool in sorted(pools.items())],
        streams=count,
        worst=None if worst is None else _worst(worst, tool),
        slo=attainments.rows(),
        sessions=table.rows(),
        losses={loss.value: losses.counts[loss] if losses else 0 for loss in Loss},
        tool=tool,
    )


def formulas(tool: str) -> dict[str, str]:
    """How each figure of one stream, and of several, comes about in the words of `tool`."""
    return {**DEFINITIONS[tool].formulas, **speak_all([], tool).formulas}


def as_data(report: Report, session: SessionRow | None = None) -> dict[str, Any]:
    """The report in types of JSON, with stable keys: the schema of `otel-itl report --json`; one session as a whole."""
    return {
        "schema": SCHEMA,
        **_tool_as_data(report.tool),
        "streams": report.streams,
        "rows": [_row_as_data(row) for row in report.rows],
        "worst": None if report.worst is None else _worst_as_data(report.worst),
        "slo": [asdict(attainment) for attainment in report.slo],
        "sessions": [sessions.as_data(row) for row in report.sessions],
        "session": None if session is None else sessions.as_data(session, whole=True),
        "losses": report.losses,
    }


def _tool_as_data(tool: str | None) -> dict[str, Any]:
    if tool is None:
        return {"as": None, "latency_bucket_edges": list(LATENCY_BUCKETS)}
    definition = DEFINITIONS[tool]
    return {
        "as": tool,
        "version": definition.version,
        "counts": definition.counts,
        "ends": definition.ends,
        "percentiles": definition.percentiles,
        "formulas": formulas(tool),
    }


def _row_as_data(row: Row) -> dict[str, Any]:
    unwanted = ("figures",) if row.figures is None else _LATENCY
    return {key: value for key, value in asdict(row).items() if key not in unwanted}


def _worst_as_data(worst: Worst) -> dict[str, Any]:
    stream, gap = worst.stream, worst.gap
    ours = {"time_to_first_token": stream.measures.time_to_first_token}
    return {
        "provider": stream.provider,
        "model": stream.model,
        "operation": stream.operation,
        "trace_id": stream.trace_id,
        "span_id": stream.span_id,
        "where": stream.where,
        "outcome": stream.timeline.outcome.value,
        "duration": stream.measures.duration,
        **(ours if worst.figures is None else {"figures": dict(worst.figures)}),
        "output_chunks": stream.measures.output_chunk_count,
        "longest_latency": worst.longest,
        "gap": None
        if gap is None
        else {"start": gap.start / SECOND, "end": gap.end / SECOND, "position": gap.position},
    }


def _worst(stream: Stream, tool: str | None) -> Worst:
    return Worst(
        stream=stream,
        longest=_longest(stream) / SECOND,
        gap=_gap_of(stream.timeline, _longest(stream)),
        figures=None if tool is None else speak(stream.timeline, tool).figures,
    )


def _longest(stream: Stream) -> float:
    return stream.measures.itl_samples.nanoseconds[-1]


def _gap_of(timeline: Timeline, longest: float) -> Gap | None:
    """The gap that a sample is of."""
    came = find_arrivals(timeline).moments
    by_choice: dict[int, list[int]] = {}
    for index, kind in enumerate(timeline.kinds):
        if kind & OUTPUT:
            by_choice.setdefault(timeline.choices[index] if timeline.choices else 0, []).append(index)
    for indexes in by_choice.values():
        for position, (before, after) in enumerate(pairwise(indexes), start=2):
            start, end = came[before], came[after]
            tokens = timeline.tokens[after] if timeline.tokens else 1
            if longest in {end - start, (end - start) / (tokens or 1)}:
                return Gap(start, end, position)
    return None


class _Pool:
    """The streams of one row, while they come in."""

    def __init__(self, tool: str | None) -> None:
        self._tool = tool
        self._finished: list[Timeline] = []
        self._operations: set[str] = set()
        self._outcomes: Counter[str] = Counter()
        self._samples = array("d")
        self._first_tokens = array("d")
        self._decode_time = 0
        self._later_tokens = 0
        self._sums: Counter[str] = Counter()
        self._stalls: list[Stall] = []

    def add(self, stream: Stream, stalls: Sequence[Stall]) -> None:
        measures, finished = stream.measures, stream.timeline.outcome in FINISHED
        if finished and self._tool is not None:
            self._finished.append(stream.timeline)
        self._operations.add(stream.operation)
        self._outcomes[stream.timeline.outcome.value] += 1
        self._samples.extend(measures.itl_samples.nanoseconds)
        self._stalls.extend(stalls)
        if measures.time_to_first_token is not None:
            self._first_tokens.append(round(measures.time_to_first_token * SECOND))
        if measures.decode_time and measures.time_per_output_token:
            self._decode_time += round(measures.decode_time * SECOND)
            self._later_tokens += round(measures.decode_time / measures.time_per_output_token)
        self._sums.update(
            output_tokens=measures.token_count,
            output_chunks=measures.output_chunk_count,
            imputed=measures.imputed,
            excluded=measures.excluded,
            consumer_bound=int(measures.is_consumer_bound),
            finished=int(finished),
            stalls_judged=int(stream.told.stalls is None),
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
            stalls=grouped(self._stalls),
            stalls_judged=self._sums["stalls_judged"],
            finished=self._sums["finished"],
            figures=None if self._tool is None else speak_all(self._finished, self._tool).figures,
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
