"""CPU time per stream of every variant; every round runs all variants, in a random order."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from time import process_time_ns, thread_time_ns
from typing import Any, NamedTuple

from bench.inside import stop_background_work
from bench.overhead.sizes import Sizes
from bench.overhead.steady import Steady
from bench.overhead.streams import Pace, Spent, aconsume, as_recorded, consume
from bench.overhead.subjects import Subject
from bench.overhead.variants import Pipeline, Variant
from otel_itl.testing import ScriptedServer

FACES = ("sync", "async")
WARM_STREAMS = 5
BURST = ", burst"
"""Suffix of a variant's name: all tokens of its streams arrive at once."""


class Cell(NamedTuple):
    """Key of a figure: variant, sync or async, number of tokens."""

    variant: str
    face: str
    tokens: int


class Sample(NamedTuple):
    """Nanoseconds of CPU time per stream, in one round."""

    streaming: float
    """On the consumer's thread, from the request to the last chunk."""
    ending: float
    """On the consumer's thread, from there to the end of the stream."""
    metrics: float
    """On another thread: long streams of an event loop concluded, metrics collected; above doing so with nothing new.
    """
    events: float
    """On the exporter's thread: what the events of the ended spans hold is read."""
    process: float
    """In the whole process, all of these included."""


Samples = dict[Cell, list[Sample]]


class Reader:
    """Reads streams of one client pair: the sync one, or the async one on an event loop of its own."""

    def __init__(self, subject: Subject, clients: tuple[Any, Any], chunks: int) -> None:
        self._subject = subject
        self._clients = clients
        self._chunks = chunks
        self._loop = asyncio.new_event_loop()

    def read(self, face: str, settle: Callable[[Any], None], mark: Callable[[], int] = thread_time_ns) -> Spent:
        """Read one stream; return what it cost."""
        request, (sync, asynchronous) = self._subject.request, self._clients
        if face == "sync":
            return consume(lambda: request(sync), self._chunks, settle, mark)
        return self._loop.run_until_complete(aconsume(lambda: request(asynchronous), self._chunks, settle, mark))

    def close(self) -> None:
        """Close the clients and the loop."""
        sync, asynchronous = self._clients
        sync.close()
        self._loop.run_until_complete(asynchronous.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


def settled() -> None:
    """Run the garbage collector and freeze what exists, so that every sample starts in the same state."""
    gc.collect()
    gc.freeze()


def stubbed(subject: Subject, variants: Sequence[Variant], sizes: Sizes, steady: Steady) -> Samples:
    """Sample the SDK with stubs in place of HTTP and parsing, so that small costs show."""
    stop_background_work()
    readers = {tokens: Reader(subject, subject.stubbed(tokens), subject.chunks(tokens)) for tokens, _ in sizes.lengths}
    paces = {tokens: Pace(subject.chunks(tokens)) for tokens, _ in sizes.lengths}

    def measure(variant: Variant, sampled: Sampled) -> None:
        for face in FACES:
            for tokens, count in sizes.lengths:
                sampled(Cell(variant.name, face, tokens), readers[tokens], paces[tokens].settle, count)

    samples = _interleaved(subject, variants, sizes.rounds, steady, measure)
    for reader in readers.values():
        reader.close()
    return samples


def endings(subject: Subject, variants: Sequence[Variant], sizes: Sizes, steady: Steady) -> Samples:
    """Sample the ends of long streams: with the pace of a model, and (variant `…, burst`) with all tokens at once."""
    stop_background_work()
    tokens = sizes.ending_chunks
    reader, pace = Reader(subject, subject.stubbed(tokens), subject.chunks(tokens)), Pace(subject.chunks(tokens))

    def measure(variant: Variant, sampled: Sampled) -> None:
        for face in FACES:
            sampled(Cell(variant.name, face, tokens), reader, pace.settle, 1)
            sampled(Cell(variant.name + BURST, face, tokens), reader, as_recorded, 1)

    samples = _interleaved(subject, variants, sizes.rounds, steady, measure)
    reader.close()
    return samples


def loopback(subject: Subject, variants: Sequence[Variant], sizes: Sizes, steady: Steady) -> Samples:
    """Sample the real client while it reads from a server in another process, which sends as fast as it can."""
    tokens = sizes.loopback_chunks
    pace = Pace(subject.chunks(tokens))
    with ScriptedServer(process=True) as server:
        server.always(subject.script(tokens))
        reader = Reader(subject, subject.connected(server.url), subject.chunks(tokens))

        def measure(variant: Variant, sampled: Sampled) -> None:
            for face in FACES:
                sampled(Cell(variant.name, face, tokens), reader, pace.settle, sizes.loopback_streams)
                # The server stores every exchange until it is cleared.
                server.clear()
                server.always(subject.script(tokens))

        samples = _interleaved(subject, variants, sizes.rounds, steady, measure)
        reader.close()
    return samples


class Sampled:
    """Takes samples of the variant that is installed."""

    def __init__(self, steady: Steady, pipeline: Pipeline, samples: Samples) -> None:
        self._steady = steady
        self._pipeline = pipeline
        self._samples = samples
        self.streams = 0
        """Number of streams that were read."""

    def __call__(self, cell: Cell, reader: Reader, settle: Callable[[Any], None], streams: int) -> None:
        """Read a few streams to warm up, then take one sample of `streams` streams."""

        def read() -> Spent:
            self.streams += 1
            return reader.read(cell.face, settle)

        for _ in range(min(streams, WARM_STREAMS)):
            read()
        sample = self._steady.sample(lambda: _sample(read, streams, self._pipeline))
        self._samples.setdefault(cell, []).append(sample)


def _interleaved(
    subject: Subject,
    variants: Sequence[Variant],
    rounds: int,
    steady: Steady,
    measure: Callable[[Variant, Sampled], None],
) -> Samples:
    samples: Samples = {}
    pipelines = {variant.name: variant.pipeline() for variant in variants}
    order = random.Random(0)  # noqa: S311 - the same orders in every run
    for _ in range(rounds):
        for variant in order.sample(variants, len(variants)):
            pipeline = pipelines[variant.name]
            pipeline.spans.ended = 0
            sampled = Sampled(steady, pipeline, samples)
            with variant.around(subject, pipeline):
                measure(variant, sampled)
            variant.check(pipeline, sampled.streams)
    return samples


def _sample(read: Callable[[], Spent], streams: int, pipeline: Pipeline) -> Sample:
    pipeline.collect()
    pipeline.spans.kept = []
    settled()
    streaming = ending = 0
    began_process = process_time_ns()
    for _ in range(streams):
        spent = read()
        streaming += spent.streaming
        ending += spent.ending
    began = thread_time_ns()
    pipeline.collect()
    collected = thread_time_ns()
    pipeline.spans.read()
    exported = thread_time_ns()
    ended_process = process_time_ns()
    pipeline.collect()
    idle = thread_time_ns() - exported
    return Sample(
        streaming / streams,
        ending / streams,
        (collected - began - idle) / streams,
        (exported - collected) / streams,
        (ended_process - began_process) / streams,
    )
