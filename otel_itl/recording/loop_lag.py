"""The lag of an event loop: when it was kept from running, whatever waits on it hears late of what has come.

An asyncio stream that waits while its loop is blocked did not wait for the upstream. While streams are open on a loop,
a timer beats on it; a beat that comes late tells when the loop was blocked.
"""

from __future__ import annotations

import asyncio
import threading
from array import array
from bisect import bisect_right
from collections import deque
from time import perf_counter_ns
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

from otel_itl.core.arrivals import COLD_CACHE_FACTOR
from otel_itl.recording.internal_errors import never_raises

BEAT_SECONDS = 0.02
TOLERANCE_NS = 5_000_000
"""A beat may be this late without the loop counting as blocked: timers are coarse."""
LAGS_KEPT = 512


class Lag(NamedTuple):
    """An interval in which a loop did not run, on the monotonic clock in nanoseconds."""

    start: int
    end: int


class LoopLag:
    """The beat on one event loop, kept up while streams are open on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop itself holds what beats on it: held in turn, it would never go away.
        self._loop = ref(loop)
        self._lock = threading.Lock()
        self._streams = 0
        self._beating = False
        self._due = 0
        self.lags: deque[Lag] = deque(maxlen=LAGS_KEPT)

    def join(self) -> None:
        """A stream opens on the loop; called from the loop."""
        with self._lock:
            self._streams += 1
            start, self._beating = not self._beating, True
        if start:
            self._schedule()

    def leave(self) -> None:
        """A stream ended; called from anywhere."""
        with self._lock:
            self._streams -= 1

    def since(self, moment: int) -> list[Lag]:
        """The intervals in which the loop was blocked that reach well beyond `moment`."""
        return [lag for lag in tuple(self.lags) if lag.end > moment + TOLERANCE_NS]

    def until(self, now: int, since: int) -> list[Lag]:
        """As `since`, with the block that is going on as of `now`."""
        lags = self.since(since)
        if self._beating and now - self._due > TOLERANCE_NS:
            lags.append(Lag(self._due, now))
        return lags

    def _schedule(self) -> None:
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            self._due = perf_counter_ns() + round(BEAT_SECONDS * 1e9)
            loop.call_later(BEAT_SECONDS, self._beat)

    @never_raises("watching an event loop", None)
    def _beat(self) -> None:
        now = perf_counter_ns()
        if now - self._due > TOLERANCE_NS:
            self.lags.append(Lag(self._due, now))
        with self._lock:
            self._beating = self._streams > 0
        if self._beating:
            self._schedule()


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopLag] = WeakKeyDictionary()


def lag_of_running_loop() -> LoopLag | None:
    """The lag of the asyncio loop that runs here; None where none does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    found = _loops.get(loop)
    if found is None:
        found = _loops[loop] = LoopLag(loop)
    return found


def running_loop_is_closing() -> bool:
    """Whether the asyncio loop that runs here is closing what its program left open."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return bool(getattr(loop, "_asyncgens_shutdown_called", False))


def opened(headers: int, lags: list[Lag]) -> int:
    """The moment from which the response headers may have been there.

    Where they were seen right after a block, that is its start: from then on the loop kept the stream waiting. The
    longer the block, the more a loop has to catch up with.
    """
    for start, end in lags:
        if start < headers <= end + max(TOLERANCE_NS, (end - start) // COLD_CACHE_FACTOR):
            return start
    return headers


def charged(asked: array[int], arrived: array[int], lags: list[Lag]) -> array[int]:
    """The moments at which chunks were asked for, with a blocked loop counted as the consumer's hold.

    A chunk that was asked for before the loop was blocked, and came while it was, could be received from the end of the
    block on; and a loop that was blocked has work to catch up with before it gets to the stream.
    """
    ready = array("q", asked)
    for lag in lags:
        caught_up = lag.end + TOLERANCE_NS
        index = bisect_right(arrived, lag.start)
        while index < len(arrived) and ready[index] < lag.end:
            ready[index] = min(caught_up, arrived[index])
            index += 1
    return ready
