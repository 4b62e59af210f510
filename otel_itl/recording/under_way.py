"""Work that threads are doing just now, and a bounded wait for it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


class UnderWay:
    """Pieces of work, each done by one thread. Beginning and ending one waits for nothing.

    A handler of a signal may raise an exception at any moment of it, also at its very end: a piece of work that is left
    so is never waited for.
    """

    def __init__(self) -> None:
        self._threads: dict[Lock, int] = {}
        """A lock for each piece of work, held while it is done, and its thread."""

    def __len__(self) -> int:
        """Count the pieces of work that are done just now."""
        return sum(done.locked() for done in self._threads.copy())

    def do(self, work: Callable[[], T]) -> T:
        """Do a piece of work in this thread; returns what it returns."""
        done = Lock()
        with done:  # left in C, whatever is raised
            self._threads[done] = get_ident()
            try:
                return work()
            finally:
                self._threads.pop(done, None)

    def wait(self, seconds: float) -> None:
        """Wait for what other threads have begun before this call, for at most `seconds` in all."""
        deadline = monotonic() + seconds
        for done, thread in self._threads.copy().items():
            if thread != get_ident() and done.acquire(timeout=max(deadline - monotonic(), 0)):
                self._threads.pop(done, None)  # it is still there where an exception kept its thread from removing it
                done.release()

    def forget(self) -> None:
        """Drop all work, in a process that was just forked: its threads do not exist here."""
        self._threads.clear()
