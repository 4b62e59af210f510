"""CPU time inside the functions of `otel_itl`, including the functions that they call."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from importlib import import_module
from time import thread_time_ns
from typing import Any

from bench.inside import FUNCTIONS, stop_background_work
from bench.overhead.sizes import Sizes
from bench.overhead.steady import Steady
from bench.overhead.streams import Pace
from bench.overhead.subjects import Subject
from bench.overhead.times import WARM_STREAMS, Reader, settled
from bench.overhead.variants import OURS, SETTINGS, Variant, ours

Spent = dict[str, float]
"""Nanoseconds per stream, by function."""


def pieces(subject: Subject, sizes: Sizes, steady: Steady) -> dict[str, dict[int, Spent]]:
    """Return the CPU time of every function, by variant and number of tokens: a stream of one, and a long one."""
    stop_background_work()
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
    samples: dict[str, list[float]] = defaultdict(list)
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
            for label, _, _ in FUNCTIONS:
                samples[label].append(taken.get(label, 0.0))
    reader.close()
    return {label: statistics.median(values) for label, values in samples.items()}


@contextmanager
def _timed() -> Iterator[Spent]:
    """Add up the CPU time inside the functions while the block runs."""
    spent: Spent = defaultdict(float)
    wrapped = []
    for label, module, path in FUNCTIONS:
        *owners, name = path.split(".")
        owner = reduce(getattr, owners, import_module(module))
        function = getattr(owner, name)
        wrapped.append((owner, name, function))
        setattr(owner, name, _adding(function, label, spent))
    try:
        yield spent
    finally:
        for owner, name, function in wrapped:
            setattr(owner, name, function)


def _adding(function: Callable[..., Any], label: str, spent: Spent) -> Callable[..., Any]:
    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            spent[label] += thread_time_ns() - began

    return timed
