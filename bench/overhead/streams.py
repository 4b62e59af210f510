"""Consuming a stream and dividing what it cost: while it streamed, and when it ended."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any, NamedTuple

from bench.overhead.subjects import AsyncOpen, Open
from otel_itl.core.stall_detector import StallDetector
from otel_itl.runtime import runtime

PACE_NS = 20_000_000
HOLD_NS = 50_000

Mark = Callable[[], int]
"""A reading of what is counted: CPU time, instructions."""


class Spent(NamedTuple):
    """What one stream cost."""

    streaming: int
    """From the request to the last chunk."""
    ending: int
    """From the last chunk to the end of the consumer's loop, and of the stream object."""


class Pace:
    """Arrivals of a model that takes 20 ms a token, give or take, read by a consumer that takes 50 µs."""

    def __init__(self, chunks: int) -> None:
        jitter = random.Random(0)  # noqa: S311 - the same stream in every run
        # Far ahead, where nothing else that was timed can fall into the stream.
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
        """Put these arrivals in the place of those that `otel_itl` recorded; other streams stay as they are.

        A stream without pauses is not what a model sends, and cheaper to end: most of its gaps cannot be known.
        """
        recorder = runtime.installer.driver.response_recorders.find(stream.response)
        if recorder is not None:
            log = recorder.log
            assert len(log.arrived) == len(self.arrived), (len(log.arrived), len(self.arrived))
            recorder.requested, recorder.headers = self.requested, self.headers
            recorder.clock = repeat(self.end).__next__
            log.asked[:], log.arrived[:] = self.asked, self.arrived
            monitor = recorder.stall_monitor
            if monitor is not None:
                # The watchdog would have looked at the stream many times by now. At copies, which do not have the last
                # pull: its moment is that of the real clock.
                recorded = (log.asked[:], log.arrived[:], log.codes[:])
                monitor._detector = StallDetector(monitor._policy, *recorded, self.requested)  # noqa: SLF001
                monitor._detector.check(self.arrived[-1], self.headers)  # noqa: SLF001


def as_recorded(_: Any) -> None:
    """In place of `Pace.settle`: leave the stream as it is."""


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
    """The async face of `consume`."""
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
    await asyncio.sleep(0)  # the loop closes the generators that the SDK dropped
    return Spent(drained - began, mark() - settled)
