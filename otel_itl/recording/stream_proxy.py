"""A transparent proxy around a stream object whose class leaves no place for a recording iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol, cast

from wrapt import ObjectProxy

from otel_itl.recording.stream_iterators import ChunkRecorder, record_async_iterator, record_iterator


class ClosableRecorder(ChunkRecorder, Protocol):
    """A recorder of a stream that its caller may close."""

    def end_closed(self) -> None:
        """End a stream that its caller closed."""
        ...


class RecordedStream(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """A stream whose iteration is recorded. Everything else is the stream's own."""

    def __init__(self, stream: Any, recorder: ChunkRecorder, end_closed: Callable[[], None]) -> None:
        super().__init__(stream)
        self._self_end_closed = end_closed
        self._self_iterator = record_iterator(iter(stream), recorder)

    def __iter__(self) -> Iterator[Any]:
        return cast("Iterator[Any]", self)

    def __next__(self) -> Any:
        return next(self._self_iterator)

    def __enter__(self) -> Any:
        entered = self.__wrapped__.__enter__()
        return self if entered is self.__wrapped__ else entered

    def __exit__(self, *error: object) -> Any:
        try:
            return self.__wrapped__.__exit__(*error)
        finally:
            self._self_end_closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name != "close":
            return found

        def close(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            finally:
                self._self_end_closed()

        return close


class AsyncRecordedStream(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """Does what `RecordedStream` does, for an asynchronous stream."""

    def __init__(self, stream: Any, recorder: ChunkRecorder, end_closed: Callable[[], None]) -> None:
        super().__init__(stream)
        self._self_end_closed = end_closed
        self._self_iterator = record_async_iterator(aiter(stream), recorder)

    def __aiter__(self) -> AsyncIterator[Any]:
        return cast("AsyncIterator[Any]", self)

    async def __anext__(self) -> Any:
        return await anext(self._self_iterator)

    async def __aenter__(self) -> Any:
        entered = await self.__wrapped__.__aenter__()
        return self if entered is self.__wrapped__ else entered

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self.__wrapped__.__aexit__(*error)
        finally:
            self._self_end_closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in {"aclose", "close"}:
            return found

        async def close(*args: Any, **kwargs: Any) -> Any:
            """Close the stream, end the recording and finish the recording iterator."""
            try:
                return await found(*args, **kwargs)
            finally:
                self._self_end_closed()
                with suppress(RuntimeError):  # another task is waiting for a chunk
                    await self._self_iterator.aclose()  # else an event loop that shuts down closes it, and complains

        return close


def proxy_stream(stream: Any, recorder: ClosableRecorder) -> Any:
    """Wrap a stream object, synchronous or asynchronous, in a proxy that records its iteration."""
    proxy = AsyncRecordedStream if hasattr(stream, "__aiter__") else RecordedStream
    return proxy(stream, recorder, recorder.end_closed)
