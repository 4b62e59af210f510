"""A bounded queue that a thread of its own empties in batches: for output that may block."""

from __future__ import annotations

from _thread import RLock
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic
from typing import Generic, TypeVar

from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.periodic_thread import NOW, PeriodicThread

T = TypeVar("T")

FLUSH_STEP = 0.02
"""Seconds after which a flush looks whether the thread is still there."""


class BatchQueue(Generic[T]):
    """Hands what is added to a function, in batches and in order, on a daemon thread.

    `add()` never waits. A full queue drops what is added, and counts it as `queue.<name>`.

    Args:
        name: names the queue where it is counted, and its thread.
        errors: where a batch that fails, and what a full queue drops, is reported.
        process: takes one batch; what it raises is counted under `where`, and the batch is dropped.
        sections: the critical sections of the process.
        where: the identifier that a failed batch is counted under.
        interval: seconds between two batches.
        max_waiting: items that may wait.
        max_batch: items of one batch.
    """

    def __init__(  # noqa: PLR0913 - the bounds, by keyword
        self,
        name: str,
        errors: InternalErrors,
        process: Callable[[Sequence[T]], object],
        sections: CriticalSections,
        *,
        where: str,
        interval: float,
        max_waiting: int,
        max_batch: int,
    ) -> None:
        self._name, self._errors, self._process, self._where = name, errors, process, where
        self._sections = sections
        self._max_waiting, self._max_batch = max_waiting, max_batch
        self._thread = PeriodicThread(
            f"otel_itl {name}",
            interval,
            make_round=self._make_round,
            has_work=self._has_work,
            errors=errors,
            sections=sections,
        )
        self._forget()

    def _forget(self) -> None:
        self._waiting: deque[T | Event] = deque()

    @property
    def in_round(self) -> RLock:
        """Held while a batch is processed. A fork waits for it."""
        return self._thread.in_round

    def forget_after_fork(self) -> None:
        """Drop what waits, which is the parent's to process, and the parent's thread."""
        self._forget()
        self._thread.forget_after_fork()

    def __len__(self) -> int:
        """Count the items that wait."""
        return len(self._waiting)

    def add(self, item: T) -> None:
        """Queue an item for the thread, and return at once; a full queue drops it, and counts it."""
        if len(self._waiting) >= self._max_waiting:
            self._errors.count_dropped(f"queue.{self._name}")
            return
        self._waiting.append(item)
        self._thread.wake()

    def flush(self, seconds: float) -> bool:
        """Process what waits now, on the thread where that runs, else here; returns False where `seconds` are too few.

        Where the output blocks, the thread is stuck and not the caller.
        """
        deadline = monotonic() + seconds
        done = Event()
        self._waiting.append(done)
        while not done.is_set():
            if not self._thread.is_alive:
                with self._sections.current, self.in_round:
                    self._process_batch()
            elif monotonic() > deadline:
                return False
            else:
                self._thread.hurry()
                done.wait(FLUSH_STEP)
        return True

    def _has_work(self) -> bool:
        return bool(self._waiting)

    def _make_round(self) -> float | None:
        """Process one batch. A round of the thread."""
        self._process_batch()
        return NOW if self._waiting else None

    def _process_batch(self) -> None:
        """Process one batch, and set the events of the flushes in it."""
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
        batch = [item for item in taken if not isinstance(item, Event)]
        try:
            if batch:
                self._process(batch)
        except Exception as error:  # noqa: BLE001 - the guard: the thread processes later batches as well
            self._errors.report(self._where, error)
        finally:
            for item in taken:
                if isinstance(item, Event):
                    item.set()
