"""From a Timeline to its Measures: the definitions of every latency figure.

With `r` the request, `t` the arrivals, `f` and `l` the first and last *output* chunk (reasoning, answer or tool
output), `C` the number of output chunks and `N` the provider's count of output tokens:

* TTFC, time to first chunk: `t_0 - r`.
* TTFT, time to first token: `t_f - r`. A role, lifecycle, usage, empty or ping chunk is never a token.
* TTFA, time to first answer token: `t - r` of the first answer or tool chunk. Reasoning time: `TTFA - TTFT`.
* ITL, inter-token latency: the gaps between successive output chunks *as the upstream delivered them*. A chunk known
  to carry `n` tokens gives `n` samples of `gap / n`.
* TPOT, time per output token: `(t_l - t_f) / (N - 1)`; output speed is its reciprocal. Where the reasoning was not
  streamed itself, that of the answer alone: see `token_pace`.

Each arrival is an interval, judged in `arrivals`: the first and the last moment at which the chunk can have come. The
ITL is by the best estimate of the moments between (`intervals`), all else by the latest, and `Measures.bounds` has what
each figure can be. Which gaps are exact, imputed or excluded is found in `gaps`; whether the stream was buffered on its
way in `bursts`. A figure that does not exist is absent (None).

Worked example. Role chunk at 200 ms; "Let" at 500 ms, " me" at 540, " think" at 1,540; usage reports 6 tokens.
TTFC 0.2 s, TTFT 0.5 s; gaps 40 and 1,000 ms; ITL p50 0.52 s, p99 0.9904 s, mean 0.52 s; TPOT 1.04 / 5 = 0.208 s;
2 tokens per chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from math import dist, inf, sqrt
from types import MappingProxyType
from typing import NamedTuple

from otel_itl.core.arrivals import Arrivals, find_arrivals
from otel_itl.core.bursts import find_bursts
from otel_itl.core.gaps import EXACT_WITHIN, Gaps, add_up_gaps, find_gaps
from otel_itl.core.intervals import Interval, RankBounds, find_gap
from otel_itl.core.percentiles import percentile
from otel_itl.core.samples import LatencySamples
from otel_itl.core.timeline import SECOND, Kind, Timeline
from otel_itl.core.token_pace import TokenPace, find_token_pace

MIN_DRIFT_CHUNKS = 32
"""Fewer output chunks than this have no meaningful slope."""
MAX_DRIFT_SAMPLES = 128
"""About how many gaps of each outer third the drift is computed from."""

DECIDED_SHARE = 0.1
"""A figure that may be off by more than this share of it may have been decided by what it is off by."""
MAX_HELD_WIDTH = 0.5
"""Metrics and sessions take a figure of which the caller's holds leave less than this share open."""
MAX_TTFT_WIDTH = 0.1
"""A TTFT that is known to this many seconds is recorded as a metric, however short it is."""
MIN_UNCERTAINTY, MIN_UNCERTAIN_SHARE = 0.001, 0.01
"""A figure is emitted with its error from this on (s), and from this share of it on."""

_IS_ANSWER = bytes(1 if kind & (Kind.ANSWER | Kind.TOOL) else 0 for kind in range(256))


_TIMES_TO_TOKENS = frozenset({"time_to_first_chunk", "time_to_first_token", "time_to_first_answer_token"})
_NO_BOUNDS: Mapping[str, Interval] = MappingProxyType({})
_NO_SAMPLE_BOUNDS = RankBounds((), ())


class Measures(NamedTuple):
    """The figures of one stream. Every time is in seconds; None means not known, or that there is no such figure."""

    duration: float
    """From the request to the end of the stream (E2E)."""
    time_to_first_chunk: float | None
    time_to_first_token: float | None
    time_to_first_answer_token: float | None
    reasoning_time: float | None
    itl_samples: LatencySamples
    """The ITL samples, ascending. Pool these over streams, never the percentiles."""
    itl_p50: float | None
    itl_p90: float | None
    itl_p95: float | None
    itl_p99: float | None
    itl_max: float | None
    itl_mean: float | None
    itl_stddev: float | None
    """Population standard deviation of the samples (jitter)."""
    exact: int
    """Gaps that are known to 1 ms or to 5 %."""
    imputed: int
    """Other gaps between two observed arrivals: estimated."""
    excluded: int
    """Other gaps, which no observed arrival opens or closes: guessed."""
    is_consumer_bound: bool
    """More than half of the gaps are not exact, or the time to the first token is known neither to 1 ms nor to a
    tenth: the caller, its process or its machine was too slow."""
    consumer_time: float
    """How long the caller kept the stream waiting."""
    time_to_last_token: float | None
    """From the request to the last output chunk, `t_l - r`."""
    decode_time: float | None
    """From the first to the last output chunk, `t_l - t_f`."""
    time_per_output_token: float | None
    """Mean time per token: of all the output, or of the answer alone (`is_pace_of_answer`)."""
    paced_tokens: int
    """How many tokens `time_per_output_token` is the mean of; 0: it is not known."""
    is_pace_of_answer: bool
    """The reasoning was not streamed itself, but a summary of it or nothing: time per token, speed and tokens per chunk
    are of the answer alone, or not known."""
    time_per_output_chunk: float | None
    """Mean time between output chunks, `(t_l - t_f) / (C - 1)`: the substitute where the token count is unknown."""
    output_speed: float | None
    """Tokens per second, the reciprocal of TPOT."""
    tokens_per_chunk: float | None
    token_count: int
    """Output tokens by the provider's usage, else the number of output chunks."""
    has_reported_token_count: bool
    """`token_count` is from the provider's usage."""
    burst_ratio: float | None
    """Share of the output chunks that arrived together with their predecessor."""
    is_buffered: bool
    """Most gaps are inside bursts, or the stream began with a backlog: the pace is that of a buffer on the way."""
    buffered_pace: float | None
    """Mean time between output chunks from burst to burst; None: not buffered, or not known."""
    drift: float | None
    """Slope of the gaps over the position in the response, seconds per 1,000 tokens."""
    chunk_count: int
    output_chunk_count: int
    bounds: Mapping[str, Interval] = _NO_BOUNDS
    """What a figure can be, by its field, in its unit. A figure that is not in it is exact, or None; the bounds of the
    standard deviation, of the drift and of what follows from bursts are not known."""
    sample_bounds: RankBounds = _NO_SAMPLE_BOUNDS
    """What the ITL samples can be, in ascending nanoseconds: for the k-th sample, the k-th of each."""
    late_share: float = 0.0
    """Which part of the distance between bounds is due to lateness of this process; the rest is due to holds."""

    def find_bounds(self, figure: str) -> Interval | None:
        """Return what a figure can be, given its field; None: there is no such figure."""
        value = getattr(self, figure)
        return None if value is None else self.bounds.get(figure) or Interval(value, value)

    def is_uncertain(self, figure: str) -> bool:
        """Return whether the bounds of a figure, given its field, are as far apart as half of it, or further."""
        bounds = self.bounds.get(figure)
        return bounds is not None and bounds.width >= MAX_HELD_WIDTH * (getattr(self, figure) or 0.0)

    def is_known(self, figure: str) -> bool:
        """Return whether a figure, given its field, is known well enough to be recorded in metrics.

        A time to a token, of which the latest moment is all there is, has to be known to half of itself or to 0.1 s. Of
        a figure of gaps, which has an estimate, no more than half may be open because the caller held the stream.
        """
        bounds = self.bounds.get(figure)
        if bounds is None:
            return True
        half = MAX_HELD_WIDTH * (getattr(self, figure) or 0.0)
        if figure in _TIMES_TO_TOKENS:
            return bounds.width < max(half, MAX_TTFT_WIDTH)
        return bounds.width * (1.0 - self.late_share) < half

    @property
    def upstream_samples(self) -> LatencySamples:
        """The ITL samples, if no more than half of their mean is open because of holds; else none."""
        if not self.bounds:
            return self.itl_samples
        return self.itl_samples if self.pace_uncertainty * (1.0 - self.late_share) < MAX_HELD_WIDTH else _NO_SAMPLES

    @property
    def pace_uncertainty(self) -> float:
        """How far the bounds of the mean of the ITL samples are apart, as a share of it; infinite for a mean of 0."""
        bounds, samples = self.bounds.get("itl_mean"), self.itl_samples.nanoseconds
        if bounds is None:
            return 0.0
        total = sum(samples)
        return bounds.width * SECOND * len(samples) / total if total else inf

    @property
    def ttft_uncertainty(self) -> float | None:
        """Seconds by which TTFT may be less; None: by no more than 1 ms, or than 1 % of it."""
        return self._find_uncertainty("time_to_first_token")

    @property
    def tpot_uncertainty(self) -> float | None:
        """Seconds by which TPOT may be less; None: by no more than 1 ms, or than 1 % of it."""
        return self._find_uncertainty("time_per_output_token")

    @property
    def itl_p99_uncertainty(self) -> float | None:
        """Seconds by which the p99 of the ITL may be less; None: by no more than 1 ms, or than 1 % of it."""
        return self._find_uncertainty("itl_p99")

    @property
    def tpot_highest(self) -> float | None:
        """Seconds that TPOT may be; None: no more than 1 ms, or 1 %, above what it is said to be."""
        return self._find_highest("time_per_output_token")

    @property
    def itl_p99_highest(self) -> float | None:
        """Seconds that the p99 of the ITL may be; None: no more than 1 ms, or 1 %, above what it is estimated to be."""
        return self._find_highest("itl_p99")

    def _find_uncertainty(self, figure: str) -> float | None:
        """Return by how much a figure may be less, given its field; None where that is next to nothing."""
        bounds, value = self.bounds.get(figure), getattr(self, figure)
        if bounds is None or value is None:
            return None
        uncertainty: float = value - bounds.lowest
        return uncertainty if _is_uncertain(uncertainty, value) else None

    def _find_highest(self, figure: str) -> float | None:
        """Return what a figure may be, given its field; None where that is hardly more than it is."""
        bounds, value = self.bounds.get(figure), getattr(self, figure)
        if bounds is None or value is None:
            return None
        return bounds.highest if _is_uncertain(bounds.highest - value, value) else None


def _is_uncertain(seconds: float, figure: float) -> bool:
    """Return whether a figure that may be wrong by some seconds is emitted with its error, to the nanosecond."""
    return round(seconds, 9) > max(MIN_UNCERTAINTY, MIN_UNCERTAIN_SHARE * figure)


_NO_SAMPLES = LatencySamples(())
_NO_GAPS = (Gaps([], exact=0, imputed=0, excluded=0),)
_PERCENTILES: Mapping[str, float] = MappingProxyType(
    {"itl_p50": 50, "itl_p90": 90, "itl_p95": 95, "itl_p99": 99, "itl_max": 100}
)
_FIGURES_OF_SAMPLES = (*_PERCENTILES, "itl_mean", "itl_stddev")


def measure(timeline: Timeline) -> Measures:
    """Derive every figure of one stream from its facts."""
    arrivals = find_arrivals(timeline)
    arrived, in_burst = arrivals.latest, arrivals.in_burst
    kinds, is_output = timeline.kinds, timeline.output_flags
    outputs = is_output.count(1)

    choices = list(find_gaps(timeline, arrivals)) if outputs > 1 else _NO_GAPS
    gaps = choices[0] if len(choices) == 1 else add_up_gaps(choices)
    samples, exact, inexact = sorted(gaps.samples), gaps.exact, gaps.imputed + gaps.excluded
    bursts = find_bursts(timeline, arrivals, exact + inexact, samples if exact >= inexact else ())

    first, last = is_output.find(1), is_output.rfind(1)
    ttft = arrived[first] / SECOND if outputs else None
    answer = kinds.translate(_IS_ANSWER).find(1)
    ttfa = arrived[answer] / SECOND if answer >= 0 else None

    streamed = outputs + sum(timeline.skipped)
    decode = arrived[last] - arrived[first] if outputs and not timeline.unrecorded else None
    pace = find_token_pace(timeline, arrivals)
    per_token = None if pace.per_token is None else pace.per_token / SECOND

    bounds, sample_bounds = _NO_BOUNDS, RankBounds(samples, samples)
    if arrivals.earliest:
        found = _find_bounds(timeline, arrivals, pace)
        if gaps.bounds is not None and gaps.total is not None:
            sample_bounds = RankBounds(*map(sorted, gaps.bounds))
            found |= _bound_latencies(sample_bounds, gaps.total)
        bounds = {name: interval / SECOND for name, interval in found.items() if interval.width}

    return Measures(
        duration=timeline.end / SECOND,
        time_to_first_chunk=arrived[0] / SECOND if arrived else None,
        time_to_first_token=ttft,
        time_to_first_answer_token=ttfa,
        reasoning_time=ttfa - ttft if 0 <= first < answer and ttfa is not None and ttft is not None else None,
        itl_samples=LatencySamples(samples),
        **_summarize(samples),
        exact=exact,
        imputed=gaps.imputed,
        excluded=gaps.excluded,
        is_consumer_bound=inexact > exact or (outputs > 0 and len(bounds) > 0 and _is_callers(arrivals, first)),
        consumer_time=arrivals.held / SECOND,
        time_to_last_token=arrived[last] / SECOND if decode is not None else None,
        decode_time=None if decode is None else decode / SECOND,
        time_per_output_token=per_token,
        paced_tokens=pace.tokens,
        is_pace_of_answer=pace.is_of_answer,
        time_per_output_chunk=decode / (streamed - 1) / SECOND if decode is not None and streamed > 1 else None,
        output_speed=1 / per_token if per_token else None,
        tokens_per_chunk=pace.per_chunk,
        token_count=outputs if timeline.output_tokens is None else timeline.output_tokens,
        has_reported_token_count=timeline.output_tokens is not None,
        burst_ratio=(sum(compress(in_burst, is_output)) if 1 in in_burst else 0) / outputs if outputs > 1 else None,
        is_buffered=bursts.is_buffered,
        buffered_pace=None if bursts.pace is None else bursts.pace / SECOND,
        drift=_fit_drift(gaps.samples) if len(choices) == 1 and outputs >= MIN_DRIFT_CHUNKS else None,
        chunk_count=len(kinds) + timeline.unrecorded + sum(timeline.skipped),
        output_chunk_count=outputs,
        bounds=bounds,
        sample_bounds=sample_bounds,
        late_share=arrivals.late_share,
    )


def _is_callers(arrivals: Arrivals, chunk: int) -> bool:
    """Return whether the time from the request to a chunk is known neither to 1 ms nor to a tenth of it."""
    earliest, latest = arrivals.find_bounds(chunk)
    return latest - earliest > max(EXACT_WITHIN, DECIDED_SHARE * latest)


def _find_bounds(timeline: Timeline, arrivals: Arrivals, pace: TokenPace) -> dict[str, Interval]:
    """Find what the figures of single chunks and of the tokens can be (ns), by their field; each only if it exists."""
    first, last = timeline.output_bounds
    answer = timeline.kinds.translate(_IS_ANSWER).find(1)
    chunks = {"time_to_first_chunk": 0, "time_to_first_token": first, "time_to_first_answer_token": answer}
    if not timeline.unrecorded:
        chunks["time_to_last_token"] = last
    bounds = {name: Interval(*arrivals.find_bounds(chunk)) for name, chunk in chunks.items() if chunk >= 0}
    if 0 <= first < answer:
        bounds["reasoning_time"] = find_gap(arrivals.find_bounds(first), arrivals.find_bounds(answer))
    if first >= 0 and not timeline.unrecorded:
        bounds["decode_time"] = find_gap(arrivals.find_bounds(first), arrivals.find_bounds(last))
        later = timeline.output_flags.count(1) + sum(timeline.skipped) - 1
        if later:
            bounds["time_per_output_chunk"] = bounds["decode_time"] / later
    if pace.bounds is not None:
        bounds["time_per_output_token"] = pace.bounds
    return bounds


def _bound_latencies(samples: RankBounds, total: Interval) -> dict[str, Interval]:
    """Find what the `itl_*` figures can be (ns), by their field, given the bounds of the samples, ascending."""
    figures = {name: Interval(*(percentile(ordered, q) for ordered in samples)) for name, q in _PERCENTILES.items()}
    return {**figures, "itl_mean": total / len(samples.lowest)}


def _summarize(samples: Sequence[float]) -> Mapping[str, float | None]:
    """Compute the `itl_*` figures (seconds) of ascending samples in nanoseconds; all None below two samples."""
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - one gap has no distribution
        return dict.fromkeys(_FIGURES_OF_SAMPLES)
    mean = sum(samples) / count
    values = [
        *(percentile(samples, q) for q in (50, 90, 95, 99)),
        samples[-1],
        mean,
        dist(samples, (mean,) * count) / sqrt(count),
    ]
    return {name: value / SECOND for name, value in zip(_FIGURES_OF_SAMPLES, values, strict=True)}


def _fit_drift(samples: Sequence[float]) -> float | None:
    """Fit Tukey's resistant line to gaps in order of time (ns); returns its slope in seconds per 1,000 tokens.

    It is the slope between the medians of the outer thirds, so that a stall does not bend it. Of each third, a hundred
    or two gaps at even distances are enough for a median. None: there are too few samples for thirds.
    """
    third = len(samples) // 3
    if not third:
        return None
    step = max(third // MAX_DRIFT_SAMPLES, 1)
    left, right = sorted(samples[:third:step]), sorted(samples[-third::step])
    distance = len(samples) - third
    return (percentile(right, 50) - percentile(left, 50)) / distance * 1000 / SECOND
