"""The registry of the streams that are open in this process, and of how many there were over time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from time import perf_counter_ns
from typing import NamedTuple
from weakref import ref

from otel_itl.core.stream import ALONE, Concurrency
from otel_itl.recording.recorder import StreamRecorder


class _Entry(NamedTuple):
    """A registered stream."""

    recorder: ref[StreamRecorder]
    opened: int
    """When it was registered (ns)."""
    load_ns: int
    """Stream-nanoseconds that had passed in the process until then."""
    at_start: int
    """Streams that were open then, this one included."""


class OpenStreams:
    """The open streams by key, held weakly: being registered keeps nothing alive. Safe to use from any thread.

    Keys ascend, so that the streams registered since some moment are those with a higher key: nothing has to queue.

    Args:
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._entries: dict[int, _Entry] = {}
        self._forget()

    def _forget(self) -> None:
        """Begin with no open stream and a new lock: at the start, and in a forked process."""
        # Re-entrant: a handler of a signal may open a stream while this thread registers another one. What the sum of
        # the load misses then are microseconds.
        self._lock = threading.RLock()
        self._entries = {}
        self._keys = count()
        self._newest_key = -1
        self._load_ns = 0
        self._changed = self._clock()

    def forget_after_fork(self) -> None:
        """Drop the parent's streams, without a report of any."""
        for recorder in self.recorders():
            recorder.end_unreported()
        self._forget()

    def __len__(self) -> int:
        """Return the number of registered streams, those included that were dropped and not finalized yet."""
        return len(self._entries)

    def __contains__(self, key: int) -> bool:
        """Return whether a stream is registered, one that was dropped and is not finalized yet included."""
        return key in self._entries

    @property
    def newest_key(self) -> int:
        """The highest key that was registered; -1: none. No lower key is registered later."""
        with self._lock:
            return self._newest_key

    def get(self, key: int) -> StreamRecorder | None:
        """Return the recorder with this key; None where its stream ended or was dropped."""
        entry = self._entries.get(key)
        return None if entry is None else entry.recorder()

    def recorders(self) -> list[StreamRecorder]:
        """Return the recorders of the open streams that are still reachable."""
        return [recorder for entry in list(self._entries.values()) if (recorder := entry.recorder()) is not None]

    def add(self, recorder: StreamRecorder) -> None:
        """Register an open stream, and give its recorder a key."""
        with self._lock:
            now = self._advance()
            entry = _Entry(ref(recorder), now, self._load_ns, len(self._entries) + 1)
            self._entries[key := next(self._keys)] = entry
            recorder.key = key
            self._newest_key = max(key, self._newest_key)

    def remove(self, key: int) -> Concurrency:
        """Remove a stream that ended; returns how many streams were open beside it."""
        with self._lock:
            now = self._advance()
            return self._concurrency(self._entries.pop(key, None), now)

    def concurrency_of(self, key: int) -> Concurrency:
        """Return how many streams have been open beside one that is still open."""
        with self._lock:
            now = self._advance()
            return self._concurrency(self._entries.get(key), now)

    def remove_lost(self) -> None:
        """Remove streams that are gone and were never finalized: a failure of our own, or a full queue, lost them."""
        with self._lock:
            # No pairs are made, as the collector may run there and change what is iterated over.
            lost = [key for key in list(self._entries) if self.get(key) is None]
            if lost:
                self._advance()
            for key in lost:
                self._entries.pop(key, None)

    def _concurrency(self, entry: _Entry | None, now: int) -> Concurrency:
        """Return how many streams were open together with this one; None: it is not registered, and counts alone."""
        if entry is None:
            return ALONE
        load, lifetime = self._load_ns - entry.load_ns, now - entry.opened
        mean = load / lifetime if lifetime > 0 else float(entry.at_start)
        return Concurrency(at_start=entry.at_start, mean=max(mean, 1.0))

    def _advance(self) -> int:
        now = self._clock()
        self._load_ns += len(self._entries) * (now - self._changed)
        self._changed = now
        return now
