"""Many streams open at once: what the watchdog's thread takes of a core, and how late it reports who falls silent."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import clock_gettime, perf_counter, perf_counter_ns, process_time, pthread_getcpuclockid, sleep
from typing import Any, NamedTuple

import otel_itl
from bench.overhead.variants import Pipeline
from otel_itl import Stall, StallPolicy

GAP = 0.5
"""Seconds between the chunks of a stream that flows."""
SILENCE_OVER = 1.0
"""Seconds that a silence goes on after its threshold."""
WATCHDOG = "otel_itl watchdog"


@dataclass(frozen=True)
class Crowd:
    """Streams that are open side by side."""

    name: str
    streams: int
    stalling: int
    policy: StallPolicy | None

    def threshold(self) -> float:
        """Seconds after which those that fall silent have stalled."""
        policy = StallPolicy() if self.policy is None else self.policy
        return 2.0 if policy.next_token is None else policy.next_token


class Found(NamedTuple):
    """What came of a crowd."""

    share: float
    """CPU time of the watchdog's thread over the time that passed."""
    late: list[float]
    """Seconds from the threshold of each stall to its report."""
    process: float
    """CPU time of the whole process over the time that passed."""
    machine: float
    """Seconds by which a thread that does nothing but sleep woke up late, at worst."""


@contextmanager
def measured(policy: StallPolicy | None, **options: Any) -> Iterator[None]:
    """Streams are measured in the block, with nothing exported."""
    otel_itl.instrument(stall=policy, **options, **Pipeline().providers())
    try:
        yield
    finally:
        otel_itl.uninstrument()


def watched(crowd: Crowd, seconds: float) -> Found:
    """Open the streams of a crowd, let them go on for so long, and leave them."""
    silent: dict[str, int] = {}
    late: list[float] = []

    def on_stall(stall: Stall) -> None:
        since = silent.get(stall.request.model or "")
        # Those that flow stall, too, when all are left: 2,000 ends keep the loop busy.
        if since is not None:
            late.append((perf_counter_ns() - since) / 1e9 - stall.threshold)

    with measured(crowd.policy, on_stall=on_stall):
        return asyncio.run(_watched(crowd, seconds, silent, late))


async def _watched(crowd: Crowd, seconds: float, silent: dict[str, int], late: list[float]) -> Found:
    pace = random.Random(0)  # noqa: S311 - the same crowd in every run
    # For an idle process the thread is there as well: one stream was open before.
    streams = [_flowing(0.0, 1)] if not crowd.streams else []
    streams += [_flowing(pace.random() * GAP) for _ in range(crowd.streams - crowd.stalling)]
    names = [f"silent-{number}" for number in range(crowd.stalling)]
    streams += [_stalling(name, crowd.threshold(), pace.random(), silent) for name in names]
    models = ["flowing"] * (len(streams) - len(names)) + names
    tasks = [asyncio.create_task(_read(stream, model)) for stream, model in zip(streams, models, strict=True)]
    await asyncio.sleep(1.0)
    clock = _clock_of_watchdog()
    sleeper = Sleeper()
    late.clear()
    began, spent, process = perf_counter(), clock_gettime(clock), process_time()
    await asyncio.sleep(seconds)
    took = perf_counter() - began
    found = Found((clock_gettime(clock) - spent) / took, list(late), (process_time() - process) / took, sleeper.stop())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


class Sleeper:
    """A thread that sleeps, and how late it woke up at worst: nobody who shares its machine can do better."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        """Seconds."""
        self._over = True
        self._thread.join()
        return self._worst

    def _run(self) -> None:
        while not self._over:
            before = perf_counter()
            sleep(0.02)
            self._worst = max(self._worst, perf_counter() - before - 0.02)


def _clock_of_watchdog() -> int:
    """The CPU clock of the one thread."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == WATCHDOG]
    assert thread.ident is not None
    return pthread_getcpuclockid(thread.ident)


async def _flowing(after: float, chunks: int = 1 << 30) -> AsyncIterator[str]:
    await asyncio.sleep(after)
    for _ in range(chunks):
        yield "chunk"
        await asyncio.sleep(GAP)


async def _stalling(name: str, threshold: float, after: float, silent: dict[str, int]) -> AsyncIterator[str]:
    """A token, a silence that is a stall, and so on."""
    await asyncio.sleep(after)
    while True:
        yield "chunk"
        silent[name] = perf_counter_ns()
        await asyncio.sleep(threshold + SILENCE_OVER)


async def _read(stream: AsyncIterator[str], model: str) -> None:
    async for _ in otel_itl.observe(stream, provider="none", model=model):
        pass


def crowds(streams: int, stalling: int) -> list[Crowd]:
    """Those that are compared."""
    default = StallPolicy()
    relative = replace(default, relative=20)
    return [
        Crowd("idle: no stream open", 0, 0, default),
        Crowd("none stalls", streams, 0, default),
        Crowd("some stall", streams, stalling, default),
        Crowd("none stalls, `relative=20`", streams, 0, relative),
        Crowd("some stall, `relative=20`", streams, stalling, relative),
        Crowd("`stall=None`", streams, stalling, None),
    ]
