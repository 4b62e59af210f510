"""The gaps between successive output chunks, as ITL samples, and how well they are known: exact, imputed or excluded.

Every gap is in the samples, by the best estimate of its arrivals: the straightest path through their intervals (see
`intervals`). That keeps the mean, invents no tail, and keeps a stall that the caller waited through. A gap is *exact*
if it is known to 1 ms or to 5 % of itself. The others are *imputed* between two observed arrivals, and *excluded* where
no observed arrival opens or closes the run of hidden ones that they belong to: such a gap is a guess within its bounds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, compress, groupby, pairwise, repeat
from operator import and_
from typing import Any, NamedTuple

from otel_itl.core.arrivals import Arrivals
from otel_itl.core.chunk_code import choices_in
from otel_itl.core.columns import find_differences
from otel_itl.core.intervals import GapBounds, Interval, RankBounds, find_straightest_path, pool_bounds
from otel_itl.core.timeline import Timeline

MAX_TOKENS_PER_CHUNK = 1_024
"""A chunk that claims more tokens than this counts as one token."""
MAX_SAMPLES = 1 << 21
"""Gaps beyond this many samples are excluded: a provider's token counts must not decide how much memory they take."""
EXACT_WITHIN, EXACT_SHARE = 1_000_000, 0.05
"""A gap is exact if its bounds are no further apart than this (ns), or than this share of it."""


class Gaps(NamedTuple):
    """The gaps of one choice of a stream, or of all: their ITL samples, and how many gaps of each sort there are."""

    samples: list[float]
    """Nanoseconds, in order of time. A gap in front of a chunk of n tokens is n samples of gap / n."""
    exact: int
    imputed: int
    excluded: int
    shares: Sequence[int] = ()
    """How many samples each gap is; 0: it is beyond `MAX_SAMPLES`. Empty: one each."""
    bounds: RankBounds | None = None
    """Of the samples; None: they are exact."""
    total: Interval | None = None
    """What the samples can add up to (ns); None: they are exact."""


class _Piece(NamedTuple):
    """Successive output chunks of one choice: one entry for each, or for each gap between two of them."""

    earliest: list[int]
    latest: list[int]
    observed: bytes
    shares: list[int]
    """Samples of each gap, at least 1."""
    skipped: list[int]
    """Chunks left out of each gap; empty: none."""


def find_gaps(timeline: Timeline, arrivals: Arrivals) -> Iterator[Gaps]:
    """Yield the gaps of each choice of a stream: two choices streamed side by side are two sequences of tokens."""
    outputs = timeline.output_flags
    first, last = timeline.output_bounds
    is_plain = not (timeline.choices or timeline.tokens or timeline.skipped) and 0 <= first < last
    if is_plain and arrivals.gaps and outputs.find(0, first, last) < 0:
        samples: list[Any] = arrivals.gaps[first + 1 : last + 1].tolist()
        yield Gaps(samples, exact=last - first, imputed=0, excluded=0)
        return
    for selected in split_by_choice(timeline, outputs):
        yield _find_gaps_of_choice(timeline, arrivals, selected)


def add_up_gaps(parts: Sequence[Gaps]) -> Gaps:
    """Pool the gaps of several choices, or of several pieces of one."""
    if len(parts) == 1:
        return parts[0]
    samples = list(chain.from_iterable(part.samples for part in parts))
    exact, imputed, excluded = (sum(getattr(part, name) for part in parts) for name in ("exact", "imputed", "excluded"))
    if all(part.bounds is None for part in parts):
        return Gaps(samples, exact, imputed, excluded)
    totals = [part.total or Interval(sum(part.samples), sum(part.samples)) for part in parts]
    least, most = map(sum, zip(*totals, strict=True))
    bounds = pool_bounds(part.bounds or (part.samples, part.samples) for part in parts)
    return Gaps(samples, exact, imputed, excluded, bounds=bounds, total=Interval(least, most))


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


def count_shares(tokens: Sequence[int], skipped: Sequence[int], gaps: int) -> list[int]:
    """Return how many samples each gap is: as many as the chunk behind it has tokens, where that is known.

    Args:
        tokens: of the chunk behind each gap; empty: not known.
        skipped: chunks left out of each gap, whose tokens are not known; empty: none.
        gaps: how many there are.
    """
    shares = [count if 0 < count <= MAX_TOKENS_PER_CHUNK else 1 for count in tokens] if tokens else [1] * gaps
    if skipped:
        shares = [1 + left_out if left_out else share for share, left_out in zip(shares, skipped, strict=True)]
    if sum(shares) > MAX_SAMPLES:
        shares = [
            share if so_far <= MAX_SAMPLES else 0 for share, so_far in zip(shares, accumulate(shares), strict=True)
        ]
    return shares


def _find_gaps_of_choice(timeline: Timeline, arrivals: Arrivals, selected: bytes) -> Gaps:
    """Find the gaps of one choice, given flags of its output chunks."""
    latest = pick_moments(arrivals.latest, selected)
    if not timeline.tokens and not timeline.skipped and not arrivals.earliest:
        exact_samples: list[float] = find_differences(latest)
        return Gaps(exact_samples, exact=len(exact_samples), imputed=0, excluded=0)
    # As lists: an array makes a new integer at every access.
    moments = latest.tolist()
    earliest = list(compress(arrivals.earliest, selected)) or moments
    observed = pick_flags(arrivals.observed, selected)
    tokens, skipped = (list(compress(counts, selected))[1:] for counts in (timeline.tokens, timeline.skipped))
    shares = count_shares(tokens, skipped, max(len(moments) - 1, 0))
    pieces = [
        _measure_piece(
            _Piece(
                earliest[first : last + 1],
                moments[first : last + 1],
                observed[first : last + 1],
                shares[first:last],
                skipped[first:last],
            )
        )
        for first, last in _find_pieces(shares)
    ]
    gaps = add_up_gaps(pieces) if pieces else Gaps([], exact=0, imputed=0, excluded=0)
    beyond = sum(1 + left_out for share, left_out in zip(shares, skipped or repeat(0), strict=False) if not share)
    return gaps._replace(excluded=gaps.excluded + beyond, shares=shares)


def _find_pieces(shares: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of the first and the last chunk of each piece: between pieces are gaps without samples."""
    start = 0
    for has_samples, group in groupby(shares, bool):
        end = start + sum(1 for _ in group)
        if has_samples:
            yield start, end
        start = end


def _measure_piece(piece: _Piece) -> Gaps:
    """Turn the arrivals of successive chunks into their gaps."""
    is_known = piece.earliest == piece.latest
    slopes = _divide_gaps(piece) if is_known else _find_slopes(piece)
    samples = list(chain.from_iterable(map(repeat, slopes, piece.shares)))
    if is_known:
        left_out = sum(piece.skipped)
        gaps_left_out = len(piece.skipped) - piece.skipped.count(0)
        return Gaps(samples, len(slopes) - gaps_left_out, imputed=left_out + gaps_left_out, excluded=0)
    bounds = GapBounds(piece.earliest, piece.latest)
    counts = [1 + left_out for left_out in piece.skipped] or [1] * len(slopes)
    inexact = [
        count if count > 1 or (width > EXACT_WITHIN and width > EXACT_SHARE * slope * share) else 0
        for count, width, slope, share in zip(counts, bounds.widths, slopes, piece.shares, strict=True)
    ]
    first, last = piece.observed.find(1), piece.observed.rfind(1)
    imputed = sum(inexact[first:last]) if first >= 0 else 0
    runs = [0, *compress(range(1, len(slopes)), piece.observed[1:]), len(slopes)]
    return Gaps(
        samples,
        exact=sum(counts) - sum(inexact),
        imputed=imputed,
        excluded=sum(inexact) - imputed,
        bounds=bounds.bound_by_rank(piece.shares, runs),
        total=bounds.find_total(0, len(slopes)),
    )


def _divide_gaps(piece: _Piece) -> list[float]:
    """Return each gap, per share (ns), where all moments are known."""
    gaps = zip(piece.latest, piece.latest[1:], piece.shares, strict=False)
    return [(after - before) / share for before, after, share in gaps]


def _find_slopes(piece: _Piece) -> list[float]:
    """Find the best estimate of each gap, per share (ns): chunks that came at a known moment part the path."""
    slopes: list[float] = []
    earliest, latest = piece.earliest, piece.latest
    known = [index for index in range(1, len(latest) - 1) if earliest[index] == latest[index]]
    for first, last in pairwise([0, *known, len(latest) - 1]):
        if last - first == 1:
            slopes.append((latest[last] - latest[first]) / piece.shares[first])
        else:
            path = slice(first, last + 1)
            slopes += find_straightest_path(earliest[path], latest[path], piece.shares[first:last])
    return slopes
