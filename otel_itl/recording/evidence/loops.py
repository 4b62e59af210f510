"""The lag of event loops: the intervals in which a loop was blocked, so that its streams saw their chunks late.

While streams are open on a loop, a timer runs on it. Where the timer fires late, the loop was blocked in between: a
stream that waited meanwhile was kept waiting by its own process, not by the upstream.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sized
from contextvars import Context
from heapq import nlargest
from time import perf_counter_ns
from typing import Final
from weakref import WeakKeyDictionary, ref

from otel_itl.core.arrivals import COLD_CACHE_FACTOR
from otel_itl.core.conventions import Where
from otel_itl.recording.evidence.lags import CATCH_UP_NS, Lag
from otel_itl.recording.evidence.windows import Window, find_after
from otel_itl.recording.internal_errors import InternalErrors, never_raises

TIMER_SECONDS: Final = 0.02
SILENT_TIMERS: Final = ((10_000_000_000, 0.4), (3_000_000_000, 0.2))
"""Since when no stream of the loop got a chunk (ns), and the timer's interval then (s): a wake-up costs 0.1 ms."""
CLOSE_TIMER_SECONDS: Final = 0.005
"""The timer's interval after a block: where there are short ones, no other one falls between two firings."""
CLOSE_FOR_NS: Final = 1_000_000_000
"""For so long after a block the next one is watched for."""
TOLERANCE_NS: Final = 3_000_000
"""The timer may be this late without the loop counting as blocked: timers are coarse."""
BEATS_PER_WAIT: Final = 16
"""Firings of the timer, the latest of which shows what a chunk may have waited for meanwhile."""
MIN_BEAT_LATENESS_NS: Final = 2_000_000
"""A timer that is this late at most shows a loop that runs: it sleeps for whole milliseconds, and decodes chunks."""
FEW_STREAMS: Final = 4
"""So few streams on a loop queue up behind no others: a chunk waits for the block that it came in, and short ones."""
MAX_SHORT_BLOCK_NS: Final = 8_000_000
"""After a block the timer sees every one that is longer than this as a lag: than its interval and its tolerance."""
MAX_CHUNK_NS: Final = 1_000_000
"""Handing out a chunk of one stream keeps the others of the loop waiting for no longer than this."""
MAX_CATCH_UP_NS: Final = round(CLOSE_TIMER_SECONDS * 1e9) + 2 * TOLERANCE_NS
"""Where a loop needs longer to hand out what came in a block, its timer is late again, and that is a lag of its own."""
HOPS_PER_CHUNK: Final = 3
"""The iterations that a loop needs for a chunk: to read its bytes, to resume what awaits them, to let others run."""
MIN_BLOCK_NS: Final = 1_000_000
"""What this project itself computes on a loop is noted from this time on."""
MAX_LAGS: Final = 2_048
"""Intervals that are kept for each loop; the oldest are dropped."""


class LoopLag:
    """The timer on one event loop, kept up while streams are open on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, errors: InternalErrors) -> None:
        self.errors = errors
        # Weakly: the loop holds what its timer calls, and would otherwise never be freed.
        self._loop = ref(loop)
        self._growing: dict[int, Sized] = {}
        """What grows with each chunk of a stream of the loop, by a number for the stream."""
        self._idle: list[None] = [None]
        """Has an entry while no timer is running. Who takes the entry out starts it: `list.pop` is atomic."""
        self._context = Context()
        """What the timer runs in. A copy of the caller's would keep its request alive."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_slow = False
        self._close_until = 0
        """Until then the timer has its shortest interval (ns)."""
        self._chunks = 0
        self._last_chunk = 0
        """When a firing of the timer last found new chunks (ns)."""
        self._started = self._due = 0
        """When the timer was started, so that the loop ran, and when it is due (ns)."""
        self._lags: deque[Lag] = deque(maxlen=MAX_LAGS)
        self._waits: deque[Window] = deque(maxlen=MAX_LAGS)
        self._passages: deque[Window] = deque(maxlen=MAX_LAGS)
        self._beats: list[int] = []
        """How late (ns) the timer was, since the last of the waits was looked for."""
        self._beats_since = 0
        self._own: deque[Lag] = deque(maxlen=MAX_LAGS)
        """Those that `add_block` noted."""

    def add_stream(self, stream: int, growing: Sized) -> None:
        """Count a stream among those of the loop, and start the timer with the first. Called from the loop.

        Args:
            stream: a number for the stream, which `remove_stream` takes.
            growing: grows with each chunk of the stream.
        """
        self._growing[stream] = growing
        self._last_chunk = perf_counter_ns()
        try:
            self._idle.pop()
            self._beats = []
        except IndexError:
            if not self._is_slow:
                return
            if self._timer is not None:
                self._timer.cancel()
        self._schedule()

    def remove_stream(self, stream: int) -> None:
        """Stop counting a stream. Called from any thread, any number of times, also by the garbage collector."""
        self._growing.pop(stream, None)

    def add_block(self, start: int, end: int) -> None:
        """Note that the loop was blocked by this project itself (ns), which its timer may not have seen."""
        last = self._own[-1] if self._own else None
        if last is not None and start - last.end < MIN_BLOCK_NS:  # one block, of several streams
            self._own[-1] = Lag(last.start, end)
        elif last is not None and last.end - last.start < MIN_BLOCK_NS:  # it was no block
            self._own[-1] = Lag(start, end)
        else:
            self._own.append(Lag(start, end))

    def find_waits(self, moment: int) -> list[Window]:
        """Return the intervals that end after `moment` (ns), with what a chunk may have waited for the loop in them.

        The timer shows a sample of it: of most blocks that are shorter than its interval it sees nothing.
        """
        waits = find_after(self._waits, moment)
        late = self._find_short_block()
        if late >= MIN_BEAT_LATENESS_NS:
            waits.append(self._make_window(late, perf_counter_ns()))
        return waits

    def find_passages(self, moment: int) -> list[Window]:
        """Return the intervals that end after `moment` (ns), with the longest that a chunk can have taken to pass."""
        passages = find_after(self._passages, moment)
        if self._beats:
            passages.append(self._make_window(max(self._beats), perf_counter_ns()))
        return passages

    def _note_beat(self, late: int, now: int) -> None:
        """Note how late the timer fired (ns)."""
        if not self._beats:
            self._beats_since = self._started
        self._beats.append(late)
        if len(self._beats) < BEATS_PER_WAIT:
            return
        self._passages.append(self._make_window(max(self._beats), now))
        latest = self._find_short_block()
        if latest >= MIN_BEAT_LATENESS_NS:
            self._waits.append(self._make_window(latest, now))
        self._beats = []

    def _make_window(self, late: int, now: int) -> Window:
        """Return the time of these firings, up to `now` (ns), in which each iteration may have been so late (ns)."""
        return Window(self._beats_since, now, HOPS_PER_CHUNK * late, busy=0.0)

    def _find_short_block(self) -> int:
        """Return for how long (ns) the loop was blocked again and again, as the timer shows by its last firings."""
        late = _find_second_latest(self._beats)
        return min(late, MAX_SHORT_BLOCK_NS) if len(self._growing) <= FEW_STREAMS else late

    def since(self, moment: int) -> list[Lag]:
        """Return the intervals that end well after `moment` (ns)."""
        return find_after(self._lags, moment + TOLERANCE_NS)

    def find_own_blocks(self, moment: int) -> list[Lag]:
        """Return the blocks by this project itself that end after `moment` (ns)."""
        return [block for block in find_after(self._own, moment) if block.end - block.start >= MIN_BLOCK_NS]

    def since_including_current(self, moment: int, now: int) -> list[Lag]:
        """Return the intervals that end well after `moment` (ns), and the one that lasts at `now`."""
        lags = self.since(moment)
        if not self._idle and now - self._due > TOLERANCE_NS:
            lags.append(Lag(self._due, now, self._started, self._find_catch_up()))
        return lags

    def _find_catch_up(self) -> int:
        """Return how long after a block (ns) a chunk of one of the streams may be handed out that came in it."""
        return min(max(CATCH_UP_NS, len(self._growing) * MAX_CHUNK_NS), MAX_CATCH_UP_NS)

    def _schedule(self) -> None:
        """Start the timer, with a longer interval while its streams are silent for long, unless the loop is gone."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            self._started = perf_counter_ns()
            silent = self._started - self._last_chunk
            seconds = next((seconds for after, seconds in SILENT_TIMERS if silent > after), TIMER_SECONDS)
            self._is_slow = seconds > TIMER_SECONDS
            if not self._is_slow and self._started < self._close_until:
                seconds = CLOSE_TIMER_SECONDS
            self._due = self._started + round(seconds * 1e9)
            self._timer = loop.call_later(seconds, self._fire, context=self._context)

    @never_raises(Where.EVENT_LOOP_WATCH, None)
    def _fire(self) -> None:
        """Note how late the event loop called this timer, and start the next one while streams are followed."""
        now = perf_counter_ns()
        self._note_beat(now - self._due, now)
        if now - self._due > TOLERANCE_NS:
            self._lags.append(Lag(self._due, now, self._started, self._find_catch_up()))
            self._close_until = now + CLOSE_FOR_NS
        if not self._growing:
            self._timer = None
            self._idle.append(None)
            return  # streams are added in this thread: none comes in between
        chunks = sum(map(len, list(self._growing.values())))
        if chunks != self._chunks:
            self._chunks, self._last_chunk = chunks, now
        self._schedule()


def _find_second_latest(beats: Iterable[int]) -> int:
    """Return how late (ns) the timer was the second worst time: a single late firing is one block, which is a lag."""
    return next(iter(nlargest(2, list(beats))[1:]), 0)


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
    blocks = (
        start
        for start, end, *_ in lags
        if start < headers <= end + max(TOLERANCE_NS, (end - start) // COLD_CACHE_FACTOR)
    )
    return min(blocks, default=headers)
