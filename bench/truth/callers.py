"""Applications that read streams: in a loop, in threads, on an event loop; slowly or at once."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from inspect import isawaitable
from time import perf_counter_ns
from typing import Any, Literal

from bench.truth.clients import CLIENTS, Wire, transport_options

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
    """Other work that keeps the readers from running: it begins `after` seconds after the first call.

    It blocks the event loop; in threads it holds the interpreter's lock.
    """

    after: float
    lasts: float


@dataclass(frozen=True)
class PauseOnce:
    """The caller spends `seconds` on its chunk number `at`, and no time on the others."""

    at: int
    seconds: float

    def __call__(self, chunk: int) -> float:
        """Return how many seconds the caller spends on a chunk."""
        return self.seconds if chunk == self.at else 0.0


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
    """It uses HTTP/2, without negotiation where there is no TLS."""
    certificate: str = ""
    """File of the server's certificate; '': there is no TLS."""
    spread: float = 0.0
    """Seconds from the start of one stream to that of the next, of those at the same time."""

    @property
    def sdk(self) -> str:
        """Name of the SDK that it calls."""
        return CLIENTS[self.wire].sdk

    def read(self, url: str, models: Sequence[str]) -> list[Read]:
        """Read one stream per model: at the same time in threads or tasks, else one after another."""
        if self.face == "loop":
            return asyncio.run(_read_on_loop(self, url, models))
        one = partial(_read, self, _client(self.wire, url, http2=self.http2, certificate=self.certificate))
        time.sleep(_SETTLE_SECONDS)
        if self.face == "sync":
            return [one(model, 0.0) for model in models]
        if self.block is not None:
            threading.Timer(self.block.after, _hold_lock, (self.block.lasts,)).start()
        with ThreadPoolExecutor(len(models)) as threads:
            return list(threads.map(one, models, self.starts(models)))

    def starts(self, models: Sequence[str]) -> list[float]:
        """Return after how many seconds each stream begins."""
        return [number * self.spread for number in range(len(models))]


_SETTLE_SECONDS = 0.02
"""Pause before a request, as a scheduler delays a process that was busy until now."""


def _hold_lock(seconds: float) -> None:
    """Hold the interpreter's lock, as a C extension does that does not release it."""
    ctypes.PyDLL(None).usleep(round(seconds * 1e6))


@cache
def _client(wire: Wire, url: str, *, http2: bool, certificate: str) -> Any:
    """Return the one client of an upstream: to make one takes longer than many streams."""
    options = transport_options(wire, http2=http2, certificate=certificate, is_async=False)
    return CLIENTS[wire].make_client(url, **options)


def _read(caller: Caller, client: Any, model: str, start: float) -> Read:
    moments: list[int] = []
    request = CLIENTS[caller.wire].prepare(client, model)
    if start:
        time.sleep(start)
    called = perf_counter_ns()
    for _ in request():
        moments.append(perf_counter_ns())
        seconds = caller.pause(len(moments) - 1)
        if seconds:
            time.sleep(seconds)
    return Read(model, called, moments)


async def _read_on_loop(caller: Caller, url: str, models: Sequence[str]) -> list[Read]:
    options = transport_options(caller.wire, http2=caller.http2, certificate=caller.certificate, is_async=True)
    async with CLIENTS[caller.wire].make_async_client(url, **options) as client:
        await asyncio.sleep(_SETTLE_SECONDS)
        if caller.block is not None:
            asyncio.get_running_loop().call_later(caller.block.after, time.sleep, caller.block.lasts)
        tasks = map(partial(_read_task, caller.wire, client), models, caller.starts(models))
        return list(await asyncio.gather(*tasks))


async def _read_task(wire: Wire, client: Any, model: str, start: float) -> Read:
    clients = CLIENTS[wire]
    request = (clients.prepare_async or clients.prepare)(client, model)
    if start:
        await asyncio.sleep(start)
    called = perf_counter_ns()
    stream = request()
    if isawaitable(stream):
        stream = await stream
    return Read(model, called, [perf_counter_ns() async for _ in stream])
