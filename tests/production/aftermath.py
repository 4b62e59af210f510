"""What a fault of ours may leave behind, and the silence in which it is looked for."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from callers import seen_by_caller
from measuring import SHARED
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import INVALID_SPAN, get_current_span
from replies import whole
from surfaces import CREATED

from otel_itl.runtime import runtime

if TYPE_CHECKING:
    from opentelemetry.context import Context

OPEN_SPANS: Final[set[int]] = set()
"""The ids of the spans that were started and have not ended."""


class _SpansSeen(SpanProcessor):
    """Keeps `OPEN_SPANS`."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        OPEN_SPANS.add(_id_of(span))

    def on_end(self, span: ReadableSpan) -> None:
        OPEN_SPANS.discard(_id_of(span))


def _id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return 0 if context is None else context.span_id


SHARED.tracer_provider.add_span_processor(_SpansSeen())


@contextmanager
def silence() -> Iterator[None]:
    """Only the test listens to our log, and the garbage collector does not come in between."""
    gc.disable()
    logging.getLogger("otel_itl").propagate = False
    gc.collect()
    settle()
    yield
    logging.getLogger("otel_itl").propagate = True
    settle()
    gc.enable()


@contextmanager
def logged(name: str = "otel_itl") -> Iterator[list[str]]:
    """The lines that a logger logs within the block."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Handler()
    logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger(name).removeHandler(handler)


def settle() -> None:
    """Leave nothing of a stream over for the next one.

    Until the end of the module, the garbage collector does not look again at what is there by now: it is called several
    times for each stream.
    """
    runtime.finalizer.abandon_all()
    SHARED.clear()
    OPEN_SPANS.clear()
    runtime.errors.counts.clear()
    gc.freeze()


def left_behind() -> Iterator[str]:
    """What a fault has left behind for the application."""
    if get_current_span() is not INVALID_SPAN:
        yield "the application is left with another span"
    if len(runtime.open_streams):
        yield "a stream is taken to be open"
    if OPEN_SPANS:
        yield f"{len(OPEN_SPANS)} spans are left open"


def badly_reported(lines: list[str]) -> Iterator[str]:
    """How a failure was reported, unless it was counted, and logged once."""
    if not runtime.errors.counts:
        yield "it is not counted"
    if len(lines) != len(runtime.errors.counts):
        yield f"it is logged {len(lines)} times"


def done_to_the_next_stream() -> Iterator[str]:
    """What became of the next stream, unless it is recorded as it should be."""
    settle()
    read_to_its_end()
    outcomes = [(span.attributes or {})["itl.stream.outcome"] for span in SHARED.spans]
    if outcomes != ["completed"]:
        yield f"the next stream is recorded as {outcomes}"


def read_to_its_end() -> None:
    """Read a stream that is none of the application's."""
    seen_by_caller(CREATED[0], "sync", whole(CREATED[0].wire), ["loop"])
