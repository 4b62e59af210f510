"""Records the event streams of botocore and aiobotocore: the caller keeps the genuine stream object.

A loop over an event stream makes a new generator over one shared source: a second loop goes on where the first was
left. So all the loops over a stream are recorded to one recorder, and leaving a loop ends nothing. The recording ends
when the stream is exhausted, fails, is closed or is dropped.
"""

from __future__ import annotations

from copy import copy
from importlib import import_module
from inspect import unwrap
from typing import Any, Final
from weakref import ref

from wrapt import ObjectProxy

from otel_itl.core.conventions import Where
from otel_itl.recording.abort import SocketAborter, find_aiohttp_source
from otel_itl.recording.evidence.connection import Source
from otel_itl.recording.internal_errors import never_raises
from otel_itl.recording.ownership import Owner
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.response_body import WatchedClose
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.sdks.driver import Call, Driver, bind_stream

STREAM_FIELDS: Final = ("stream", "body")
"""Fields of a response that hold its event stream: of `converse_stream`, and of a model invocation."""


def bind_response(driver: Driver, response: dict[str, Any], recorder: StreamRecorder) -> dict[str, Any]:
    """Record the event stream in a response of the SDK; one of another make is recorded by a proxy."""
    metadata = response.get("ResponseMetadata", {})
    recorder.response.request_id = metadata.get("RequestId")
    field = next((field for field in STREAM_FIELDS if field in response), None)
    if field is None:  # made by an event handler of the caller
        recorder.end_exhausted()
        return response
    stream: Any = unwrap(response[field])  # another instrumentation may have put a proxy around it
    if not hasattr(stream, "_event_generator"):
        response[field] = bind_stream(driver, response[field], recorder)
        return response
    recorder.record_headers(metadata.get("RetryAttempts", 0) + 1)
    recorder.add_owner(stream)
    recorder.enable_abort(EventStreamAborter(stream))
    twin = _take_source(stream)
    stream._raw_stream = WatchedClose(stream._raw_stream, recorder)  # noqa: SLF001 - what `close()` closes
    driver.response_recorders.add(stream, recorder)
    driver.stream_twins[stream] = twin
    return response


def record_loop(driver: Driver, call: Call, _: object) -> Any:
    """Return a recorded loop over a stream, in place of the SDK's own; None where there is nothing to record."""
    stream = call.instance
    recorder = driver.response_recorders.find(stream)
    if recorder is None or recorder.is_over:
        return None
    twin, loop_recorder = driver.stream_twins[stream], LoopRecorder(stream, recorder)
    if hasattr(stream, "__aiter__"):
        return record_async_iterator(aiter(twin), loop_recorder)
    return record_iterator(iter(twin), loop_recorder)


class LoopRecorder(ObjectProxy):  # type: ignore[type-arg]  # subscripted, it would need wrapt 2
    """Stands in for the recorder of a stream in one loop over it: leaving the loop does not end the recording.

    It keeps the stream alive, as the SDK's own generator does.

    Args:
        stream: the event stream.
        recorder: records all the loops over it.
    """

    def __init__(self, stream: object, recorder: StreamRecorder) -> None:
        super().__init__(recorder)
        self._self_stream = stream

    @never_raises(Where.STREAM_READ, None)
    def start_reading(self, source: object, _: Owner | None) -> None:
        """Note that chunks are pulled from `source` from here on; no object is the owner of the loop."""
        self.__wrapped__.start_reading(source, None)

    @never_raises(Where.STREAM_END, None)
    def end_thrown(self, error: BaseException) -> None:
        """Do nothing: what is thrown into a loop ends the loop alone."""

    @never_raises(Where.STREAM_DROP, None, in_finalizer=True)
    def end_iterator_closed(self) -> None:
        """Do nothing: a loop that is left may be followed by another."""


class EventStreamAborter(SocketAborter):
    """Aborts an event stream over a connection of its own, of urllib3 or aiohttp.

    Args:
        stream: the event stream, held weakly.
    """

    __slots__ = ("_is_async", "_stream")

    def __init__(self, stream: Any) -> None:
        self._stream = ref(stream)
        self._is_async = hasattr(stream, "__aiter__")

    def find_source(self) -> Source | None:
        """Return what the events are read from; None where the connection has been given back already."""
        raw: Any = getattr(self._stream(), "_raw_stream", None)
        if raw is None:
            return None
        return find_aiohttp_source(raw) if self._is_async else Source(raw)

    def make_error(self, message: str) -> Exception:
        """Make the SDK's own timeout error."""
        module, name = (
            ("aiobotocore.response", "AioReadTimeoutError")
            if self._is_async
            else ("botocore.exceptions", "ReadTimeoutError")
        )
        error: Exception = getattr(import_module(module), name)(endpoint_url="", error=message)
        error.args = (message,)
        return error


def _take_source(stream: Any) -> Any:
    """Return a second stream object that reads the same response, and have the first read through it.

    The SDK's stream and its generator refer to each other, so that only the garbage collector frees a stream that is
    dropped. Through the second one the first is in no such cycle: that it is dropped shows at once.

    Raises:
        TypeError: reading has begun.
    """
    source = stream._event_generator  # noqa: SLF001 - the SDK has no other name for it
    frame = getattr(source, "gi_frame", None) or getattr(source, "ag_frame", None)
    if frame is None or len(frame.f_locals) > 1:  # more than its argument
        raise TypeError("the event stream has been read from")
    twin = copy(stream)
    twin._event_generator = stream._event_generator = twin._create_raw_event_generator()  # noqa: SLF001 - as above
    return twin
