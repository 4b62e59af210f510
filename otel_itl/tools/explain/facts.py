"""Lays the observations of one model out in columns, with what follows from the other streams: own load, idle time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import compress

import numpy as np

from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.observations import Observation

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Integers = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

SHORT_DAYS = 8
"""With fewer days than this, the blocks of time are shorter than a day."""
TIME_BLOCKS = 24
"""Blocks of time of such an input, each with as many streams."""
MIN_SPREAD = 1e-9
"""A load that spreads by no more open streams than this does not vary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The streams of one model in order of time, and an entry for each of what follows from all. Times are seconds."""

    streams: Sequence[Observation]
    session: Integers
    day: Integers
    """Number of the calendar day."""
    weekday: Integers
    hour: Integers
    block: Integers
    """Number of the block of time, whose streams may be alike: a day, or less where there are few days."""
    idle_before: Floats
    """Silence of all own streams to the model before the request; 0 before the first."""
    load_at_start: Floats
    """Own open streams to the model at the request, this one included."""
    load_mean: Floats
    """Own open streams while the answer is written, on average, if all streams had the usual pace."""
    load_seen: Floats
    """Likewise as it was."""
    many_valued: frozenset[str] = frozenset()
    """Attributes with too many values to be kept."""

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def model(self) -> str:
        """`PROVIDER / MODEL`."""
        return self.streams[0].model

    def column(self, name: str) -> Floats:
        """Return a field of all streams, given its name; NaN: not known."""
        found = (getattr(one, name) for one in self.streams)
        return np.array([np.nan if one is None else one for one in found], dtype=np.float64)

    def select(self, rows: Bools) -> Facts:
        """Return the facts of some of the streams."""
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, streams=list(compress(self.streams, rows)), **arrays)


_ARRAYS = tuple(name for name in Facts.__dataclass_fields__ if name not in {"streams", "many_valued"})


def lay_out(used: Sequence[Observation], zone: tzinfo, many_valued: Collection[str] = ()) -> Facts:
    """Lay the streams of one model out in columns.

    Args:
        used: streams of the model, at least one.
        zone: the time zone of days, weekdays and hours.
        many_valued: attributes with too many values to be kept.
    """
    rows = sorted(used, key=lambda one: one.start_ns)
    moments = [datetime.fromtimestamp(one.start_ns / SECOND, zone) for one in rows]
    days = np.array([moment.toordinal() for moment in moments], dtype=np.intp)
    at_start, mean, seen, idle = _own_streams(rows)
    return Facts(
        streams=rows,
        session=np.unique([one.session for one in rows], return_inverse=True)[1].astype(np.intp),
        day=days,
        weekday=np.array([moment.weekday() for moment in moments], dtype=np.intp),
        hour=np.array([moment.hour for moment in moments], dtype=np.intp),
        block=_blocks(days),
        idle_before=idle,
        load_at_start=at_start,
        load_mean=mean,
        load_seen=seen,
        many_valued=frozenset(many_valued),
    )


def mean_by(groups: np.ndarray, values: Floats) -> Floats:
    """Return the mean of the values of each group; the groups are numbers or names, in ascending order."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(numbers, values) / np.bincount(numbers))


def _blocks(days: Integers) -> Integers:
    """Return the number of the block of time of each stream; the streams are in order of time."""
    names, numbers = np.unique(days, return_inverse=True)
    if len(names) >= SHORT_DAYS:
        return numbers.astype(np.intp)
    return np.arange(len(days), dtype=np.intp) * min(TIME_BLOCKS, len(days)) // len(days)


def _own_streams(rows: Sequence[Observation]) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute the own load at the start, on average and as it was on average, and the silence before, of each row.

    A slow upstream keeps streams open for longer, so that many are open *because* it is slow. The load is therefore
    that of streams with the usual pace: each is open for as long as an answer of its length usually takes. It is then
    scaled to the streams that were open (the first stage of an instrumental variable).
    """
    starts = np.array([(one.start_ns - rows[0].start_ns) / SECOND for one in rows], dtype=np.float64)
    ends = starts + np.array([one.duration for one in rows], dtype=np.float64)
    tokens = np.array([one.tokens for one in rows], dtype=np.float64)
    first = float(np.median([one.ttft for one in rows if one.ttft is not None] or [0.0]))
    pace = float(np.median(np.maximum(ends - starts - first, 0.0) / np.maximum(tokens, 1.0)))
    usual_ends = starts + first + tokens * pace
    at_start = _scale(_count_open(starts, usual_ends, starts), _count_open(starts, ends, starts))
    seen = _mean_open(starts, ends, starts, usual_ends)
    mean = _scale(_mean_open(starts, usual_ends, starts, usual_ends), seen)
    last_end = np.maximum.accumulate(ends)
    before = np.searchsorted(starts, starts, side="left")
    idle = np.where(before > 0, starts - last_end[np.maximum(before - 1, 0)], 0.0)
    return at_start, mean, seen, np.maximum(idle, 0.0)


def _count_open(starts: Floats, ends: Floats, at: Floats) -> Floats:
    """Count the streams that are open at these moments, those that start at them included."""
    begun = np.searchsorted(starts, at, side="right")
    return np.asarray(np.maximum(begun - np.searchsorted(np.sort(ends), at, side="right"), 1), dtype=np.float64)


def _mean_open(starts: Floats, ends: Floats, first: Floats, last: Floats) -> Floats:
    """Average the number of open streams over intervals."""
    ended = np.sort(ends)
    began, closed = (np.concatenate([[0.0], np.cumsum(moments)]) for moments in (starts, ended))

    def stream_seconds(until: Floats) -> Floats:
        opened, done = np.searchsorted(starts, until), np.searchsorted(ended, until)
        return np.asarray(opened * until - began[opened] - (done * until - closed[done]))

    length = np.maximum(last - first, 1e-9)
    return np.asarray(np.maximum((stream_seconds(last) - stream_seconds(first)) / length, 1.0))


def _scale(expected: Floats, actual: Floats) -> Floats:
    """Return the straight line through `actual` over `expected`; `expected` itself where it does not vary."""
    if np.ptp(expected) <= MIN_SPREAD:
        return expected
    slope, offset = np.polyfit(expected, actual, 1)
    return np.asarray(offset + slope * expected) if slope > 0 else expected
