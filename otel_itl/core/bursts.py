"""Whether a stream was buffered on its way, so that its pace is the buffer's and not the model's.

A gap is *inside a burst* if its two chunks, and whatever came between them, came together. All that passed in it is the
time to decode a chunk, however long the model took for that chunk. Two figures suffer, each in its own way:

* The median is the time to decode a chunk as soon as more than half of the gaps are inside bursts.
* The mean survives bursts in the middle of a stream, because the pause before a burst is the time that its chunks took.
  It does not survive the burst that opens the output: its chunks took their time before the first token came. If a
  quarter of the gaps are inside that burst, the mean of an even upstream is a quarter too short.

A stream of which either is true is *buffered*. So the median of a stream that is not buffered is a gap between two
separate arrivals, and of an even upstream its mean is at least three quarters of the time that each chunk took (and,
over the whole stream, up to one gap less: the first burst may be released at any moment before the next chunk).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, compress
from typing import NamedTuple

from otel_itl.core.arrivals import Arrivals
from otel_itl.core.gaps import split_by_choice
from otel_itl.core.timeline import Timeline

MAX_SHARE_IN_BURSTS = 1 / 2
"""A stream with a larger share of its gaps inside bursts is buffered: its median is no gap of the upstream's."""
MAX_SHARE_IN_FIRST_BURST = 1 / 4
"""The same for the burst that opens the output, which shortens the mean by that share."""
MIN_PACED_CHUNKS, MIN_PACED_BURSTS = 8, 4
"""Fewer chunks or bursts after the first burst have no pace: up to one gap is cut off, and what a buffer has collected
it may release in two or three pieces."""
MAX_PACE_RATIO = 1.5
"""The two halves of a stream have one pace if they differ by no more than this: a backlog that is released slowly, and
then the upstream's own pace, are two."""
MIN_PACE = 1_000_000
"""Bursts that bring more than a chunk per this (ns) are the pieces of one that was collected before."""


class Bursts(NamedTuple):
    """How many gaps of a stream are inside bursts, those of several choices together, and the pace of the bursts."""

    gaps: int
    """All gaps between successive output chunks of a choice."""
    inside: int = 0
    """Gaps inside any burst."""
    inside_first: int = 0
    """Gaps inside the burst that opens the output of a choice."""
    pace: float | None = None
    """Mean time (ns) between output chunks from burst to burst; None: not buffered, or no such pace is known."""

    @property
    def is_buffered(self) -> bool:
        """Whether bursts decide the median or the mean of the gaps."""
        too_many, first_too_long = self.gaps * MAX_SHARE_IN_BURSTS, self.gaps * MAX_SHARE_IN_FIRST_BURST
        return self.inside > too_many or self.inside_first > first_too_long


def find_bursts(timeline: Timeline, arrivals: Arrivals, gaps: int) -> Bursts:
    """Count the gaps inside bursts, of `gaps` altogether; those that a thinned timeline leaves out count as well."""
    if 1 not in arrivals.in_burst:
        return Bursts(gaps)
    # Chunks of one burst have the same number; a chunk that came alone has a number of its own.
    numbers = list(accumulate(1 - together for together in arrivals.in_burst))
    outputs = timeline.output_flags
    inside = inside_first = 0
    for selected in split_by_choice(timeline, outputs):
        own = list(compress(numbers, selected))
        left_out = list(compress(timeline.skipped, selected)) or [0] * len(own)
        for before, after, skipped in zip(own, own[1:], left_out[1:], strict=False):
            inside += (1 + skipped) * (after == before)
            inside_first += (1 + skipped) * (after == own[0])
    bursts = Bursts(gaps, inside, inside_first)
    if not bursts.is_buffered or timeline.choices or timeline.skipped or 0 in arrivals.observed:
        return bursts
    return bursts._replace(pace=_find_pace(list(compress(arrivals.moments, outputs)), list(compress(numbers, outputs))))


def _find_pace(moments: Sequence[int], numbers: Sequence[int]) -> float | None:
    """Return the mean time (ns) between chunks from burst to burst, given the arrivals and the bursts' numbers.

    Whatever a burst releases was made since the burst before it. So the time between the first burst and the last is
    what all chunks but those of the first took.
    """
    first_of_burst = [0, *(index for index in range(1, len(numbers)) if numbers[index] != numbers[index - 1])]
    if len(first_of_burst) <= MIN_PACED_BURSTS or len(moments) - first_of_burst[1] < MIN_PACED_CHUNKS:
        return None
    made = [*first_of_burst[1:], len(moments)]
    middle, last = len(made) // 2, len(made) - 1

    def pace(start: int, end: int) -> float:
        """Return the pace between two bursts, given their indexes."""
        return (moments[first_of_burst[end]] - moments[first_of_burst[start]]) / (made[end] - made[start])

    slower, faster = sorted((pace(0, middle), pace(middle, last)), reverse=True)
    return pace(0, last) if faster >= MIN_PACE and slower <= MAX_PACE_RATIO * faster else None
