"""The faces of a stream that is timed: what the SDK's own stream object iterates over instead of its bare iterator.

The sync and the async face differ in `await` only. Chunks pass through untouched and in order, nothing is read ahead,
and while a stream runs a chunk costs two clock readings, three appends and one `classify`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from itertools import filterfalse
from typing import Any, TypeVar

from wrapt import ObjectProxy

from otel_itl.recording.internal_errors import report_error
from otel_itl.recording.recorder import Owner, StreamRecorder

T = TypeVar("T")


def record_iterator(  # noqa: C901 - a branch for each way out
    source: Iterator[T], probe: StreamRecorder, owner: Owner | None = None
) -> Generator[T, None, None]:
    """Iterate over `source` and take down when each chunk was asked for, when it came and what it carried.

    Args:
        source: the SDK's own iterator.
        probe: takes it down.
        owner: the stream object whose iterator this becomes.
    """
    probe.reads(source, owner)
    clock, classify, answer = probe.clock, probe.classify, probe.answer
    pull = source.__next__
    for asked, arrived, carried, turns in probe.append_targets():
        for _ in turns:
            asked(clock())
            try:
                chunk = pull()
            except StopIteration:
                if (broken := probe.exhausted()) is not None:
                    raise broken from None
                return
            except BaseException as error:
                if (broken := probe.failed(error)) is not None:
                    raise broken from error
                raise
            arrived(clock())
            try:
                carried(classify(chunk, answer))
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("classifying a chunk", error)
                carried(0)
            try:
                yield chunk
            except GeneratorExit:
                probe.abandon_from_gc()
                _close(source)
                raise
            except BaseException as thrown:
                probe.thrown(thrown)
                if not hasattr(source, "throw"):
                    raise
                pull = _resumed(source.throw, thrown, source.__next__)


async def record_async_iterator(  # noqa: C901 - a branch for each way out
    source: AsyncIterator[T], probe: StreamRecorder, owner: Owner | None = None
) -> AsyncGenerator[T, None]:
    """The async face of `timed`."""
    probe.reads(source, owner)
    probe.read_on_running_loop()
    clock, classify, answer = probe.clock, probe.classify, probe.answer
    pull = source.__anext__
    for asked, arrived, carried, turns in probe.append_targets():
        for _ in turns:
            asked(clock())
            try:
                chunk = await pull()
            except StopAsyncIteration:
                if (broken := probe.exhausted()) is not None:
                    raise broken from None
                return
            except BaseException as error:
                if (broken := probe.failed(error)) is not None:
                    raise broken from error
                raise
            arrived(clock())
            try:
                carried(classify(chunk, answer))
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("classifying a chunk", error)
                carried(0)
            try:
                yield chunk
            except GeneratorExit:
                probe.abandon_from_gc()
                if not probe.collected:
                    # Else the event loop closes the source as well, and two may not at once.
                    await _aclose(source)
                raise
            except BaseException as thrown:
                probe.thrown(thrown)
                if not hasattr(source, "athrow"):
                    raise
                pull = _resumed(source.athrow, thrown, source.__anext__)


def _resumed(throw: Callable[[BaseException], T], error: BaseException, pull: Callable[[], T]) -> Callable[[], T]:
    """Pulls that begin by throwing `error` into the source; awaitable where those of the source are."""
    pending = [error]

    def resume() -> T:
        return throw(pending.pop()) if pending else pull()

    return resume


def _close(source: Iterator[Any]) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()


async def _aclose(source: AsyncIterator[Any]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


def tapped(events: Iterator[T], note: Callable[[T], None]) -> Iterator[T]:
    """The SDK's server-sent events, noted as they pass: what the SDK swallows is seen there."""
    return filterfalse(note, events)


class AsyncTapped(AsyncIterator[T]):
    """The async face of `tapped`; no generator, so that the event loop has nothing more to finalise."""

    __slots__ = ("_note", "_pull")

    def __init__(self, events: AsyncIterator[T], note: Callable[[T], None]) -> None:
        self._pull = events.__anext__
        self._note = note

    async def __anext__(self) -> T:
        """The next event."""
        event = await self._pull()
        self._note(event)
        return event


class Body(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """The body of an HTTP response, watched for its end.

    A stream is left by closing its response, not its iterator; and who reads the raw bytes has no iterator at all. Both
    show here. Everything else is the SDK's own object.
    """

    stream_observer: Any = None
    """The body's own, which the anthropic SDK asks for with every event: a proxy that has to look is slow."""

    def __init__(self, body: Any, probe: StreamRecorder) -> None:
        super().__init__(body)
        self._self_probe = probe
        observer = getattr(body, "stream_observer", None)
        if observer is not None:
            self.stream_observer = observer

    def __iter__(self) -> Iterator[bytes]:
        probe = self._self_probe
        return iter(self.__wrapped__) if probe.pulled else _read(iter(self.__wrapped__), probe)

    def __aiter__(self) -> AsyncIterator[bytes]:
        probe = self._self_probe
        return aiter(self.__wrapped__) if probe.pulled else _aread(aiter(self.__wrapped__), probe)

    def close(self) -> None:
        """Close the body and end the recording."""
        try:
            self.__wrapped__.close()
        finally:
            self._self_probe.closed()

    async def aclose(self) -> None:
        """The async face of `close`."""
        try:
            await self.__wrapped__.aclose()
        finally:
            self._self_probe.closed()


def _read(body: Iterator[bytes], probe: StreamRecorder) -> Iterator[bytes]:
    while True:
        probe.waiting = True
        try:
            block = next(body)
        except StopIteration:
            if (broken := probe.exhausted()) is not None:
                raise broken from None
            return
        except BaseException as error:
            if (broken := probe.failed(error)) is not None:
                raise broken from error
            raise
        probe.waiting = False
        yield block


async def _aread(body: AsyncIterator[bytes], probe: StreamRecorder) -> AsyncIterator[bytes]:
    while True:
        probe.waiting = True
        try:
            block = await anext(body)
        except StopAsyncIteration:
            if (broken := probe.exhausted()) is not None:
                raise broken from None
            return
        except BaseException as error:
            if (broken := probe.failed(error)) is not None:
                raise broken from error
            raise
        probe.waiting = False
        yield block
