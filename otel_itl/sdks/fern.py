"""The SDKs that Fern generates: a stream is a block, which sends the request when it is entered and has the chunks.

The functions that are hooked are those of the "raw" clients, which every other way of asking goes through: they return
a context manager of `contextlib`, whose generator yields the response. The caller keeps both objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.sdks.driver import Call, Driver, StreamingCall, iterate_recorded
from otel_itl.sdks.http_clients import make_aborter
from otel_itl.sdks.open_call import OpenCall
from otel_itl.sdks.patching import Target, Wrapper


@dataclass(frozen=True, slots=True)
class FernCalls:
    """The streaming calls of such an SDK."""

    calls: tuple[StreamingCall, ...]

    def targets(self, driver: Driver) -> tuple[Target, ...]:
        """Return what is patched."""
        return tuple(Target(call.module, call.path, _recording(driver, call)) for call in self.calls)


def _recording(driver: Driver, streaming: StreamingCall) -> Wrapper:
    """Make the wrapper of a function that returns the block of a stream."""
    errors = driver.errors

    def make_block(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Make the block, and record its stream from its beginning on."""
        block = wrapped(*args, **kwargs)
        description = driver.describe(streaming, Call(wrapped, instance, args, kwargs))
        if description is not None:
            try:
                block.gen = RecordedBlock(block.gen, partial(driver.begin, description), errors)
            except Exception as error:  # noqa: BLE001 - the guard
                errors.report(Where.RESPONSE_FOLLOW, error)
        return block

    return make_block


class RecordedBlock:
    """Stands in for the generator of a context manager: its first step sends the request of a stream.

    Args:
        source: the SDK's own generator, synchronous or asynchronous; its one value is the response.
        begin: opens the recording; None: the request is not to be measured.
        errors: where failures of our own are reported.
    """

    def __init__(self, source: Any, begin: Callable[[], OpenCall | None], errors: InternalErrors) -> None:
        self._source = source
        self._begin: Callable[[], OpenCall | None] | None = begin
        self._recorder: StreamRecorder | None = None
        self.errors = errors

    def __next__(self) -> Any:
        opening = self._open()
        if opening is None:
            return _leave(self._source.__next__, self._end)
        try:
            response = opening.send(self._source.__next__)
        except BaseException as error:
            opening.fail(error)
            raise
        self._bind(response, opening)
        return response

    async def __anext__(self) -> Any:
        opening = self._open()
        if opening is None:
            return await _aleave(self._source.__anext__, self._end)
        opening.follow_loop()
        try:
            response = await opening.asend(self._source.__anext__)
        except BaseException as error:
            opening.fail(error)
            raise
        self._bind(response, opening)
        return response

    def throw(self, *error: Any) -> Any:
        """Leave the block by an exception."""
        return _leave(partial(self._source.throw, *error), partial(self._end, error[0]))

    async def athrow(self, *error: Any) -> Any:
        """Do what `throw` does, for an asynchronous block."""
        return await _aleave(partial(self._source.athrow, *error), partial(self._end, error[0]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @never_raises(Where.STREAM_OPEN, None)
    def _open(self) -> OpenCall | None:
        """Open the recording, the first time; None where there is none, or the block is being left."""
        begin, self._begin = self._begin, None
        return None if begin is None else begin()

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _bind(self, response: Any, opening: OpenCall) -> None:
        """Record the chunks of a response, which is about to be given to the caller."""
        recorder = opening.release()
        if recorder is None:
            return
        recorder.record_headers(None)
        aborter = make_aborter(response._response)  # noqa: SLF001 - older releases have no other name for it
        if aborter is not None:
            recorder.enable_abort(aborter)
        response._data = iterate_recorded(response.data, recorder)  # noqa: SLF001 - `data` has no setter
        self._recorder = recorder

    @never_raises(Where.STREAM_END, None)
    def _end(self, error: object = None) -> None:
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


def _leave(leave: Callable[[], Any], end: Callable[[], None]) -> Any:
    """Leave a block, and end its recording."""
    try:
        return leave()
    finally:
        end()


async def _aleave(leave: Callable[[], Awaitable[Any]], end: Callable[[], None]) -> Any:
    """Do what `_leave` does, for an asynchronous block."""
    try:
        return await leave()
    finally:
        end()
