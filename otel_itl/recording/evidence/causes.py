"""What caused a silence: the upstream, unless a chunk may have come and the caller's side did not get to it.

A chunk that came while the process did not run was handed out as soon as it ran again. So of all the times in which it
did not run, only the last one can have hidden a chunk: the one that lasted until the silence ended, or lasts still.
Many short waits hide nothing, however much of the silence they are together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from otel_itl.core.arrivals import COLD_CACHE_FACTOR
from otel_itl.core.stall_detector import Silence
from otel_itl.core.stalls import Cause, Evidence
from otel_itl.recording.evidence.connection import RESOLUTION, Reading
from otel_itl.recording.evidence.frames import FrameEvidence
from otel_itl.recording.evidence.lags import Lag, drop_contained, find_earliest_before

HAND_OUT_NS: Final = 100_000_000
"""What did not run may take this long to hand a chunk out when it runs again."""
MAX_CHAINED_STOPS: Final = 2
"""What stopped the process, and what kept its reader from running right after that."""
PROMPT_NS: Final = 2 * RESOLUTION
"""Data that came this soon after a silence began may have come before it."""


class Readings(NamedTuple):
    """What the connection showed, if it can be reached: once before a silence was found, and when it was."""

    before: Reading | None
    now: Reading | None
    is_shared: bool = False
    """What came may have been another stream's."""
    has_chunk: bool = False
    """A chunk has ended the silence, rather than the end of the stream."""
    is_complete: bool = False
    """The end of the response has ended it, rather than its reader or a failure."""
    frames: FrameEvidence | None = None
    """What its own frames show, where other streams are read from the connection as well; None: not known."""


class _ConnectionEvidence(NamedTuple):
    """What the connection showed of one silence (ns)."""

    quiet_until: int
    """Nothing came from the start of the silence until then."""
    unread_since: int
    """Bytes have waited since then, at the latest; the end of the silence: none are known of."""
    is_unread: bool | None
    """Bytes wait, now that the silence lasts; None: it is over, or that is not known."""


def find_stall_cause(
    silence: Silence, readings: Readings, stopped: Iterable[Lag], blocked: Iterable[Lag]
) -> tuple[Cause, Evidence]:
    """Find the cause of a silence that reached its threshold, and what showed it.

    Args:
        silence: the silence, over or not.
        readings: of its connection.
        stopped: intervals in which the process, or the thread that reads the stream, did not run.
        blocked: intervals in which the event loop that reads the stream did not run.
    """
    shown = _judge_readings(silence, readings)
    half = (silence.until - silence.since) / 2
    quiet = shown.quiet_until - silence.since
    stops, blocks = drop_contained(stopped), drop_contained(blocked)
    held_up = (
        Lag(find_earliest_before(stops, index, MAX_CHAINED_STOPS, HAND_OUT_NS), stop.end)
        for index, stop in enumerate(stops)
    )
    passages = (Lag(find_earliest_before(blocks, index), block.end) for index, block in enumerate(blocks))
    hidden_by_process = _measure_hidden(held_up, shown.quiet_until, silence.until)
    hidden_by_loop = _measure_hidden(passages, shown.quiet_until, silence.until)
    # A loop does not run either while its process does not.
    is_loops = hidden_by_loop > 2 * hidden_by_process
    if silence.until - shown.unread_since > half:
        return (Cause.EVENT_LOOP if is_loops else Cause.PROCESS), Evidence.BYTES
    if quiet > half or quiet >= silence.threshold:
        return Cause.UPSTREAM, Evidence.CONNECTION
    if hidden_by_process > half:
        return Cause.PROCESS, (Evidence.BYTES if shown.is_unread else Evidence.RUN_QUEUE)
    if hidden_by_loop > half:
        return Cause.EVENT_LOOP, (Evidence.BYTES if shown.is_unread else Evidence.LOOP)
    return Cause.UPSTREAM, (Evidence.CONNECTION if shown.is_unread is False else Evidence.NONE)


def _measure_hidden(lags: Iterable[Lag], quiet_until: int, until: int) -> int:
    """Return for how long (ns) a chunk that was handed out at `until`, or not yet, can have waited for a lag to end."""
    return max(
        (
            until - max(lag.start, quiet_until)
            for lag in lags
            if lag.start < until <= lag.end + max(HAND_OUT_NS, (lag.end - lag.start) // COLD_CACHE_FACTOR)
        ),
        default=0,
    )


def _judge_readings(silence: Silence, readings: Readings) -> _ConnectionEvidence:
    """Return what the connection, and the frames that were read from it, showed of a silence."""
    shown, frames = _judge_connection(silence, readings), readings.frames
    if frames is None:
        return shown
    until = silence.until
    return _ConnectionEvidence(
        max(shown.quiet_until, min(frames.quiet_until, until)),
        until if frames.came is None else min(frames.came, until),
        shown.is_unread if frames.came is None or silence.is_over else True,
    )


def _judge_connection(silence: Silence, readings: Readings) -> _ConnectionEvidence:
    """Return what the connection showed of a silence."""
    since, until = silence.since, silence.until
    before, now, is_shared = readings[:3]
    if now is None or (now.is_readable and is_shared):
        return _ConnectionEvidence(since, until, is_unread=None)
    is_unread = None if silence.is_over else now.is_readable
    if now.last_data is None:
        return _ConnectionEvidence(since, until, is_unread)
    if _is_quiet(now, since):
        # It was there from the start. Where the connection ends with the response, its end is no data.
        if is_unread or readings.has_chunk or (readings.is_complete and now.is_established):
            return _ConnectionEvidence(since, since, is_unread)
        return _ConnectionEvidence(min(now.moment, until), until, is_unread)
    quiet_until, unread_since = since, until
    if before is not None and before.moment > since and _is_quiet(before, since) and not before.is_readable:
        quiet_until = min(before.moment, until)
    if is_unread:
        unread_since = min(now.last_data, until)
    if before is not None and not is_shared:
        if not before.is_readable and _count_segments(before, now) == 1:  # it came when the last data did
            quiet_until = max(quiet_until, min(now.last_data - PROMPT_NS, until))
        elif is_unread and before.moment >= since and before.unread and _is_untouched(before, now):
            unread_since = before.moment
    return _ConnectionEvidence(quiet_until, unread_since, is_unread)


def _is_quiet(reading: Reading, since: int) -> bool:
    """Return whether no data came after a moment, as far as the clock of the kernel is exact."""
    return reading.last_data is not None and reading.last_data <= since + PROMPT_NS


def _count_segments(before: Reading, now: Reading) -> int | None:
    if before.segments is None or now.segments is None:
        return None
    return now.segments - before.segments


def _is_untouched(before: Reading, now: Reading) -> bool:
    """Return whether nothing was read between two readings."""
    if before.received is None or now.received is None:
        return False
    return now.received - now.unread == before.received - before.unread
