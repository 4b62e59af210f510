"""How late each chunk may have been recorded: by how much earlier it may have come, by all that kept its reader away.

A chunk is handed out when its reader has got to it. What may have kept the reader away are lags (the event loop, or the
process, did not run) and windows in which its thread waited for a CPU, or for the GIL, for longer than is ordinary. A
chunk may be late by all of a wait, and no more: before that, the thread slept, so nothing was there. Chunks that are
handed out without a wait right after a late one may have come with it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, Generic, NamedTuple, TypeVar

from otel_itl.core.arrivals import COLD_CACHE_FACTOR
from otel_itl.core.stalls import NEVER
from otel_itl.recording.evidence.lags import (
    CATCH_UP_NS,
    MAX_ITERATIONS,
    Lag,
    drop_contained,
    find_earliest_before,
)
from otel_itl.recording.evidence.windows import SATURATED, Window, end_of

T = TypeVar("T")

MIN_LATENESS_NS: Final = 1_000_000
"""Less than this is no lateness."""
MAX_UNSEEN_NS: Final = 25_000_000
"""A loop's own timer shows what keeps the loop from running for longer than this."""
MAX_CHAINED_WAITS: Final = 2
"""A wait for other threads that is found in one interval may have begun in the one before."""
MAX_DRAINING_WAIT_NS: Final = 2_000_000
"""A chunk that took less than this to be handed out, after a late one, may have come with it."""


class Delays(NamedTuple):
    """What kept the reader of a stream away, each in any order; moments and times are nanoseconds."""

    lags: Sequence[Lag] = ()
    """Intervals in which its event loop, or the process, did not run."""
    windows: Sequence[Window] = ()
    """Intervals in which its thread waited for a CPU."""
    waits: Sequence[Window] = ()
    """Intervals in which the reader waited for other threads of the process, or for other streams of its loop."""
    passages: Sequence[Window] = ()
    """Intervals with the longest that a chunk can have taken to pass through the loop, which never slept, in them."""
    is_on_loop: bool = False
    """The reader is an event loop, which reads other streams as well."""


def find_lateness(asked: array[int], arrived: array[int], requested: int, delays: Delays) -> array[int]:
    """Return by how much (ns) each chunk may have come before `arrived`; empty: by less than 1 ms each.

    Only the chunks that a delay can have touched are looked at, and those that were handed out right after them.

    Args:
        asked: when each chunk was asked for (ns).
        arrived: when each chunk arrived (ns).
        requested: the moment of the request (ns); no chunk came before it.
        delays: what kept the reader away.
    """
    if not arrived or not any(delays[:3]):
        return array("q")
    lateness = array("q", bytes(arrived.itemsize * len(arrived)))
    reaches = _Reaches(delays)
    done = drained = 0
    for first, after in _find_touched(arrived, delays):
        index = max(first, done)
        while index < len(arrived):
            came, earliest = arrived[index], arrived[index - 1] - lateness[index - 1] if index else requested
            is_draining = came <= drained and came - asked[index] < MAX_DRAINING_WAIT_NS
            if index >= after and not is_draining:
                break
            late = came - (earliest if is_draining else max(earliest, reaches.find_earliest_arrival(came)))
            if late >= MIN_LATENESS_NS:
                lateness[index] = late
                if not is_draining:  # what has gathered meanwhile is handed out sooner than it came
                    drained = came + late
            index += 1
        done = max(done, index)
    return lateness if any(lateness) else array("q")


def _find_touched(arrived: array[int], delays: Delays) -> Iterator[tuple[int, int]]:
    """Yield ranges of chunks that a delay can have touched, in order: first index, and the one after the last."""
    spans = [(lag.start, _find_end_of_catching_up(lag)) for lag in delays.lags]
    spans += [(window.start, window.end + CATCH_UP_NS) for window in (*delays.windows, *delays.waits)]
    if len(spans) > len(arrived):
        yield 0, len(arrived)
        return
    for start, end in sorted(spans):
        yield bisect_left(arrived, start), bisect_right(arrived, end)


def _find_end_of_catching_up(lag: Lag) -> int:
    return lag.end + max(lag.catch_up, (lag.end - lag.start) // COLD_CACHE_FACTOR)


class _Reaches:
    """How far before its arrival a chunk may have come, by delays in order of time.

    What leads up to a lag, or to a window in which the thread never slept, is followed back once and not for each
    chunk: a caller that is busy all the time has thousands of both.
    """

    def __init__(self, delays: Delays) -> None:
        self._lags = _Spans([(lag.start, _find_end_of_catching_up(lag), lag) for lag in drop_contained(delays.lags)])
        self._since: dict[int, int] = {}
        """The earliest moment at which a chunk can have come that was handed out right after a lag, by its index."""
        self._waits = _Spans([(wait.start, wait.end + CATCH_UP_NS, wait) for wait in delays.waits])
        self._passages = _Spans([(one.start, one.end, one) for one in delays.passages])
        self._lagged = [0, *accumulate(lag.end - lag.earliest for lag in self._lags.delays)]
        """For how long the loop did not run, in the lags up to each (ns)."""
        # Where a thread of its own is busy and does not wait, its caller is busy.
        windows = (window for window in delays.windows if window.excess or delays.is_on_loop)
        self._windows = sorted(windows, key=end_of)
        self._ends = [window.end for window in self._windows]
        self._is_on_loop = delays.is_on_loop
        # What a loop waited for longer is a lag of it.
        self._max_excess = MAX_UNSEEN_NS if delays.is_on_loop else NEVER
        self._awake_since: list[int] = []
        """Since when the thread may not have slept, at the start of each window (ns)."""
        for index, window in enumerate(self._windows):
            self._awake_since.append(self._follow(index - 1, window.start)[0])

    def find_earliest_arrival(self, arrived: int) -> int:
        """Return the earliest moment (ns) at which a chunk may have come that was handed out at `arrived` (ns).

        Where a thread waited for a CPU, it or another one may have waited right before, or after, a lag.
        """
        lagged, waited = self._find_by_lags(arrived), self._find_by_thread(arrived)
        if self._is_on_loop:
            return min(lagged, waited)
        return min(self._find_by_thread(lagged), self._find_by_lags(waited))

    def _find_by_thread(self, moment: int) -> int:
        return min(self._find_by_windows(moment), self._find_by_waits(moment))

    def _find_by_waits(self, arrived: int) -> int:
        """Return the start of what a chunk may have waited for, up to its arrival.

        Where that fills its interval from the start on, the chunk may have waited in the interval before as well.
        """
        reach = arrived
        for _ in range(MAX_CHAINED_WAITS):
            moment, is_filled = reach, False
            for index in self._waits.find_around(moment):
                wait = self._waits.delays[index]
                reach = min(reach, moment - wait.excess)
                is_filled = is_filled or moment - wait.excess <= wait.start
            if not is_filled:
                break
        return reach

    def _find_by_lags(self, arrived: int) -> int:
        """Return the start of the lag in which the chunk came, and of those before which it followed at once.

        When it was asked for does not matter: a loop hands out what it has no sooner than in its next iteration.
        """
        reach = arrived
        for index in self._lags.find_around(arrived):
            if index not in self._since:
                self._since[index] = find_earliest_before(self._lags.delays, index)
            reach = min(reach, self._since[index])
        return reach

    def _find_by_windows(self, arrived: int) -> int:
        """Return the start of the waits of the thread up to the arrival.

        A loop that never sleeps gets to each of its streams all the same, as fast as its iterations show.
        """
        last = min(bisect_left(self._ends, arrived), len(self._windows) - 1)
        reach, is_awake = self._follow(last, arrived)
        if is_awake and self._is_on_loop:
            return max(reach, arrived - self._find_longest_passage(arrived))
        return reach

    def _follow(self, last: int, moment: int) -> tuple[int, bool]:
        """Return since when a thread that ran at a moment (ns) may have had what it read then, and if it never slept.

        A thread may have had it as long as it has not slept: the windows are followed back until then.

        Args:
            last: index of the last window that is looked at.
            moment: the moment.
        """
        reach, awake_since = moment, NEVER
        for index in range(last, -1, -1):
            window = self._windows[index]
            if window.start >= moment:
                continue
            if window.end + CATCH_UP_NS < reach:
                break
            reach -= min(window.excess, self._max_excess)
            if window.busy >= SATURATED:
                awake_since = min(awake_since, self._awake_since[index])
            elif reach > window.start:
                break
        return min(reach, awake_since), awake_since < NEVER

    def _find_longest_passage(self, arrived: int) -> int:
        """Return how long a chunk may take (ns) to pass through a loop that never sleeps: its last lags, and others."""
        least = self._find_longest_hops(arrived, arrived)
        least = self._find_longest_hops(arrived - least, arrived)
        last = self._lags.count_before(arrived)
        return least + self._lagged[last] - self._lagged[max(last - MAX_ITERATIONS, 0)]

    def _find_longest_hops(self, start: int, end: int) -> int:
        """Return how long a chunk may have taken (ns) in an interval, besides lags, to pass through the loop."""
        passages = (self._passages.delays[index].excess for index in self._passages.find_between(start, end))
        return max(passages, default=2 * MAX_UNSEEN_NS)


class _Spans(Generic[T]):
    """Delays by the interval in which they touch a chunk: (start, end, delay)."""

    def __init__(self, spans: list[tuple[int, int, T]]) -> None:
        self._spans = sorted(spans, key=_start_of)
        self._starts = [start for start, _, _ in self._spans]
        self._ends = list(accumulate((end for _, end, _ in self._spans), max))
        self.delays = [delay for _, _, delay in self._spans]

    def find_between(self, start: int, end: int) -> range:
        """Return the indexes of the delays whose interval may overlap one."""
        return range(bisect_left(self._ends, start), bisect_right(self._starts, end))

    def count_before(self, moment: int) -> int:
        """Return how many delays begin no later than a moment: the first ones."""
        return bisect_right(self._starts, moment)

    def find_around(self, moment: int) -> Iterator[int]:
        """Yield the indexes of the delays whose interval begins before a moment and ends no earlier."""
        for index in range(bisect_left(self._ends, moment), len(self._spans)):
            start, end, _ = self._spans[index]
            if start >= moment:
                break
            if moment <= end:
                yield index


def _start_of(span: tuple[int, int, object]) -> int:
    return span[0]
