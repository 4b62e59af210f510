"""Calls of functions that may wait for an endpoint: each on a thread of its own, waited for while there is time."""

from __future__ import annotations

import _thread
from collections.abc import Callable, Iterable
from threading import Lock
from time import monotonic


def call_side_by_side(functions: Iterable[Callable[[], object]], deadline: float) -> bool:
    """Call functions at the same time, each on a thread of its own, and wait for them.

    Args:
        functions: each returns False where it failed. One that hangs is left behind, on its daemon thread.
        deadline: how long to wait, as a moment of `time.monotonic()`.

    Returns:
        Whether all of them succeeded in time.
    """
    calls = [BackgroundCall(function) for function in functions]
    for call in calls:
        call.start()
    succeeded = [call.wait(deadline) for call in calls]  # each is waited for, also after one that failed
    return all(succeeded)


class BackgroundCall:
    """One function on a thread of its own. A plain thread: `threading.Thread.start()` waits until the thread runs.

    Args:
        function: may wait for an endpoint. It returns False where it failed.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._has_succeeded = False
        self._running = Lock()
        self._running.acquire()

    def start(self) -> None:
        """Start the thread. Where none can be started, as the interpreter is shutting down, call the function here."""
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._run()

    @property
    def is_over(self) -> bool:
        """Whether the function has returned."""
        return not self._running.locked()

    def wait(self, deadline: float) -> bool:
        """Return whether the function succeeded by the deadline."""
        if not self._running.acquire(timeout=max(deadline - monotonic(), 0)):
            return False
        self._running.release()
        return self._has_succeeded

    def _run(self) -> None:
        """Call the function, and let `wait` return. Runs on the thread."""
        try:
            self._has_succeeded = self._function() is not False
        except Exception:  # noqa: BLE001 - an exporter that fails: the SDK has logged it, and the caller gets False
            self._has_succeeded = False
        finally:
            self._running.release()
