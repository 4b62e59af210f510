"""CPU time of stall detection per chunk: the same stream with and without it, in turns."""

from __future__ import annotations

import gc
import random
from time import thread_time_ns
from typing import Final

import otel_itl
from bench.overhead.steady import Steady
from bench.stalls.crowd import measured
from otel_itl import StallPolicy

POLICIES: Final[dict[str, StallPolicy | None]] = {
    "`stall=None`": None,
    "the default": StallPolicy(),
    "`relative=None`": StallPolicy(relative=None),
    "`abort_after=60`": StallPolicy(abort_after=60),
    "`stall=None`, again": None,
}
"""The last is the first once more, which shows how far two runs of the same thing are apart."""


def spent(chunks: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU time (ns) of the reading thread per chunk, for each policy one value per round."""
    steady = Steady()
    draw = random.Random(0)  # noqa: S311 - the order of the rounds
    texts = ["chunk"] * chunks
    found: dict[str, list[float]] = {name: [] for name in POLICIES}
    for _ in range(rounds + 1):
        for name in draw.sample(list(POLICIES), len(POLICIES)):
            with measured(POLICIES[name], token_events="none"):
                # The first stream of a process costs more, whatever its chunks cost.
                _read(texts[:10])
                found[name].append(steady.sample(lambda: _read(texts)) / chunks)
    # The first round warms up.
    return {name: values[1:] for name, values in found.items()}


def _read(texts: list[str]) -> int:
    gc.collect()
    gc.disable()
    try:
        began = thread_time_ns()
        for _ in otel_itl.observe(iter(texts), provider="none", model="m"):
            pass
        return thread_time_ns() - began
    finally:
        gc.enable()
