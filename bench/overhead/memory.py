"""Bytes that recording holds per chunk: while a stream runs, and after it until span and metrics are on their way."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.overhead.sizes import Sizes
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.times import still
from bench.overhead.variants import Variant


class Held(NamedTuple):
    """Bytes per chunk."""

    streaming: float
    """What every chunk adds while the stream runs."""
    span: float
    """What an ended span holds until it is exported."""
    pending: float
    """What else is held from the end of the stream until metrics are collected."""


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


def _freed(what: Callable[[], object]) -> int:
    before = _traced()
    what()
    return before - _traced()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
