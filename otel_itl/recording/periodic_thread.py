"""A daemon thread that makes rounds while there is work, and sleeps when there is none."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final, Protocol
from weakref import ref

from otel_itl.core.conventions import Where
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors

NOW: Final = 0.0
"""What a round returns when the next one is to follow at once."""

AT_SHUTDOWN: Final = "interpreter shutdown"
"""In the message with which Python 3.12 and later refuse a thread once the program is over."""


class Sleeper(Protocol):
    """Takes note of the naps of a thread. What is called never raises."""

    def begin_nap(self, seconds: float) -> float:
        """Note that the thread is about to sleep; returns for how long at a time, at most `seconds`."""
        ...

    def end_nap(self) -> None:
        """Note that it woke up when the nap was over."""
        ...


class PeriodicThread:
    """Makes rounds, each after the time that the one before it asked for; started when it is first woken.

    Waking it takes no lock and waits for nothing, so that the garbage collector and the handlers of signals may do it.
    `threading.Event` and `threading.Thread.start()` would deadlock there.

    Args:
        name: the thread's name.
        interval: seconds from waking up to the first round.
        make_round: makes one round; returns the seconds until the next one, or None to sleep until `wake()`.
        has_work: whether there is something to do: asked once more before the thread sleeps.
        errors: counts the threads that could not be started, as `thread.start`.
        sections: a round is one of them: nothing ends in place there.
        sleeper: divides the time until the next round into naps, and learns of each; None: it is one.
    """

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        name: str,
        interval: float,
        *,
        make_round: Callable[[], float | None],
        has_work: Callable[[], bool],
        errors: InternalErrors,
        sections: CriticalSections,
        sleeper: Sleeper | None = None,
    ) -> None:
        self.interval = interval
        self._name = name
        self._make_round = make_round
        self._has_work = has_work
        self._errors = errors
        self._sections = sections
        self._sleeper = sleeper
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Drop the parent's thread: the next `wake()` starts one."""
        self.in_round = _thread.RLock()
        """Held while a round is made. A fork waits for it: a lock that a round holds would stay locked in the child."""
        self._is_awake = self._is_hurried = self._is_asleep = False
        self._alarm: _thread.LockType | None = None
        """Released to wake the thread, which acquires it to wait; None: no thread was started."""
        self._claims: list[object] = [None]
        """Has an entry while the thread does not run. Who takes the entry out starts it: `list.pop` is atomic."""
        self._end: object = None
        """Refers to what the thread alone holds, and adds the entry when that is gone, however the thread ended."""

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, asleep or not."""
        return not self._claims

    @property
    def is_awake(self) -> bool:
        """Whether rounds are being made."""
        return self._is_awake

    def wake(self) -> None:
        """Have rounds made from here on. Costs nothing while they are."""
        if not self._is_awake or self._is_asleep:  # awake and asleep: an exception came between the two lines
            self._is_awake = True
            self._ring()
        if self._claims:
            self._start()

    def hurry(self) -> None:
        """Have the next round made at once."""
        self._is_hurried = True
        self._is_awake = True
        self._ring()
        if self._claims:
            self._start()

    def _ring(self) -> None:
        if self._alarm is not None:
            with suppress(RuntimeError):  # it rings already
                self._alarm.release()

    def _start(self) -> None:
        """Start the thread unless another one is just doing so. Where none can be started, that is counted."""
        try:
            self._claims.pop()
        except IndexError:
            return
        try:
            # Made here, as what replaces threads by something else (gevent) may have been imported after us.
            self._alarm = alarm = _thread.allocate_lock()
            held: set[object] = set()  # the simplest thing that a weak reference may refer to
            self._end = ref(held, self._claims.append)
            _thread.start_new_thread(self._run, (alarm, held))
        except RuntimeError as error:  # no more threads for this process or user
            self._end = None  # the failure may hold what it refers to
            self._claims.append(None)
            if AT_SHUTDOWN not in str(error):  # no failure: the end of the process does what is left itself
                self._errors.note(Where.THREAD_START, error)

    def _run(self, alarm: _thread.LockType, _held: set[object]) -> None:
        """Make rounds until the process ends. Runs on the thread."""
        threading.current_thread().name = self._name
        while True:
            self._make_rounds(alarm)

    def _make_rounds(self, alarm: _thread.LockType) -> None:
        """Sleep until there is work, and make rounds until there is none."""
        while not self._is_awake:
            self._is_asleep = True
            alarm.acquire()
        self._is_asleep = False
        pause: float | None = self.interval
        while pause is not None:
            self._wait(alarm, pause)
            with self._sections.current, self.in_round:
                pause = self._make_round()
        self._is_awake = False
        if self._has_work():  # something came in between
            self._is_awake = True

    def _wait(self, alarm: _thread.LockType, seconds: float) -> None:
        """Wait for a number of seconds, or until `hurry()`; with a sleeper, no longer than there is something to do."""
        due, sleeper = monotonic() + seconds, self._sleeper
        while not self._is_hurried and (left := due - monotonic()) > 0:
            nap = left if sleeper is None else sleeper.begin_nap(left)
            if not alarm.acquire(timeout=nap) and sleeper is not None:
                sleeper.end_nap()
                if not self._has_work():  # nothing is left that the naps are taken for
                    break
        self._is_hurried = False
