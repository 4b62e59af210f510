"""Which threads are inside code of ours that may hold a lock: a stream that ends there is queued, not finalized.

The garbage collector and the handlers of signals run between any two instructions, also while this thread holds a lock
of ours or of OpenTelemetry. What they close would wait for the thread that they interrupted, which is their own.
"""

from __future__ import annotations

import gc
import threading
from _thread import RLock
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

START: Final = "start"
"""The phase in which the collector calls `gc.callbacks` before it collects; the one after that is `stop`."""


class _Here(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.section = RLock()


class _Collector:
    """Where the garbage collector runs.

    What the collector calls is written in C: a signal that has come meanwhile is handled in the application's code
    afterwards. In a function of Python it would be handled at once, and what its handler raises (Ctrl-C) would be lost
    there. One collection runs at a time.
    """

    def __init__(self) -> None:
        self._phases: dict[str, object] = {}
        """Phase → what the collector has passed with it last. The last key is the present phase."""
        self._seen = threading.local()
        """Has what the collector has passed with the last `start` in this thread."""
        self._callbacks: tuple[Callable[[str, Any], object], ...] = (
            self._phases.pop,  # so that the phase becomes the last key
            self._phases.__setitem__,
            partial(setattr, self._seen),
        )

    @property
    def is_here(self) -> bool:
        """Whether the collector runs in the current thread."""
        started = getattr(self._seen, START, None)
        return started is not None and self._phases.get(START) is started and list(self._phases)[-1:] == [START]

    def follow(self) -> None:
        """Note from now on where the collector runs."""
        if self._callbacks[0] not in gc.callbacks:
            gc.callbacks.extend(self._callbacks)

    def leave(self) -> None:
        """Stop noting it. A collection that runs now has no end to be noted."""
        for callback in self._callbacks:
            with suppress(ValueError):  # not followed
                gc.callbacks.remove(callback)
        self._phases.clear()


class CriticalSections:
    """The critical sections of a process: code within `with sections.current:` is inside of one."""

    def __init__(self) -> None:
        self._here = _Here()
        self._collector = _Collector()

    @property
    def current(self) -> RLock:
        """The mark of the current thread: inside a section it is acquired.

        A lock that no other thread ever acquires. What enters and leaves it is written in C, so that no exception, one
        that a signal raises included, leaves a thread marked.
        """
        return self._here.section

    @property
    def is_inside(self) -> bool:
        """Whether the current thread is inside a section, or runs the garbage collector."""
        # The mark is missing where the making of it was interrupted. `_is_owned` is what `threading.Condition` asks.
        mark: Any = getattr(self._here, "section", None)
        return mark is None or mark._is_owned() or self._collector.is_here  # noqa: SLF001

    def follow_collector(self) -> None:
        """Note from now on where the garbage collector runs: it may do so inside a lock of OpenTelemetry."""
        self._collector.follow()

    def leave_collector(self) -> None:
        """Stop noting where the garbage collector runs."""
        self._collector.leave()
