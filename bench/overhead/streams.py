"""Reads a stream and divides its cost into that of streaming and that of its end."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

from bench.inside import replace_moments
from bench.overhead.subjects import AsyncOpen, Open

PACE_NS = 20_000_000
HOLD_NS = 50_000

Mark = Callable[[], int]
"""Returns the CPU time or the number of instructions so far."""


class Spent(NamedTuple):
    """Cost of one stream."""

    streaming: int
    """From the request to the last chunk."""
    ending: int
    """From the last chunk to the end of the consumer's loop, and of the stream object."""


class Pace:
    """Moments of a stream with a token about every 20 ms, read by a consumer that takes 50 µs per token."""

    def __init__(self, chunks: int) -> None:
        jitter = random.Random(0)  # noqa: S311 - the same stream in every run
        # Far in the future, so that no other recorded moment can fall into the stream.
        self.requested = perf_counter_ns() + 10**15
        now = self.requested + PACE_NS
        self.headers = now
        self.asked, self.arrived = array("q"), array("q")
        for _ in range(chunks):
            self.asked.append(now + HOLD_NS)
            now += round(PACE_NS * jitter.lognormvariate(0, 0.3))
            self.arrived.append(now)
        self.end = now + HOLD_NS

    def settle(self, stream: Any) -> None:
        """Replace the moments that `otel_itl` recorded by these; streams that it does not record stay as they are.

        A stream without pauses is cheaper to end, as most of its gaps cannot be known, and no model sends one.
        """
        replace_moments(stream, self)


def as_recorded(_: Any) -> None:
    """Leave the stream as it is, in place of `Pace.settle`."""


def consume(request: Open, chunks: int, settle: Callable[[Any], None], mark: Mark) -> Spent:
    """Read a stream to its end. Every variant is read by this one loop."""
    began = mark()
    stream = request()
    left, drained, settled = chunks, 0, 0
    for _ in stream:
        left -= 1
        if not left:
            drained = mark()
            settle(stream)
            settled = mark()
    assert not left, f"{left} chunks are missing"
    del stream
    return Spent(drained - began, mark() - settled)


async def aconsume(request: AsyncOpen, chunks: int, settle: Callable[[Any], None], mark: Mark) -> Spent:
    """Do the same as `consume` with an async stream."""
    began = mark()
    stream = await request()
    left, drained, settled = chunks, 0, 0
    async for _ in stream:
        left -= 1
        if not left:
            drained = mark()
            settle(stream)
            settled = mark()
    assert not left, f"{left} chunks are missing"
    del stream
    await asyncio.sleep(0)  # for the loop to close the generators that the SDK dropped
    return Spent(drained - began, mark() - settled)
