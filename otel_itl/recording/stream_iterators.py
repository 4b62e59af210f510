"""The iterators under the SDK's stream: they record each chunk as it passes.

The sync and the async one differ in `await` only. Chunks pass untouched and in order, nothing is read ahead. While a
stream runs, a chunk costs two readings of the clock, three appends and one `classify`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from itertools import filterfalse
from typing import Any, Protocol, TypeVar, cast

from otel_itl.core.conventions import Where
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.chunk_log import AppendTargets, record_nothing
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.ownership import Owner

T = TypeVar("T")


class ChunkRecorder(Protocol):
    """What an iterator records to: a `StreamRecorder`, or a recording that begins with the first pull."""

    @property
    def clock(self) -> Callable[[], int]:
        """A monotonic clock in nanoseconds."""
        ...

    @property
    def response(self) -> ResponseInfo:
        """What the chunks reveal besides their text; `classify` fills it in."""
        ...

    @property
    def errors(self) -> InternalErrors:
        """Where failures of our own are reported."""
        ...

    @property
    def is_collected(self) -> bool:
        """Whether the stream is in the hands of the garbage collector, or of an event loop that shuts down."""
        ...

    def start_reading(self, source: object, owner: Owner | None) -> None:
        """Note that chunks are pulled from `source` from here on. Called with the first pull."""
        ...

    def follow_running_loop(self) -> None:
        """Follow the lag of the event loop of this thread: the stream is awaited there."""
        ...

    def append_targets(self, pull: Callable[[], Any]) -> Iterable[AppendTargets] | None:
        """Return the functions that the iterator calls for each chunk, and for how many chunks they hold.

        Args:
            pull: gets the next chunk from the SDK.

        Returns None where nothing is to be recorded.
        """
        ...

    def end_exhausted(self) -> BaseException | None:
        """End a stream that is exhausted; returns what the caller gets instead, if anything."""
        ...

    def end_failed(self, error: BaseException) -> BaseException | None:
        """End a stream whose SDK raised; returns what the caller gets instead, if anything."""
        ...

    def end_thrown(self, error: BaseException) -> None:
        """End a stream that its caller threw an exception into."""
        ...

    def end_iterator_closed(self) -> None:
        """End a stream whose iterator was closed: by its caller, or by the garbage collector."""
        ...


def record_iterator(  # noqa: C901 - a branch for each way out
    source: Iterator[T], recorder: ChunkRecorder, owner: Owner | None = None
) -> Generator[T, Any, Any]:
    """Iterate over `source`, and record when each chunk was asked for, when it arrived and what it carried.

    What is sent or thrown into it goes to the source, and it returns what the source returns.

    Args:
        source: the SDK's own iterator.
        recorder: takes the moments, and how the stream ends.
        owner: a reference to the stream object whose iterator this becomes.
    """
    recorder.start_reading(source, owner)
    clock, response = recorder.clock, recorder.response
    targets, resumed = recorder.append_targets(source.__next__), None
    for asked, arrived, carried, classify, pull_next, turns in targets or (record_nothing(source.__next__),):
        pull = resumed or pull_next
        for now, _ in turns:
            asked(now)
            try:
                chunk = pull()
            except StopIteration as end:
                if (replacement := recorder.end_exhausted()) is not None:
                    raise replacement from None
                return end.value
            except BaseException as error:
                if (replacement := recorder.end_failed(error)) is not None:
                    raise replacement from error
                raise
            arrived(clock())
            try:
                carried(classify(chunk, response))
            except Exception as error:  # noqa: BLE001 - the guard
                recorder.errors.report(Where.CHUNK_CLASSIFY, error)
                carried(0)
            try:
                if (sent := (yield chunk)) is not None:
                    pull = resumed = _resume_with(cast("Generator[T, Any, Any]", source).send, sent, source.__next__)
            except GeneratorExit:
                recorder.end_iterator_closed()
                if hasattr(source, "close"):
                    source.close()
                raise
            except BaseException as thrown:
                recorder.end_thrown(thrown)
                if not hasattr(source, "throw"):
                    raise
                pull = resumed = _resume_with(source.throw, thrown, source.__next__)


async def record_async_iterator(  # noqa: C901 - a branch for each way out
    source: AsyncIterator[T], recorder: ChunkRecorder, owner: Owner | None = None
) -> AsyncGenerator[T, Any]:
    """Do what `record_iterator` does, for an asynchronous stream."""
    recorder.start_reading(source, owner)
    recorder.follow_running_loop()
    clock, response = recorder.clock, recorder.response
    targets, resumed = recorder.append_targets(source.__anext__), None
    for asked, arrived, carried, classify, pull_next, turns in targets or (record_nothing(source.__anext__),):
        pull = resumed or pull_next
        for now, _ in turns:
            asked(now)
            try:
                chunk = await pull()
            except StopAsyncIteration:
                if (replacement := recorder.end_exhausted()) is not None:
                    raise replacement from None
                return
            except BaseException as error:
                if (replacement := recorder.end_failed(error)) is not None:
                    raise replacement from error
                raise
            arrived(clock())
            try:
                carried(classify(chunk, response))
            except Exception as error:  # noqa: BLE001 - the guard
                recorder.errors.report(Where.CHUNK_CLASSIFY, error)
                carried(0)
            try:
                if (sent := (yield chunk)) is not None:
                    pull = resumed = _resume_with(cast("AsyncGenerator[T, Any]", source).asend, sent, source.__anext__)
            except GeneratorExit:
                recorder.end_iterator_closed()
                # Where the event loop closes the source as well: it may not be closed twice at once.
                if hasattr(source, "aclose") and not recorder.is_collected:
                    await source.aclose()
                raise
            except BaseException as thrown:
                recorder.end_thrown(thrown)
                if not hasattr(source, "athrow"):
                    raise
                pull = resumed = _resume_with(source.athrow, thrown, source.__anext__)


def _resume_with(resume_source: Callable[[Any], T], value: object, pull: Callable[[], T]) -> Callable[[], T]:
    """Return a pull that sends or throws `value` into the source first; awaitable where the source is asynchronous."""
    pending = [value]

    def resume() -> T:
        return resume_source(pending.pop()) if pending else pull()

    return resume


def tap_events(events: Iterator[T], see: Callable[[T], None]) -> Iterator[T]:
    """Pass the SDK's server-sent events on, and call `see` with each: also those that the SDK does not hand out."""
    return filterfalse(see, events)


class AsyncEventTap(AsyncIterator[T]):
    """Does what `tap_events` does, for an asynchronous stream; no generator, which an event loop would finalize."""

    __slots__ = ("_pull", "_see")

    def __init__(self, events: AsyncIterator[T], see: Callable[[T], None]) -> None:
        self._pull = events.__anext__
        self._see = see

    async def __anext__(self) -> T:
        """Return the next event."""
        event = await self._pull()
        self._see(event)
        return event
