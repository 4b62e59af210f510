"""Ended streams that wait for their metrics to be recorded: bounded, and none is ever lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from otel_itl.core import conventions as names
from otel_itl.core.conventions import Where
from otel_itl.export.stream_batch import NO_SPAN, HasInstruments, StreamBatch
from otel_itl.export.stream_report import StreamReport
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.under_way import UnderWay

MANY: Final = 64
"""Streams that wait for a collection. When there are as many, the finalizer's thread records them."""
MAX_PENDING: Final = 256
"""Streams that may wait. Recording one alone takes 0.1 ms, which a stream's end on an event loop should not pay."""
RECORDED_PER_ADD: Final = 32
"""Streams that `add` records itself when more than that wait: as one batch, which takes what a few take apart."""
MAX_WAIT: Final = 1.0
"""Seconds that `record_all` waits for recordings of other threads."""


def _do_nothing() -> None:
    """Do nothing."""


class PendingStreams:
    """A queue between the end of a stream and its metrics.

    Recording happens before a collection, on the finalizer's thread when many streams wait, and, when more than
    `MAX_PENDING` do, in the thread that adds one more: as a batch each time. Nothing is dropped, whatever the load. All
    methods may be called from several threads at once; none waits for a lock but `record_all`.

    Args:
        errors: receives the failure of a recording; the other streams are recorded all the same.
        sections: the critical sections of the process: instruments have locks.
        wake: called when many streams wait, so that another thread records them; it returns at once.
    """

    def __init__(
        self, errors: InternalErrors, sections: CriticalSections, wake: Callable[[], object] = _do_nothing
    ) -> None:
        self._errors = errors
        self._sections = sections
        self._wake = wake
        self._report = partial(errors.report, Where.METRICS_RECORD)
        self.queue: deque[tuple[HasInstruments, StreamReport]] = deque()
        """What waits. The pipeline appends to it itself, so that no failure of ours can lose a stream on the way."""
        self._recording = UnderWay()
        self.recorded_by_add = 0
        """Streams that were recorded by `add` because too many waited: how often the bound was reached."""

    def __len__(self) -> int:
        """Count the streams that wait."""
        return len(self.queue)

    @property
    def has_many(self) -> bool:
        """Whether the streams that wait are to be recorded before a collection."""
        return len(self.queue) >= MANY

    def add(self, metrics: HasInstruments, stream: StreamReport) -> None:
        """Queue an ended stream to be recorded by `metrics`; beyond `MAX_PENDING`, record some that wait."""
        self.queue.append((metrics, stream))
        self.hold_bound()

    def hold_bound(self) -> None:
        """Have many that wait recorded; beyond `MAX_PENDING` a batch of them here. Called after each that is added."""
        if self.has_many:
            self._wake()
            if len(self.queue) > MAX_PENDING:
                self.recorded_by_add += self.record_some(RECORDED_PER_ADD)

    def record_some(self, count: int) -> int:
        """Record up to `count` of the streams that have waited longest, and return how many there were."""
        return self._recording.do(partial(self._record_some, count)) if self.queue else 0

    def _record_some(self, count: int) -> int:
        """Do what `record_some` does."""
        batches: deque[StreamBatch] = deque()
        try:
            with self._sections.current:
                recorded = self._take(count, batches)
                while batches:
                    self._record(batches)
        finally:
            # Only what is no `Exception`, as Ctrl-C, leaves any.
            waiting = [(batch.metrics, stream) for batch in batches for stream in batch.streams]
            self.queue.extendleft(reversed(waiting))
        return recorded

    def record_all(self) -> None:
        """Record every stream that was added before the call, including those that other threads record just now."""
        self.record_some(len(self.queue))
        self._recording.wait(MAX_WAIT)

    def forget_after_fork(self) -> None:
        """Drop what waits, in a process that was just forked: the parent records it."""
        self.queue.clear()
        self._recording.forget()

    def _take(self, count: int, batches: deque[StreamBatch]) -> int:
        """Take up to `count` streams from the queue, as batches of those that can be recorded together.

        Returns how many were taken. A stream whose attributes cannot be found is a batch of its own, without any.
        """
        by_key: dict[Hashable, StreamBatch] = {}
        for taken in range(count):
            try:
                metrics, stream = self.queue.popleft()
            except IndexError:  # another thread was faster
                return taken
            instruments = metrics.instruments
            try:
                labels = instruments.labels_of(stream)
                key = instruments, id(labels), stream.batch_key
                batch = by_key.get(key)
                if batch is None:
                    batches.append(batch := StreamBatch(metrics, instruments, labels, [], self._report))
                    by_key[key] = batch
                batch.streams.append(stream)
            except Exception as error:  # noqa: BLE001 - the guard
                batches.append(StreamBatch(metrics, instruments, None, [stream], self._report))
                self._report(error)
        return count

    def _record(self, batches: deque[StreamBatch]) -> None:
        """Record the first of these batches, and remove it.

        Whatever fails, the outcome of each stream is counted once, if need be without the attributes of its request: by
        the counter itself, in the function that removes the batch, so that no failure of ours comes between the two.
        """
        batch = batches.popleft()
        _, instruments, labels, streams, report = batch
        count_outcome, left = instruments.outcomes.add, len(streams)
        outcome = {names.STREAM_OUTCOME: streams[0].finished.timeline.outcome.value}
        try:
            try:
                attributes, context = {**(labels or {}), **outcome}, streams[-1].handle.exemplar_context
                # One stream apart from all others, so that an exemplar is of one stream.
                count_outcome(1, attributes, context)
                left -= 1
                if left:
                    count_outcome(left, attributes, NO_SPAN)
            except Exception:
                count_outcome(left, outcome, NO_SPAN)
                raise
            if labels is not None:
                instruments.record(batch, labels)
        except Exception as error:  # noqa: BLE001 - the guard
            report(error)
