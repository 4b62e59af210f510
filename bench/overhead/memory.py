"""Bytes that recording holds: per chunk, of one endless stream, and of thousands that are open at once."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.overhead.sizes import Sizes
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.times import still
from bench.overhead.variants import OURS, UNINSTRUMENTED, Variant

_AT_SCALE = {UNINSTRUMENTED, OURS}


class Held(NamedTuple):
    """Bytes per chunk."""

    streaming: float
    """What every chunk adds while the stream runs."""
    span: float
    """What an ended span holds until it is exported."""
    pending: float
    """What else is held from the end of the stream until metrics are collected."""


class Scale(NamedTuple):
    """Bytes, where there is much of something."""

    chunks: int
    streaming: int
    """Held by one long stream at its last chunk."""
    peak: int
    """The most that was held from there until its span and its metrics were exported."""
    after: int
    """Held when they were."""
    streams: int
    open: int
    """Held by many streams that are open."""
    closed: int
    """Held when they were closed and exported."""


def held(subject: Subject, variants: Sequence[Variant], sizes: Sizes) -> dict[str, Held]:
    """Bytes per chunk by variant; streams are parsed by the SDK, from bytes in memory."""
    still()
    return {variant.name: _held(subject, variant, sizes.memory_chunks) for variant in variants}


def _held(subject: Subject, variant: Variant, between: tuple[int, int]) -> Held:
    low, high = between
    pipeline = variant.pipeline()
    chunks = subject.chunks(high)
    pace = Pace(chunks)
    client, _ = subject.in_memory(high)

    def read() -> int:
        """Read a stream; returns the bytes that were allocated from the chunk `low` to the chunk `high`."""
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
            # In this order: what waits for the metrics may hold the span, too.
            pending = _freed(pipeline.collect)
            span = _freed(pipeline.spans.kept.clear)
        finally:
            tracemalloc.stop()
    client.close()
    return Held(streaming / (high - low), span / chunks, pending / chunks)


def at_scale(subject: Subject, variants: Sequence[Variant], sizes: Sizes) -> dict[str, Scale]:
    """One long stream and many open ones, by variant."""
    still()
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
            gc.collect()  # what the SDK left in cycles is over only then
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
