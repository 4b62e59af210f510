"""Cuts the steady parts of a level's rounds into blocks of time, which are resampled as a whole.

Requests that are open at the same time share queues and batches, so that neighbours in time are alike: taken as
independent, they would make every interval too narrow. Whole rounds would be the safest unit, but two or three of them
know nothing of their own spread. A block is at least twice as long as a request, where the round has room for two of
that length: then it shares its requests with its two neighbours alone. Blocks of all rounds of a level are
resampled together (a block bootstrap), so that differences between rounds widen the interval as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from otel_itl.tools.sweep.concurrency import mean_open
from otel_itl.tools.sweep.records import DueRequest, Round

MIN_BLOCKS = 2
"""Blocks of a round, however short it is."""
MAX_BLOCKS = 10
_REQUESTS_LONG = 2.0
"""Length of a block in durations of a request."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the steady part of a round."""

    start: float
    end: float
    due: list[DueRequest] = field(default_factory=list)
    """Steady requests that were due in the block."""
    ended: list[DueRequest] = field(default_factory=list)
    """Requests of the same round that ended in the block, whenever they were due."""
    open: list[tuple[DueRequest, float]] = field(default_factory=list)
    """Requests of the same round that received tokens in the block, each with the share of that time inside it."""
    streams: float = 0.0
    """Streams open at a time in the block, on average."""


def split_into_blocks(one: Round) -> list[Block]:
    """Return the blocks of the steady part of a round; none where it has none."""
    start, end = one.steady_from, one.steady_until
    if start is None or end is None:
        return []
    due = [request for request in one.requests if request.is_steady]
    count = _count_blocks(one.seconds, due)
    edges = [start + one.seconds * number / count for number in range(1, count)]
    spans = one.spans
    blocks = [Block(*ends, streams=mean_open(spans, *ends)) for ends in pairwise([start, *edges, end])]
    for request in due:
        blocks[bisect_right(edges, request.due)].due.append(request)
    for request in one.requests:  # those of the warm-up may end in the steady part as well
        if request.ended is None or request.ended < start:
            continue
        if request.ended < end:
            blocks[bisect_right(edges, request.ended)].ended.append(request)
        if (first := request.time_to_first_token) is not None:
            began = request.due + first
            received = max(request.ended - began, 1e-9)
            for block in blocks:
                share = (min(request.ended, block.end) - max(began, block.start)) / received
                if share > 0:
                    block.open.append((request, share))
    return blocks


def _count_blocks(seconds: float, due: Sequence[DueRequest]) -> int:
    """Return the number of blocks of a round: of at least two requests' durations each, where there is room."""
    durations = [request.duration for request in due if request.duration is not None]
    shortest = _REQUESTS_LONG * median(durations) if durations else seconds
    return min(max(int(seconds / shortest) if shortest > 0 else MAX_BLOCKS, MIN_BLOCKS), MAX_BLOCKS)
