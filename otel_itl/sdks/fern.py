"""The SDKs that Fern generates: a stream is a block, which sends the request when it is entered and has the chunks.

The functions that are hooked are those of the "raw" clients, which every other way of asking goes through: they return
a context manager of `contextlib`, whose generator yields the response. The caller keeps both objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.recording.internal_errors import never_raises
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.driver import Driver, iterate_recorded
from otel_itl.sdks.http_clients import enable_abort
from otel_itl.sdks.open_call import OpenCall


def bind_block(_: Driver, block: Any, opening: OpenCall) -> Any:
    """Record the stream of a block from its beginning on: `StreamingCall.bind` of such an SDK."""
    block.gen = RecordedBlock(block.gen, opening)
    return block


class RecordedBlock:
    """Stands in for the generator of a context manager: its first step sends the request of a stream.

    Args:
        source: the SDK's own generator, synchronous or asynchronous; its one value is the response.
        opening: opens the recording.
    """

    def __init__(self, source: Any, opening: OpenCall) -> None:
        self._source = source
        self._opening = opening
        self._is_entered = False
        self._recorder: StreamRecorder | None = None
        self.errors = opening.errors

    def __next__(self) -> Any:
        is_left, self._is_entered = self._is_entered, True
        if is_left or not self._opening.begin():
            return self._leave(self._source.__next__)
        response = self._opening.call(self._source.__next__)
        self._bind(response)
        return response

    async def __anext__(self) -> Any:
        is_left, self._is_entered = self._is_entered, True
        if is_left or not self._opening.begin():
            return await self._aleave(self._source.__anext__)
        response = await self._opening.acall(self._source.__anext__)
        self._bind(response)
        return response

    def throw(self, *error: Any) -> Any:
        """Leave the block by an exception."""
        return self._leave(partial(self._source.throw, *error), error[0])

    async def athrow(self, *error: Any) -> Any:
        """Do what `throw` does, for an asynchronous block."""
        return await self._aleave(partial(self._source.athrow, *error), error[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind(self, response: Any) -> None:
        """Record the chunks of a response, which is about to be given to the caller."""
        recorder = self._opening.release()
        if recorder is None:
            return
        recorder.record_headers(None)
        enable_abort(recorder, response._response)  # noqa: SLF001 - older releases have no other name for it
        response._data = iterate_recorded(response.data, recorder)  # noqa: SLF001 - `data` has no setter
        self._recorder = recorder

    def _leave(self, leave: Callable[[], Any], error: object = None) -> Any:
        """Leave the block, and end the recording."""
        try:
            return leave()
        finally:
            self._end(error)

    async def _aleave(self, leave: Callable[[], Awaitable[Any]], error: object = None) -> Any:
        """Do what `_leave` does, for an asynchronous block."""
        try:
            return await leave()
        finally:
            self._end(error)

    @never_raises(Where.STREAM_END, None)
    def _end(self, error: object) -> None:
        """End the recording, unless it has ended: the block was left, or, by a `GeneratorExit`, dropped.

        Args:
            error: what the block is left by, or its class; None: it is left at its end.
        """
        if self._recorder is None:
            return
        if error is GeneratorExit or isinstance(error, GeneratorExit):
            self._recorder.end_iterator_closed()
        else:
            self._recorder.end_closed()
