"""The callers of the soak: each asks for one stream after the other, and ends it in one way or another."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import anthropic
import openai

from bench.soak.upstream import BROKEN, FAILING, HOLDING, REFUSED, TRUNCATED, WELL

READ: Final = {WELL: "completed", TRUNCATED: "truncated", FAILING: "error", BROKEN: "error", REFUSED: "error"}
"""Model of a stream that its caller reads to the end → outcome."""
LEFT: Final = {"close": "closed", "block": "closed", "drop": "abandoned", "cancel": "cancelled"}
"""How a stream that goes on is left → outcome."""
ASKED: Final = [{"role": "user", "content": "hello"}]


class Callers:
    """So many callers at once, until a moment.

    Args:
        port: of the upstream.
        count: how many; one in eight is a thread of its own, the others are tasks of one event loop.
        until: the moment, on the monotonic clock.
        seed: of what they do.
    """

    def __init__(self, port: int, count: int, until: float, seed: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._count = count
        self._until = until
        self._random = random.Random(seed)  # noqa: S311 - what callers do is no secret
        self._lock = threading.Lock()
        self.expected: Counter[str] = Counter()
        """Streams by the outcome that is to be told."""
        self.surprises: Counter[str] = Counter()
        """Errors where none was asked for, by type."""

    def run(self) -> None:
        """Return when every caller is done."""
        threads = [threading.Thread(target=self._sync) for _ in range(self._count // 8)]
        for thread in threads:
            thread.start()
        asyncio.run(self._tasks(self._count - len(threads)))
        for thread in threads:
            thread.join()

    def _choice(self, *ways: str) -> _Choice:
        with self._lock:
            is_first = self._random.random() < 0.5
            if self._random.random() < 0.5:
                model = self._random.choice([WELL, *READ])
                return _Choice(is_first, model, "", READ[model])
            way = self._random.choice(ways)
            return _Choice(is_first, HOLDING, way, LEFT[way])

    def _note(self, choice: _Choice, error: Exception | None) -> None:
        """Take down how a stream ended; one that failed unasked, as sockets do on a busy machine, ended in an error."""
        with self._lock:
            self.expected[choice.outcome if error is None else "error"] += 1
            if error is not None and choice.outcome != "error":
                self.surprises[type(error).__name__] += 1

    def _sync(self) -> None:
        with _client(openai.OpenAI, self._url) as first, _client(anthropic.Anthropic, self._url) as second:
            while time.monotonic() < self._until:
                choice = self._choice("close", "block", "drop")
                error = None
                try:
                    _call(first if choice.is_first else second, choice)
                except Exception as failure:  # noqa: BLE001 - whatever an SDK raises is an end
                    error = failure
                self._note(choice, error)

    async def _tasks(self, count: int) -> None:
        async with (
            _client(openai.AsyncOpenAI, self._url) as first,
            _client(anthropic.AsyncAnthropic, self._url) as second,
        ):
            await asyncio.gather(*(self._task(first, second) for _ in range(count)))
            gc.collect()
            await asyncio.sleep(0.5)  # for what was dropped to be closed

    async def _task(self, first: Any, second: Any) -> None:
        while time.monotonic() < self._until:
            choice = self._choice(*LEFT)
            error = None
            try:
                await _acall(first if choice.is_first else second, choice)
            except Exception as failure:  # noqa: BLE001 - as above
                error = failure
            self._note(choice, error)


class _Choice(NamedTuple):
    """What a caller does with a stream."""

    is_first: bool
    """It asks the first SDK, else the second."""
    model: str
    way: str
    """How it leaves the stream; empty: it reads to the end."""
    outcome: str


def _client(make: Any, url: str) -> Any:
    sdk = sys.modules[make.__module__.partition(".")[0]]
    http = sdk.DefaultAsyncHttpxClient if "Async" in make.__name__ else sdk.DefaultHttpxClient
    # No certificates: loading them takes longer than many streams, for no TLS.
    return make(base_url=url, api_key="none", max_retries=0, timeout=60, http_client=http(verify=False, timeout=60))


def _request(client: Any, model: str) -> Any:
    if hasattr(client, "chat"):
        return client.chat.completions.create(model=model, messages=ASKED, stream=True)
    return client.messages.create(model=model, messages=ASKED, max_tokens=9, stream=True)


def _call(client: Any, choice: _Choice) -> None:
    stream, way = _request(client, choice.model), choice.way
    if not way:
        for _ in stream:
            pass
    elif way == "block":
        with stream:
            next(stream)
    else:
        next(stream)
        if way == "close":
            stream.close()


async def _acall(client: Any, choice: _Choice) -> None:
    stream, way = await _request(client, choice.model), choice.way
    if not way:
        async for _ in stream:
            pass
    elif way == "block":
        async with stream:
            await anext(stream)
    elif way == "cancel":
        reading = asyncio.create_task(_read(stream))
        await asyncio.sleep(0.1)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    else:
        await anext(stream)
        if way == "close":
            await stream.close()


async def _read(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass
