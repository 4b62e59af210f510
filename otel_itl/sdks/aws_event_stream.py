"""Records the event streams of botocore and aiobotocore: the caller keeps the genuine stream object.

A loop over an event stream makes a new generator over one shared source: a second loop goes on where the first was
left. So the chunks are recorded in one iterator that all loops over a stream share, and leaving a loop ends nothing.
The recording ends when the stream is exhausted, fails, is closed or is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from copy import copy
from importlib import import_module
from inspect import unwrap
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

from otel_itl.conventions import Where
from otel_itl.recording.abort import shut_down_socket
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.ownership import refer_to
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.response_body import WatchedClose
from otel_itl.recording.stream_iterators import record_async_iterator, record_iterator
from otel_itl.sdks.driver import bind_stream
from otel_itl.sdks.patching import Target, Wrapper

STREAM_FIELDS: Final = ("stream", "body")
"""Fields of a response that hold its event stream: of `converse_stream`, and of a model invocation."""


class Recording(NamedTuple):
    """The recording of one event stream."""

    recorder: StreamRecorder
    chunks: Any
    """The recorded iterator that every loop over the stream pulls from."""


class EventStreams:
    """The event streams that are recorded, and what is patched for that.

    Args:
        errors: where failures of our own are reported.
    """

    def __init__(self, errors: InternalErrors) -> None:
        self.errors = errors
        self._recordings: WeakKeyDictionary[Any, Recording] = WeakKeyDictionary()

    def targets(self) -> tuple[Target, ...]:
        """Return what is patched."""
        return (
            Target("botocore.eventstream", "EventStream.__iter__", self._iterating(_iterate)),
            Target("aiobotocore.eventstream", "AioEventStream.__aiter__", self._iterating(_aiterate)),
        )

    def bind(self, response: dict[str, Any], recorder: StreamRecorder) -> dict[str, Any]:
        """Record the event stream in a response of the SDK; one of another make is recorded by a proxy."""
        metadata = response.get("ResponseMetadata", {})
        recorder.response.response_id = metadata.get("RequestId")
        field = next((field for field in STREAM_FIELDS if field in response), None)
        if field is None:  # made by an event handler of the caller
            recorder.end_exhausted()
            return response
        stream: Any = unwrap(response[field])  # another instrumentation may have put a proxy around it
        if not hasattr(stream, "_event_generator"):
            response[field] = bind_stream(response[field], recorder)
            return response
        recorder.record_headers(metadata.get("RetryAttempts", 0) + 1)
        recorder.add_owner(stream)
        recorder.enable_abort(EventStreamAborter(stream))
        twin = _take_source(stream)
        stream._raw_stream = WatchedClose(stream._raw_stream, recorder)  # noqa: SLF001 - what `close()` closes
        record, source = (
            (record_async_iterator, twin.__aiter__()) if hasattr(twin, "__aiter__") else (record_iterator, iter(twin))
        )
        self._recordings[stream] = Recording(recorder, record(source, recorder, refer_to(stream)))
        return response

    def _iterating(self, iterate: Any) -> Wrapper:
        """Make the wrapper of `__iter__` or `__aiter__`."""

        def start(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            """Return a loop over the recorded chunks; where nothing is recorded, or no longer, the SDK's own."""
            chunks = self._find_chunks(instance)
            return wrapped(*args, **kwargs) if chunks is None else iterate(instance, chunks)

        return start

    @never_raises(Where.RESPONSE_FOLLOW, None)
    def _find_chunks(self, stream: Any) -> Any:
        """Return the recorded chunks of a stream; None where it is not recorded, or no longer."""
        recording = self._recordings.get(stream)
        return None if recording is None or recording.recorder.is_over else recording.chunks


class EventStreamAborter:
    """Aborts an event stream over a connection of its own, of urllib3 or aiohttp.

    Args:
        stream: the event stream, held weakly.
    """

    __slots__ = ("_is_async", "_stream")

    def __init__(self, stream: Any) -> None:
        self._stream = ref(stream)
        self._is_async = hasattr(stream, "__aiter__")

    def shut_down(self) -> bool:
        """Shut the socket down; returns False where the connection has been given back already."""
        raw: Any = getattr(self._stream(), "_raw_stream", None)
        if not self._is_async:
            shut_down_socket(raw.fileno())
            return True
        transport = getattr(getattr(raw, "connection", None), "transport", None)
        if transport is None:
            return False
        shut_down_socket(transport.get_extra_info("socket").fileno())
        return True

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


def _iterate(stream: Any, chunks: Iterator[Any]) -> Iterator[Any]:  # noqa: ARG001 - a loop keeps its stream alive
    """Loop over the chunks, as a generator of the SDK does: where it is left, another loop may go on."""
    for chunk in chunks:  # noqa: UP028 - `yield from` would close the chunks with the loop
        yield chunk


async def _aiterate(stream: Any, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:  # noqa: ARG001 - as above
    """Do what `_iterate` does, for an asynchronous stream."""
    async for chunk in chunks:
        yield chunk
