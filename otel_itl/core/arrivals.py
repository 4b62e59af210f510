"""When each chunk arrived, judged from when the consumer asked for it and how long the pull blocked.

`arrived - asked` mixes the upstream's pace with the consumer's own slowness, and a machine that is busy delivers late.
So every arrival is an interval, from the `earliest` moment that is possible to the latest, and of one of two kinds:

* *observed*: the pull blocked until the chunk came. It came when the pull returned, and no earlier than the lateness of
  the timeline allows, which mostly is none.
* *hidden*: the chunk was there already when it was asked for, and the consumer had held the stream before: for more
  than 1 ms before this pull, or for more than 1 ms and most of the time since a pull last blocked; or the chunk before
  it was late itself. It came no earlier than the chunk before. Every chunk after it is hidden too, until a pull surely
  blocks again: it waits for half as long as is typical, or the next one blocks too, for a single short wait may be a
  hiccup of the caller. What lateness may explain of a wait is no wait.

A chunk that was there already although the consumer had held nothing came *in a burst*, together with its predecessor;
its arrival counts as observed. Where a pause follows that is long beside the time it took to hand over the burst, that
time was spent on decoding, and all chunks of the burst get the moment of its first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import add, sub
from typing import NamedTuple

from otel_itl.core.columns import FEW, MAX_NUMBER, Columns, LaneError
from otel_itl.core.timeline import Timeline

NEGLIGIBLE_HOLD = 1_000_000
"""A consumer that held the stream for no longer than this (ns) cannot have hidden an arrival that matters."""
MIN_BLOCKING_WAIT, MAX_BLOCKING_WAIT = 1_000_000, 5_000_000
"""Bounds of the wait (ns) from which a pull counts as blocked; in between it follows the waits of the stream."""
MAX_SAMPLED_WAITS = 256
"""How many waits of a stream are sampled for its typical wait."""
COLD_CACHE_FACTOR = 20
"""A pull after a hold needs a wait of 1/20 of the hold to count as blocked: caches are cold after a pause."""
MAX_BURST_SPACING = 200_000
"""Chunks of a burst are handed over with no more than this between them (ns)."""
BURST_PAUSE_FACTOR = 20
"""A burst is 20 times shorter than the pause after it; otherwise it may be a fast and even stream."""


class Arrivals(NamedTuple):
    """The arrivals of a stream's chunks: parallel sequences, one entry per chunk."""

    latest: array[int]
    """The latest moment (ns after the request) at which each chunk can have come, ascending: those of a burst when the
    first of them did. Where nothing is hidden or late, they came then."""
    observed: bytes | bytearray
    """1: the pull blocked until the chunk came; 0: the arrival is hidden."""
    in_burst: bytes | bytearray
    """1: the chunk came together with its predecessor."""
    held: int
    """How long the consumer held the stream before it asked for the chunks, in all (ns)."""
    gaps: array[int] = array("q")
    """The time from the chunk before to each chunk, as far as it was computed on the way; else empty. That of the first
    chunk means nothing."""
    earliest: array[int] = array("q")
    """The earliest moment at which each chunk can have come, ascending; empty: they came at `latest`."""
    late_share: float = 0.0
    """Which part of the time between earliest and latest moments is due to lateness; the rest is to the holds."""

    def find_bounds(self, index: int) -> tuple[int, int]:
        """Return the earliest and the latest moment at which a chunk can have come."""
        latest = self.latest[index]
        return (self.earliest[index] if self.earliest else latest), latest


def find_arrivals(timeline: Timeline) -> Arrivals:
    """Judge for every chunk of a stream whether its arrival was observed, and merge bursts to one moment."""
    return find_all_observed(timeline) or judge_arrivals(timeline)


def find_all_observed(timeline: Timeline) -> Arrivals | None:
    """Return the arrivals of a stream whose consumer held nothing and waited for every chunk, as most do; else None.

    Every arrival was observed then, and no chunk is looked at on its own.
    """
    chunks = len(timeline)
    if not chunks or timeline.skipped or timeline.lateness:
        return None
    asked, arrived = timeline.asked, timeline.arrived
    opened = asked[0] if timeline.headers is None else timeline.headers
    if chunks <= FEW:
        return _find_few_observed(asked, arrived, opened)
    columns = Columns(chunks)
    try:
        asked_column, arrived_column = columns.pack(asked), columns.pack(arrived)
        holds = columns.subtract(asked_column, columns.shift(arrived_column, opened))
        waits = columns.subtract(arrived_column, asked_column)
        # Without a hold before it, the first chunk is observed even if it came with the headers.
        later_waits = waits | MAX_NUMBER
        is_blocked = columns.is_at_most(holds, NEGLIGIBLE_HOLD) and (
            columns.is_at_least(later_waits, MAX_BLOCKING_WAIT)
            or columns.is_at_least(later_waits, _find_required_wait(_find_typical_wait(columns.unpack(waits))))
        )
    except LaneError:
        return None
    if not is_blocked:
        return None
    return Arrivals(arrived, b"\1" * chunks, bytes(chunks), columns.sum(holds), columns.unpack(waits + holds))


def _find_few_observed(asked: array[int], arrived: array[int], opened: int) -> Arrivals | None:
    """Do what `find_all_observed` does, for so few chunks that columns are not worth while.

    Args:
        asked: when each chunk was asked for (ns).
        arrived: when each chunk arrived (ns).
        opened: when the consumer was free to ask for the first chunk (ns).
    """
    holds = list(map(sub, asked, (opened, *arrived)))
    waits = list(map(sub, arrived, asked))
    if max(holds) > NEGLIGIBLE_HOLD or min(*holds, *waits, opened) < 0:
        return None
    # Without a hold before it, the first chunk is observed even if it came with the headers.
    least = min(waits[1:], default=MAX_BLOCKING_WAIT)
    if least < MAX_BLOCKING_WAIT and least < _find_required_wait(_find_typical_wait(waits)):
        return None
    return Arrivals(arrived, b"\1" * len(waits), bytes(len(waits)), sum(holds), array("q", map(add, waits, holds)))


def judge_arrivals(timeline: Timeline) -> Arrivals:
    """Do what `find_arrivals` does for any stream, chunk by chunk."""
    # As lists: an array makes a new integer at every access.
    asked, arrived = timeline.asked.tolist(), timeline.arrived.tolist()
    free = _find_free_moments(timeline, asked, arrived)
    holds = list(map(sub, asked, free))
    waits = list(map(sub, arrived, asked))
    lateness = timeline.lateness.tolist()
    if lateness:
        waits = list(map(sub, waits, lateness))
    observed, in_burst = _judge_pulls(free, holds, arrived, waits, lateness)
    moments = array("q", _merge_bursts(arrived, observed, in_burst))
    if not lateness and 0 not in observed:
        return Arrivals(moments, observed, in_burst, sum(holds))
    late = sum(lateness)
    hiding = sum(hold for hold, is_observed in zip(holds, observed, strict=True) if not is_observed)
    return Arrivals(
        moments,
        observed,
        in_burst,
        sum(holds),
        earliest=array("q", _find_earliest(moments, observed, lateness, timeline.headers or 0)),
        late_share=late / (late + hiding) if late else 0.0,
    )


def _find_earliest(moments: array[int], observed: Sequence[int], lateness: list[int], headers: int) -> Iterator[int]:
    """Yield the earliest moment (ns) at which each chunk can have come.

    Args:
        moments: the latest.
        observed: flags; a hidden chunk came no earlier than the one before it, the first no earlier than the headers.
        lateness: of each chunk (ns); empty: none is late.
        headers: when they were there, at the latest (ns): as late as the first chunk may be, they may be too.
    """
    before = 0 if observed[0] else max(headers - lateness[0] if lateness else headers, 0)
    for latest, is_observed, late in zip(moments, observed, lateness or repeat(0), strict=False):
        if is_observed and latest - late > before:
            before = latest - late
        elif before > latest:  # no clock gives that
            before = latest
        yield before


def _find_free_moments(timeline: Timeline, asked: list[int], arrived: list[int]) -> list[int]:
    """Return when the consumer was free to ask for each chunk: its hold lasts from then until it asks.

    What it did about chunks that were left out of a thinned timeline is not known, and counts as no hold.
    """
    if not asked:
        return []
    free = [asked[0] if timeline.headers is None else timeline.headers, *arrived[:-1]]
    if timeline.skipped:
        return [ask if skip else since for ask, since, skip in zip(asked, free, timeline.skipped, strict=True)]
    return free


def _find_typical_wait(waits: Sequence[int]) -> int:
    """Return the median wait (ns) of those pulls that wait at all, from a sample of them."""
    waited = sorted(wait for wait in waits[:: len(waits) // MAX_SAMPLED_WAITS + 1] if wait >= MIN_BLOCKING_WAIT)
    return waited[len(waited) // 2] if waited else MIN_BLOCKING_WAIT


def _find_required_wait(typical: int) -> int:
    """Return the wait (ns) from which a pull counts as blocked, given the typical one."""
    return min(max(MIN_BLOCKING_WAIT, typical // 4), MAX_BLOCKING_WAIT)


def _find_blocked_pulls(holds: list[int], waits: list[int], typical: int) -> bytearray:
    """Return one flag per chunk: 1 where its pull blocked.

    A chunk that is there already costs what it takes to decode it, which is well under 1 ms. Where chunks that have to
    be waited for typically take much longer, a quarter of that is required, so that a hiccup while a backlog of chunks
    is drained does not look like its end. After a long hold the first pull is slow by itself: more is required.
    """
    required = _find_required_wait(typical)
    blocked = bytearray([wait >= required for wait in waits])
    # The first pull of a stream pays for what an SDK does once.
    blocked[0] = waits[0] >= MAX_BLOCKING_WAIT
    # A shorter hold requires no more than every pull has to wait anyway.
    if max(holds) > COLD_CACHE_FACTOR * required:
        for index, hold in enumerate(holds):
            if waits[index] < min(hold // COLD_CACHE_FACTOR, MAX_BLOCKING_WAIT):
                blocked[index] = 0
    return blocked


def _judge_pulls(
    free: list[int], holds: list[int], arrived: list[int], waits: list[int], lateness: list[int]
) -> tuple[bytes | bytearray, bytes | bytearray]:
    """Return two flags per chunk: its arrival was observed; it came in a burst with its predecessor.

    A consumer that pauses once and then drains the backlog hides all of the backlog, not only its first chunk. So does
    a process that did not run: chunks that were not waited for, after one that is late, may have come before that was
    delivered.

    Args:
        free: when the consumer was free to ask for each chunk (ns).
        holds: how long it held the stream before it asked (ns).
        arrived: when each pull returned (ns).
        waits: how long each pull blocked, without what its lateness may explain (ns).
        lateness: of each chunk (ns); empty: none is late.
    """
    if not waits:
        return b"", b""
    typical = _find_typical_wait(waits)
    blocked = _find_blocked_pulls(holds, waits, typical)
    observed = bytearray(blocked)
    in_burst = bytearray(len(waits))
    # Chunks of a fast and even upstream follow closely on one another as well, but no closer than their mean.
    max_spacing = max(MAX_BURST_SPACING, (arrived[-1] - arrived[0]) // (4 * len(arrived)))
    before, held, has_backlog = free[0], 0, False
    index = observed.find(0)
    while index >= 0:
        hold = holds[index]
        if index and blocked[index - 1]:
            # This pull did not block. While a backlog is drained, the one before it may have been a hiccup.
            is_draining = has_backlog and not blocked[index - 2]
            has_backlog = (is_draining or holds[index - 1] > typical) and waits[index - 1] < typical // 2
            if has_backlog:
                observed[index - 1] = 0
            else:
                before, held = arrived[index - 1], 0
        held += hold
        has_backlog = (
            has_backlog
            or (index > 0 and bool(lateness) and lateness[index - 1] >= NEGLIGIBLE_HOLD)
            or hold > NEGLIGIBLE_HOLD
            or (held > NEGLIGIBLE_HOLD and 2 * held > arrived[index] - before)
        )
        if not has_backlog:
            observed[index] = 1
            in_burst[index] = index > 0 and arrived[index] - arrived[index - 1] < max_spacing
        index = observed.find(0, index + 1)
    return observed, in_burst


def _merge_bursts(arrived: list[int], observed: bytes | bytearray, in_burst: bytes | bytearray) -> list[int]:
    """Return the arrivals (ns) with those of each burst moved to that of its first chunk."""
    follower = in_burst.find(1)
    if follower < 0:
        return arrived
    moments = list(arrived)
    while follower >= 0:
        head, after = follower - 1, follower
        while after < len(arrived) and in_burst[after] and arrived[after] - arrived[after - 1] < MAX_BURST_SPACING:
            after += 1
        duration = arrived[after - 1] - arrived[head]
        if (
            after < len(arrived)
            and observed[after]
            and duration * BURST_PAUSE_FACTOR <= arrived[after] - moments[after - 1]
        ):
            moments[follower:after] = repeat(arrived[head], after - follower)
        follower = in_burst.find(1, max(after, follower + 1))
    return moments
