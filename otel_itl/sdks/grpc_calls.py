"""Streaming calls of gRPC's clients: how a recording is tied to a call, how it is aborted, and its errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any
from weakref import ref

from otel_itl.recording.abort import is_cancelled_below
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_proxy import AsyncRecordedStream, RecordedStream
from otel_itl.sdks.driver import Driver


class GRPCAborter:
    """Aborts a stream by cancelling its call, which ends this call alone: others on the connection go on.

    Args:
        call: the call, held weakly.
        cancel: cancels it, from any thread.
        interrupts: the reader of a call that is cancelled gets an `asyncio.CancelledError` rather than an error.
    """

    def __init__(self, call: Any, cancel: Callable[[Any], object], *, interrupts: bool) -> None:
        self._call = ref(call)
        self._cancel = cancel
        self._interrupts = interrupts

    def shut_down(self) -> bool:
        """Cancel the call; returns False where it is over."""
        call = self._call()
        if call is None or call.done():
            return False
        self._cancel(call)
        return True

    def has_interrupted(self, error: BaseException) -> bool:
        """Return whether the reader was interrupted by the abort, rather than by the cancellation of its task."""
        return self._interrupts and is_cancelled_below(error)

    def make_error(self, message: str) -> Exception:
        """Make the error of a call whose deadline has passed, with this message; it is a `grpc.RpcError`."""
        grpc = import_module("grpc")
        metadata = grpc.aio.Metadata()
        error: Exception = grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, metadata, metadata, details=message)
        return error


def bind_call(_: Driver, call: Any, recorder: StreamRecorder) -> Any:
    """Record the responses of a call, and return what stands in for it: it behaves like the call.

    gRPC has no public event for the headers of a response, so that their moment is not recorded. Its responses pass
    through threads of its own.
    """
    recorder.evidence.host.watch_all_threads()
    if hasattr(call, "__aiter__"):
        loop = asyncio.get_running_loop()
        recorder.enable_abort(GRPCAborter(call, lambda found: loop.call_soon_threadsafe(found.cancel), interrupts=True))
        return AsyncRecordedCall(call, recorder)
    recorder.enable_abort(GRPCAborter(call, lambda found: found.cancel(), interrupts=False))
    return RecordedCall(call, recorder)


class RecordedCall(RecordedStream):
    """A call whose responses are recorded: a loop over it runs in the recording iterator, without the proxy."""

    def __iter__(self) -> Iterator[Any]:
        return self._self_iterator


class AsyncRecordedCall(AsyncRecordedStream):
    """Does what `RecordedCall` does, for a call of gRPC's asynchronous client."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._self_iterator


def name_error(error: BaseException) -> str | None:
    """Return the status of a call that failed, such as `UNAVAILABLE`; None for any other exception."""
    if not any(kind.__module__.partition(".")[0] == "grpc" for kind in type(error).__mro__):
        return None
    code = getattr(error, "code", None)
    return getattr(code(), "name", None) if callable(code) else None
