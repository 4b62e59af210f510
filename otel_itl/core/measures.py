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

Which arrivals are known is judged in `arrivals`; which gaps are exact, imputed or excluded in `gaps`; whether the
stream was buffered on its way in `bursts`. What cannot be known is absent (None), never wrong.

Worked example. Role chunk at 200 ms; "Let" at 500 ms, " me" at 540, " think" at 1,540; usage reports 6 tokens.
TTFC 0.2 s, TTFT 0.5 s; gaps 40 and 1,000 ms; ITL p50 0.52 s, p99 0.9904 s, mean 0.52 s; TPOT 1.04 / 5 = 0.208 s;
2 tokens per chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress
from math import dist, sqrt
from types import MappingProxyType
from typing import NamedTuple

from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.bursts import find_bursts
from otel_itl.core.gaps import Gaps, find_gaps
from otel_itl.core.percentiles import percentile
from otel_itl.core.samples import LatencySamples
from otel_itl.core.timeline import SECOND, Kind, Timeline
from otel_itl.core.token_pace import find_token_pace

MIN_DRIFT_CHUNKS = 32
"""Fewer output chunks than this have no meaningful slope."""
MAX_DRIFT_SAMPLES = 128
"""About how many gaps of each outer third the drift is computed from."""

_IS_ANSWER = bytes(1 if kind & (Kind.ANSWER | Kind.TOOL) else 0 for kind in range(256))


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
    """Gaps between two successive observed arrivals."""
    imputed: int
    """Gaps that share the time between two observed arrivals evenly."""
    excluded: int
    """Gaps of unknown length, which are in no sample."""
    is_consumer_bound: bool
    """More than half of the gaps are not exact, or the first token's arrival is hidden: the caller was too slow."""
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

    @property
    def upstream_samples(self) -> LatencySamples:
        """The ITL samples if they show the upstream's pace; none where more than half of the gaps are not exact.

        Gaps are counted, not samples: a gap in front of a chunk of many tokens is many samples.
        """
        return _NO_SAMPLES if self.imputed + self.excluded > self.exact else self.itl_samples


_NO_SAMPLES = LatencySamples(())
_NO_GAPS = (Gaps([], exact=0, imputed=0, excluded=0),)
_FIGURES_OF_SAMPLES = ("itl_p50", "itl_p90", "itl_p95", "itl_p99", "itl_max", "itl_mean", "itl_stddev")
_NO_FIGURES: Mapping[str, None] = MappingProxyType(dict.fromkeys(_FIGURES_OF_SAMPLES))


def measure(timeline: Timeline) -> Measures:
    """Derive every figure of one stream from its facts."""
    arrivals = find_arrivals(timeline)
    arrived, observed, in_burst = arrivals.moments, arrivals.observed, arrivals.in_burst
    kinds, is_output = timeline.kinds, timeline.output_flags
    outputs = is_output.count(1)

    gaps = list(find_gaps(timeline, arrivals)) if outputs > 1 else _NO_GAPS
    samples, exact, imputed, excluded = gaps[0] if len(gaps) == 1 else _add_up(gaps)
    samples = sorted(samples)

    bursts = find_bursts(timeline, arrivals, exact + imputed + excluded, samples)

    first = is_output.find(1)
    last = is_output.rfind(1)
    is_first_known = outputs > 0 and observed[first] == 1
    is_last_known = outputs > 0 and observed[last] == 1 and not timeline.unrecorded
    ttft = arrived[first] / SECOND if is_first_known else None
    answer = kinds.translate(_IS_ANSWER).find(1)
    ttfa = arrived[answer] / SECOND if answer >= 0 and observed[answer] else None

    streamed = outputs + sum(timeline.skipped)
    decode = arrived[last] - arrived[first] if is_first_known and is_last_known else None
    pace = find_token_pace(timeline, arrivals)
    per_token = None if pace.per_token is None else pace.per_token / SECOND

    return Measures(
        duration=timeline.end / SECOND,
        time_to_first_chunk=arrived[0] / SECOND if arrived and observed[0] else None,
        time_to_first_token=ttft,
        time_to_first_answer_token=ttfa,
        reasoning_time=ttfa - ttft if 0 <= first < answer and ttfa is not None and ttft is not None else None,
        itl_samples=LatencySamples(samples),
        **_summarize(samples),
        exact=exact,
        imputed=imputed,
        excluded=excluded,
        is_consumer_bound=imputed + excluded > exact or (outputs > 0 and not is_first_known),
        consumer_time=arrivals.held / SECOND,
        time_to_last_token=arrived[last] / SECOND if is_last_known else None,
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
        drift=_fit_drift(gaps[0].samples) if len(gaps) == 1 and outputs >= MIN_DRIFT_CHUNKS else None,
        chunk_count=len(kinds) + timeline.unrecorded + sum(timeline.skipped),
        output_chunk_count=outputs,
    )


def _add_up(gaps: Sequence[Gaps]) -> Gaps:
    """Pool the gaps of several choices."""
    exact, imputed, excluded = (sum(column) for column in zip(*(choice[1:] for choice in gaps), strict=True))
    return Gaps(list(chain.from_iterable(choice.samples for choice in gaps)), exact, imputed, excluded)


def _summarize(samples: Sequence[float]) -> Mapping[str, float | None]:
    """Compute the `itl_*` figures (seconds) of ascending samples in nanoseconds; all None below two samples."""
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - one gap has no distribution
        return _NO_FIGURES
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
