"""Summarizes the streams of one provider and model."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import fsum
from statistics import median
from typing import Final

from otel_itl.core.measures import Measures
from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.tools.report.certainty import Flag, Known, is_blocked
from otel_itl.tools.report.other_tools import summary_as
from otel_itl.tools.report.reading.span_facts import StallFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import KnownCollector
from otel_itl.tools.report.stalls import StallGroup, group_stalls
from otel_itl.tools.report.too_few import has_too_few

FINISHED: Final = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
"""Outcomes of the streams in another tool's figures: to the tools, any other request has failed."""

MAX_FEW_GAPS: Final = 0.05
"""Imputed or excluded gaps up to this share of the output chunks are few: nothing has to be done about them."""

KNOWN: Final = {
    "time_to_first_token": "time_to_first_token",
    "inter_token_latency": "itl_p99",
    "time_per_output_token": "time_per_output_token",
}
"""Figure of a row of which it is counted how well it is known → the field of `Measures` that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Samples pooled over streams. Times are seconds; None: too few samples."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None
    mean: float | None
    too_few: Sequence[str] = ()
    """The percentiles that the samples are too few for (`too_few`): `p95`, `p99`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedStreams:
    """The buffered streams of one provider and model: their pace is that of a proxy or of a server that batches."""

    streams: int
    """How many there are, from 1."""
    burst_ratio: float
    """Share of their output chunks that arrived together with their predecessor."""
    pace: float | None
    """Mean time (s) between output chunks from burst to burst; None: known of none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The streams of one provider and model with server times. Medians in seconds; None: on none of the streams."""

    streams: int
    """How many there are, from 1."""
    load: float | None
    """Loading the model."""
    prompt: float | None
    """Evaluating the prompt."""
    decode: float | None
    """Generating the output."""
    first_byte: float | None
    """From the request to the first byte of the response."""
    total: float | None
    """The whole request."""
    time_to_first_token: float | None
    """Measured here."""
    decode_time: float | None
    """From the first output chunk to the last, measured here."""
    duration: float | None
    """From the request to the end of the stream, measured here."""


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
    without_token: int
    """Streams that ended without a token: they are in no latency."""
    waited: float | None
    """Median time from the request to the end of these (s); None: there are none."""
    group: str | None = None
    """The value of the attribute by which models are split; None: they are not."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Type of an error → streams that ended with it, the most frequent first; those without a type are left out."""
    figures: Mapping[str, float | None] | None = None
    """The figures of the finished streams as another tool defines them; None: not asked for."""

    @property
    def name(self) -> str:
        """The model, with the value that the row is of, if there is one: `gpt-4o, acme`."""
        return self.model if self.group is None else f"{self.model}, {self.group}"

    @property
    def has_too_few(self) -> bool:
        """Any of its percentiles is of too few samples."""
        has_few_times = self.server is not None and has_too_few(50, self.server.streams, self.server.streams)
        return has_few_times or bool(self.time_to_first_token.too_few or self.inter_token_latency.too_few)

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


class ModelCollector:
    """Collects the streams of one provider and model. It keeps 8 bytes for each of their latency samples.

    Args:
        tool: the tool whose figures are computed as well, from the timelines of finished streams; None: of none.
    """

    def __init__(self, tool: str | None) -> None:
        self._tool = tool
        self._finished: list[Timeline] = []
        self._operations: set[str] = set()
        self._outcomes: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._samples = array("d")
        self._first_tokens = array("d")
        self._without_token = array("d")
        """Seconds to the end of each stream that had no token."""
        self._paced_time = 0
        self._paced_tokens = 0
        self._sums: Counter[str] = Counter()
        self._stalls: list[StallFacts] = []
        self._buffered: list[tuple[float, float, float, float]] = []
        """Of each buffered stream its chunks, those in bursts, and the time and number of gaps from burst to burst."""
        self._host_delays = array("d")
        self._server_times: defaultdict[str, list[float]] = defaultdict(list)
        self.known = {figure: KnownCollector(name) for figure, name in KNOWN.items()}

    def add(self, stream: StoredStream, stalls: Sequence[StallFacts]) -> None:
        """Add a stream, which has these stalls."""
        measures, facts = stream.measures, stream.span_facts
        is_finished = stream.timeline.outcome in FINISHED
        is_consumer_bound = measures.is_consumer_bound or facts.is_consumer_bound
        if is_finished and self._tool is not None:
            self._finished.append(stream.timeline)
        self._operations.add(stream.operation)
        self._outcomes[stream.timeline.outcome.value] += 1
        if facts.error_type is not None and stream.timeline.outcome is Outcome.ERROR:
            self._errors[facts.error_type] += 1
        self._pool(stream)
        self._stalls.extend(stalls)
        if measures.is_buffered:
            self._add_buffered(measures)
        if facts.host_delay is not None:
            self._host_delays.append(facts.host_delay)
        if facts.server_durations:
            self._add_server_times(stream)
        self._sums.update(
            output_tokens=measures.token_count,
            output_chunks=measures.output_chunk_count,
            imputed=measures.imputed,
            excluded=measures.excluded,
            consumer_bound=int(is_consumer_bound),
            blocked=int((is_consumer_bound or facts.is_host_bound) and is_blocked(stream)),
            host_bound=int(facts.is_host_bound),
            finished=int(is_finished),
            streams_with_derived_stalls=int(facts.stalls is None),
        )

    def summary(self, provider: str, model: str, group: str | None = None) -> ModelSummary:
        """Summarize the streams that were added, of which there is at least one; `group` as in the summary."""
        samples, known = sorted(self._samples), {figure: one.summary() for figure, one in self.known.items()}
        per_token = self._paced_time / self._paced_tokens / SECOND if self._paced_tokens else None
        return ModelSummary(
            provider=provider,
            model=model,
            group=group,
            operations=sorted(self._operations),
            streams=self._outcomes.total(),
            outcomes=dict(sorted(self._outcomes.items())),
            without_token=len(self._without_token),
            waited=median(self._without_token) if self._without_token else None,
            errors=dict(self._errors.most_common()),
            time_to_first_token=_distribution(sorted(self._first_tokens), len(self._first_tokens), min_samples=1),
            inter_token_latency=_distribution(samples, known["inter_token_latency"].streams, min_samples=2),
            latency_buckets=_count_in_buckets(samples),
            time_per_output_token=per_token,
            output_speed=1 / per_token if per_token else None,
            **self._sums,
            host_delay=fsum(self._host_delays) if self._host_delays else None,
            buffered=self._summarize_buffered(),
            server=self._summarize_server_times(),
            stalls=group_stalls(self._stalls),
            known=known,
            figures=None if self._tool is None else summary_as(self._finished, self._tool),
        )

    def _pool(self, stream: StoredStream) -> None:
        """Pool the figures of a stream that are known to half of themselves, and count the others."""
        known, measures = self.known, stream.measures
        if measures.time_to_first_token is None:
            self._without_token.append(measures.duration)
        elif known["time_to_first_token"].add(stream):
            self._first_tokens.append(round(measures.time_to_first_token * SECOND))
        if measures.itl_samples and known["inter_token_latency"].add(stream):
            self._samples.extend(measures.itl_samples.nanoseconds)
        if measures.time_per_output_token and known["time_per_output_token"].add(stream):
            self._paced_time += round(measures.time_per_output_token * measures.paced_tokens * SECOND)
            self._paced_tokens += measures.paced_tokens

    def _add_buffered(self, measures: Measures) -> None:
        chunks, pace = measures.output_chunk_count, measures.buffered_pace
        time = (measures.decode_time or 0.0) if pace else 0.0
        self._buffered.append((chunks, (measures.burst_ratio or 0.0) * chunks, time, time / pace if pace else 0.0))

    def _summarize_buffered(self) -> BufferedStreams | None:
        """Sum up the streams that a buffer on the way released in bursts; None: there are none."""
        if not self._buffered:
            return None
        chunks, in_bursts, time, gaps = map(fsum, zip(*self._buffered, strict=True))
        return BufferedStreams(
            streams=len(self._buffered), burst_ratio=in_bursts / chunks, pace=time / gaps if gaps else None
        )

    def _add_server_times(self, stream: StoredStream) -> None:
        """Add the times that the server has reported of a stream, and those that were measured of it."""
        measured = {
            "time_to_first_token": stream.measures.time_to_first_token,
            "decode_time": stream.timeline.output_duration,
            "duration": stream.measures.duration,
        }
        for name, seconds in {**stream.span_facts.server_durations, **measured}.items():
            if seconds is not None:
                self._server_times[name].append(seconds)

    def _summarize_server_times(self) -> ServerTimes | None:
        """Sum up what the servers reported of their own time; None: they reported nothing."""
        if not self._server_times:
            return None
        names = [one.name for one in fields(ServerTimes) if one.name != "streams"]
        times = {name: sorted(self._server_times[name]) for name in names}
        medians = {name: percentile(seconds, 50) if seconds else None for name, seconds in times.items()}
        return ServerTimes(streams=len(self._server_times["duration"]), **medians)


def _distribution(ordered: list[float], streams: int, *, min_samples: int) -> Distribution:
    """Return the distribution of ascending nanoseconds of some streams, in seconds."""
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
        too_few=[f"p{q}" for q in (50, 95, 99) if has_too_few(q, count, streams)],
    )


def _count_in_buckets(ordered: list[float]) -> list[int]:
    """Count ascending nanoseconds between successive edges; a sample on an edge belongs to the bucket below it."""
    up_to_edge = [bisect_right(ordered, edge * SECOND) for edge in LATENCY_BUCKETS]
    return [after - before for before, after in pairwise([0, *up_to_edge, len(ordered)])]
