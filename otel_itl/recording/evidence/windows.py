"""The windows of a thread that reads streams: intervals in which it was busy, or waited for a CPU longer than usual."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import Final, NamedTuple, Protocol, TypeVar

from otel_itl.recording.evidence.turns import ReadTurns, Turns

MAX_ORDINARY_NS: Final = 100_000
"""What a thread of an SDK may wait at each of its turns: it is woken for each chunk of all streams."""
FIRST_ORDINARY_NS: Final = 20_000
"""What a turn is taken to wait before any were seen."""
MIN_EXCESS_NS: Final = 1_000_000
"""A window with less than this above twice the ordinary is quiet."""
SATURATED: Final = 0.9
"""A thread that was on a CPU or ready for this share of a window may not have slept in it."""
SAMPLED_WINDOWS: Final = 64
"""Windows that what is ordinary is learnt from."""
ACTIVE_TURNS: Final = 5
"""A thread that runs so often in one window is active."""
ACTIVE_GAP_NS: Final = 80_000_000
"""Likewise one that runs again so soon."""
MAX_WINDOWS: Final = 1_024
"""Windows that are kept of each thread, of those that are not quiet; the oldest are dropped."""


class Window(NamedTuple):
    """An interval in which a thread was busy, or waited. Moments and times are nanoseconds.

    It waited for a CPU, or, by other evidence, for the GIL or for its event loop.
    """

    start: int
    end: int
    excess: int
    """How long it waited, where that is longer than ordinary, any part of which may have been one turn's; else 0."""
    busy: float
    """The share of the window in which it was on a CPU, or ready."""


W = TypeVar("W", bound="Ends")


class Ends(Protocol):
    """An interval."""

    @property
    def end(self) -> int:
        """When it ended (ns)."""
        ...


def find_after(intervals: Iterable[W], moment: int) -> list[W]:
    """Return the intervals, which are in order of their ends, that end after a moment (ns)."""
    # Another thread may add one. No tuple: while that is made, the garbage collector may run, and what it ends add one.
    known = list(intervals)
    return known[bisect_right(known, moment, key=end_of) :]


def end_of(interval: Ends) -> int:
    """Return when an interval ended (ns)."""
    return interval.end


class Look(NamedTuple):
    """A reading of a thread."""

    moment: int
    """When it was taken (ns)."""
    total: Turns
    """Since the thread began."""
    turns: Turns
    """Since the last window ended."""
    window: Window | None
    """The window that ends now; None: a quiet one."""


class OrdinaryDelay:
    """What a thread waits at each turn while nothing keeps it from running: the median of what was seen."""

    def __init__(self) -> None:
        self.ns = FIRST_ORDINARY_NS
        self._seen: deque[int] = deque(maxlen=SAMPLED_WINDOWS)
        self._left = 0

    def learn(self, turns: Turns) -> None:
        """Learn from the turns of one window, unless they were delayed for long."""
        if not turns.number or turns.delay > turns.number * MAX_ORDINARY_NS:
            return
        self._seen.append(turns.delay // turns.number)
        self._left -= 1
        if self._left < 0:  # a median costs as much as a reading
            self._left = len(self._seen) // 4
            self.ns = int(median(self._seen))

    def find_excess(self, turns: Turns) -> int:
        """Return for how long (ns) the turns of one window waited where that is more than ordinary; else 0."""
        return turns.delay if turns.delay > 2 * turns.number * self.ns + MIN_EXCESS_NS else 0


class ReaderThread:
    """The windows of one thread. The watchdog adds them, any thread looks at them.

    Args:
        read_turns: reads the thread's turns.
        ordinary: what a turn ordinarily waits.
        clock: a monotonic clock in nanoseconds.
    """

    __slots__ = ("__weakref__", "_clock", "_last", "_ordinary", "_ran_at", "_read_turns", "_windows", "is_active")

    def __init__(self, read_turns: ReadTurns, ordinary: OrdinaryDelay, clock: Callable[[], int]) -> None:
        self._read_turns = read_turns
        self._ordinary = ordinary
        self._clock = clock
        self._windows: deque[Window] = deque(maxlen=MAX_WINDOWS)
        self._last = (clock(), read_turns())
        self._ran_at = 0
        self.is_active = True
        """It ran again and again until the last window ended: chunks come. The timer of a loop whose streams are silent
        fires less often."""

    @property
    def delay(self) -> int:
        """For how long the thread has waited for a CPU until the last window ended (ns)."""
        return self._last[1].delay

    def end_window(self) -> Look:
        """End the present window and begin the next; returns what it showed. Called by the watchdog."""
        look = self.look()
        self._ordinary.learn(look.turns)
        if look.window is not None:
            self._windows.append(look.window)
        often, soon = look.turns.number >= ACTIVE_TURNS, look.moment - self._ran_at < ACTIVE_GAP_NS
        self.is_active = often or (look.turns.number > 0 and soon)
        if look.turns.number:
            self._ran_at = look.moment
        self._last = look.moment, look.total
        return look

    def since(self, moment: int, last: Look | None = None) -> list[Window]:
        """Return the windows that were noted and end after a moment, the present one included, in order.

        Args:
            moment: nanoseconds.
            last: the last look that is of interest, which saves another one.
        """
        windows = find_after(self._windows, moment)
        if last is None:
            try:
                last = self.look()
            except (OSError, ValueError):  # the thread has ended
                return windows
        if last.window is not None and not (windows and windows[-1].end >= last.window.end):
            windows.append(last.window)
        return windows

    def look(self) -> Look:
        """Read the thread's turns, and find the window that ends now."""
        start, before = self._last
        moment, total = self._clock(), self._read_turns()
        end = self._clock()
        turns = total.since(before)
        excess = self._ordinary.find_excess(turns)
        # A wait is counted when it is over: it may have begun before the window.
        busy = turns.delay + turns.on_cpu
        start = min(start, end - busy)
        window = Window(start, end, excess, busy / max(end - start, 1))
        return Look(moment, total, turns, window if excess or window.busy >= SATURATED else None)
