"""How late the watchdog wakes up: what keeps every thread of the process from running, and the schedule does not show.

A process that is suspended runs nothing, and a thread that waits for the GIL sleeps, as far as the operating system can
see: neither its CPU time nor its delay by the host show it. The watchdog sleeps for a fixed time again and again. What
it is late by, less what the host delayed it by, is what any thread of the process waits for its turn: also one that
reads a stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from sys import getswitchinterval
from time import process_time_ns
from typing import Final

from otel_itl.core.stalls import NEVER
from otel_itl.core.timeline import SECOND
from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.turns import Turns
from otel_itl.recording.evidence.windows import MIN_EXCESS_NS, SATURATED, Window, find_after

MAX_PAUSES: Final = 512
"""Intervals in which the process did not run that are kept; the oldest are dropped."""
MAX_WAITS: Final = 512
"""Likewise intervals in which its threads waited for their turns."""
PAUSE_NS: Final = 200_000_000
"""A round that comes this late shows that the process did not run."""
MIN_GIL_HOLD_NS: Final = 5_000_000
"""A wake that is later than this shows by itself that no thread ran that waited for the interpreter. So does one after
which the watchdog took longer than this for its work."""
WAKES_PER_WAIT: Final = 16
"""As many wakes show what threads usually wait: by the second latest, as one alone shows when nothing ran."""
MIN_WAKES: Final = 3
"""Fewer wakes show no custom."""
TURNS_PER_WAKE: Final = 2
"""How often the watchdog gets a CPU from one reading to the next where nothing holds the interpreter."""
TURNS_PER_CHUNK: Final = 3
"""How often a thread gives up the GIL for one chunk: it looks whether there are bytes, reads them, and looks again."""


class Wakes:
    """The wakes of the watchdog; written by its thread, read by any.

    Args:
        read_turns: returns the turns of this thread so far; None: not known.
        read_cpu: returns the CPU time (ns) of the process so far.
    """

    def __init__(self, read_turns: Callable[[], Turns | None], read_cpu: Callable[[], int] = process_time_ns) -> None:
        self._read_turns = read_turns
        self._read_cpu = read_cpu
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Begin without wakes: at the start, and in a forked process."""
        self._turns: Turns | None = None
        self._cpu = self._cpu_at_sleep = 0
        self._slept_at, self._due = 0, NEVER
        self._awake_since = NEVER
        self._lateness: list[int] = []
        """How late the wakes since then were (ns)."""
        self._wait_began = 0
        """When the first sleep began whose wake counts for the next wait (ns)."""
        self._pauses: deque[Lag] = deque(maxlen=MAX_PAUSES)
        self._held: deque[Lag] = deque(maxlen=MAX_PAUSES)
        self._waits: deque[Window] = deque(maxlen=MAX_WAITS)

    def begin_sleep(self, now: int, seconds: float) -> None:
        """Note that the thread is about to sleep for a number of seconds, from `now` (ns) on."""
        self.rest(now)
        self._turns, self._cpu_at_sleep = self._read_turns(), self._read_cpu()
        self._slept_at, self._due = now, now + int(seconds * SECOND)

    @property
    def is_awake(self) -> bool:
        """Whether the thread has woken up since it last slept."""
        return self._awake_since < NEVER

    def end_sleep(self, now: int, readers_delay: int = 0) -> None:
        """Note that the thread woke up at `now` (ns); without a sleep, nothing.

        Args:
            now: the moment.
            readers_delay: for how long (ns) threads that read streams waited for a CPU meanwhile, maybe with the GIL:
                their own windows show it.
        """
        due = self._due
        pauses = [] if due >= now else self._find_overdue(now)
        self._pauses.extend(pauses)
        self._awake_since, self._due = min(self._awake_since, now), NEVER
        if due >= now:
            return
        before, turns = self._turns, self._read_turns()
        if before is None or turns is None:  # then the host cannot be distinguished from this process
            return
        late = max(now - due - _find_delay_of_wake(turns.since(before)) - readers_delay, 0)
        if late > MIN_GIL_HOLD_NS and not pauses:
            self._held.append(Lag(now - late, now, self._slept_at))
        if not self._lateness:
            self._wait_began, self._cpu = self._slept_at, self._cpu_at_sleep
        self._lateness.append(late)
        if len(self._lateness) == WAKES_PER_WAIT:
            self._waits.extend(self._find_wait(now))
            self._lateness = []

    def _find_wait(self, now: int) -> list[Window]:
        """Return what a chunk may have waited for the interpreter since the last wait was found; empty: nothing."""
        lateness = sorted(self._lateness)
        if len(lateness) < MIN_WAKES:
            return []
        busy = (self._read_cpu() - self._cpu) / max(now - self._wait_began, 1)
        late = lateness[-2]
        if busy >= SATURATED:
            late = max(late, int(getswitchinterval() * SECOND))
        return [Window(self._wait_began, now, TURNS_PER_CHUNK * late, busy)] if late >= MIN_EXCESS_NS else []

    def rest(self, now: int) -> None:
        """Note that the thread has done at `now` (ns) what it woke up for: if that took long, it was interrupted."""
        pauses, began = self._find_overdue(now), self._awake_since
        self._pauses.extend(pauses)
        if now - began > MIN_GIL_HOLD_NS and not pauses:  # it got no CPU, and may have held the GIL
            self._held.append(Lag(began, now))
        self._awake_since = NEVER

    def find_waits(self, moment: int) -> list[Window]:
        """Return the intervals that end after `moment` (ns), with what a chunk may have waited for the GIL in them."""
        now = self._slept_at
        return [*find_after(self._waits, moment), *(self._find_wait(now) if now > self._wait_began else ())]

    def find_gil_holds(self, moment: int, now: int) -> list[Lag]:
        """Return the intervals after `moment` (ns) in which no thread ran that waited for the interpreter.

        One that may last at `now` (ns) is among them: a reader may get its turn before the watchdog does.
        """
        lasting = [Lag(self._due, now, self._slept_at)] if now - self._due > MIN_GIL_HOLD_NS else []
        return [*find_after(self._held, moment), *lasting]

    def find_pauses(self, moment: int, now: int) -> list[Lag]:
        """Return the intervals after `moment` in which the process did not run, one that lasts at `now` (ns) included.

        A thread that reads a stream may wake up before the watchdog does.
        """
        return [pause for pause in (*find_after(self._pauses, moment), *self._find_overdue(now)) if pause.end > moment]

    def _find_overdue(self, now: int) -> list[Lag]:
        due, began = self._due, self._awake_since
        if now - due > PAUSE_NS:
            return [Lag(due, now, self._slept_at)]
        return [Lag(began, now)] if now - began > PAUSE_NS else []


def _find_delay_of_wake(turns: Turns) -> int:
    """Return how long (ns) a thread waited for a CPU before it ran at all: it sleeps, and is woken up.

    While it waits for the interpreter it wakes up again and again; that is part of the wait.
    """
    return turns.delay * TURNS_PER_WAKE // max(turns.number, TURNS_PER_WAKE)
