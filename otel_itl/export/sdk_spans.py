"""Spans that an SDK starts itself for its requests: one bears the tokens of a request, with the details of both."""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import Any, Final

from opentelemetry.trace import Span  # noqa: TC002 - annotations stay resolvable

from otel_itl import conventions as names
from otel_itl.export.stream_report import SpanHandle

_SAME: Final = {names.USAGE_CACHE_CREATION_TOKENS: names.USAGE_CACHE_WRITE_TOKENS}
"""Attribute → its name in the coming generation: the same number is not reported under both."""


def add_missing(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set the attributes that a span does not have yet; those that it has stay as they are."""
    present = getattr(span, "attributes", None) or {}
    span.set_attributes(
        {
            name: value
            for name, value in attributes.items()
            if name not in present and _SAME.get(name, name) not in present
        }
    )


def hold_end(handle: SpanHandle) -> None:
    """Keep the SDK's own span open until the stream is described on it: its end is noted in the handle.

    An SDK ends its span when it has read the last event, a moment before the stream ends. A span that takes no
    attribute of Python is not held: it ends without the description.
    """
    span: Any = handle.span
    end = span.end

    def note_end(end_time: int | None = None) -> None:
        if "end" in vars(span):
            handle.noted_ends.append(time_ns() if end_time is None else end_time)
        else:  # given back meanwhile, in another thread
            end(end_time)

    try:
        span.end = note_end
    except AttributeError:
        return
