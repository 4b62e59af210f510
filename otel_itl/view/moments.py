"""The moment at which each chunk of a stream is drawn, and the gaps between them, equal to the ITL samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, islice, pairwise
from operator import sub
from typing import NamedTuple

from otel_itl.core.arrivals import Arrivals, find_arrivals
from otel_itl.core.gaps import MAX_SAMPLES, MAX_TOKENS_PER_CHUNK, find_gaps, split_by_choice
from otel_itl.core.timeline import OUTPUT, Timeline

HIDDEN = 8
"""Flag in a drawn code: the arrival is hidden. The chunk is drawn hollow, at its imputed moment where it has one."""
UNMEASURED = 16
"""Flag in a drawn code: no ITL sample belongs to the gap in front of the chunk."""
OTHER = 32
"""Flag in a drawn code: a ping or an empty chunk, which shows that the upstream is alive."""


class DrawnChunks(NamedTuple):
    """The chunks of a stream as they are drawn: parallel sequences, one entry per chunk."""

    moments: Sequence[float]
    """Nanoseconds after the request. Between two observed arrivals the hidden ones share the time."""
    codes: bytes
    """The output flags of `Kind`, and `HIDDEN`, `UNMEASURED`, `OTHER`."""
    shares: Sequence[int]
    """ITL samples that the gap in front of the chunk consists of."""
    asked: Sequence[int]
    """When the consumer asked for the chunk (ns after the request)."""
    holds: Sequence[int]
    """How long the consumer held the stream before it asked for the chunk (ns)."""


def draw_chunks(timeline: Timeline) -> DrawnChunks:
    """Find where to draw each chunk of a stream.

    The distance from an output chunk to the one before it in its choice, over its shares, is an ITL sample, taken as
    often as it has shares, unless `UNMEASURED` is set: together they are the samples of `core.measures`.
    """
    arrivals = find_arrivals(timeline)
    moments: list[float] = list(arrivals.moments)
    shares = [1] * len(timeline)
    codes = bytearray(
        (kind & OUTPUT or OTHER) | (0 if observed else HIDDEN)
        for kind, observed in zip(timeline.kinds, arrivals.observed, strict=True)
    )
    selections = split_by_choice(timeline, timeline.output_flags)
    measured: set[int] = set()
    for selected, gaps in zip(selections, find_gaps(timeline, arrivals), strict=True):
        indexes = list(compress(range(len(timeline)), selected))
        measured |= _place_choice(timeline, arrivals, indexes, gaps.samples, (moments, shares))
    for index, is_output in enumerate(timeline.output_flags):
        if is_output and index not in measured:
            codes[index] |= UNMEASURED
    opened = [] if not timeline.asked else [timeline.asked[0] if timeline.headers is None else timeline.headers]
    holds = list(map(sub, timeline.asked, chain(opened, timeline.arrived)))
    return DrawnChunks(moments, bytes(codes), shares, timeline.asked, holds)


def _place_choice(
    timeline: Timeline,
    arrivals: Arrivals,
    indexes: Sequence[int],
    samples: Sequence[float],
    drawn: tuple[list[float], list[int]],
) -> set[int]:
    """Set where the output chunks of one choice are drawn, in the lists of `drawn`; return those that have samples.

    Args:
        timeline: the chunks of the stream.
        arrivals: when each of them arrived, and which arrivals were observed.
        indexes: of the choice's output chunks.
        samples: ITL samples of the choice, in the order of its gaps.
        drawn: moments and shares of all chunks. A chunk with a hidden arrival is moved to where its samples end.
    """
    moments, shares = drawn
    known = [place for place, index in enumerate(indexes) if arrivals.observed[index]]
    measured: set[int] = set()
    rest, used = iter(samples), 0
    for before, after in pairwise(known):
        run = indexes[before + 1 : after + 1]
        weights = _weigh_chunks(timeline, run)
        if used + sum(weights) > MAX_SAMPLES:
            continue
        used += sum(weights)
        moment = moments[indexes[before]]
        for index, weight in zip(run, weights, strict=True):
            moment += sum(islice(rest, weight))
            moments[index] = moment if arrivals.observed[index] == 0 else moments[index]
            shares[index] = weight
        measured.update(run)
    return measured


def _weigh_chunks(timeline: Timeline, run: Sequence[int]) -> list[int]:
    """Return how many samples the gap in front of each chunk of a run is, as `core.gaps` counts them."""
    counts = [timeline.tokens[index] for index in run] if timeline.tokens else []
    skipped = [timeline.skipped[index] for index in run] if timeline.skipped else [0] * len(run)
    if counts and not any(skipped) and 0 < min(counts) <= max(counts) <= MAX_TOKENS_PER_CHUNK:
        return counts
    return [1 + count for count in skipped]
