"""Ended streams that wait for their metrics to be recorded: bounded, and none is ever lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from functools import partial
from threading import Lock, get_ident
from typing import Final, NamedTuple

from opentelemetry.context import Context

from otel_itl import conventions as names
from otel_itl.conventions import Where
from otel_itl.export.instruments import StreamInstruments
from otel_itl.export.measured_stream import MeasuredStream
from otel_itl.export.stream_batch import Labels, StreamBatch
from otel_itl.recording.internal_errors import InternalErrors

MAX_PENDING: Final = 256
"""Streams that may wait. Recording one alone takes 0.1 ms, which a stream's end on an event loop should not pay."""
RECORDED_PER_ADD: Final = 32
"""Streams that `add` records itself when more than that wait: as one batch, which takes what a few take apart."""
MAX_WAIT: Final = 1.0
"""Seconds that `record_all` waits for a recording of another thread."""


_NO_SPAN: Final = Context()


class _Batch(NamedTuple):
    """Streams that are recorded together."""

    instruments: StreamInstruments
    labels: Labels | None
    """Their attributes; None: they could not be found."""
    streams: list[MeasuredStream]


class PendingStreams:
    """A queue between the end of a stream and its metrics.

    Recording happens before a collection, now and then on the finalizer's thread, and, when more than `MAX_PENDING`
    streams wait, in the thread that adds one more: as a batch each time. Nothing is dropped, whatever the load. All
    methods may be called from several threads at once; none waits for a lock but `record_all`.

    Args:
        errors: receives the failure of a recording; the other streams are recorded all the same.
    """

    def __init__(self, errors: InternalErrors) -> None:
        self._errors = errors
        self._report = partial(errors.report, Where.METRICS_RECORD)
        self.queue: deque[tuple[StreamInstruments, MeasuredStream]] = deque()
        """What waits. The pipeline appends to it itself, so that no failure of ours can lose a stream on the way."""
        self._in_progress: dict[Lock, int] = {}
        """A lock for each recording that is under way, held until it is done, and its thread."""
        self.recorded_by_add = 0
        """Streams that were recorded by `add` because too many waited: how often the bound was reached."""

    def __len__(self) -> int:
        """Count the streams that wait."""
        return len(self.queue)

    def add(self, instruments: StreamInstruments, stream: MeasuredStream) -> None:
        """Queue an ended stream to be recorded into `instruments`; beyond `MAX_PENDING`, record two that wait."""
        self.queue.append((instruments, stream))
        self.hold_bound()

    def hold_bound(self) -> None:
        """Record a batch of the streams that wait if more than `MAX_PENDING` do. Called after each that is added."""
        if len(self.queue) > MAX_PENDING:
            self.recorded_by_add += self.record_some(RECORDED_PER_ADD)

    def record_some(self, count: int) -> int:
        """Record up to `count` of the streams that have waited longest, and return how many there were."""
        if not self.queue:
            return 0
        done = Lock()
        done.acquire()
        self._in_progress[done] = get_ident()
        batches: deque[_Batch] = deque()
        try:
            recorded = self._take(count, batches)
            while batches:
                self._record(batches)
        finally:
            # Only what is no `Exception`, as Ctrl-C, leaves any.
            waiting = [(batch.instruments, stream) for batch in batches for stream in batch.streams]
            self.queue.extendleft(reversed(waiting))
            self._in_progress.pop(done, None)
            done.release()
        return recorded

    def record_all(self) -> None:
        """Record every stream that was added before the call, including those that other threads record just now."""
        self.record_some(len(self.queue))
        for done, thread in self._in_progress.copy().items():
            if thread != get_ident() and done.acquire(timeout=MAX_WAIT):
                done.release()

    def forget_after_fork(self) -> None:
        """Drop what waits, in a process that was just forked: the parent records it."""
        self.queue.clear()
        self._in_progress.clear()

    def _take(self, count: int, batches: deque[_Batch]) -> int:
        """Take up to `count` streams from the queue, as batches of those that can be recorded together.

        Returns how many were taken. A stream whose attributes cannot be found is a batch of its own, without any.
        """
        by_key: dict[Hashable, _Batch] = {}
        for taken in range(count):
            try:
                instruments, stream = self.queue.popleft()
            except IndexError:  # another thread was faster
                return taken
            try:
                labels = instruments.labels_of(stream)
                key = instruments, id(labels), stream.common
                batch = by_key.get(key)
                if batch is None:
                    batches.append(batch := _Batch(instruments, labels, []))
                    by_key[key] = batch
                batch.streams.append(stream)
            except Exception as error:  # noqa: BLE001 - the guard
                batches.append(_Batch(instruments, None, [stream]))
                self._report(error)
        return count

    def _record(self, batches: deque[_Batch]) -> None:
        """Record the first of these batches, and remove it.

        Whatever fails, the outcome of each stream is counted once, if need be without the attributes of its request: by
        the counter itself, in the function that removes the batch, so that no failure of ours comes between the two.
        """
        instruments, labels, streams = batches.popleft()
        count_outcome, left = instruments.outcomes.add, len(streams)
        outcome = {names.STREAM_OUTCOME: streams[0].outcome.value}
        try:
            try:
                attributes, context = {**(labels or {}), **outcome}, streams[-1].context
                # One stream apart from all others, so that an exemplar is of one stream.
                count_outcome(1, attributes, context)
                left -= 1
                if left:
                    count_outcome(left, attributes, _NO_SPAN)
            except Exception:
                count_outcome(left, outcome, _NO_SPAN)
                raise
            if labels is not None:
                instruments.record(StreamBatch(streams, self._report), labels)
        except Exception as error:  # noqa: BLE001 - the guard
            self._report(error)
