"""From a Timeline to its Measures: the definitions of every latency figure.

With `r` the request, `t` the arrivals, `f` and `l` the first and last *output* chunk (reasoning, answer or tool
output), `C` the number of output chunks and `N` the provider's count of the tokens that were streamed:

* TTFC, time to first chunk: `t_0 - r`.
* TTFT, time to first token: `t_f - r`. A role, lifecycle, usage, empty or ping chunk is never a token.
* TTFA, time to first answer token: `t - r` of the first answer or tool chunk. Reasoning time: `TTFA - TTFT`.
* ITL, inter-token latency: the gaps between successive output chunks *as the upstream delivered them*. A chunk known
  to carry `n` tokens gives `n` samples of `gap / n`.
* TPOT, time per output token: `(t_l - t_f) / (N - 1)`; output speed is its reciprocal.

Percentiles interpolate linearly between closest ranks (numpy's default; vLLM, SGLang and AIPerf use it as well).

Whose gap is it? An arrival is *observed* when the pull blocked until the chunk came. A chunk that was there already
when it was asked for is *hidden*, it came somewhere between, if the consumer had kept the stream waiting: for more than
1 ms before this pull, or for more than 1 ms and most of the time since a pull last blocked; and so is every chunk after
it until a pull surely blocks again: it waits for half as long as is usual, or the next one blocks too, for a single
short wait in between may be the caller's own hiccup. Otherwise the chunk came together with its predecessor, and is
observed as well; where a pause follows that is long beside the time it took to hand them over, that time was spent on
decoding, and they came at one moment. A gap between observed arrivals is exact. A run of hidden arrivals between two
observed ones shares the time between those as evenly as can be with no chunk put later than it was there (the gaps are
*imputed*): that keeps the mean, invents no tail, and keeps a stall that the caller waited through. A hidden run that no
observed arrival opens or closes is *excluded*. What cannot be known is absent (None), never wrong.

Worked example. Role chunk at 200 ms; "Let" at 500 ms, " me" at 540, " think" at 1,540; usage says 6 tokens.
TTFC 0.2 s, TTFT 0.5 s; gaps 40 and 1,000 ms; ITL p50 0.52 s, p99 0.9904 s, mean 0.52 s; TPOT 1.04 / 5 = 0.208 s;
2 tokens per chunk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise, repeat
from math import inf, sqrt
from operator import mul, sub
from typing import NamedTuple

from otel_itl.core.timeline import OUTPUT, Kind, Timeline

if sys.version_info >= (3, 12):
    from math import sumprod
else:

    def sumprod(left: Iterable[float], right: Iterable[float], /) -> float:
        """The sum of the products; what `math` has does it in a fraction of the time."""
        total: float = sum(map(mul, left, right))
        return total


SECOND = 1_000_000_000
NEGLIGIBLE_HOLD = 1_000_000
"""A consumer that kept the stream waiting for no longer than this (ns) cannot have hidden an arrival that matters."""
LEAST_BLOCKING, MOST_BLOCKING = 1_000_000, 5_000_000
"""Bounds of the wait (ns) from which a pull counts as blocked; in between it follows the waits of the stream."""
WAITS_LOOKED_AT = 256
SLOW_AFTER = 20
"""A pull that waited for less than this part of the hold before it did not block: caches are cold after a pause."""
TOGETHER = 200_000
"""Chunks closer than this (ns), where the second was not waited for, arrived together."""
DECODED_WITHIN = 20
"""Chunks that came together were handed over within this part of the gap after them, else they may be a fast stream."""
MOST_TOKENS = 1_024
"""A chunk that claims more tokens than this is not believed, and counts as one."""
MOST_SAMPLES = 1 << 21
"""Gaps beyond this many samples are excluded: who says how many there are is not to say how much memory they take."""
DRIFT_CHUNKS = 32
"""Fewer output chunks than this have no meaningful slope."""
DRIFT_SAMPLES = 128

_IS_OUTPUT = bytes(1 if kind & OUTPUT else 0 for kind in range(256))
_IS_ANSWER = bytes(1 if kind & (Kind.ANSWER | Kind.TOOL) else 0 for kind in range(256))
_IS_REASONING = bytes(1 if kind & Kind.REASONING else 0 for kind in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The figures of one stream. Times are seconds; None is what cannot be known or does not exist."""

    duration: float
    """From the request to the end of the stream (E2E)."""
    time_to_first_chunk: float | None
    time_to_first_token: float | None
    time_to_first_answer_token: float | None
    reasoning_time: float | None
    samples: Sequence[float]
    """The ITL samples in nanoseconds, ascending: pool these over streams, never the percentiles."""
    itl_p50: float | None
    itl_p90: float | None
    itl_p95: float | None
    itl_p99: float | None
    itl_max: float | None
    itl_mean: float | None
    itl_stddev: float | None
    """Population standard deviation of the samples (jitter)."""
    imputed: int
    """Gaps that share the time between two observed arrivals evenly."""
    excluded: int
    """Gaps that nothing is known of."""
    consumer_bound: bool
    """More than half of the gaps are not exact, or the first token's arrival is hidden: the caller was too slow."""
    consumer_time: float
    """How long the caller kept the stream waiting."""
    decode_time: float | None
    """From the first to the last output chunk, `t_l - t_f`."""
    time_per_output_token: float | None
    time_per_output_chunk: float | None
    """Mean time between output chunks, `(t_l - t_f) / (C - 1)`: what is left where the token count is unknown."""
    output_speed: float | None
    """Tokens per second, the reciprocal of TPOT."""
    tokens_per_chunk: float | None
    token_count: int
    """Output tokens by the provider's usage, else the number of output chunks."""
    token_count_from_usage: bool
    burst_ratio: float | None
    """Share of the output chunks that arrived together with their predecessor."""
    drift: float | None
    """Slope of the gaps over the position in the response, seconds per 1,000 tokens."""
    chunk_count: int
    output_chunk_count: int

    @property
    def pace(self) -> Sequence[float]:
        """The samples, where they tell the upstream's pace; none where more than half of the gaps are not exact."""
        inexact, gaps = self.imputed + self.excluded, len(self.samples) + self.excluded
        return () if 2 * inexact > gaps else self.samples


class _Gaps(NamedTuple):
    """The ITL samples of one choice in order of time, with the tokens each stands for."""

    samples: list[float]
    exact: int
    imputed: int
    excluded: int


def percentile(ordered: Sequence[float], q: float) -> float:
    """The `q`-th percentile (0 to 100) of ascending values, by linear interpolation between closest ranks.

    Equal to `numpy.percentile(values, q)` to the last bit.

    Raises:
        ValueError: no values, or `q` outside 0 to 100.
    """
    if not ordered or not 0 <= q <= 100:  # noqa: PLR2004 - percent
        message = f"percentile needs at least one value and a q from 0 to 100: got {len(ordered)} values and q={q}."
        raise ValueError(message)
    rank = (len(ordered) - 1) * (q / 100)
    below = int(rank)
    low = ordered[below]
    fraction = rank - below
    if not fraction:
        return low
    high = ordered[below + 1]
    difference = high - low
    if fraction < 0.5:  # noqa: PLR2004 - as numpy does, so that the result is monotonic in q
        return low + difference * fraction
    return high - difference * (1 - fraction)


def measure(timeline: Timeline) -> Measures:
    """Derive every figure of one stream from its facts."""
    # As lists: an array makes a new integer each time that it is asked for one.
    asked, arrived, kinds = timeline.asked.tolist(), timeline.arrived.tolist(), timeline.kinds
    waits = list(map(sub, arrived, asked))
    free = _free(timeline, asked, arrived)
    holds = list(map(sub, asked, free))
    observed, burst = _observed(free, holds, arrived, waits)
    arrived = _delivered(arrived, observed, burst)
    is_output = kinds.translate(_IS_OUTPUT)
    outputs = is_output.count(1)

    gaps = list(_gaps_by_choice(timeline, arrived, is_output, observed))
    samples = sorted(chain.from_iterable(choice.samples for choice in gaps))
    exact, imputed, excluded = (sum(column) for column in zip(*(gap[1:] for gap in gaps), strict=True))

    first = is_output.find(1)
    last = is_output.rfind(1)
    first_known = outputs > 0 and observed[first] == 1
    last_known = outputs > 0 and observed[last] == 1 and not timeline.unrecorded
    ttft = arrived[first] / SECOND if first_known else None
    answer = kinds.translate(_IS_ANSWER).find(1)
    ttfa = arrived[answer] / SECOND if answer >= 0 and observed[answer] else None
    reasoned = 0 <= first < answer and ttft is not None and ttfa is not None

    streamed = outputs + sum(timeline.skipped)
    tokens = _streamed_tokens(timeline)
    decode = arrived[last] - arrived[first] if first_known and last_known else None
    per_token = None
    if decode is not None and tokens is not None and tokens > 1 and outputs > 1 and not timeline.choices:
        per_token = decode / (tokens - 1) / SECOND

    return Measures(
        duration=timeline.end / SECOND,
        time_to_first_chunk=arrived[0] / SECOND if arrived and observed[0] else None,
        time_to_first_token=ttft,
        time_to_first_answer_token=ttfa,
        reasoning_time=ttfa - ttft if reasoned and ttfa is not None and ttft is not None else None,
        samples=samples,
        **_latency(samples),
        imputed=imputed,
        excluded=excluded,
        consumer_bound=imputed + excluded > exact or (outputs > 0 and not first_known),
        consumer_time=sum(holds) / SECOND,
        decode_time=None if decode is None else decode / SECOND,
        time_per_output_token=per_token,
        time_per_output_chunk=decode / (streamed - 1) / SECOND if decode is not None and streamed > 1 else None,
        output_speed=1 / per_token if per_token else None,
        tokens_per_chunk=tokens / streamed if tokens is not None and outputs and not timeline.unrecorded else None,
        token_count=outputs if timeline.output_tokens is None else timeline.output_tokens,
        token_count_from_usage=timeline.output_tokens is not None,
        burst_ratio=(sum(compress(burst, is_output)) if 1 in burst else 0) / outputs if outputs > 1 else None,
        drift=_drift(gaps[0].samples) if len(gaps) == 1 and outputs >= DRIFT_CHUNKS else None,
        chunk_count=len(kinds) + timeline.unrecorded + sum(timeline.skipped),
        output_chunk_count=outputs,
    )


def delivered(timeline: Timeline) -> list[int]:
    """When each chunk came, in nanoseconds after the request: those that came together, when the first of them did."""
    asked, arrived = timeline.asked.tolist(), timeline.arrived.tolist()
    free = _free(timeline, asked, arrived)
    observed, burst = _observed(free, list(map(sub, asked, free)), arrived, list(map(sub, arrived, asked)))
    return _delivered(arrived, observed, burst)


def first_and_last_output(timeline: Timeline) -> tuple[int, int]:
    """Where the first and the last output chunk are; -1 where there is none."""
    is_output = timeline.kinds.translate(_IS_OUTPUT)
    return is_output.find(1), is_output.rfind(1)


def _latency(samples: list[float]) -> dict[str, float | None]:
    names = ("itl_p50", "itl_p90", "itl_p95", "itl_p99", "itl_max", "itl_mean", "itl_stddev")
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - one gap has no distribution
        return dict.fromkeys(names)
    total = sum(samples)
    variance = (count * sumprod(samples, samples) - total * total) / (count * count)
    values = [
        *(percentile(samples, q) for q in (50, 90, 95, 99)),
        samples[-1],
        total / count,
        sqrt(max(variance, 0)),
    ]
    return {name: value / SECOND for name, value in zip(names, values, strict=True)}


def _free(timeline: Timeline, asked: list[int], arrived: list[int]) -> list[int]:
    """When the consumer could have asked for each chunk: the time until it did is its own.

    What it did about chunks that were left out of a thinned timeline is not known.
    """
    if not asked:
        return []
    free = [asked[0] if timeline.headers is None else timeline.headers, *arrived[:-1]]
    if timeline.skipped:
        return [ask if skip else since for ask, since, skip in zip(asked, free, timeline.skipped, strict=True)]
    return free


def _usual_wait(waits: list[int]) -> int:
    """How long (ns) pulls that wait at all usually wait on this stream."""
    waited = sorted(wait for wait in waits[:: len(waits) // WAITS_LOOKED_AT + 1] if wait >= LEAST_BLOCKING)
    return waited[len(waited) // 2] if waited else LEAST_BLOCKING


def _blocked(holds: list[int], waits: list[int], usual: int) -> bytearray:
    """One flag per chunk: its pull blocked.

    A chunk that is there already costs what it takes to decode it, which is well under 1 ms. Where chunks that have to
    be waited for usually take much longer, a quarter of that is asked for, so that a hiccup while a pile of chunks is
    drained does not look like the end of the pile. After a long hold the first pull is slow by itself: more is asked.
    """
    blocking = min(max(LEAST_BLOCKING, usual // 4), MOST_BLOCKING)
    blocked = bytearray([wait >= blocking for wait in waits])
    # The very first pays for what an SDK does once.
    blocked[0] = waits[0] >= MOST_BLOCKING
    # No shorter hold asks for more than every pull has to wait.
    if max(holds) > SLOW_AFTER * blocking:
        for index, hold in enumerate(holds):
            if waits[index] < min(hold // SLOW_AFTER, MOST_BLOCKING):
                blocked[index] = 0
    return blocked


def _observed(
    free: list[int], holds: list[int], arrived: list[int], waits: list[int]
) -> tuple[bytes | bytearray, bytes | bytearray]:
    """Two flags per chunk: its arrival was observed; it came together with its predecessor.

    A consumer that pauses once and then drains what had piled up hides the whole pile, not only its first chunk.
    """
    if not waits:
        return b"", b""
    usual = _usual_wait(waits)
    blocked = _blocked(holds, waits, usual)
    observed = bytearray(blocked)
    burst = bytearray(len(waits))
    # Chunks of a fast and even upstream come soon after one another, too, but no sooner than they usually do.
    together = max(TOGETHER, (arrived[-1] - arrived[0]) // (4 * len(arrived)))
    before, held, piled = free[0], 0, False
    index = observed.find(0)
    while index >= 0:
        hold = holds[index]
        if index and blocked[index - 1]:
            # This pull did not block. Where there may be a pile, the one before it may have been a hiccup.
            draining = piled and not blocked[index - 2]
            piled = (draining or holds[index - 1] > usual) and waits[index - 1] < usual // 2
            if piled:
                observed[index - 1] = 0
            else:
                before, held = arrived[index - 1], 0
        held += hold
        piled = piled or hold > NEGLIGIBLE_HOLD or (held > NEGLIGIBLE_HOLD and 2 * held > arrived[index] - before)
        if not piled:
            observed[index] = 1
            burst[index] = index > 0 and arrived[index] - arrived[index - 1] < together
        index = observed.find(0, index + 1)
    return observed, burst


def _delivered(arrived: list[int], observed: bytes | bytearray, burst: bytes | bytearray) -> list[int]:
    """The arrivals, those of chunks that came together moved to that of the first."""
    follower = burst.find(1)
    if follower < 0:
        return arrived
    came = list(arrived)
    while follower >= 0:
        head, after = follower - 1, follower
        while after < len(arrived) and burst[after] and arrived[after] - arrived[after - 1] < TOGETHER:
            after += 1
        handed_over = arrived[after - 1] - arrived[head]
        if (
            after < len(arrived)
            and observed[after]
            and handed_over * DECODED_WITHIN <= arrived[after] - came[after - 1]
        ):
            came[follower:after] = repeat(arrived[head], after - follower)
        follower = burst.find(1, max(after, follower + 1))
    return came


def _gaps_by_choice(
    timeline: Timeline, arrived: list[int], is_output: bytes, observed: bytes | bytearray
) -> Iterator[_Gaps]:
    """The gaps of each choice: two answers streamed side by side are two sequences of tokens."""
    chosen: Iterable[Sequence[int]] = [is_output]
    if timeline.choices:
        chosen = (
            [output and index == choice for output, index in zip(is_output, timeline.choices, strict=True)]
            for choice in sorted(set(timeline.choices))
        )
    for selected in chosen:
        yield _gaps(
            list(compress(arrived, selected)),
            bytes(compress(observed, selected)),
            list(compress(timeline.tokens, selected)),
            list(compress(timeline.skipped, selected)),
        )


def _gaps(arrived: list[int], observed: bytes, tokens: list[int], skipped: list[int]) -> _Gaps:
    if not tokens and not skipped and observed.count(1) == len(observed):
        samples: list[float] = list(map(sub, arrived[1:], arrived))
        return _Gaps(samples, exact=len(samples), imputed=0, excluded=0)
    samples, exact, imputed = [], 0, 0
    known = [index for index, seen in enumerate(observed) if seen]
    for before, after in pairwise(known):
        run = range(before + 1, after + 1)
        gaps = len(run) + sum(skipped[index] for index in run) if skipped else len(run)
        counts = [tokens[index] for index in run] if tokens else []
        believed = len(counts) == gaps and 0 < min(counts) <= max(counts) <= MOST_TOKENS
        shares = sum(counts) if believed else gaps
        if len(samples) + shares > MOST_SAMPLES:
            continue
        if len(run) == 1:
            samples.extend(repeat((arrived[after] - arrived[before]) / shares, shares))
        else:
            weights = counts if believed else [1 + skipped[index] for index in run] if skipped else repeat(1)
            samples.extend(_shared_out(arrived[before : after + 1], weights))
        if gaps == 1:
            exact += 1
        else:
            imputed += gaps
    total = max(len(arrived) - 1, 0) + (sum(skipped[1:]) if skipped else 0)
    return _Gaps(samples, exact=exact, imputed=imputed, excluded=total - exact - imputed)


def _shared_out(latest: list[int], weights: Iterable[int]) -> list[float]:
    """Share out the time of a run of gaps as evenly as can be.

    Args:
        latest: when the chunk before the run came, when each hidden one had come at the latest, and when the last came.
        weights: the shares of each gap.
    """
    # The lower hull of these points (shares, moment): the straightest way that is nowhere above one of them.
    hull = [(0, latest[0])]
    shares = 0
    paces = [-inf]
    for moment, weight in zip(latest[1:], weights, strict=False):
        shares += weight
        start, since = hull[-1]
        pace = (moment - since) / (shares - start)
        while pace <= paces[-1]:
            del hull[-1], paces[-1]
            start, since = hull[-1]
            pace = (moment - since) / (shares - start)
        hull.append((shares, moment))
        paces.append(pace)
    samples: list[float] = []
    for (before, _), (after, _), pace in zip(hull, hull[1:], paces[1:], strict=False):
        samples.extend(repeat(pace, after - before))
    return samples


def _streamed_tokens(timeline: Timeline) -> int | None:
    """The provider's token count, without reasoning tokens that the stream never showed."""
    if timeline.output_tokens is None:
        return None
    if timeline.reasoning_tokens and not any(timeline.kinds.translate(_IS_REASONING)):
        return max(timeline.output_tokens - timeline.reasoning_tokens, 0)
    return timeline.output_tokens


def _drift(samples: list[float]) -> float | None:
    """Tukey's resistant line: the slope between the medians of the outer thirds, so that a stall does not bend it.

    Of each third, a hundred or two gaps at even distances are enough for a median.
    """
    third = len(samples) // 3
    if not third:
        return None
    step = max(third // DRIFT_SAMPLES, 1)
    left, right = sorted(samples[:third:step]), sorted(samples[-third::step])
    distance = len(samples) - third
    return (percentile(right, 50) - percentile(left, 50)) / distance * 1000 / SECOND
