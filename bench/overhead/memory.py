"""Memory of a recording: per chunk, of one very long stream, and of thousands of open streams."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.inside import stop_background_work
from bench.overhead.sizes import Sizes
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.variants import OURS, UNINSTRUMENTED, Variant

_AT_SCALE = {UNINSTRUMENTED, OURS}


class Held(NamedTuple):
    """Bytes per chunk."""

    streaming: float
    """Bytes that each chunk adds while the stream runs."""
    span: float
    """Bytes of an ended span until it is exported."""
    pending: float
    """Other bytes that are held from the end of the stream until the metrics are collected."""


class Scale(NamedTuple):
    """Bytes of one very long stream, and of many open streams."""

    chunks: int
    streaming: int
    """Held by one long stream at its last chunk."""
    peak: int
    """Highest number from there until its span and its metrics were exported."""
    after: int
    """Held after that."""
    streams: int
    open: int
    """Held by many open streams."""
    closed: int
    """Held when they were closed and exported."""


def held(subject: Subject, variants: Sequence[Variant], sizes: Sizes) -> dict[str, Held]:
    """Return the bytes per chunk by variant. The SDK parses the streams from bytes in memory."""
    stop_background_work()
    return {variant.name: _held(subject, variant, sizes.memory_chunks) for variant in variants}


def _held(subject: Subject, variant: Variant, between: tuple[int, int]) -> Held:
    low, high = between
    pipeline = variant.pipeline()
    chunks = subject.chunks(high)
    pace = Pace(chunks)
    client, _ = subject.in_memory(high)

    def read() -> int:
        """Read a stream; return the bytes that were allocated between its chunks number `low` and `high`."""
        at: dict[int, int] = {}
        stream = subject.request(client)
        for index, _ in enumerate(stream, 1):
            if index in between:
                at[index] = _traced()
            if index == chunks:
                pace.settle(stream)
        return at[high] - at[low]

    with variant.around(subject, pipeline):
        tracemalloc.start()
        try:
            for _ in range(2):
                read()
                pipeline.collect()
            pipeline.spans.kept = []
            streaming = read()
            # In this order, because an object that waits for the metrics may hold the span as well.
            pending = _freed(pipeline.collect)
            span = _freed(pipeline.spans.kept.clear)
        finally:
            tracemalloc.stop()
    client.close()
    return Held(streaming / (high - low), span / chunks, pending / chunks)


def at_scale(subject: Subject, variants: Sequence[Variant], sizes: Sizes) -> dict[str, Scale]:
    """Return the memory of one very long stream and of many open ones, by variant."""
    stop_background_work()
    return {
        variant.name: Scale(*_long(subject, variant, sizes.long_chunks), *_many(subject, variant, sizes.open_streams))
        for variant in variants
        if variant.name in _AT_SCALE
    }


def _long(subject: Subject, variant: Variant, tokens: int) -> tuple[int, int, int, int]:
    pipeline = variant.pipeline()
    chunks = subject.chunks(tokens)
    clients = subject.stubbed(tokens, distinct=False)
    with variant.around(subject, pipeline):
        for client in (subject.stubbed(1)[0], clients[0]):
            stream = subject.request(client)
            at, left = 0, chunks if client is clients[0] else subject.chunks(1)
            tracemalloc.start()
            try:
                before = _traced()
                for _ in stream:
                    left -= 1
                    if not left:
                        at = _traced() - before
                        tracemalloc.reset_peak()
                del stream
                pipeline.spans.kept = []
                pipeline.collect()
                pipeline.spans.read()
                peak = tracemalloc.get_traced_memory()[1] - before
                after = _traced() - before
            finally:
                tracemalloc.stop()
    return chunks, at, peak, after


def _many(subject: Subject, variant: Variant, count: int) -> tuple[int, int, int]:
    pipeline = variant.pipeline()
    client, _ = subject.stubbed(1)
    with variant.around(subject, pipeline):
        next(iter(subject.request(client)))
        streams: list[Any] = []
        tracemalloc.start()
        try:
            before = _traced()
            for _ in range(count):
                stream = subject.request(client)
                next(iter(stream))
                streams.append(stream)
            held_open = _traced() - before
            for stream in streams:
                stream.close()
            del stream
            streams.clear()
            gc.collect()  # frees the reference cycles of the SDK
            pipeline.collect()
            closed = _traced() - before
        finally:
            tracemalloc.stop()
    return count, held_open, closed


def _freed(what: Callable[[], object]) -> int:
    before = _traced()
    what()
    return before - _traced()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
