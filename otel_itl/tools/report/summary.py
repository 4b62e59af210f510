"""Summarizes streams into a report: for each provider and model, the latency of its streams together."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum

from otel_itl.core.conventions import LATENCY_BUCKETS
from otel_itl.core.percentiles import percentile
from otel_itl.core.slo import Objectives
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.tools.report.buffering import BufferedStreams, BufferingCollector
from otel_itl.tools.report.certainty import Flag, Known, KnownCollector, is_blocked
from otel_itl.tools.report.other_tools import summary_as
from otel_itl.tools.report.reading.skipped_input import SkippedInput, SkipReason
from otel_itl.tools.report.reading.span_facts import StallFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.server_times import ServerTimes, ServerTimesCollector
from otel_itl.tools.report.sessions import SessionCollector, SessionSummary
from otel_itl.tools.report.slo import SLOCollector, SLOSummary
from otel_itl.tools.report.stalls import StallGroup, collect_stalls, group_stalls
from otel_itl.tools.report.worst_stream import WorstStream, describe_worst, longest_latency

FINISHED = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
"""Outcomes of the streams in another tool's figures: to the tools, any other request has failed."""

_KNOWN = {
    "time_to_first_token": "time_to_first_token",
    "inter_token_latency": "itl_p99",
    "time_per_output_token": "time_per_output_token",
}
"""Figure of a row of which it is counted how well it is known → the field of `Measures` that shows it."""

MAX_FEW_GAPS = 0.05
"""Imputed or excluded gaps up to this share of the output chunks are few: nothing has to be done about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Samples pooled over streams. Times are seconds; None: too few samples."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """The streams of one provider and model. Times are seconds; None is what cannot be known."""

    provider: str
    model: str
    operations: Sequence[str]
    streams: int
    outcomes: dict[str, int]
    """Outcome → number of streams; outcomes that did not occur are left out."""
    time_to_first_token: Distribution
    """One sample per stream with a first token."""
    inter_token_latency: Distribution
    """The ITL samples of the streams; from two samples on, as for a single stream."""
    latency_buckets: Sequence[int]
    """The same samples counted between the edges `conventions.LATENCY_BUCKETS`: (0, e_0], (e_0, e_1], …, (e_n, ∞)."""
    time_per_output_token: float | None
    """Time between first and last token, over the tokens after the first: both summed over the streams whose token
    count is known."""
    output_speed: float | None
    """Tokens per second of one stream, the reciprocal of `time_per_output_token`."""
    output_tokens: int
    """By the provider's count, else output chunks."""
    output_chunks: int
    imputed: int
    """Gaps that share the time between two observed arrivals."""
    excluded: int
    """Gaps whose length is unknown."""
    consumer_bound: int
    """Streams whose caller was too slow to observe the upstream's pace."""
    blocked: int
    """Of the streams that are bound in either way, those that are so mostly because of their event loop or process."""
    host_bound: int
    """Streams whose p99 the host may have decided: their reader was ready to run and got no CPU."""
    host_delay: float | None
    """Seconds in which the readers of the streams got no CPU, over all streams; None: known of none."""
    buffered: BufferedStreams | None
    """The streams whose pace is a proxy's, which are in all the figures above; None: there are none."""
    server: ServerTimes | None
    """The server's own times, of the streams that have them; None: there are none."""
    stalls: Sequence[StallGroup]
    """By phase and cause, the longest total first."""
    streams_with_derived_stalls: int
    """Streams whose spans carry no stall count: their stalls are those in the timeline by the default thresholds."""
    finished: int
    """Streams that were completed or truncated."""
    known: Mapping[str, Known]
    """How many streams `time_to_first_token`, `inter_token_latency` and `time_per_output_token` are of, and how well
    they are known. A stream whose figure is not known to half of itself is not in it."""
    figures: Mapping[str, float | None] | None = None
    """The figures of the finished streams as another tool defines them; None: not asked for."""

    @property
    def flags(self) -> Counter[Flag]:
        """How many of its streams have which flag, and how many gaps where they are more than a few."""
        few = MAX_FEW_GAPS * self.output_chunks
        return Counter(
            {
                Flag.BLOCKED: self.blocked,
                Flag.CALLER_BOUND: self.consumer_bound,
                Flag.HOST_BOUND: self.host_bound,
                Flag.IMPUTED: self.imputed if self.imputed > few else 0,
                Flag.EXCLUDED: self.excluded if self.excluded > few else 0,
                Flag.BUFFERED: self.buffered.streams if self.buffered else 0,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The latency of a number of streams."""

    rows: Sequence[ModelSummary]
    """Ordered by provider and model."""
    streams: int
    worst: WorstStream | None
    """None where no stream has a gap."""
    known: Mapping[str, Known] = field(default_factory=dict)
    """As of a row, of the streams of all rows together."""
    slo: Sequence[SLOSummary] = ()
    """One for each SLO that any stream was judged by."""
    sessions: Sequence[SessionSummary] = ()
    """The worst first."""
    skipped_input: dict[str, int] = field(default_factory=dict)
    """What of the input could not be used: value of `SkipReason` → count."""
    tool: str | None = None
    """The tool whose definitions the latency figures follow, a key of `other_tools.TOOLS`; None: our own."""


def summarize(
    streams: Iterable[StoredStream],
    skipped: SkippedInput | None = None,
    tool: str | None = None,
    slo: Objectives | None = None,
) -> Report:
    """Summarize many streams. Percentiles are of the pooled samples, never averages of percentiles.

    Streams are taken one at a time, and only the worst is kept. Memory: 8 bytes for each latency sample, 16 where the
    stream belongs to a session; with `tool`, the timelines of finished streams as well, 24 bytes for each chunk.

    Args:
        streams: in any order.
        skipped: what their reading skipped; counted once `streams` is exhausted.
        tool: the tool whose figures are computed instead of ours, a key of `other_tools.TOOLS`.
        slo: the SLOs to judge all streams by; None: those on their spans.
    """
    collectors: dict[tuple[str, str], _ModelCollector] = {}
    slos, sessions = SLOCollector(slo), SessionCollector()
    worst: StoredStream | None = None
    count = 0
    for stream in streams:
        count += 1
        stalls = collect_stalls(stream)
        collectors.setdefault((stream.provider, stream.model), _ModelCollector(tool)).add(stream, stalls)
        verdict = slos.add(stream, stalls)
        sessions.add(stream, sum(stall.count for stall in stalls), verdict)
        if stream.measures.upstream_samples.nanoseconds and (
            worst is None or longest_latency(stream) > longest_latency(worst)
        ):
            worst = stream
    return Report(
        rows=[collector.summary(provider, model) for (provider, model), collector in sorted(collectors.items())],
        streams=count,
        worst=None if worst is None else describe_worst(worst, tool),
        known={figure: _merge([one.known[figure] for one in collectors.values()]) for figure in _KNOWN},
        slo=slos.summaries(),
        sessions=sessions.summaries(),
        skipped_input={reason.value: skipped.counts[reason] if skipped else 0 for reason in SkipReason},
        tool=tool,
    )


def _merge(collectors: Iterable[KnownCollector]) -> Known:
    """Return how well a figure of the streams of several collectors is known."""
    merged = KnownCollector("")
    for collector in collectors:
        merged.add_all(collector)
    return merged.summary()


class _ModelCollector:
    """Collects the streams of one provider and model."""

    def __init__(self, tool: str | None) -> None:
        self._tool = tool
        self._finished: list[Timeline] = []
        self._operations: set[str] = set()
        self._outcomes: Counter[str] = Counter()
        self._samples = array("d")
        self._first_tokens = array("d")
        self._paced_time = 0
        self._paced_tokens = 0
        self._sums: Counter[str] = Counter()
        self._stalls: list[StallFacts] = []
        self._buffering = BufferingCollector()
        self._host_delays = array("d")
        self._server_times = ServerTimesCollector()
        self.known = {figure: KnownCollector(field) for figure, field in _KNOWN.items()}

    def add(self, stream: StoredStream, stalls: Sequence[StallFacts]) -> None:
        """Add a stream, which has these stalls."""
        measures, is_finished = stream.measures, stream.timeline.outcome in FINISHED
        is_consumer_bound = measures.is_consumer_bound or stream.span_facts.is_consumer_bound
        if is_finished and self._tool is not None:
            self._finished.append(stream.timeline)
        self._operations.add(stream.operation)
        self._outcomes[stream.timeline.outcome.value] += 1
        self._pool(stream)
        self._stalls.extend(stalls)
        self._buffering.add(measures)
        if stream.span_facts.host_delay is not None:
            self._host_delays.append(stream.span_facts.host_delay)
        self._server_times.add(stream)
        self._sums.update(
            output_tokens=measures.token_count,
            output_chunks=measures.output_chunk_count,
            imputed=measures.imputed,
            excluded=measures.excluded,
            consumer_bound=int(is_consumer_bound),
            blocked=int((is_consumer_bound or stream.span_facts.is_host_bound) and is_blocked(stream)),
            host_bound=int(stream.span_facts.is_host_bound),
            finished=int(is_finished),
            streams_with_derived_stalls=int(stream.span_facts.stalls is None),
        )

    def _pool(self, stream: StoredStream) -> None:
        """Pool the figures of a stream that are known to half of themselves, and count the others."""
        known, measures = self.known, stream.measures
        if measures.time_to_first_token is not None and known["time_to_first_token"].add(stream):
            self._first_tokens.append(round(measures.time_to_first_token * SECOND))
        if measures.itl_samples and known["inter_token_latency"].add(stream):
            self._samples.extend(measures.itl_samples.nanoseconds)
        if measures.time_per_output_token and known["time_per_output_token"].add(stream):
            self._paced_time += round(measures.time_per_output_token * measures.paced_tokens * SECOND)
            self._paced_tokens += measures.paced_tokens

    def summary(self, provider: str, model: str) -> ModelSummary:
        """Summarize the streams that were added."""
        samples = sorted(self._samples)
        per_token = self._paced_time / self._paced_tokens / SECOND if self._paced_tokens else None
        return ModelSummary(
            provider=provider,
            model=model,
            operations=sorted(self._operations),
            streams=self._outcomes.total(),
            outcomes=dict(sorted(self._outcomes.items())),
            time_to_first_token=_distribution(sorted(self._first_tokens), min_samples=1),
            inter_token_latency=_distribution(samples, min_samples=2),
            latency_buckets=_count_in_buckets(samples),
            time_per_output_token=per_token,
            output_speed=1 / per_token if per_token else None,
            output_tokens=self._sums["output_tokens"],
            output_chunks=self._sums["output_chunks"],
            imputed=self._sums["imputed"],
            excluded=self._sums["excluded"],
            consumer_bound=self._sums["consumer_bound"],
            blocked=self._sums["blocked"],
            host_bound=self._sums["host_bound"],
            host_delay=fsum(self._host_delays) if self._host_delays else None,
            buffered=self._buffering.summary(),
            server=self._server_times.summary(),
            stalls=group_stalls(self._stalls),
            streams_with_derived_stalls=self._sums["streams_with_derived_stalls"],
            finished=self._sums["finished"],
            known={figure: collector.summary() for figure, collector in self.known.items()},
            figures=None if self._tool is None else summary_as(self._finished, self._tool).figures,
        )


def _distribution(ordered: list[float], *, min_samples: int) -> Distribution:
    """Return the distribution of ascending nanoseconds, in seconds."""
    count = len(ordered)
    if count < min_samples:
        return Distribution(count=count, p50=None, p95=None, p99=None, max=None, mean=None)
    return Distribution(
        count=count,
        p50=percentile(ordered, 50) / SECOND,
        p95=percentile(ordered, 95) / SECOND,
        p99=percentile(ordered, 99) / SECOND,
        max=ordered[-1] / SECOND,
        mean=fsum(ordered) / count / SECOND,
    )


def _count_in_buckets(ordered: list[float]) -> list[int]:
    """Count ascending nanoseconds between successive edges; a sample on an edge belongs to the bucket below it."""
    up_to_edge = [bisect_right(ordered, edge * SECOND) for edge in LATENCY_BUCKETS]
    return [after - before for before, after in pairwise([0, *up_to_edge, len(ordered)])]
