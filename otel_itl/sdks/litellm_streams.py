"""litellm's stream objects: what they read from is recorded, and how they stop reading it is noticed.

The caller keeps litellm's own stream object. It reads from a stream of its route, which a recording proxy stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from otel_itl.core.conventions import Where
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_proxy import recorder_of
from otel_itl.sdks.driver import Around, Call, Driver, ResultHook

_MODULE: Final = "litellm.litellm_core_utils.streaming_handler"

Proxy = Callable[[Any, StreamRecorder], Any]


def bind(proxy: Proxy, _: Driver, result: Any, recorder: StreamRecorder) -> Any:
    """Record the stream that a route returned, alone or beside the headers of its response.

    Args:
        proxy: which proxy the stream gets: most of litellm's streams can be read synchronously and asynchronously.
        result: what the route returned.
        recorder: records the stream.
    """
    if recorder.headers is None:
        recorder.record_headers(None)
    if not isinstance(result, tuple):
        return proxy(result, recorder)
    return tuple(proxy(part, recorder) if _is_stream(part) else part for part in result)


def bind_events(proxy: Proxy, _: Driver, result: Any, recorder: StreamRecorder) -> Any:
    """Record the server-sent events that litellm's stream of the Responses API reads, and return that stream."""
    result.stream_iterator = proxy(result.stream_iterator, recorder)
    return result


def _is_stream(part: Any) -> bool:
    return hasattr(part, "__next__") or hasattr(part, "__anext__")


def _handle(driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Have litellm handle a chunk, and end the recording where litellm has done with the stream."""
    try:
        return wrapped(*args, **kwargs)
    except StopIteration:
        _end(driver, instance.completion_stream)
        raise


def _process(driver: Driver, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Have litellm process an event of the Responses API, and end the recording with the last one."""
    try:
        return wrapped(*args, **kwargs)
    finally:
        if instance.finished:
            _end(driver, instance.stream_iterator)


def _end(driver: Driver, stream: Any) -> None:
    """End the recording of a stream that is exhausted, if it is recorded."""
    try:
        recorder = recorder_of(stream)
        if recorder is not None:
            recorder.end_exhausted()
    except Exception as error:  # noqa: BLE001 - the guard
        driver.errors.report(Where.STREAM_END, error)


def _end_closed(_: Driver, closing: Call, __: object) -> None:
    """End the recording of a stream that is being closed, if it is recorded."""
    recorder = recorder_of(closing.instance.completion_stream)
    if recorder is not None:
        recorder.end_closed()


STREAM_HOOKS: Final = (
    Around(_MODULE, "CustomStreamWrapper.chunk_creator", _handle),
    ResultHook(_MODULE, "CustomStreamWrapper.aclose", _end_closed, Where.STREAM_END, is_optional=True),
    Around("litellm.responses.streaming_iterator", "BaseResponsesAPIStreamingIterator._process_chunk", _process),
)
"""The hooks of litellm's stream classes.

They stop reading before the end of what they read from: with a chunk without content behind a finish reason, and with
the last event of the Responses API. Closing one closes the stream of its route only where that can be closed.
"""
