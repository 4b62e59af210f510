"""Applications that read streams: in a loop, in threads, on an event loop; slowly or at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from inspect import isawaitable
from time import perf_counter_ns
from typing import Any, Literal

from bench.truth.clients import CLIENTS, Wire, http2_options

Face = Literal["sync", "threads", "loop"]
Pause = Callable[[int], float]
"""Returns how many seconds the caller spends on its n-th chunk, counted from 0."""


@dataclass(frozen=True)
class Read:
    """Moments (`time.perf_counter_ns()`) of one stream by the caller's own clock."""

    model: str
    called_ns: int
    """Immediately before the call of the SDK."""
    chunks_ns: list[int]
    """When each chunk entered the caller's loop."""


@dataclass(frozen=True)
class Block:
    """Other work that blocks an event loop: it begins `after` seconds after the call."""

    after: float
    lasts: float


def at_once(_: int) -> float:
    """Return 0: the caller spends no time on its chunks."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Caller:
    """How an application reads its streams."""

    wire: Wire = "chat"
    face: Face = "sync"
    pause: Pause = at_once
    """Time that it spends on its chunks; not on an event loop."""
    block: Block | None = None
    http2: bool = False
    """It uses HTTP/2 without TLS; not on an event loop."""

    @property
    def sdk(self) -> str:
        """Name of the SDK that it calls."""
        return CLIENTS[self.wire].sdk

    @property
    def is_slow(self) -> bool:
        """Whether it ever keeps its streams waiting."""
        return self.pause is not at_once or self.block is not None

    def read(self, url: str, models: Sequence[str]) -> list[Read]:
        """Read one stream per model: at the same time in threads or tasks, else one after another."""
        if self.face == "loop":
            return asyncio.run(_read_on_loop(self, url, models))
        one = partial(_read, self, _client(self.wire, url, http2=self.http2))
        time.sleep(_SETTLE_SECONDS)
        if self.face == "sync":
            return [one(model) for model in models]
        with ThreadPoolExecutor(len(models)) as threads:
            return list(threads.map(one, models))


_SETTLE_SECONDS = 0.02
"""Pause before a request, as a scheduler delays a process that was busy until now."""


@cache
def _client(wire: Wire, url: str, *, http2: bool) -> Any:
    """Return the one client of an upstream: to make one takes longer than many streams."""
    return CLIENTS[wire].make_client(url, **(http2_options(wire) if http2 else {}))


def _read(caller: Caller, client: Any, model: str) -> Read:
    moments: list[int] = []
    request = CLIENTS[caller.wire].prepare(client, model)
    called = perf_counter_ns()
    for _ in request():
        moments.append(perf_counter_ns())
        seconds = caller.pause(len(moments) - 1)
        if seconds:
            time.sleep(seconds)
    return Read(model, called, moments)


async def _read_on_loop(caller: Caller, url: str, models: Sequence[str]) -> list[Read]:
    async with CLIENTS[caller.wire].make_async_client(url) as client:
        await asyncio.sleep(_SETTLE_SECONDS)
        if caller.block is not None:
            asyncio.get_running_loop().call_later(caller.block.after, time.sleep, caller.block.lasts)
        return list(await asyncio.gather(*(_read_task(caller.wire, client, model) for model in models)))


async def _read_task(wire: Wire, client: Any, model: str) -> Read:
    clients = CLIENTS[wire]
    request = (clients.prepare_async or clients.prepare)(client, model)
    called = perf_counter_ns()
    stream = request()
    if isawaitable(stream):
        stream = await stream
    return Read(model, called, [perf_counter_ns() async for _ in stream])
