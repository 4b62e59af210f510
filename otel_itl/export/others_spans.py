"""Replaces `end()` of spans that others end, so that the stream is described on them before they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import time_ns
from typing import Any
from weakref import WeakMethod

from otel_itl.export.stream_report import SpanHandle
from otel_itl.recording.recorder import StreamRecorder


def describe_before_end(handle: SpanHandle, describe: Callable[[], None]) -> None:
    """Have `describe` called just before another instrumentation ends its span, which may be before the stream ends."""
    span: Any = handle.span
    if not span.is_recording():
        return
    end = span.end

    def describe_and_end(*args: Any, **kwargs: Any) -> None:
        span.__dict__.pop("end", None)
        describe()
        end(*args, **kwargs)

    try:
        span.end = describe_and_end
    except AttributeError:  # a span that takes no attributes
        return


def hold_end(recorder: StreamRecorder) -> None:
    """Keep the SDK's own span open until the stream is described on it: its end is noted in the recorder's handle.

    An SDK ends its span when it has read the last event, a moment before the stream ends. A span that takes no
    attribute of Python is not held: it ends without the description. The end of the span ends the stream as well,
    unless a pull is about to do so.
    """
    handle, end_stream = recorder.span_handle, WeakMethod(recorder.end_with_span)
    span: Any = handle.span
    end = span.end

    def note_end(end_time: int | None = None) -> None:
        """Note when the span was to end (ns since the epoch; None: now), instead of ending it."""
        if "end" not in vars(span):  # given back meanwhile, in another thread
            end(end_time)
            return
        handle.noted_ends.append(time_ns() if end_time is None else end_time)
        found = end_stream()
        if found is not None:
            found()

    try:
        span.end = note_end
    except AttributeError:
        return


def move_to_span(recorder: StreamRecorder, sdk_span: Any) -> None:
    """Have a recording on the span of an SDK's attempt report to the span of its next attempt.

    The span before ends with the time that was noted; an SDK that forgets it leaves it open.
    """
    handle: SpanHandle = recorder.span_handle
    if handle.is_adopted and handle.span is not sdk_span:
        give_back_ends([recorder])
        if handle.noted_ends:
            handle.span.end(handle.noted_ends.pop())
        handle.adopt_span(sdk_span, handle.recorded_elsewhere)
        hold_end(recorder)


def give_back_ends(recorders: Iterable[StreamRecorder]) -> None:
    """Have the SDKs end their own spans of open streams themselves: nothing is described on them from here on."""
    for recorder in recorders:
        if recorder.span_handle.is_adopted:
            vars(recorder.span_handle.span).pop("end", None)
