"""A transparent proxy around a stream object whose class leaves no place for a recording iterator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from wrapt import ObjectProxy

from otel_itl.recording.stream_iterators import ChunkRecorder, record_async_iterator, record_iterator

_RESUMING: Final = frozenset({"send", "throw", "asend", "athrow"})
"""Methods by which the caller of a generator resumes it: what it yields then is a chunk as well."""


class ClosableRecorder(ChunkRecorder, Protocol):
    """A recorder of a stream that its caller may close."""

    @property
    def has_reader(self) -> bool:
        """Whether the first chunk was pulled."""
        ...

    def end_closed(self) -> None:
        """End a stream that its caller closed."""
        ...


class RecordedStream(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """A stream whose iteration is recorded. Everything else is the stream's own."""

    def __init__(self, stream: Any, recorder: ClosableRecorder) -> None:
        super().__init__(stream)
        self._self_recorder = recorder
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
            self._self_recorder.end_closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name in _RESUMING and isinstance(self.__wrapped__, Generator):
            return self._self_iterator.send if name == "send" else self._throw
        if name != "close":
            return found

        def close(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            finally:
                self._self_recorder.end_closed()

        return close

    def _throw(self, *error: Any) -> Any:
        """Throw into the generator: through the recording iterator, which has to have been started for that."""
        if self._self_recorder.has_reader:
            return self._self_iterator.throw(*error)
        try:
            return self.__wrapped__.throw(*error)
        finally:
            self._self_recorder.end_closed()


class AsyncRecordedStream(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """Does what `RecordedStream` does, for an asynchronous stream."""

    def __init__(self, stream: Any, recorder: ClosableRecorder) -> None:
        super().__init__(stream)
        self._self_recorder = recorder
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
            self._self_recorder.end_closed()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name in _RESUMING and isinstance(self.__wrapped__, AsyncGenerator):
            return self._self_iterator.asend if name == "asend" else self._athrow
        if name not in {"aclose", "close"}:
            return found

        async def close(*args: Any, **kwargs: Any) -> Any:
            """Close the stream, end the recording and finish the recording iterator."""
            try:
                return await found(*args, **kwargs)
            finally:
                self._self_recorder.end_closed()
                with suppress(RuntimeError):  # another task is waiting for a chunk
                    await self._self_iterator.aclose()  # else an event loop that shuts down closes it, and complains

        return close

    async def _athrow(self, *error: Any) -> Any:
        """Do what `RecordedStream._throw` does."""
        if self._self_recorder.has_reader:
            return await self._self_iterator.athrow(*error)
        try:
            return await self.__wrapped__.athrow(*error)
        finally:
            self._self_recorder.end_closed()


def proxy_stream(stream: Any, recorder: ClosableRecorder) -> Any:
    """Wrap a stream object, synchronous or asynchronous, in a proxy that records its iteration."""
    proxy = AsyncRecordedStream if hasattr(stream, "__aiter__") else RecordedStream
    return proxy(stream, recorder)


def recorder_of(stream: Any) -> ClosableRecorder | None:
    """Return the recorder of a stream that is one of these proxies; None for any other."""
    # By the exact type: `isinstance` asks the wrapped object as well.
    return stream._self_recorder if type(stream) in {RecordedStream, AsyncRecordedStream} else None  # noqa: SLF001 - ours
