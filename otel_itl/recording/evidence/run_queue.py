"""How long the threads that read streams were ready to run and got no CPU, in windows of the time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from threading import get_native_id
from time import perf_counter_ns
from typing import Final, NamedTuple
from weakref import WeakSet, WeakValueDictionary

from otel_itl.core.conventions import Where
from otel_itl.recording.evidence.turns import (
    THREADS,
    ThrottledTime,
    Turns,
    count_displacements,
    find_delay_source,
    make_turns_reader,
    read_own_turns,
    read_schedstat,
    read_turns_of,
)
from otel_itl.recording.evidence.windows import MAX_WINDOWS, OrdinaryDelay, ReaderThread, Window, find_after
from otel_itl.recording.internal_errors import InternalErrors, never_raises

ACTIVE_NS: Final = 400_000_000
"""For so long after a thread was active it is taken to read a stream still."""
MAX_THREADS_PER_NAP: Final = 16
"""Threads that are read when the watchdog wakes up; where more read streams, the windows are longer."""
MIN_HOLDING_NS: Final = 1_000_000
"""A thread that was on a CPU for less than this between two naps did not compute."""
OF_PROCESS: Final = 0
"""Stands for the id of a thread where the whole process is throttled."""


class RunQueues:
    """Reads the delay of threads from the best source that the system has, which is chosen with the first reading.

    Args:
        errors: where failures of our own are reported.
        find_source: returns what reads the current thread's delay; None: the system does not show it.
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(
        self,
        errors: InternalErrors,
        find_source: Callable[[], Callable[[], int] | None] | None = None,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.errors = errors
        self._find_source = find_source or find_delay_source
        self._clock = clock
        self._read: Callable[[], int] | None = None
        self._is_chosen = False
        self._ordinary = OrdinaryDelay()
        self._threads: WeakValueDictionary[int, ReaderThread] = WeakValueDictionary()
        """The threads that read streams, by native id: as long as one of these is there."""
        self._naps = 0
        self._last_nap = 0
        """When the windows were last ended (ns)."""
        self._active_until = 0
        self._joint: deque[Window] = deque(maxlen=MAX_WINDOWS)
        """Of each nap in which one of several threads waited, what they waited together."""
        self._relays: deque[Window] = deque(maxlen=MAX_WINDOWS)
        """Of each nap, what the threads that read no streams waited together."""
        self._others: dict[str, Turns] = {}
        """The turns of the threads that read no streams, when they were last read."""
        self._relayed: WeakSet[object] = WeakSet()
        """Stands for each stream whose chunks pass through such threads."""
        self._displaced = 0
        """How often a thread of the process had lost its CPU to another one, at the last nap."""

    def forget_after_fork(self) -> None:
        """Drop the parent's threads."""
        self._threads = WeakValueDictionary()
        self._others = {}
        self._joint.clear()
        self._relays.clear()

    @property
    def has_active_threads(self) -> bool:
        """Whether a thread that reads streams has run a short while ago."""
        return self._clock() < self._active_until

    def find_process_windows(self, moment: int) -> list[Window]:
        """Return a window for each nap of the watchdog that ended after `moment` (ns): what all threads waited in it.

        A thread that got no CPU may have held the GIL, which the others needed to go on, and so may the next one. There
        are none where the thread that waited was alone. That of the last nap stands for the one that is not over.
        """
        windows = find_after(self._joint, moment)
        if windows and windows[-1].end >= self._last_nap:
            windows.append(windows[-1]._replace(start=windows[-1].end, end=self._clock()))
        return windows

    def find_relay_windows(self, moment: int) -> list[Window]:
        """Return a window for each nap of the watchdog that ended after `moment` (ns): what other threads waited in it.

        That concerns streams whose chunks pass through threads of their SDK. The nap that is not over is the last one.
        """
        windows = find_after(self._relays, moment)
        waited, now = self._sum_waits(self._others, self._read_turns_of_others()).all, self._clock()
        return [*windows, Window(self._last_nap, now, min(waited, now - self._last_nap), busy=0.0)]

    def read(self) -> int | None:
        """Return the delay of this thread so far (ns); None: not known."""
        turns = self.read_turns()
        return None if turns is None else turns.delay

    @never_raises(Where.STREAM_READ, None)
    def read_turns(self) -> Turns | None:
        """Return the turns of this thread so far; None: not known."""
        if not self._is_chosen:
            self._read, self._is_chosen = self._find_source(), True
        return None if self._read is None else read_own_turns(self._read)

    @never_raises(Where.STREAM_READ, None)
    def read_turns_by_thread(self) -> dict[str, Turns] | None:
        """Return the turns of every thread of this process so far, by its native id; None: not known."""
        if self._read is not read_schedstat:
            return None
        return {thread: read_turns_of(thread) for thread in os.listdir(THREADS)}  # noqa: PTH208 - quicker

    def follow_relays(self, stream: object) -> None:
        """Read the threads that read no streams while `stream` is there, which stands for one: its chunks pass them."""
        if self._read is read_schedstat:
            self._others = self._others or self._read_turns_of_others()
            self._relayed.add(stream)

    def forget_relays(self, stream: object) -> None:
        """Stop reading them for a stream: it is over."""
        self._relayed.discard(stream)

    @never_raises(Where.STREAM_READ, (None, None))
    def follow_thread(self) -> tuple[ReaderThread | None, int | None]:
        """Have the windows of this thread noted, where the system shows them, and read its delay.

        Returns what notes them as long as it is held (None: nothing does), and the delay so far (ns; None: not known).
        """
        delay, read = None, self._read
        if read is not read_schedstat:  # it is not chosen yet, or it reads the current delay alone
            delay, read = self.read(), self._read
        if read is not read_schedstat and not isinstance(read, ThrottledTime):
            return None, delay
        native_id = get_native_id() if read is read_schedstat else OF_PROCESS
        found = self._threads.get(native_id)
        if found is not None:
            return found, self.read() if delay is None else delay
        found = self._threads[native_id] = ReaderThread(make_turns_reader(read), self._ordinary, self._clock)
        self._active_until = self._clock() + ACTIVE_NS
        return found, found.delay

    def end_windows(self) -> int:
        """End a window of each thread, of the next ones where there are many. Called when the watchdog wakes up.

        Returns for how long (ns) the threads that read streams waited for a CPU, beyond what is ordinary, all together.
        """
        # Other threads may add some meanwhile.
        threads = [thread for found in self._threads.valuerefs() if (thread := found()) is not None]
        skipped = self._naps * MAX_THREADS_PER_NAP % max(len(threads), 1)
        self._naps += 1
        last_nap, self._last_nap = self._last_nap, self._clock()
        waited: list[Window] = []
        for thread in islice([*threads[skipped:], *threads[:skipped]], MAX_THREADS_PER_NAP):
            try:
                look = thread.end_window()
            except (OSError, ValueError):  # it has ended
                continue
            window = look.window
            if thread.is_active:
                self._active_until = look.moment + ACTIVE_NS
            if window is not None and window.excess:
                waited.append(window)
        readers = sum(window.excess for window in waited)
        holders = self._read_others(last_nap)
        if holders:
            waited.append(Window(last_nap, self._last_nap, holders, busy=0.0))
        if waited and (holders or len(threads) > 1):
            start, end = min(window.start for window in waited), max(window.end for window in waited)
            self._joint.append(Window(start, end, min(readers + holders, end - start), busy=0.0))
        return readers

    def _read_others(self, since: int) -> int:
        """Read the threads that read no streams; returns for how long (ns) they waited that may have held the GIL.

        They are read when a thread of the process has lost its CPU to another one, as only so it waits with the GIL
        held; and while chunks pass through some of them.

        Args:
            since: when the last nap was over (ns).
        """
        if self._read is not read_schedstat:
            return 0
        displaced, before = count_displacements(), self._displaced
        self._displaced = displaced
        if displaced == before and not self._relayed:
            return 0
        former, self._others = self._others, self._read_turns_of_others()
        waits = self._sum_waits(former, self._others)
        if waits.all:
            self._relays.append(Window(since, self._last_nap, min(waits.all, self._last_nap - since), busy=0.0))
        return waits.of_holders

    def _read_turns_of_others(self) -> dict[str, Turns]:
        # Other threads may add some meanwhile.
        known = {str(found.key) for found in self._threads.valuerefs()} | {str(get_native_id())}
        threads = islice(sorted(set(os.listdir(THREADS)) - known), MAX_THREADS_PER_NAP)  # noqa: PTH208 - quicker
        return {thread: read_turns_of(thread) for thread in threads}

    def _sum_waits(self, before: Mapping[str, Turns], now: Mapping[str, Turns]) -> _Waits:
        """Return what threads waited between two readings, if more than is ordinary."""
        turns = [now[thread].since(before[thread]) for thread in now.keys() & before.keys()]
        waits = list(map(self._ordinary.find_excess, turns))
        return _Waits(
            sum(waits), sum(wait for wait, one in zip(waits, turns, strict=True) if one.on_cpu >= MIN_HOLDING_NS)
        )


class _Waits(NamedTuple):
    """For how long threads waited for a CPU (ns), all together."""

    all: int
    of_holders: int
    """Those that may have held the GIL: a thread that was hardly on a CPU has waited to be woken up."""
