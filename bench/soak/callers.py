"""The callers of the soak: each makes one request after another, and ends each stream in one way or another."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from time import monotonic, perf_counter_ns
from typing import Any, Final, NamedTuple

import anthropic
import openai

from bench.soak.stalls import StallLog
from bench.soak.upstream import (
    BROKEN,
    EVENTS_BEFORE_SILENCE,
    FAILING,
    HOLDING,
    REFUSED,
    SILENCE_SECONDS,
    STALLING,
    TRUNCATED,
    WELL,
)

READ: Final = {WELL: "completed", TRUNCATED: "truncated", FAILING: "error", BROKEN: "error", REFUSED: "error"}
"""Model of a stream that its caller reads to the end → outcome."""
LEFT: Final = {"close": "closed", "block": "closed", "drop": "abandoned", "cancel": "cancelled"}
"""How a caller leaves a stream that goes on → outcome."""
STALLING_TASKS: Final = 6
STALLING_THREADS: Final = 2
"""Callers, beside the others, whose every stream is silent once."""
PROMPT: Final = [{"role": "user", "content": "hello"}]


class Callers:
    """Callers that make requests at the same time, until a moment.

    Args:
        port: of the upstream.
        callers: how many; one in eight is a thread of its own, the others are tasks of one event loop.
        until: the moment of `time.monotonic()` after which they make no more requests.
        seed: of the random choices.
        stalls: where the long waits are recorded.
    """

    def __init__(self, port: int, callers: int, until: float, seed: int, stalls: StallLog) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._callers = callers
        self._until = until
        self._random = random.Random(seed)  # noqa: S311 - what callers do is no secret
        self._stalls = stalls
        self._numbers = count()
        self._lock = threading.Lock()
        self.expected: Counter[str] = Counter()
        """Streams by the outcome that has to be recorded."""
        self.in_time = 0
        """Streams that ended before that moment."""
        self.surprises: Counter[str] = Counter()
        """Errors that the upstream did not cause, by type."""

    def run(self) -> None:
        """Run all callers; return when the last one is done."""
        threads = [threading.Thread(target=self._sync) for _ in range(self._callers // 8)]
        tasks = self._callers - len(threads)
        threads += [threading.Thread(target=self._sync_stalling) for _ in range(STALLING_THREADS)]
        for thread in threads:
            thread.start()
        asyncio.run(self._tasks(tasks))
        for thread in threads:
            thread.join()

    def _choice(self, *ways: str) -> _Choice:
        with self._lock:
            is_openai = self._random.random() < 0.5
            if self._random.random() < 0.5:
                model = self._random.choice([WELL, *READ])
                return _Choice(is_openai, model, "", READ[model])
            way = self._random.choice(ways)
            return _Choice(is_openai, HOLDING, way, LEFT[way])

    def _stalling_choice(self) -> _Choice | None:
        """Return a stream that is silent once; None where too little time is left for it."""
        if monotonic() + SILENCE_SECONDS + 1 > self._until:
            return None
        number = next(self._numbers)
        return _Choice(number % 2 == 0, f"{STALLING}-{id(self)}-{number}", "", "completed")

    def _count(self, choice: _Choice, error: Exception | None) -> None:
        """Count a stream that ended. One that failed by itself, as sockets do on a busy machine, ended in an error."""
        with self._lock:
            self.expected[choice.outcome if error is None else "error"] += 1
            self.in_time += monotonic() < self._until
            if error is not None and choice.outcome != "error":
                self.surprises[type(error).__name__] += 1

    def _sync(self) -> None:
        with _client(openai.OpenAI, self._url) as first, _client(anthropic.Anthropic, self._url) as second:
            while monotonic() < self._until:
                choice = self._choice("close", "block", "drop")
                error = None
                try:
                    _call(first if choice.is_openai else second, choice)
                except Exception as failure:  # noqa: BLE001 - every exception of an SDK is an end of the stream
                    error = failure
                self._count(choice, error)

    def _sync_stalling(self) -> None:
        with _client(openai.OpenAI, self._url) as first, _client(anthropic.Anthropic, self._url) as second:
            while choice := self._stalling_choice():
                error = None
                try:
                    stream = iter(_request(first if choice.is_openai else second, choice.model))
                    waits = _Waits(choice.model, self._stalls)
                    while waits.begin() and next(stream, None) is not None:
                        waits.end()
                except Exception as failure:  # noqa: BLE001 - as above
                    error = failure
                self._count(choice, error)

    async def _tasks(self, tasks: int) -> None:
        async with (
            _client(openai.AsyncOpenAI, self._url) as first,
            _client(anthropic.AsyncAnthropic, self._url) as second,
        ):
            ordinary = (self._task(first, second) for _ in range(tasks))
            stalling = (self._stalling_task(first, second) for _ in range(STALLING_TASKS))
            await asyncio.gather(*ordinary, *stalling)
            gc.collect()
            await asyncio.sleep(0.5)  # for the loop to close the generators of dropped streams

    async def _task(self, first: Any, second: Any) -> None:
        while monotonic() < self._until:
            choice = self._choice(*LEFT)
            error = None
            try:
                await _acall(first if choice.is_openai else second, choice)
            except Exception as failure:  # noqa: BLE001 - as above
                error = failure
            self._count(choice, error)

    async def _stalling_task(self, first: Any, second: Any) -> None:
        while choice := self._stalling_choice():
            error = None
            try:
                stream = aiter(await _request(first if choice.is_openai else second, choice.model))
                waits = _Waits(choice.model, self._stalls)
                while waits.begin() and await anext(stream, None) is not None:
                    waits.end()
            except Exception as failure:  # noqa: BLE001 - as above
                error = failure
            self._count(choice, error)


class _Choice(NamedTuple):
    """What a caller does with a stream."""

    is_openai: bool
    """The stream is of the openai SDK, else of anthropic."""
    model: str
    way: str
    """How the caller leaves the stream; empty: it reads to the end."""
    outcome: str


class _Waits:
    """Records the waits of one caller for the chunks that follow the first output."""

    def __init__(self, model: str, stalls: StallLog) -> None:
        self._model = model
        self._stalls = stalls
        self._asked = 0
        self._chunks = 0

    def begin(self) -> bool:
        """Begin to wait for a chunk; return True, for use in the condition of a loop."""
        self._asked = perf_counter_ns()
        return True

    def end(self) -> None:
        """A chunk arrived. Before it, another threshold holds for waits that precede the first output."""
        if self._chunks >= EVENTS_BEFORE_SILENCE:
            self._stalls.record_wait(self._model, self._asked, perf_counter_ns())
        self._chunks += 1


def _client(make: Any, url: str) -> Any:
    sdk = sys.modules[make.__module__.partition(".")[0]]
    http = sdk.DefaultAsyncHttpxClient if "Async" in make.__name__ else sdk.DefaultHttpxClient
    # No certificates: loading them takes longer than many streams, and TLS is not used.
    return make(base_url=url, api_key="none", max_retries=0, timeout=60, http_client=http(verify=False, timeout=60))


def _request(client: Any, model: str) -> Any:
    if hasattr(client, "chat"):
        return client.chat.completions.create(model=model, messages=PROMPT, stream=True)
    return client.messages.create(model=model, messages=PROMPT, max_tokens=9, stream=True)


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
