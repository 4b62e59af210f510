"""Where the time of `otel_itl` goes at the end of a stream: CPU time inside its functions, callees included."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from importlib import import_module
from time import thread_time_ns
from typing import Any

from bench.overhead.sizes import Sizes
from bench.overhead.steady import Steady
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.times import WARM_STREAMS, Reader, settled, still
from bench.overhead.variants import OURS, SETTINGS, Variant, ours

PIECES = (
    ("opening the recording", "otel_itl.runtime", "Runtime.open"),
    ("following the response", "otel_itl.sdks.driver", "Driver._bind"),
    ("the whole end", "otel_itl.recording.finalizer", "Finalizer.finalize_ended"),
    ("· facts → timeline", "otel_itl.recording.finished", "build_timeline"),
    ("· timeline → measures", "otel_itl.export.pipeline", "measure"),
    ("· token events onto the span", "otel_itl.export.span", "add_events"),
    ("· span.set_attributes", "opentelemetry.sdk.trace", "Span.set_attributes"),
    ("· span.end", "opentelemetry.sdk.trace", "Span.end"),
    ("recording metrics", "otel_itl.export.instruments", "StreamInstruments.record"),
    ("making token events, when exported", "otel_itl.core.codec", "_pack"),
)
"""What is shown, and where it is found."""

Spent = dict[str, float]
"""Nanoseconds per stream, by piece."""


def pieces(subject: Subject, sizes: Sizes, steady: Steady) -> dict[str, dict[int, Spent]]:
    """CPU time of every piece, by variant and number of tokens: a stream of one, and a long one."""
    still()
    exponential = next(variant for variant in SETTINGS if variant.name == "otel_itl, exponential")
    lengths = (1, sizes.ending_chunks)
    return {
        variant.name: {tokens: _spent(subject, variant, tokens, sizes.rounds, steady) for tokens in lengths}
        for variant in (Variant(OURS, ours()), exponential)
    }


def _spent(subject: Subject, variant: Variant, tokens: int, rounds: int, steady: Steady) -> Spent:
    pipeline = variant.pipeline()
    chunks = subject.chunks(tokens)
    reader, pace = Reader(subject, subject.stubbed(tokens), chunks), Pace(chunks)
    values_by_piece: dict[str, list[float]] = defaultdict(list)
    with variant.around(subject, pipeline), _timed() as spent:

        def take() -> Spent:
            settled()
            spent.clear()
            pipeline.spans.kept = []
            reader.read("sync", pace.settle)
            pipeline.collect()
            pipeline.spans.read()
            return dict(spent)

        for _ in range(WARM_STREAMS):
            take()
        for _ in range(rounds):
            taken = steady.sample(take)
            for piece, _, _ in PIECES:
                values_by_piece[piece].append(taken.get(piece, 0.0))
    reader.close()
    return {piece: statistics.median(values) for piece, values in values_by_piece.items()}


@contextmanager
def _timed() -> Iterator[Spent]:
    """Add up the CPU time inside the pieces."""
    spent: Spent = defaultdict(float)
    wrapped = []
    for piece, module, path in PIECES:
        *owners, name = path.split(".")
        owner = reduce(getattr, owners, import_module(module))
        function = getattr(owner, name)
        wrapped.append((owner, name, function))
        setattr(owner, name, _adding(function, piece, spent))
    try:
        yield spent
    finally:
        for owner, name, function in wrapped:
            setattr(owner, name, function)


def _adding(function: Callable[..., Any], piece: str, spent: Spent) -> Callable[..., Any]:
    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            spent[piece] += thread_time_ns() - began

    return timed
