"""The pace of the output tokens by the provider's count: of all the output, or of the answer alone.

`(t_l - t_f) / (N - 1)` is a pace only if the N tokens are those that came between `t_f` and `t_l`. Providers count the
reasoning that they do not stream, or of which they stream a summary: thousands of tokens, then, for a few chunks. Where
the reasoning was not streamed token by token, the pace is that of the answer: its tokens are those of the output
without those of the reasoning, and its time is that between its own chunks. Reasoning may go on between two parts of an
answer, so that the time between two parts does not count, nor the first token of each.

That a stream carries a summary is a fact of its format (`Timeline.is_reasoning_partial`). Where the format does not
show it, the counts do: reasoning that is streamed itself has about as many tokens in a chunk as the answer after it,
and comes about as fast. Some gateways count the reasoning by the summary that they get. The tokens of the answer are
too many then, more than twice those of the summary in each chunk, and nothing is known of its pace.

Worked example. A summary in 40 chunks, 1 ms apart, for 3,000 tokens of reasoning, from 60.00 s on; 50 tokens of answer
in 50 chunks, 20 ms apart, from 60.10 s to 61.08 s; usage reports 3,050 tokens, 3,000 of them reasoning. Of all the
output the pace would be 1.08 s / 3,049 = 0.35 ms, with 34 tokens a chunk. Of the answer it is 0.98 s / 49 = 20 ms, with
one token a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import compress
from statistics import median_low
from typing import Final, NamedTuple

from otel_itl.core.arrivals import Arrivals
from otel_itl.core.columns import find_differences
from otel_itl.core.gaps import pick_moments
from otel_itl.core.intervals import Interval, find_gap
from otel_itl.core.timeline import Kind, Timeline

MAX_PACKING_RATIO: Final = 2
"""Reasoning that was streamed itself has no more than twice as many tokens in a chunk as the answer has."""
MAX_SPEED_RATIO: Final = 2
"""Nor does it come more than twice as fast."""
MAX_PACE_RATIO: Final = 1.5
"""Where the answer has more than twice as many tokens in a chunk as the reasoning, it comes no faster than this."""
MAX_SAMPLED_GAPS: Final = 256
"""How many gaps of a stream a median is taken of."""

_ANSWER: Final = int(Kind.ANSWER | Kind.TOOL)
_IS_ANSWER: Final = bytes(1 if kind & _ANSWER else 0 for kind in range(256))
_IS_REASONING: Final = bytes(1 if kind & Kind.REASONING else 0 for kind in range(256))
_BREAK: Final = int(Kind.REASONING | Kind.LIFECYCLE)
"""Flags of chunks before which a part of an answer is over: the model reasons, or another item of the output begins."""
_IN_PARTS: Final = bytes(b"-A|B"[bool(kind & _ANSWER) + 2 * bool(kind & _BREAK)] for kind in range(256))
"""Translation table: kind → A: answer; B: answer that begins a part; |: the end of a part; -: neither."""
_PART: Final = re.compile(rb"[AB](?:[A-]*A)?")
"""A part of an answer, from its first chunk to its last."""


class TokenPace(NamedTuple):
    """How fast the output tokens of a stream came, and in how many chunks. None: not known."""

    per_token: float | None = None
    """Mean time per token after the first of the output, or of each part of the answer (ns)."""
    tokens: int = 0
    """How many tokens that is the mean of; 0: it is not known."""
    per_chunk: float | None = None
    """Tokens per output chunk, or per chunk of the answer."""
    is_of_answer: bool = False
    """Pace and tokens per chunk are those of the answer alone."""
    bounds: Interval | None = None
    """What `per_token` can be; None: it is exact, or not known."""


def find_token_pace(timeline: Timeline, arrivals: Arrivals) -> TokenPace:
    """Find the pace of the tokens that a stream carried; nothing is known without a count of them."""
    total = timeline.output_tokens
    if total is None:
        return TokenPace()
    if is_reasoning_partial(timeline, arrivals):
        return _find_answer_pace(timeline, arrivals)
    chunks = timeline.output_flags.count(1)
    if not chunks:
        return TokenPace()
    per_chunk = None if timeline.unrecorded else total / (chunks + sum(timeline.skipped))
    first, last = timeline.output_bounds
    if timeline.unrecorded or total < 2 or chunks < 2 or timeline.choices:  # noqa: PLR2004 - one token has no pace
        return TokenPace(per_chunk=per_chunk)
    elapsed = arrivals.latest[last] - arrivals.latest[first]
    bounds = _bound_parts(arrivals, [(first, last)], total - 1) if arrivals.earliest else None
    return TokenPace(elapsed / (total - 1), total - 1, per_chunk, bounds=bounds)


def is_reasoning_partial(timeline: Timeline, arrivals: Arrivals) -> bool:
    """Return whether a stream carried a summary of its reasoning, or nothing of it: by its format, or by its counts."""
    if timeline.is_reasoning_partial:
        return True
    reasoning = timeline.reasoning_tokens
    if not reasoning or timeline.output_tokens is None:
        return False
    chunks, answer_chunks = (timeline.kinds.translate(table).count(1) for table in (_IS_REASONING, _IS_ANSWER))
    answer = timeline.output_tokens - reasoning
    if not chunks:
        return True
    if reasoning * max(answer_chunks, 1) > MAX_PACKING_RATIO * chunks * max(answer, answer_chunks, 1):
        return True
    gap, answer_gap = _find_median_gaps(timeline, arrivals)
    if gap is None or answer_gap is None or answer <= 0:
        return False
    pace, answer_pace = gap * chunks * answer, answer_gap * answer_chunks * reasoning  # in units of their own
    is_summary_counted = answer * chunks > MAX_PACKING_RATIO * reasoning * answer_chunks
    return MAX_SPEED_RATIO * pace < answer_pace or (is_summary_counted and MAX_PACE_RATIO * answer_pace < pace)


def _find_median_gaps(timeline: Timeline, arrivals: Arrivals) -> Iterator[int | None]:
    """Yield the median gap (ns) in front of a chunk of reasoning, and of the answer; None: there is no such gap."""
    outputs = timeline.output_flags
    gaps = find_differences(pick_moments(arrivals.latest, outputs))
    kinds = bytes(compress(timeline.kinds, outputs))[1:]
    for is_wanted in (_IS_REASONING, _IS_ANSWER):
        found = list(compress(gaps, kinds.translate(is_wanted)))
        yield median_low(found[:: len(found) // MAX_SAMPLED_GAPS + 1]) if found else None


def _find_answer_pace(timeline: Timeline, arrivals: Arrivals) -> TokenPace:
    """Find the pace of the answer of a stream, whose reasoning is counted and was not streamed as it is."""
    nothing = TokenPace(is_of_answer=True)
    chunks, summary = (timeline.kinds.translate(table).count(1) for table in (_IS_ANSWER, _IS_REASONING))
    reasoning = timeline.reasoning_tokens
    if timeline.output_tokens is None or not reasoning or not chunks or timeline.skipped or timeline.unrecorded:
        return nothing
    tokens = timeline.output_tokens - reasoning
    if 2 * tokens < chunks:  # fewer tokens than chunks: the counts are of something else
        return nothing
    if tokens * summary > MAX_PACKING_RATIO * reasoning * chunks:  # what counts the reasoning has seen a summary of it
        return nothing
    per_chunk = TokenPace(per_chunk=tokens / chunks, is_of_answer=True)
    parts = [(part.start(), part.end() - 1) for part in _PART.finditer(timeline.kinds.translate(_IN_PARTS))]
    timed = tokens - len(parts)
    if timed < 1 or len(parts) == chunks or timeline.choices:
        return per_chunk
    elapsed = sum(arrivals.latest[last] - arrivals.latest[first] for first, last in parts)
    bounds = _bound_parts(arrivals, parts, timed) if arrivals.earliest else None
    return per_chunk._replace(per_token=elapsed / timed, tokens=timed, bounds=bounds)


def _bound_parts(arrivals: Arrivals, parts: Sequence[tuple[int, int]], tokens: int) -> Interval:
    """Return what the mean time of tokens can be, given the first and the last chunk of each part they came in."""
    times = [find_gap(arrivals.find_bounds(first), arrivals.find_bounds(last)) for first, last in parts]
    return Interval(*map(sum, zip(*times, strict=True))) / tokens
