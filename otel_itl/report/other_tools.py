"""What other tools would have printed for the same streams: each figure by that tool's own definition.

Every tool has its own idea of which chunks count, where a request ends, who counts the tokens and what a percentile is;
so the same stream is 92 ms per token for one and 133 ms for another. `DEFINITIONS` holds one entry a tool; `speak`
gives its figures of one stream, `speak_all` those of several, each with the formula it came from. Names of figures are
the tool's own, with the unit added (`_ms`, `_ns`) where the tool leaves it out.

A tool stands where the consumer stands: it takes `arrived` as it is, and knows of no hold. `otel_itl` alone tells the
caller's slowness from the upstream's. None is what the tool has no number for, or what a timeline does not tell: a tool
that counts tokens with its own tokenizer needs the text. The end of a timeline stands both for the `[DONE]` line, where
some SDKs stop, and for the end of the connection, which others wait for: it holds one of the two moments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, pairwise, repeat
from math import ceil, isnan, nan, sqrt
from statistics import fmean, quantiles
from typing import Final, NamedTuple

from otel_itl.core.gaps import MAX_TOKENS_PER_CHUNK
from otel_itl.core.measures import measure
from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Timeline

MILLISECOND: Final = 1_000_000
TEXT: Final = int(Kind.ANSWER)
ANSWERS: Final = int(Kind.ANSWER | Kind.TOOL)
SPOKEN_TEXT: Final = int(Kind.ANSWER | Kind.REASONING)
UNKNOWN: Final = nan
"""The tool has a number here that the timeline does not tell. Arithmetic carries it on; it is given out as None."""
CLIENT_HISTOGRAM: Final = tuple(10.0 * (1 << doubling) for doubling in range(14))
"""Bucket edges (ms) of OpenTelemetry's client histograms: 0.01 s to 81.92 s, doubling."""

Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The figures of one stream or of several, as one tool has them."""

    tool: str
    figures: Mapping[str, float | None]
    """By the tool's own names. None: the tool has no such number, or the timeline does not tell it."""
    itl: Sequence[float] = ()
    """The list that the tool keeps of its inter-token (or inter-chunk) latencies of one stream, in milliseconds;
    empty where it keeps none, and for several streams. In order of time, but for `otel_itl`: ascending."""
    formulas: Mapping[str, str]
    """How each figure comes about, by the same names; that of `itl` is under the tool's name for it."""


class Reading(NamedTuple):
    """What a tool takes down of one stream: its figures (those it has), and its list of latencies in milliseconds."""

    figures: Figures
    itl: list[float]


Statistic = Callable[[Sequence[float]], float]
"""One number of ascending values, of which there is at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """How one tool reads a stream, and how it sums up several."""

    name: str
    version: str
    """The version whose code was read, or run on recorded streams."""
    counts: str
    """Which chunks are tokens to it."""
    ends: str
    """Which moment is the end of a request to it."""
    percentiles: str
    """How it interpolates."""
    roles: Mapping[str, str]
    """Its own names for `ttft`, `itl`, `tpot`, `e2e`, `tokens` and `speed`, where it has them."""
    formulas: Mapping[str, str]
    """Figure of one stream → how it comes about, where t are arrivals after the request, N the output tokens."""
    read: Callable[[Timeline], Reading]
    statistics: Mapping[str, Statistic]
    pooled: Mapping[str, str]
    """Figure of one stream → its name in a summary, with `{}` for the statistic. Values of all streams are pooled."""
    weights: Mapping[str, Callable[[Figures], float | None]] = field(default_factory=dict)
    """Figure → how many times the value of a stream counts; once, if nothing is said."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Figures that only several streams have, and how they come about."""
    read_together: Callable[[Sequence[Timeline], Sequence[Reading]], Figures] | None = None
    nothing: float | None = None
    """What it prints for a statistic of no values."""
    every_chunk: bool = True
    """It cannot do with a timeline that leaves chunks out."""


def speak(timeline: Timeline, tool: str) -> Spoken:
    """The figures of one stream as another tool has them.

    A timeline that leaves chunks out (thinned, or longer than the recording limit) has none but `otel_itl`'s own.

    Args:
        timeline: a stream of any outcome; the tools themselves leave out requests that failed.
        tool: one of `TOOLS`.

    Raises:
        ValueError: a name that is not in `TOOLS`.
    """
    definition = _definition(tool)
    reading = _read(definition, timeline)
    figures = {name: _known(reading.figures.get(name)) for name in definition.formulas}
    figures.pop(definition.roles.get("itl", ""), None)
    return Spoken(tool=tool, figures=figures, itl=reading.itl, formulas=definition.formulas)


def speak_all(timelines: Sequence[Timeline], tool: str) -> Spoken:
    """The figures of several streams together, as another tool sums them up.

    A figure that one of the streams does not tell is absent: leaving that stream out would be another number.

    Raises:
        ValueError: a name that is not in `TOOLS`.
    """
    definition = _definition(tool)
    readings = [_read(definition, timeline) for timeline in timelines]
    told = all(_tells(definition, timeline) for timeline in timelines)
    figures: Figures = {}
    formulas: dict[str, str] = {}
    for figure, label in definition.pooled.items():
        values = sorted(_pool(definition, figure, readings)) if told else [UNKNOWN]
        unknown = any(map(isnan, values))
        for name, statistic in definition.statistics.items():
            number = None if unknown else statistic(values) if values else definition.nothing
            figures[label.format(name)] = _known(number)
            formulas[label.format(name)] = f"{name} over all streams: {definition.formulas[figure]}"
    if definition.read_together is not None:
        extra = definition.read_together(timelines, readings) if told and timelines else {}
        figures.update({name: _known(extra.get(name)) for name in definition.together})
        formulas.update(definition.together)
    return Spoken(tool=tool, figures=figures, formulas=formulas)


@dataclass(frozen=True, slots=True)
class Fluidity:
    """Etalon's deadlines: how many were missed, of how many."""

    missed: int
    total: int

    @property
    def index(self) -> float:
        """The fluidity index, `1 - missed / total`: 1 is fluid, and stands as well where nothing was due."""
        return 1 - self.missed / self.total if self.total else 1.0


def fluidity(timeline: Timeline, ttft_objective: int, itl_objective: int, *, counted: int = OUTPUT) -> Fluidity | None:
    """Etalon's deadlines for each token of a stream, in integer nanoseconds.

    The first token is due `ttft_objective` after the request, each next one `itl_objective` after the one before; what
    a token comes early is slack for those after it. A token that comes late misses its own deadline and one more for
    each further `itl_objective` that passes, and the slack is gone. Tokens that share a chunk (where the provider
    counts them) come together. Several choices are walked one by one.

    Args:
        timeline: the stream.
        ttft_objective: nanoseconds to the first token.
        itl_objective: nanoseconds between tokens.
        counted: the flags of chunks that are tokens. Etalon itself knows of text alone: `Kind.ANSWER`.

    Returns:
        None where the arrivals are not known: the consumer was too slow, or chunks were left out.

    Raises:
        ValueError: an objective that is not positive.
    """
    if ttft_objective <= 0 or itl_objective <= 0:
        message = f"an objective is a positive number of nanoseconds: got {ttft_objective} and {itl_objective}."
        raise ValueError(message)
    measures = measure(timeline)
    if not _whole(timeline) or measures.imputed or measures.excluded or measures.is_consumer_bound:
        return None
    choices = timeline.choices or bytes(len(timeline))
    claims = timeline.tokens or repeat(1, len(timeline))
    chunks = list(zip(choices, timeline.arrived, timeline.kinds, claims, strict=True))
    missed = met = 0
    for choice in set(choices):
        slack = previous = 0
        objective = ttft_objective
        for index, moment, kind, claimed in chunks:
            if index != choice or not kind & counted:
                continue
            slack += objective - (moment - previous)
            if slack >= 0:
                met += 1
            else:
                missed += 1 + -slack // itl_objective
                slack = 0
            together = claimed - 1 if 1 < claimed <= MAX_TOKENS_PER_CHUNK else 0
            met += together
            slack += together * itl_objective
            previous, objective = moment, itl_objective
    return Fluidity(missed, missed + met)


def _definition(tool: str) -> Definition:
    try:
        return DEFINITIONS[tool]
    except KeyError:
        message = f"no definition of {tool!r} is known. Known are: {', '.join(DEFINITIONS)}."
        raise ValueError(message) from None


def _whole(timeline: Timeline) -> bool:
    return not timeline.unrecorded and not any(timeline.skipped)


def _tells(definition: Definition, timeline: Timeline) -> bool:
    return not definition.every_chunk or _whole(timeline)


def _read(definition: Definition, timeline: Timeline) -> Reading:
    return definition.read(timeline) if _tells(definition, timeline) else Reading({}, [])


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


def _pool(definition: Definition, figure: str, readings: Sequence[Reading]) -> Iterator[float]:
    for reading in readings:
        if figure == definition.roles.get("itl"):
            yield from reading.itl
            continue
        value = reading.figures.get(figure)
        if value is not None:
            weight = definition.weights[figure](reading.figures) if figure in definition.weights else 1
            yield from repeat(value, int(weight or 0))


# --- Percentiles ----------------------------------------------------------------------------------------------------


def _nearest_rank(q: float, ordered: Sequence[float]) -> float:
    """The smallest value that at least `q` percent of the values do not exceed."""
    return ordered[max(ceil(len(ordered) * q / 100) - 1, 0)]


def _rounded_rank(q: float, ordered: Sequence[float]) -> float:
    return round(_nearest_rank(q, ordered), 4)


def _at_index(q: float, ordered: Sequence[float]) -> float:
    return ordered[min(int(len(ordered) * q / 100), len(ordered) - 1)]


def _exclusive(q: int, ordered: Sequence[float]) -> float:
    """Python's `statistics.quantiles`: extrapolates beyond the largest value."""
    cuts: list[float] = quantiles(ordered, n=100) if len(ordered) > 1 else [ordered[0]] * 99
    return cuts[q - 1]


def _from_buckets(q: float, ordered: Sequence[float]) -> float:
    """What PromQL's `histogram_quantile` makes of the histogram: interpolation within the bucket."""
    rank = len(ordered) * q / 100
    counts = Counter(bisect_left(CLIENT_HISTOGRAM, value) for value in ordered)
    below = 0
    for bucket, edge in enumerate(CLIENT_HISTOGRAM):
        inside = counts[bucket]
        if inside and below + inside >= rank:
            floor = CLIENT_HISTOGRAM[bucket - 1] if bucket else 0.0
            return floor + (edge - floor) * (rank - below) / inside
        below += inside
    return CLIENT_HISTOGRAM[-1]


def _linear(q: float, ordered: Sequence[float]) -> float:
    return percentile(ordered, q)


def _least(ordered: Sequence[float]) -> float:
    return ordered[0]


def _most(ordered: Sequence[float]) -> float:
    return ordered[-1]


def _number(ordered: Sequence[float]) -> float:
    return len(ordered)


def _deviation(less: int, ordered: Sequence[float]) -> float:
    """Standard deviation: of the population, or with one degree of freedom less, of a sample."""
    if len(ordered) <= less:
        return UNKNOWN
    mean = fmean(ordered)
    return sqrt(sum((value - mean) ** 2 for value in ordered) / (len(ordered) - less))


def _percentiles(method: Callable[[int, Sequence[float]], float], *qs: int) -> dict[str, Statistic]:
    return {f"p{q}": partial(method, q) for q in qs}


# --- What a tool takes down -----------------------------------------------------------------------------------------


def _arrivals(timeline: Timeline, flags: int) -> list[int]:
    return list(compress(timeline.arrived, (kind & flags for kind in timeline.kinds)))


def _gaps(moments: Sequence[int]) -> list[float]:
    return [(after - before) / MILLISECOND for before, after in pairwise(moments)]


def _counted(timeline: Timeline) -> float:
    """The provider's token count, where the tool would fall back on its own tokenizer."""
    return UNKNOWN if timeline.output_tokens is None else timeline.output_tokens


def _per_token(span: float, tokens: float) -> float | None:
    return None if tokens <= 1 else span / (tokens - 1) / MILLISECOND


def _reciprocal(milliseconds: float | None) -> float | None:
    return 1000 / milliseconds if milliseconds else None


def _vllm(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, ANSWERS)
    if not moments:
        return Reading({}, [])  # a failed request to it
    return Reading(
        {
            "ttft_ms": moments[0] / MILLISECOND,
            "tpot_ms": _per_token(moments[-1] - moments[0], _counted(timeline)),
            "e2el_ms": moments[-1] / MILLISECOND,
            "output_tokens_from_usage": timeline.output_tokens or 0,
        },
        _gaps(moments),
    )


def _sglang(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, SPOKEN_TEXT)
    first = moments[0] if moments else 0
    tokens = _counted(timeline)
    return Reading(
        {
            "ttft_ms": first / MILLISECOND,
            "tpot_ms": _per_token(timeline.end - first, tokens),
            "e2e_ms": timeline.end / MILLISECOND,
            "output_len": tokens,
        },
        _gaps(moments),
    )


def _aiperf(timeline: Timeline) -> Reading:
    moments, answers = _arrivals(timeline, OUTPUT), _arrivals(timeline, ANSWERS)
    setup, tokens = timeline.headers, timeline.output_tokens
    figures: Figures = {
        "stream_setup_latency_ms": None if setup is None else setup / MILLISECOND,
        "time_to_first_output_token_ms": answers[0] / MILLISECOND if answers else None,
        "output_sequence_length": tokens,
    }
    if moments:
        first, last = moments[0], moments[-1]
        itl = None if tokens is None else _per_token(last - first, tokens)
        figures |= {
            "time_to_first_token_ms": first / MILLISECOND,
            "time_to_second_token_ms": (moments[1] - first) / MILLISECOND if len(moments) > 1 else None,
            "request_latency_ms": last / MILLISECOND,
            "decode_duration_ms": (last - first) / MILLISECOND,
            "stream_prefill_latency_ms": None if setup is None else (first - setup) / MILLISECOND,
            "inter_token_latency_ms": itl,
            "output_token_throughput_per_user": _reciprocal(itl),
            "e2e_output_token_throughput": tokens / (last / SECOND) if tokens is not None and last else None,
        }
    return Reading(figures, _gaps(moments))


def _guidellm(timeline: Timeline) -> Reading:
    moments, answers = _arrivals(timeline, OUTPUT), _arrivals(timeline, ANSWERS)
    tokens = timeline.output_tokens if timeline.output_tokens is not None else len(moments) or None
    figures: Figures = {
        "request_latency_ms": timeline.end / MILLISECOND,
        "token_iterations": len(moments),
        "output_tokens": tokens,
        "time_to_first_output_token_ms": answers[0] / MILLISECOND if answers else None,
    }
    if moments:
        figures["time_to_first_token_ms"] = moments[0] / MILLISECOND
    if tokens:
        last = moments[-1] if moments else timeline.end
        figures["time_per_output_token_ms"] = last / tokens / MILLISECOND
        figures["output_tokens_per_second"] = tokens / (timeline.end / SECOND) if timeline.end else None
    if tokens is not None and moments:
        figures["inter_token_latency_ms"] = _per_token(moments[-1] - moments[0], tokens)
        if tokens > 1 and len(moments) > 1:
            figures["iter_tokens_per_iteration"] = (tokens - 1) / (len(moments) - 1)
    return Reading(figures, [])


def _inference_perf(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, TEXT)
    tokens = _counted(timeline)
    figures: Figures = {
        "request_latency_ms": timeline.end / MILLISECOND,
        "normalized_time_per_output_token_ms": timeline.end / tokens / MILLISECOND if tokens else 0.0,
        "output_tokens": tokens,
    }
    if len(moments) > 1:
        gaps = _gaps(moments)
        figures |= {
            "time_to_first_token_ms": moments[0] / MILLISECOND,
            "time_per_output_token_ms": _per_token(moments[-1] - moments[0], tokens),
            "inter_token_latency_ms": fmean(gaps),
        }
        return Reading(figures, gaps)
    return Reading(figures, [])


def _llmperf(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, TEXT)
    events = sum(kind != Kind.USAGE for kind in timeline.kinds)
    last = moments[-1] if moments else 0
    return Reading(
        {
            "sse_data_events": events,
            "sum_time_to_next_token_ms": last / MILLISECOND,
            "ttft_ms": moments[0] / MILLISECOND if moments else 0.0,
            "e2e_ms": timeline.end / MILLISECOND,
            "inter_token_latency_ms_main_loop": last / events / MILLISECOND if events else None,
        },
        [],
    )


def _evalscope(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, OUTPUT)
    first = moments[0] if moments else 0
    latency = timeline.arrived[-1] if timeline.arrived else 0
    tokens = _counted(timeline)
    chunks = sum(
        moment >= first and kind not in {Kind.USAGE, Kind.PING} and bool(moments)
        for moment, kind in zip(timeline.arrived, timeline.kinds, strict=True)
    )
    return Reading(
        {
            "ttft_ms": first / MILLISECOND,
            "latency_ms": latency / MILLISECOND,
            "tpot_ms": _per_token(latency - first, tokens) or 0.0,
            "completion_tokens": tokens,
            "n_decode_chunks": chunks,
            "decoded_tokens_per_iter": 0.0 if tokens <= 1 or chunks <= 1 else (tokens - 1) / (chunks - 1),
        },
        _gaps(moments),
    )


def _llmeter(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, TEXT)
    tokens = timeline.output_tokens
    figures: Figures = {"num_tokens_output": tokens, "num_tokens_output_reasoning": timeline.reasoning_tokens}
    if moments:
        figures |= {
            "time_to_first_token_ms": moments[0] / MILLISECOND,
            "time_to_last_token_ms": moments[-1] / MILLISECOND,
            "time_per_output_token_ms": None if tokens is None else _per_token(moments[-1] - moments[0], tokens),
        }
    return Reading(figures, [])


def _mlperf(timeline: Timeline) -> Reading:
    moments = _arrivals(timeline, OUTPUT)
    if not moments:
        return Reading({}, [])
    complete = max(_arrivals(timeline, OUTPUT | Kind.FINISH))
    tokens = timeline.output_tokens
    tpot: float | None = UNKNOWN
    if tokens is not None:
        tpot = (complete - moments[0]) // (tokens - 1) if tokens > 1 else None
    return Reading(
        {
            "first_token_latency_ns": moments[0],
            "sample_latency_ns": complete,
            "time_per_output_token_ns": tpot,
            "n_tokens": _counted(timeline),
        },
        [],
    )


def _otel(timeline: Timeline) -> Reading:
    moments = timeline.arrived
    return Reading({"time_to_first_chunk_ms": moments[0] / MILLISECOND} if moments else {}, _gaps(moments))


def _own(timeline: Timeline) -> Reading:
    measures = measure(timeline)
    seconds = {
        "ttft_ms": measures.time_to_first_token,
        "time_to_first_answer_token_ms": measures.time_to_first_answer_token,
        "tpot_ms": measures.time_per_output_token,
        "time_per_output_chunk_ms": measures.time_per_output_chunk,
        "e2e_ms": measures.duration,
    }
    figures: Figures = {name: None if value is None else value * 1000 for name, value in seconds.items()}
    figures |= {"output_tokens": timeline.output_tokens, "output_speed": measures.output_speed}
    return Reading(figures, [sample / MILLISECOND for sample in measures.itl_samples.nanoseconds])


# --- What several streams have together -----------------------------------------------------------------------------


def _busiest_second(timelines: Sequence[Timeline], readings: Sequence[Reading]) -> Figures:
    """Chunks in the fullest second, counted from the first request on, and the longest gap."""
    start = min(timeline.request_unix_ns for timeline in timelines)
    seconds: Counter[int] = Counter()
    for timeline, reading in zip(timelines, readings, strict=True):
        ttft = reading.figures.get("ttft_ms")
        if ttft is not None:
            moment = (timeline.request_unix_ns - start) / MILLISECOND + ttft
            seconds[int(moment // 1000)] += 1
            for gap in reading.itl:
                moment += gap
                seconds[int(moment // 1000)] += 1
    gaps = [gap for reading in readings for gap in reading.itl]
    return {"max_output_tokens_per_s": float(max(seconds.values(), default=0)), "max_itl_ms": max(gaps, default=None)}


def _request_rate(timelines: Sequence[Timeline], readings: Sequence[Reading]) -> Figures:
    start = min(timeline.request_unix_ns for timeline in timelines)
    end = max(timeline.request_unix_ns + timeline.end for timeline in timelines)
    return {"requests_per_sec": len(readings) * SECOND / (end - start) if end > start else None}


def _decoded(figures: Figures) -> float | None:
    tokens = figures["output_tokens"]
    return None if tokens is None else tokens - 1


def _output(figures: Figures) -> float | None:
    return figures["output_tokens"]


def _decodes(figures: Figures) -> float | None:
    return figures["tpot_ms"] != 0


# --- The table ------------------------------------------------------------------------------------------------------

OUTPUT_CHUNKS: Final = "output chunks: reasoning, answer, tool"
TEXT_CHUNKS: Final = "answer chunks alone: no reasoning, no tool calls"
LINEAR: Final = "linear between closest ranks (numpy's default)"
USAGE_ALONE: Final = "N by usage; without it the tool counts the text itself, which a timeline does not tell"
LAST_TO_FIRST: Final = "(t last - t first output chunk) / (N - 1), for N > 1"
_MIDDLE: Final[Mapping[str, Statistic]] = {"mean": fmean, "median": partial(_linear, 50)}

_TABLE = (
    Definition(
        name="vllm",
        version="vllm 0.33.0, `vllm bench serve`",
        counts="answer and tool chunks, no reasoning",
        ends="last answer or tool chunk",
        percentiles=LINEAR,
        roles={
            "ttft": "ttft_ms",
            "itl": "itl_list_ms",
            "tpot": "tpot_ms",
            "e2e": "e2el_ms",
            "tokens": "output_tokens_from_usage",
        },
        formulas={
            "ttft_ms": "t of the first answer or tool chunk",
            "itl_list_ms": "gaps between answer and tool chunks",
            "tpot_ms": f"(e2el - ttft) / (N - 1), for N > 1; {USAGE_ALONE}",
            "e2el_ms": "t of the last answer or tool chunk",
            "output_tokens_from_usage": "N by usage, 0 without it",
        },
        read=_vllm,
        statistics={**_MIDDLE, **_percentiles(_linear, 50, 90, 99)},
        pooled={name: "{}_" + name for name in ("ttft_ms", "tpot_ms", "e2el_ms")} | {"itl_list_ms": "{}_itl_ms"},
        together={
            "max_output_tokens_per_s": "most answer and tool chunks in one second, counted from the first request"
        },
        read_together=_busiest_second,
        nothing=0.0,
    ),
    Definition(
        name="sglang",
        version="sglang 0.5.23, `bench_serving` on the OpenAI chat API",
        counts="reasoning and answer chunks, no tool calls",
        ends="`[DONE]` line (end of the timeline)",
        percentiles=LINEAR,
        roles={"ttft": "ttft_ms", "itl": "itl_list_ms", "tpot": "tpot_ms", "e2e": "e2e_ms", "tokens": "output_len"},
        formulas={
            "ttft_ms": "t of the first reasoning or answer chunk, 0 if there is none",
            "itl_list_ms": "gaps between reasoning and answer chunks",
            "tpot_ms": "(e2e - ttft) / (N - 1), for N > 1",
            "e2e_ms": "t of the `[DONE]` line (end of the timeline)",
            "output_len": "N by usage; without it the length asked for, which a timeline does not tell",
        },
        read=_sglang,
        statistics={**_MIDDLE, "std": partial(_deviation, 0), **_percentiles(_linear, 90, 95, 99)},
        pooled={
            "ttft_ms": "{}_ttft_ms",
            "tpot_ms": "{}_tpot_ms",
            "itl_list_ms": "{}_itl_ms",
            "e2e_ms": "{}_e2e_latency_ms",
        },
        together={
            "max_itl_ms": "longest gap between reasoning and answer chunks",
            "max_output_tokens_per_s": "most reasoning and answer chunks in one second, counted from the first "
            "request; a stream without any counts one when it is asked for",
        },
        read_together=_busiest_second,
        nothing=0.0,
    ),
    Definition(
        name="aiperf",
        version="aiperf 0.13.0, token counts of the server",
        counts=OUTPUT_CHUNKS,
        ends="last output chunk",
        percentiles=LINEAR,
        roles={
            "ttft": "time_to_first_token_ms",
            "itl": "inter_chunk_latency_ms",
            "tpot": "inter_token_latency_ms",
            "e2e": "request_latency_ms",
            "tokens": "output_sequence_length",
            "speed": "output_token_throughput_per_user",
        },
        formulas={
            "time_to_first_token_ms": "t of the first output chunk",
            "time_to_first_output_token_ms": "t of the first answer or tool chunk",
            "time_to_second_token_ms": "gap between the first two output chunks",
            "inter_chunk_latency_ms": "gaps between output chunks",
            "inter_token_latency_ms": LAST_TO_FIRST,
            "request_latency_ms": "t of the last output chunk",
            "decode_duration_ms": "request_latency - time_to_first_token",
            "stream_setup_latency_ms": "t of the response headers",
            "stream_prefill_latency_ms": "time_to_first_token - stream_setup_latency",
            "output_sequence_length": "N by usage, none without it",
            "output_token_throughput_per_user": "1 / inter_token_latency, tokens/s",
            "e2e_output_token_throughput": "N / request_latency, tokens/s",
        },
        read=_aiperf,
        statistics={
            "avg": fmean,
            "min": _least,
            "max": _most,
            "std": partial(_deviation, 0),
            **_percentiles(_linear, 50, 90, 95, 99),
        },
        pooled={
            name: name + ".{}"
            for name in (
                "time_to_first_token_ms",
                "inter_token_latency_ms",
                "request_latency_ms",
                "inter_chunk_latency_ms",
            )
        },
    ),
    Definition(
        name="guidellm",
        version="guidellm 0.8.1",
        counts=OUTPUT_CHUNKS,
        ends="`[DONE]` line (end of the timeline); per token, the last output chunk",
        percentiles="inverse CDF, no interpolation; what is per token is weighted by tokens",
        roles={
            "ttft": "time_to_first_token_ms",
            "tpot": "inter_token_latency_ms",
            "e2e": "request_latency_ms",
            "tokens": "output_tokens",
            "speed": "output_tokens_per_second",
        },
        formulas={
            "time_to_first_token_ms": "t of the first output chunk",
            "time_to_first_output_token_ms": "t of the first answer or tool chunk",
            "inter_token_latency_ms": LAST_TO_FIRST,
            "time_per_output_token_ms": "t of the last output chunk / N, so the wait for the first token is in it",
            "request_latency_ms": "t of the `[DONE]` line (end of the timeline)",
            "output_tokens": "N by usage, without it the number of output chunks",
            "token_iterations": "number of output chunks",
            "iter_tokens_per_iteration": "(N - 1) / (token_iterations - 1)",
            "output_tokens_per_second": "N / request_latency",
        },
        read=_guidellm,
        statistics={
            "mean": fmean,
            "median": partial(_nearest_rank, 50),
            **_percentiles(_nearest_rank, 90, 95, 99),
            "count": _number,
        },
        pooled={
            name: name + ".{}"
            for name in ("time_to_first_token_ms", "inter_token_latency_ms", "time_per_output_token_ms")
        },
        weights={"inter_token_latency_ms": _decoded, "time_per_output_token_ms": _output},
    ),
    Definition(
        name="inference-perf",
        version="inference-perf 0.7.0, `use_server_output_tokens`, gaps not corrected by a tokenizer",
        counts=TEXT_CHUNKS,
        ends="end of the connection (end of the timeline); per token, the last answer chunk",
        percentiles=LINEAR,
        roles={
            "ttft": "time_to_first_token_ms",
            "itl": "inter_token_latency_deltas_ms",
            "tpot": "time_per_output_token_ms",
            "e2e": "request_latency_ms",
            "tokens": "output_tokens",
        },
        formulas={
            "time_to_first_token_ms": "t of the first answer chunk, where there are two or more",
            "inter_token_latency_deltas_ms": "gaps between answer chunks",
            "inter_token_latency_ms": "mean gap between answer chunks",
            "time_per_output_token_ms": "(t last - t first answer chunk) / (N - 1), for N > 1",
            "normalized_time_per_output_token_ms": "request_latency / N, 0 for N = 0",
            "request_latency_ms": "t of the end of the connection (end of the timeline)",
            "output_tokens": USAGE_ALONE,
        },
        read=_inference_perf,
        statistics={**_MIDDLE, "min": _least, "max": _most, **_percentiles(_linear, 90, 99)},
        pooled={
            "request_latency_ms": "request_latency_ms.{}",
            "normalized_time_per_output_token_ms": "normalized_time_per_output_token_ms.{}",
            "time_per_output_token_ms": "time_per_output_token_ms.{}",
            "time_to_first_token_ms": "time_to_first_token_ms.{}",
            "inter_token_latency_deltas_ms": "inter_token_latency_ms.{}",
        },
        together={"requests_per_sec": "streams / (last end - first request)"},
        read_together=_request_rate,
    ),
    Definition(
        name="llmperf",
        version="llmperf main@f1d6bed47e45",
        counts=TEXT_CHUNKS,
        ends="end of the connection (end of the timeline); per token, the last answer chunk",
        percentiles="linear between closest ranks (pandas' default)",
        roles={"ttft": "ttft_ms", "tpot": "inter_token_latency_ms_main_loop", "e2e": "e2e_ms"},
        formulas={
            "ttft_ms": "t of the first answer chunk, 0 if there is none",
            "inter_token_latency_ms_main_loop": "t of the last answer chunk / sse_data_events: no token is counted",
            "sum_time_to_next_token_ms": "t of the last answer chunk, 0 if there is none",
            "sse_data_events": "number of chunks of any kind but usage, which the tool does not ask for",
            "e2e_ms": "t of the end of the connection (end of the timeline)",
        },
        read=_llmperf,
        statistics={
            "mean": fmean,
            "stddev": partial(_deviation, 1),
            **_percentiles(_linear, 25, 50, 75, 90, 95, 99),
        },
        pooled={
            "inter_token_latency_ms_main_loop": "inter_token_latency_ms.{}",
            "ttft_ms": "ttft_ms.{}",
            "e2e_ms": "end_to_end_latency_ms.{}",
        },
    ),
    Definition(
        name="evalscope",
        version="evalscope 1.14.1, `evalscope perf`",
        counts=OUTPUT_CHUNKS,
        ends="last chunk of any kind",
        percentiles="nearest rank, rounded to 4 decimals",
        roles={
            "ttft": "ttft_ms",
            "itl": "itl_list_ms",
            "tpot": "tpot_ms",
            "e2e": "latency_ms",
            "tokens": "completion_tokens",
        },
        formulas={
            "ttft_ms": "t of the first output chunk, 0 if there is none",
            "itl_list_ms": "gaps between output chunks",
            "tpot_ms": "(latency - ttft) / (N - 1), 0 for N = 1",
            "latency_ms": "t of the last chunk of any kind, usage too",
            "completion_tokens": USAGE_ALONE,
            "n_decode_chunks": "number of chunks from the first output chunk on, usage left out",
            "decoded_tokens_per_iter": "(N - 1) / (n_decode_chunks - 1), 0 for N = 1",
        },
        read=_evalscope,
        statistics={"avg": fmean, **_percentiles(_rounded_rank, 50, 90, 95, 99)},
        pooled={"itl_list_ms": "itl_ms.{}", "tpot_ms": "tpot_ms.{}"},
        weights={"tpot_ms": _decodes},
    ),
    Definition(
        name="llmeter",
        version="llmeter 0.2.0",
        counts=TEXT_CHUNKS,
        ends="last answer chunk",
        percentiles="exclusive (`statistics.quantiles`), which extrapolates beyond the longest of few values",
        roles={
            "ttft": "time_to_first_token_ms",
            "tpot": "time_per_output_token_ms",
            "e2e": "time_to_last_token_ms",
            "tokens": "num_tokens_output",
        },
        formulas={
            "time_to_first_token_ms": "t of the first answer chunk",
            "time_to_last_token_ms": "t of the last answer chunk",
            "time_per_output_token_ms": "(time_to_last_token - time_to_first_token) / (N - 1), for N > 1",
            "num_tokens_output": "N by usage, none without it",
            "num_tokens_output_reasoning": "reasoning tokens by usage",
        },
        read=_llmeter,
        statistics={"average": fmean, **_percentiles(_exclusive, 50, 90, 95, 99)},
        pooled={"time_per_output_token_ms": "time_per_output_token_ms.{}"},
    ),
    Definition(
        name="mlperf",
        version="mlcommons-loadgen 6.0.17, token latencies",
        counts=OUTPUT_CHUNKS,
        ends="finish chunk, when the query is reported complete",
        percentiles="value at index floor(n * p), no interpolation",
        roles={
            "ttft": "first_token_latency_ns",
            "tpot": "time_per_output_token_ns",
            "e2e": "sample_latency_ns",
            "tokens": "n_tokens",
        },
        formulas={
            "first_token_latency_ns": "t of the first output chunk",
            "time_per_output_token_ns": "(sample_latency - first_token_latency) // (N - 1), for N > 1",
            "sample_latency_ns": "t of the finish chunk; of the last output chunk where that is later or alone",
            "n_tokens": "N by usage, as a system under test reports it",
        },
        read=_mlperf,
        statistics={"mean": fmean, "min": _least, "max": _most, **_percentiles(_at_index, 50, 90, 95, 97, 99)},
        pooled={name: name + ".{}" for name in ("first_token_latency_ns", "time_per_output_token_ns")},
    ),
    Definition(
        name="otel",
        version="opentelemetry-util-genai 1.3b0",
        counts="every chunk: role, finish and usage too",
        ends="last chunk of any kind",
        percentiles="`histogram_quantile` over the buckets 0.01, 0.02, 0.04 to 81.92 s",
        roles={"ttft": "time_to_first_chunk_ms", "itl": "time_per_output_chunk_ms"},
        formulas={
            "time_to_first_chunk_ms": "t of the first chunk of any kind",
            "time_per_output_chunk_ms": "gaps between chunks of any kind",
        },
        read=_otel,
        statistics={"mean": fmean, **_percentiles(_from_buckets, 50, 90, 95, 99)},
        pooled={name: name + ".{}" for name in ("time_to_first_chunk_ms", "time_per_output_chunk_ms")},
    ),
    Definition(
        name="otel_itl",
        version="this package",
        counts=OUTPUT_CHUNKS,
        ends="end of the timeline; per token, the last output chunk",
        percentiles=LINEAR,
        roles={
            "ttft": "ttft_ms",
            "itl": "itl_ms",
            "tpot": "tpot_ms",
            "e2e": "e2e_ms",
            "tokens": "output_tokens",
            "speed": "output_speed",
        },
        formulas={
            "ttft_ms": "t of the first output chunk",
            "time_to_first_answer_token_ms": "t of the first answer or tool chunk",
            "itl_ms": "gaps between output chunks as the upstream delivered them; a chunk of n tokens is n of gap / n",
            "tpot_ms": LAST_TO_FIRST + ", N without reasoning that was not streamed",
            "time_per_output_chunk_ms": "(t last - t first output chunk) / (output chunks - 1)",
            "e2e_ms": "end of the timeline",
            "output_tokens": "N by usage, none without it",
            "output_speed": "1 / tpot, tokens/s",
        },
        read=_own,
        statistics={"mean": fmean, "max": _most, **_percentiles(_linear, 50, 90, 95, 99)},
        pooled={name: name + ".{}" for name in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")},
        every_chunk=False,
    ),
)

DEFINITIONS: Final[Mapping[str, Definition]] = {definition.name: definition for definition in _TABLE}
"""Name → definition, one entry a tool."""

TOOLS: Final = tuple(DEFINITIONS)
"""The names that `speak` and `speak_all` accept."""
