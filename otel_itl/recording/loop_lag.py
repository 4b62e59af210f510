"""The lag of event loops: the intervals in which a loop was blocked, so that its streams saw their chunks late.

While streams are open on a loop, a timer runs on it. Where the timer fires late, the loop was blocked in between: a
stream that waited meanwhile was kept waiting by its own process, not by the upstream.
"""

from __future__ import annotations

import asyncio
import threading
from array import array
from bisect import bisect_right
from collections import deque
from time import perf_counter_ns
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

from otel_itl.conventions import Where
from otel_itl.core.arrivals import COLD_CACHE_FACTOR
from otel_itl.recording.internal_errors import InternalErrors, never_raises

TIMER_SECONDS: Final = 0.02
TOLERANCE_NS: Final = 5_000_000
"""The timer may be this late without the loop counting as blocked: timers are coarse."""
MAX_LAGS: Final = 512
"""Intervals that are kept for each loop; the oldest are dropped."""


class Lag(NamedTuple):
    """An interval in which a loop, or the whole process, did not run: nanoseconds on the monotonic clock."""

    start: int
    end: int


class LoopLag:
    """The timer on one event loop, kept up while streams are open on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, errors: InternalErrors) -> None:
        self.errors = errors
        # Weakly: the loop holds what its timer calls, and would otherwise never be freed.
        self._loop = ref(loop)
        self._lock = threading.Lock()
        self._streams: WeakSet[object] = WeakSet()
        """A stream that is dropped without having been removed keeps the timer up no longer."""
        self._is_running = False
        self._due = 0
        self._lags: deque[Lag] = deque(maxlen=MAX_LAGS)

    def add_stream(self, stream: object) -> None:
        """Count a stream among those of the loop, and start the timer with the first. Called from the loop."""
        self._streams.add(stream)
        with self._lock:
            starts, self._is_running = not self._is_running, True
        if starts:
            self._schedule()

    def remove_stream(self, stream: object) -> None:
        """Stop counting a stream. Called from any thread, any number of times."""
        self._streams.discard(stream)

    def since(self, moment: int) -> list[Lag]:
        """Return the intervals that end well after `moment` (ns)."""
        return [lag for lag in tuple(self._lags) if lag.end > moment + TOLERANCE_NS]

    def since_including_current(self, moment: int, now: int) -> list[Lag]:
        """Return the intervals that end well after `moment` (ns), and the one that lasts at `now`."""
        lags = self.since(moment)
        if self._is_running and now - self._due > TOLERANCE_NS:
            lags.append(Lag(self._due, now))
        return lags

    def _schedule(self) -> None:
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            self._due = perf_counter_ns() + round(TIMER_SECONDS * 1e9)
            loop.call_later(TIMER_SECONDS, self._fire)

    @never_raises(Where.EVENT_LOOP_WATCH, None)
    def _fire(self) -> None:
        """Note how late the event loop called this timer, and start the next one while streams are followed."""
        now = perf_counter_ns()
        if now - self._due > TOLERANCE_NS:
            self._lags.append(Lag(self._due, now))
        with self._lock:
            self._is_running = len(self._streams) > 0
        if self._is_running:
            self._schedule()


class LoopLags:
    """The lag of each asyncio loop of the process, for as long as the loop lives."""

    def __init__(self, errors: InternalErrors) -> None:
        self.errors = errors
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopLag] = WeakKeyDictionary()

    @never_raises(Where.EVENT_LOOP_WATCH, None)
    def of_running_loop(self) -> LoopLag | None:
        """Return the lag of the asyncio loop that runs in this thread; None where none does."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        found = self._by_loop.get(loop)
        if found is None:
            found = self._by_loop[loop] = LoopLag(loop, self.errors)
        return found


def find_headers_moment(headers: int, lags: list[Lag]) -> int:
    """Return the moment (ns) from which the response headers may have been there.

    Where they were seen right after a block, that is the start of the block: from then on the loop kept the stream
    waiting. The longer a block, the more the loop has to catch up with.
    """
    for start, end in lags:
        if start < headers <= end + max(TOLERANCE_NS, (end - start) // COLD_CACHE_FACTOR):
            return start
    return headers


def charge_to_consumer(asked: array[int], arrived: array[int], lags: list[Lag]) -> array[int]:
    """Return the moments at which chunks were asked for, with each lag counted as the consumer's hold.

    A chunk that was asked for before the loop was blocked, and came while it was, could be received from the end of the
    block on; and a loop that was blocked has work to catch up with before it gets to the stream.

    Args:
        asked: when each chunk was asked for (ns).
        arrived: when each chunk arrived (ns).
        lags: the intervals in which the loop, or the process, did not run.
    """
    ready = array("q", asked)
    for lag in lags:
        caught_up = lag.end + TOLERANCE_NS
        index = bisect_right(arrived, lag.start)
        while index < len(arrived) and ready[index] < lag.end:
            ready[index] = min(caught_up, arrived[index])
            index += 1
    return ready
