"""Thinning a timeline that has too many chunks to be stored: even in time, with its longest gaps kept."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from otel_itl.core.timeline import Timeline

MAX_CHUNKS = 65_536
"""Chunks of a timeline that are stored."""
MAX_KEPT_GAPS = 1_024
"""Of the chunks beyond the first half of `MAX_CHUNKS`, those around this many longest gaps are kept."""


def thin(timeline: Timeline) -> Timeline:
    """Reduce a timeline to `MAX_CHUNKS` chunks: the first half, then an even selection and the longest gaps.

    The chunks that are left out are counted in `skipped`. A timeline that is short enough is returned as it is.
    """
    chunks = len(timeline.kinds)
    if chunks <= MAX_CHUNKS:
        return timeline
    head = MAX_CHUNKS // 2
    even = MAX_CHUNKS - head - 2 * MAX_KEPT_GAPS - 1
    tail = range(head, chunks)
    longest = sorted(tail, key=lambda index: timeline.arrived[index - 1] - timeline.arrived[index])[:MAX_KEPT_GAPS]
    kept = {head + position * len(tail) // even for position in range(even)}
    kept.update(longest, (index - 1 for index in longest), (chunks - 1,))
    indexes = [*range(head), *sorted(kept - set(range(head)))]
    # The position of each chunk before any was left out.
    positions = list(accumulate((skip + 1 for skip in timeline.skipped), initial=-1))[1:] or range(chunks)
    kept_positions = [positions[index] for index in indexes]
    skipped = array("I", (after - before - 1 for before, after in pairwise([-1, *kept_positions])))
    return replace(select_chunks(timeline, indexes), skipped=skipped)


def select_chunks(timeline: Timeline, indexes: Sequence[int]) -> Timeline:
    """Return the timeline with the chunks at these indexes only."""

    def pick(values: Sequence[int]) -> Iterator[int]:
        return (values[index] for index in indexes) if values else iter(())

    return replace(
        timeline,
        asked=array("q", pick(timeline.asked)),
        arrived=array("q", pick(timeline.arrived)),
        kinds=bytes(pick(timeline.kinds)),
        tokens=array("I", pick(timeline.tokens)),
        choices=bytes(pick(timeline.choices)),
        lateness=array("q", pick(timeline.lateness)),
        skipped=array("I", pick(timeline.skipped)),
    )
