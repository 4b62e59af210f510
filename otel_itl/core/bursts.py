"""Whether a stream was buffered on its way, so that its pace is the buffer's and not the model's.

A gap is *inside a burst* if its two chunks, and whatever came between them, came together. All that passed in it is the
time to decode a chunk, however long the model took for that chunk. Buffers spoil two figures, each in its own way:

* The median is the time to decode a chunk as soon as more than half of the gaps are inside bursts. A proxy that has to
  catch up hands its chunks over a little slower than that, and unevenly: most gaps are below 1 ms, and the tenth
  longest are more than four times as long as the tenth shortest. (A model that is as fast as that is even.)
* The mean survives bursts in the middle of a stream, because the pause before a burst is the time that its chunks took.
  It does not survive a *backlog*: chunks that a buffer had collected when it released the first of them. They took
  their time before the first token came. If more than a quarter of the gaps are inside the burst that opens the output,
  the mean is more than a quarter too short. A buffer that releases its backlog slowly, chunk by chunk, shows in the
  first half of the stream: it is more than twice as fast as the second, and many of its gaps are next to nothing.

A stream of which either is true is *buffered*. So the median of a stream that is not buffered is a gap between two
separate arrivals, and of an even upstream its mean is at least three quarters of the time that each chunk took (and,
over the whole stream, up to one gap less: the first burst may be released at any moment before the next chunk).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, compress
from typing import NamedTuple

from otel_itl.core.arrivals import MIN_BLOCKING_WAIT, Arrivals
from otel_itl.core.columns import find_differences
from otel_itl.core.gaps import pick_moments, split_by_choice
from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import Timeline

MAX_SHARE_IN_BURSTS = 1 / 2
"""A stream with a larger share of its gaps inside bursts is buffered: its median is no gap of the upstream's."""
MAX_UNEVENNESS = 4
"""The same for a stream with a median below `MIN_BLOCKING_WAIT` and a p90 of more than this many p10s: most of its
chunks were not waited for."""
MAX_SHARE_IN_FIRST_BURST = 1 / 4
"""The same for the burst that opens the output, which shortens the mean by that share."""
MIN_BACKLOG_CHUNKS = 8
"""Fewer chunks have no two halves that could be compared."""
MIN_SHARE_OF_PACE = 1 / 2
"""A first half that took less than this share of its time at the pace of the second half, its median gap, may be a
backlog."""
MAX_SHARE_OF_TINY_GAPS, TINY_GAP = 1 / 3, 1 / 8
"""It is one if more than a third of its gaps are shorter than an eighth of that pace. A model that became slower, as
after its reasoning, has no such gaps."""
MIN_PACED_CHUNKS, MIN_PACED_BURSTS = 8, 4
"""Fewer chunks or bursts after the first burst have no pace: up to one gap is cut off, and what a buffer has collected
it may release in two or three pieces."""
MAX_PACE_RATIO = 1.5
"""The two halves of a stream have one pace if they differ by no more than this: a backlog that is released slowly, and
then the upstream's own pace, are two."""
MIN_PACE = 1_000_000
"""Bursts that bring more than a chunk per this (ns) are the pieces of one that was collected before."""


class Bursts(NamedTuple):
    """What bursts did to the gaps of a stream."""

    inside: int = 0
    """Gaps between successive output chunks of a choice that are inside a burst; of all choices together."""
    is_buffered: bool = False
    """Whether bursts decide the median of the gaps, or a backlog decides their mean."""
    pace: float | None = None
    """Mean time (ns) between output chunks from burst to burst; None: not buffered, or no such pace is known."""


def find_bursts(timeline: Timeline, arrivals: Arrivals, gaps: int, samples: Sequence[float]) -> Bursts:
    """Find what bursts did to a stream.

    Args:
        timeline: of the stream.
        arrivals: of its chunks.
        gaps: how many gaps it has; those that a thinned timeline leaves out count as well.
        samples: its ITL samples, ascending nanoseconds.
    """
    if gaps == 0:
        return Bursts()
    outputs = timeline.output_flags
    numbers = _number_bursts(arrivals.in_burst)
    inside, inside_first = _count_inside(timeline, outputs, numbers) if numbers else (0, 0)
    is_partial = bool(timeline.skipped) or 0 in arrivals.observed
    is_buffered = (
        inside > gaps * MAX_SHARE_IN_BURSTS
        or inside_first > gaps * MAX_SHARE_IN_FIRST_BURST
        or (not timeline.tokens and _is_uneven(samples))
        or (not is_partial and _has_backlog(timeline, arrivals.latest, outputs))
    )
    if not is_buffered or not numbers or is_partial or timeline.choices:
        return Bursts(inside, is_buffered)
    pace = _find_pace(list(compress(arrivals.latest, outputs)), list(compress(numbers, outputs)))
    return Bursts(inside, is_buffered, pace)


def _number_bursts(in_burst: Sequence[int]) -> list[int]:
    """Return the number of each chunk's burst; a chunk that came alone has a number of its own. Empty: no bursts."""
    return list(accumulate(1 - together for together in in_burst)) if 1 in in_burst else []


def _count_inside(timeline: Timeline, outputs: bytes, numbers: Sequence[int]) -> tuple[int, int]:
    """Count the gaps inside bursts, and those inside the first burst of a choice, given the numbers of the bursts."""
    inside = inside_first = 0
    for selected in split_by_choice(timeline, outputs):
        own = list(compress(numbers, selected))
        left_out = list(compress(timeline.skipped, selected)) or [0] * len(own)
        for before, after, skipped in zip(own, own[1:], left_out[1:], strict=False):
            inside += (1 + skipped) * (after == before)
            inside_first += (1 + skipped) * (after == own[0])
    return inside, inside_first


def _is_uneven(samples: Sequence[float]) -> bool:
    """Return whether most of the samples (ascending ns) are no waits, and they differ much in length."""
    if not samples or percentile(samples, 50) >= MIN_BLOCKING_WAIT:
        return False
    return percentile(samples, 90) > MAX_UNEVENNESS * percentile(samples, 10)


def _has_backlog(timeline: Timeline, moments: array[int], outputs: bytes) -> bool:
    """Return whether any choice of a stream began with a backlog that was released slowly, given the arrivals (ns)."""
    choices = split_by_choice(timeline, outputs)
    return any(_has_slow_backlog(pick_moments(moments, selected)) for selected in choices)


def _has_slow_backlog(moments: array[int]) -> bool:
    """Return whether one choice's chunks began with a backlog that was released slowly, chunk by chunk.

    Its first half came more than twice as fast as its second, with many tiny gaps.

    Args:
        moments: the arrivals (ns) of its chunks.
    """
    if len(moments) < MIN_BACKLOG_CHUNKS:
        return False
    middle, last = len(moments) // 2, len(moments) - 1
    elapsed, later = moments[middle] - moments[0], moments[last] - moments[middle]
    if 4 * elapsed * (last - middle) >= 3 * later * middle:  # spares sorting the gaps of an ordinary stream
        return False
    gaps = find_differences(moments)
    pace = percentile(sorted(gaps[middle:]), 50)
    tiny = sum(gap < pace * TINY_GAP for gap in gaps[:middle])
    return elapsed < middle * pace * MIN_SHARE_OF_PACE and tiny > middle * MAX_SHARE_OF_TINY_GAPS


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
