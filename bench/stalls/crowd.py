"""Many open streams: the share of a core that the watchdog needs, and how late it reports those that fall silent."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import clock_gettime, perf_counter, perf_counter_ns, process_time, pthread_getcpuclockid
from typing import Any, NamedTuple

import otel_itl
from bench.inside import WATCHDOG_THREAD
from bench.lateness import LatenessMeter
from bench.overhead.variants import Pipeline
from otel_itl import Stall, StallPolicy

GAP = 0.5
"""Seconds between the chunks of a stream that does not stall."""
SILENCE_OVER = 1.0
"""Seconds for which a silence goes on after its threshold."""


@dataclass(frozen=True)
class Crowd:
    """Streams that are open at the same time: how many, how many of them stall, with which policy."""

    name: str
    streams: int
    stalling: int
    policy: StallPolicy | None

    def threshold(self) -> float:
        """Return the seconds of silence after which a stream of the crowd has stalled."""
        policy = StallPolicy() if self.policy is None else self.policy
        return 1.0 if policy.next_token is None else policy.next_token


class Found(NamedTuple):
    """Figures of one crowd."""

    share: float
    """CPU time of the watchdog's thread divided by the elapsed time."""
    late: list[float]
    """Seconds from the threshold of each stall to its report."""
    process: float
    """CPU time of the whole process divided by the elapsed time."""
    machine: float
    """Worst lateness (s) of a thread that only sleeps."""


@contextmanager
def measured(policy: StallPolicy | None, **options: Any) -> Iterator[None]:
    """Measure the streams of the block, without exporting anything."""
    otel_itl.instrument(stall=policy, **options, **Pipeline().providers())
    try:
        yield
    finally:
        otel_itl.uninstrument()


def watched(crowd: Crowd, seconds: float) -> Found:
    """Open the streams of a crowd, let them go on for `seconds`, and leave them; return the figures."""
    silent: dict[str, int] = {}
    late: list[float] = []

    def on_stall(stall: Stall) -> None:
        since = silent.get(stall.request.model or "")
        # When all streams are left at the end, the others stall as well: 2,000 ends keep the loop busy.
        if since is not None:
            late.append((perf_counter_ns() - since) / 1e9 - stall.threshold)

    with measured(crowd.policy, on_stall=on_stall):
        return asyncio.run(_watched(crowd, seconds, silent, late))


async def _watched(crowd: Crowd, seconds: float, silent: dict[str, int], late: list[float]) -> Found:
    pace = random.Random(0)  # noqa: S311 - the same crowd in every run
    # In an idle process the thread exists as well, because one stream was open before.
    streams = [_flowing(0.0, 1)] if not crowd.streams else []
    streams += [_flowing(pace.random() * GAP) for _ in range(crowd.streams - crowd.stalling)]
    names = [f"silent-{number}" for number in range(crowd.stalling)]
    streams += [_stalling(name, crowd.threshold(), pace.random(), silent) for name in names]
    models = ["flowing"] * (len(streams) - len(names)) + names
    tasks = [asyncio.create_task(_read(stream, model)) for stream, model in zip(streams, models, strict=True)]
    await asyncio.sleep(1.0)
    clock = _clock_of_watchdog()
    late.clear()
    with LatenessMeter() as meter:
        began, spent, process = perf_counter(), clock_gettime(clock), process_time()
        await asyncio.sleep(seconds)
        took = perf_counter() - began
        share, busy = (clock_gettime(clock) - spent) / took, (process_time() - process) / took
        found = Found(share, list(late), busy, meter.worst())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


def _clock_of_watchdog() -> int:
    """Return the id of the CPU clock of the watchdog's thread."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == WATCHDOG_THREAD]
    assert thread.ident is not None
    return pthread_getcpuclockid(thread.ident)


async def _flowing(after: float, chunks: int = 1 << 30) -> AsyncIterator[str]:
    await asyncio.sleep(after)
    for _ in range(chunks):
        yield "chunk"
        await asyncio.sleep(GAP)


async def _stalling(name: str, threshold: float, after: float, silent: dict[str, int]) -> AsyncIterator[str]:
    """Yield a chunk, fall silent for longer than the threshold, and so on."""
    await asyncio.sleep(after)
    while True:
        yield "chunk"
        silent[name] = perf_counter_ns()
        await asyncio.sleep(threshold + SILENCE_OVER)


async def _read(stream: AsyncIterator[str], model: str) -> None:
    async for _ in otel_itl.observe(stream, provider="none", model=model):
        pass


def crowds(streams: int, stalling: int) -> list[Crowd]:
    """Return the crowds that are compared."""
    default = StallPolicy()
    # A stream that is silent again and again has no other pace.
    fixed = replace(default, relative=None)
    return [
        Crowd("idle: no stream open", 0, 0, default),
        Crowd("none stalls", streams, 0, default),
        Crowd("none stalls, `relative=None`", streams, 0, fixed),
        Crowd("some stall, `relative=None`", streams, stalling, fixed),
        Crowd("`stall=None`", streams, stalling, None),
    ]
