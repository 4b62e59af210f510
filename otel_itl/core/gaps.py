"""The gaps between successive output chunks, as ITL samples: exact, imputed or excluded.

A gap between two observed arrivals is *exact*. A run of hidden arrivals between two observed ones shares the time
between those as evenly as can be without putting a chunk later than its pull returned: its gaps are *imputed*. That
keeps the mean, invents no tail, and keeps a stall that the caller waited through. The gaps of a hidden run that no
observed arrival opens or closes are *excluded*: nothing is known of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress, pairwise, repeat
from math import inf
from operator import and_
from typing import Any, NamedTuple

from otel_itl.core.arrivals import Arrivals
from otel_itl.core.chunk_code import choices_in
from otel_itl.core.columns import find_differences
from otel_itl.core.timeline import Timeline

MAX_TOKENS_PER_CHUNK = 1_024
"""A chunk that claims more tokens than this counts as one token."""
MAX_SAMPLES = 1 << 21
"""Gaps beyond this many samples are excluded: a provider's token counts must not decide how much memory they take."""


class Gaps(NamedTuple):
    """The gaps of one choice of a stream: its ITL samples, and how many gaps of each sort there are."""

    samples: list[float]
    """Nanoseconds, in order of time. A gap in front of a chunk of n tokens is n samples of gap / n."""
    exact: int
    imputed: int
    excluded: int


def find_gaps(timeline: Timeline, arrivals: Arrivals) -> Iterator[Gaps]:
    """Yield the gaps of each choice of a stream: two choices streamed side by side are two sequences of tokens."""
    outputs = timeline.output_flags
    first, last = timeline.output_bounds
    is_plain = not (timeline.choices or timeline.tokens or timeline.skipped) and 0 <= first < last
    if is_plain and arrivals.intervals and outputs.find(0, first, last) < 0:
        samples: list[Any] = arrivals.intervals[first + 1 : last + 1].tolist()
        yield Gaps(samples, exact=last - first, imputed=0, excluded=0)
        return
    for selected in split_by_choice(timeline, outputs):
        yield _measure_gaps(
            pick_moments(arrivals.moments, selected),
            pick_flags(arrivals.observed, selected),
            list(compress(timeline.tokens, selected)),
            list(compress(timeline.skipped, selected)),
        )


def split_by_choice(timeline: Timeline, flags: bytes) -> Iterable[bytes]:
    """Split flags, one per chunk, into one sequence of flags for each choice of the stream.

    A chunk that carries several choices at once belongs to each of them.
    """
    if not timeline.choices:
        return [flags]
    members = {byte: choices_in(byte) for byte in set(timeline.choices)}
    choices = sorted(frozenset().union(*members.values()))
    if not choices:  # every chunk has them all
        return [flags]
    return (bytes(map(and_, flags, timeline.choices.translate(_flag_choice(members, choice)))) for choice in choices)


def _flag_choice(members: Mapping[int, frozenset[int]], choice: int) -> bytes:
    """Make the translation table from choice bytes, whose choices are `members`, to 1 for this choice, else 0."""
    return bytes(byte in members and (not members[byte] or choice in members[byte]) for byte in range(256))


def pick_moments(moments: array[int], selected: bytes) -> array[int]:
    """Return the moments of the chunks whose flag is 1. Those of neighbours, as most are, are copied as one piece."""
    first, last = selected.find(1), selected.rfind(1)
    if first >= 0 and selected.find(0, first, last) < 0:
        return moments[first : last + 1]
    return array("q", compress(moments, selected))


def pick_flags(flags: bytes | bytearray, selected: bytes) -> bytes:
    """Return the flags, one per chunk, of the chunks whose flag in `selected` is 1."""
    return b"\1" * selected.count(1) if 0 not in flags else bytes(compress(flags, selected))


def _measure_gaps(moments: array[int], observed: bytes, tokens: list[int], skipped: list[int]) -> Gaps:
    """Turn the arrivals of one choice's output chunks into its gaps; `tokens` and `skipped` may be empty."""
    if not tokens and not skipped and 0 not in observed:
        exact_samples: list[float] = find_differences(moments)
        return Gaps(exact_samples, exact=len(exact_samples), imputed=0, excluded=0)
    # As a list: an array makes a new integer at every access.
    arrived = moments.tolist()
    samples: list[float] = []
    exact = imputed = 0
    known = [index for index, is_observed in enumerate(observed) if is_observed]
    for before, after in pairwise(known):
        run = range(before + 1, after + 1)
        gaps = len(run) + sum(skipped[index] for index in run) if skipped else len(run)
        counts = [tokens[index] for index in run] if tokens else []
        is_credible = len(counts) == gaps and 0 < min(counts) <= max(counts) <= MAX_TOKENS_PER_CHUNK
        shares = sum(counts) if is_credible else gaps
        if len(samples) + shares > MAX_SAMPLES:
            continue
        if len(run) == 1:
            samples.extend(repeat((arrived[after] - arrived[before]) / shares, shares))
        else:
            weights = counts if is_credible else [1 + skipped[index] for index in run] if skipped else repeat(1)
            samples.extend(_share_time(arrived[before : after + 1], weights))
        if gaps == 1:
            exact += 1
        else:
            imputed += gaps
    total = max(len(arrived) - 1, 0) + (sum(skipped[1:]) if skipped else 0)
    return Gaps(samples, exact=exact, imputed=imputed, excluded=total - exact - imputed)


def _share_time(latest: list[int], weights: Iterable[int]) -> list[float]:
    """Share the time of a run of hidden arrivals between its gaps as evenly as can be; returns a sample per share.

    Args:
        latest: when the chunk before the run arrived, the latest moment of each hidden one, and when the last arrived.
        weights: the shares of each gap.
    """
    # The lower convex hull of the points (shares, moment): the straightest path that is nowhere above one of them.
    hull = [(0, latest[0])]
    shares = 0
    slopes = [-inf]
    for moment, weight in zip(latest[1:], weights, strict=False):
        shares += weight
        start, since = hull[-1]
        slope = (moment - since) / (shares - start)
        while slope <= slopes[-1]:
            del hull[-1], slopes[-1]
            start, since = hull[-1]
            slope = (moment - since) / (shares - start)
        hull.append((shares, moment))
        slopes.append(slope)
    samples: list[float] = []
    for (before, _), (after, _), slope in zip(hull, hull[1:], slopes[1:], strict=False):
        samples.extend(repeat(slope, after - before))
    return samples
