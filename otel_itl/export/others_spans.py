"""Replaces `end()` of spans that others end, so that the stream is described on them before they do."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any

from otel_itl.export.stream_report import SpanHandle


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


def hold_end(handle: SpanHandle, end_stream: Callable[[], Callable[[], None] | None]) -> None:
    """Keep the SDK's own span open until the stream is described on it: its end is noted in the handle.

    An SDK ends its span when it has read the last event, a moment before the stream ends. A span that takes no
    attribute of Python is not held: it ends without the description.

    Args:
        handle: of that span.
        end_stream: a weak reference to what ends the stream as well, unless a pull is about to do so.
    """
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
