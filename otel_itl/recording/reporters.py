"""Threads for what a stall sets off: log events and callbacks of the application, which may block for seconds."""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock
from time import monotonic, sleep
from typing import Final

from otel_itl.core.conventions import Where
from otel_itl.recording.internal_errors import InternalErrors

IDLE_SECONDS: Final = 2.0
"""A thread that has had nothing to do for this long ends."""

Task = Callable[[], object]


class ReporterThreads:
    """Calls functions on threads of its own, which are started when they are needed and end when they are not.

    `submit()` must not wait, as the watchdog calls it: `threading.Thread.start()` waits until the new thread has run,
    which takes seconds where many threads compete for the interpreter. So these are plain threads, without a name; the
    process does not wait for them at its end.

    Args:
        name: names the queue where it is counted.
        errors: where a function that raises, and what a full queue drops, is reported.
        where: the identifier that a function that raises is counted under.
        max_threads: as many functions run at the same time; with one thread they run in order.
        max_waiting: as many may wait for a thread; a further one is dropped, and counted as `queue.<name>`.
    """

    def __init__(self, name: str, errors: InternalErrors, *, where: str, max_threads: int, max_waiting: int) -> None:
        self._name = name
        self._errors = errors
        self._where = where
        self._max_threads = max_threads
        self._max_waiting = max_waiting
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Drop the parent's threads and what waits for them."""
        self._condition = Condition()
        self._waiting: deque[Task] = deque()
        self._threads = 0
        self._idle = 0

    @property
    def threads(self) -> int:
        """How many threads run or are idle."""
        return self._threads

    def submit(self, task: Task) -> None:
        """Have a function called on one of the threads. Returns at once."""
        with self._condition:
            if len(self._waiting) >= self._max_waiting:
                self._errors.count_dropped(f"queue.{self._name}")
                return
            self._waiting.append(task)
            if len(self._waiting) <= self._idle:  # an idle thread each: none waits behind a function that blocks
                self._condition.notify()
                return
            if self._threads >= self._max_threads:
                return
            self._threads += 1
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # the interpreter is shutting down
            with self._condition:
                self._threads -= 1

    def drop_waiting(self) -> None:
        """Drop what waits for a thread. Functions that run already go on."""
        with self._condition:
            self._waiting.clear()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no function runs or waits, for at most `seconds`; returns False when that time is over."""
        deadline = monotonic() + seconds
        while self._waiting or self._threads > self._idle:
            if monotonic() > deadline:
                return False
            sleep(0.001)
        return True

    def _run(self) -> None:
        """Call the functions that wait until there is none for `IDLE_SECONDS`. Runs on each of the threads."""
        condition = self._condition
        while True:
            with condition:
                if not self._waiting:
                    self._idle += 1
                    condition.wait(IDLE_SECONDS)
                    self._idle -= 1
                if not self._waiting:
                    self._threads -= 1
                    return
                task = self._waiting.popleft()
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - the thread serves other streams as well
                self._errors.report(self._where, error)
            del task


class OrderedReports:
    """The reports of one stream, delivered in order and by one thread at a time, whichever that is."""

    __slots__ = ("_delivering", "_errors", "_waiting")

    def __init__(self, errors: InternalErrors) -> None:
        self._errors = errors
        self._waiting: deque[Task] = deque()
        self._delivering = Lock()

    @property
    def is_waiting(self) -> bool:
        """Whether a report waits to be delivered."""
        return bool(self._waiting)

    def add(self, report: Task) -> None:
        """Add a report behind those that wait. A stream has at most as many as it may report stalls, times two."""
        self._waiting.append(report)

    def deliver(self) -> None:
        """Call the reports that wait; returns at once where another thread is calling them."""
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    self._call(self._waiting.popleft())
            finally:
                self._delivering.release()

    def _call(self, report: Task) -> None:
        try:
            report()
        except Exception as error:  # noqa: BLE001 - the guard: what was reported once is not reported again
            self._errors.report(Where.STALL_REPORT, error)
