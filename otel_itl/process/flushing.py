"""Flushes: what was recorded is exported within a given time, whatever the exporters wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from time import monotonic
from typing import Final

from otel_itl.export.flushes import Export
from otel_itl.recording.background_call import call_side_by_side

MAX_EXPORTS: Final = 8
"""What is flushed side by side: three providers, the file, the summary lines, and room."""

MIN_SECONDS: Final = 0.001

Step = Callable[[], object]


class Flusher:
    """Finalizes streams and has them exported, in bounded time.

    `force_flush()` of the SDK returns when its exporter does, whatever timeout it was given. So each step runs on a
    thread of its own, all exports at once, and the caller stops waiting when its time is over. Of each step one call
    runs at a time: flushes of an endpoint that hangs do not pile up.

    Args:
        end_streams: ends every open stream as abandoned, and finalizes it.
        finalize_ended: finalizes the streams that ended, and records their metrics.
        find_exports: returns what exports; nothing where this process has opened no stream.
    """

    def __init__(self, end_streams: Step, finalize_ended: Step, find_exports: Callable[[], Sequence[Export]]) -> None:
        self._end_streams, self._finalize_ended = end_streams, finalize_ended
        self._find_exports = find_exports
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Drop the parent's locks: its threads do not exist here."""
        self._finalizing = Lock()
        self._exporting = [Lock() for _ in range(MAX_EXPORTS)]

    def flush(self, seconds: float) -> bool:
        """Export the streams that ended; returns whether all of it was exported within `seconds`."""
        return self._export_after(self._finalize_ended, seconds)

    def end_process(self, seconds: float) -> bool:
        """End every open stream as abandoned and export all; returns whether that was done within `seconds`."""
        return self._export_after(self._end_streams, seconds)

    def _export_after(self, step: Step, seconds: float) -> bool:
        """Take a step for at most half of the time, and export for the rest of it."""
        exports = self._find_exports()
        if not exports:
            return True
        deadline = monotonic() + seconds
        step_deadline = monotonic() + seconds / 2
        is_done = call_side_by_side([partial(_call_alone, self._finalizing, step, step_deadline)], step_deadline)
        remaining = max(deadline - monotonic(), MIN_SECONDS)
        calls = [
            partial(_call_alone, lock, partial(export, remaining), deadline)
            for lock, export in zip(self._exporting, exports, strict=False)
        ]
        return call_side_by_side(calls, deadline) and is_done


def _call_alone(lock: Lock, step: Step, deadline: float) -> bool:
    """Take a step unless another thread does so until the deadline; False where it was not taken, or returned False."""
    if not lock.acquire(timeout=max(deadline - monotonic(), 0)):
        return False
    try:
        return step() is not False
    finally:
        lock.release()
