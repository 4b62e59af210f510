"""The body of an HTTP response, watched for its end: by a close, or by reading its raw bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

from wrapt import ObjectProxy

from otel_itl.recording.recorder import StreamRecorder


def watch_body(response: Any, recorder: StreamRecorder) -> None:
    """Have a recording end when its response is closed, or its bytes are read to their end.

    httpx wraps the body that the transport makes in an object of its own. What is inside of it is exchanged, so that
    `response.stream` stays the object that it was; a body of another make is exchanged itself. A stand-in for a
    response that has no body to exchange is left alone: the end of its chunks is what there is to see.
    """
    body = getattr(response, "__dict__", {}).get("stream")
    if body is None:
        return
    holder, name = response, "stream"
    inner = getattr(body, "__dict__", {}).get("_stream")
    if hasattr(inner, "__iter__") or hasattr(inner, "__aiter__"):
        holder, name = body, "_stream"
    setattr(holder, name, WatchedBody(getattr(holder, name), recorder))


class WatchedClose(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """A body or a response that ends a recording when it is closed. Everything else is its own."""

    def __init__(self, body: Any, recorder: StreamRecorder) -> None:
        super().__init__(body)
        self._self_recorder = recorder

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self.__wrapped__, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__reduce_ex__(protocol)

    def close(self) -> None:
        """Close the body and end the recording."""
        try:
            self.__wrapped__.close()
        finally:
            self._self_recorder.end_closed()


class WatchedBody(WatchedClose):
    """A body that ends a recording when it ends. Everything else is the body's own.

    A caller leaves a stream by closing its response, not its iterator; and one that reads the raw bytes has no
    iterator of chunks. Both show here.
    """

    stream_observer: Any = None
    """The body's own, which the anthropic SDK looks up for each event: found on the class, it costs no proxying."""

    def __init__(self, body: Any, recorder: StreamRecorder) -> None:
        super().__init__(body, recorder)
        observer = getattr(body, "stream_observer", None)
        if observer is not None:
            self.stream_observer = observer

    def __iter__(self) -> Iterator[bytes]:
        recorder = self._self_recorder
        return iter(self.__wrapped__) if recorder.has_reader else _read(iter(self.__wrapped__), recorder)

    def __aiter__(self) -> AsyncIterator[bytes]:
        recorder = self._self_recorder
        return aiter(self.__wrapped__) if recorder.has_reader else _aread(aiter(self.__wrapped__), recorder)

    async def aclose(self) -> None:
        """Do what `close` does, for an asynchronous body."""
        try:
            await self.__wrapped__.aclose()
        finally:
            self._self_recorder.end_closed()


def _read(body: Iterator[bytes], recorder: StreamRecorder) -> Iterator[bytes]:
    """Pass the bytes of a response on, record while its reader waits for them, and end the recording with the body."""
    while True:
        recorder.log.is_waiting = True
        try:
            block = next(body)
        except StopIteration:
            if (replacement := recorder.end_exhausted()) is not None:
                raise replacement from None
            return
        except BaseException as error:
            if (replacement := recorder.end_failed(error)) is not None:
                raise replacement from error
            raise
        recorder.log.is_waiting = False
        yield block


async def _aread(body: AsyncIterator[bytes], recorder: StreamRecorder) -> AsyncIterator[bytes]:
    """Do what `_read` does, for an asynchronous body."""
    while True:
        recorder.log.is_waiting = True
        try:
            block = await anext(body)
        except StopAsyncIteration:
            if (replacement := recorder.end_exhausted()) is not None:
                raise replacement from None
            return
        except BaseException as error:
            if (replacement := recorder.end_failed(error)) is not None:
                raise replacement from error
            raise
        recorder.log.is_waiting = False
        yield block
