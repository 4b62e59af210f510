"""Keeps the threads of this project, and the locks that they hold, usable after `os.fork()`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import local
from time import monotonic
from typing import Any, Final

MAX_WAIT_AT_FORK: Final = 0.05
"""Seconds that a fork waits for the threads of ours: a lock that one of them holds would stay locked in the child."""


def register_fork_handlers(find_locks: Callable[[], Iterable[Any]], forget: Callable[[], object]) -> None:
    """Have locks held while the process forks, and what is the parent's dropped in the child.

    Args:
        find_locks: returns what threads of ours hold while they make a round.
        forget: drops what is the parent's: the locks that are held are replaced there.
    """
    if not hasattr(os, "register_at_fork"):
        return
    forks = _Forks()

    def before() -> None:
        """Wait until no thread of ours makes a round, for `MAX_WAIT_AT_FORK` seconds in all."""
        deadline = monotonic() + MAX_WAIT_AT_FORK
        for lock in find_locks():
            forks.acquire(lock, max(deadline - monotonic(), 0))

    def after_in_child() -> None:
        """Begin anew: the locks that are held are the parent's."""
        forget()
        forks.release()

    os.register_at_fork(before=before, after_in_parent=forks.release, after_in_child=after_in_child)
    # Once more: a handler of a signal that interrupts the first call may raise an exception there.
    os.register_at_fork(after_in_parent=forks.release)


class _Forks(local):
    """The locks that forks of the current thread hold: one may interrupt another, in a handler of a signal.

    Such a handler may also raise an exception anywhere, which goes no further than the function that `os.fork()` calls.
    So a lock is added before it is acquired, and removed after it was released.
    """

    def __init__(self) -> None:
        self._held: list[Any] = []

    def acquire(self, lock: Any, seconds: float) -> None:
        """Acquire a lock until `release()` is called, if that takes no longer than `seconds`."""
        self._held.append(lock)
        is_acquired, is_added = lock.acquire(timeout=seconds), lock in self._held
        if is_acquired and not is_added:  # another fork has released all
            self._held.append(lock)
        elif is_added and not is_acquired:
            self._held.remove(lock)

    def release(self) -> None:
        """Release what is held, if anything is."""
        while self._held:
            # It is not acquired where an exception came before; there is none where another fork has released all.
            with suppress(RuntimeError, IndexError):
                self._held[-1].release()
            with suppress(IndexError):
                self._held.pop()
