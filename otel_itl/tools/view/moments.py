"""The moment at which each chunk of a stream is drawn, and the gaps between them, equal to the ITL samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, islice, repeat
from operator import sub
from typing import NamedTuple

from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.gaps import find_gaps, split_by_choice
from otel_itl.core.timeline import OUTPUT, Timeline

HIDDEN = 8
"""Flag in a drawn code: the arrival is hidden. The chunk is drawn hollow, at its estimated moment."""
UNMEASURED = 16
"""Flag in a drawn code: no ITL sample belongs to the gap in front of the chunk."""
OTHER = 32
"""Flag in a drawn code: a ping or an empty chunk, which shows that the upstream is alive."""


class DrawnChunks(NamedTuple):
    """The chunks of a stream as they are drawn: parallel sequences, one entry per chunk."""

    moments: Sequence[float]
    """Nanoseconds after the request, by the best estimate."""
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
    moments: list[float] = list(arrivals.latest)
    shares = [1] * len(timeline)
    codes = bytearray(
        (kind & OUTPUT or OTHER) | (0 if observed else HIDDEN)
        for kind, observed in zip(timeline.kinds, arrivals.observed, strict=True)
    )
    measured: set[int] = set()
    selections = split_by_choice(timeline, timeline.output_flags)
    for selected, gaps in zip(selections, find_gaps(timeline, arrivals), strict=True):
        indexes, rest = list(compress(range(len(timeline)), selected)), iter(gaps.samples)
        for before, index, share in zip(indexes, indexes[1:], gaps.shares or repeat(1), strict=False):
            if not share:
                continue
            # A chunk that came at no known moment is moved to where its samples end.
            end = moments[before] + sum(islice(rest, share))
            earliest, latest = arrivals.find_bounds(index)
            moments[index] = latest if earliest == latest else end
            shares[index] = share
            measured.add(index)
    for index, is_output in enumerate(timeline.output_flags):
        if is_output and index not in measured:
            codes[index] |= UNMEASURED
    opened = [] if not timeline.asked else [timeline.asked[0] if timeline.headers is None else timeline.headers]
    holds = list(map(sub, timeline.asked, chain(opened, timeline.arrived)))
    return DrawnChunks(moments, bytes(codes), shares, timeline.asked, holds)
