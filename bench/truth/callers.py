"""Applications that read streams: in a loop, in threads, on an event loop; slowly or at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from inspect import isawaitable
from time import perf_counter_ns
from typing import Any, Final, Literal, NamedTuple

import anthropic
import openai
from aiobotocore.session import get_session as get_async_session
from botocore.session import get_session

Wire = Literal["chat", "responses", "messages", "converse", "ollama_chat", "cohere"]
Face = Literal["sync", "threads", "loop"]
Pause = Callable[[int], float]
"""Returns how many seconds the caller spends on its n-th chunk, counted from 0."""

_PROMPT: Any = [{"role": "user", "content": "Tell me a story."}]
_CONVERSATION: Any = [{"role": "user", "content": [{"text": "Tell me a story."}]}]
_AWS: Any = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}


class LazySDK(NamedTuple):
    """An SDK whose iterators send the request with their first pull."""

    name: str
    clients: tuple[str, str]
    """Names of the sync and the async client class in the module of the SDK's name."""
    options: Callable[[str], dict[str, Any]]
    """Returns the options that lead a client to a URL."""
    request: Callable[[Any, str], Any]
    """Asks a client for the stream of a model; what an async client returns may have to be awaited."""

    def make_client(self, url: str, *, is_async: bool = False) -> Any:
        """Make a client of the server at this URL."""
        return getattr(import_module(self.name), self.clients[is_async])(**self.options(url))


_LAZY_SDKS: Final[dict[Wire, LazySDK]] = {
    "ollama_chat": LazySDK(
        name="ollama",
        clients=("Client", "AsyncClient"),
        options=lambda url: {"host": url},
        request=lambda client, model: client.chat(model=model, messages=_PROMPT, stream=True),
    ),
    "cohere": LazySDK(
        name="cohere",
        clients=("ClientV2", "AsyncClientV2"),
        options=lambda url: {"base_url": url, "api_key": "none"},
        request=lambda client, model: client.chat_stream(model=model, messages=_PROMPT),
    ),
}


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
        """Package that it calls."""
        others = {"messages": "anthropic", "converse": "bedrock"} | {wire: sdk.name for wire, sdk in _LAZY_SDKS.items()}
        return others.get(self.wire, "openai")

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
    if wire in _LAZY_SDKS:
        return _LAZY_SDKS[wire].make_client(url)
    if wire == "converse":
        return get_session().create_client("bedrock-runtime", endpoint_url=url, **_AWS)
    sdk: Any = anthropic if wire == "messages" else openai
    http_client = sdk.DefaultHttpxClient(http1=False, http2=True) if http2 else None
    if wire == "messages":
        return anthropic.Anthropic(base_url=url, api_key="none", http_client=http_client)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=http_client)


def _request(wire: Wire, client: Any, model: str) -> Callable[[], Any]:
    """Return a function that makes the request; the result of an async client has to be awaited."""
    if wire in _LAZY_SDKS:
        return partial(_LAZY_SDKS[wire].request, client, model)
    if wire == "converse":
        return partial(_converse, client, model)
    # `client.chat.completions` is made on first access, which is not part of the call.
    if wire == "messages":
        return partial(client.messages.create, model=model, max_tokens=1_000, messages=_PROMPT, stream=True)
    if wire == "responses":
        return partial(client.responses.create, model=model, input="Tell me a story.", stream=True)
    create = client.chat.completions.create
    return partial(create, model=model, messages=_PROMPT, stream=True, stream_options={"include_usage": True})


def _read(caller: Caller, client: Any, model: str) -> Read:
    moments: list[int] = []
    request = _request(caller.wire, client, model)
    called = perf_counter_ns()
    for _ in request():
        moments.append(perf_counter_ns())
        seconds = caller.pause(len(moments) - 1)
        if seconds:
            time.sleep(seconds)
    return Read(model, called, moments)


def _converse(client: Any, model: str) -> Any:
    return client.converse_stream(modelId=model, messages=_CONVERSATION)["stream"]


async def _read_on_loop(caller: Caller, url: str, models: Sequence[str]) -> list[Read]:
    if caller.wire not in {"chat", "converse", *_LAZY_SDKS}:
        raise ValueError(f"{caller.wire} cannot be read on an event loop here")
    make: Any = partial(openai.AsyncOpenAI, base_url=f"{url}/v1", api_key="none")
    if caller.wire == "converse":
        make = partial(get_async_session().create_client, "bedrock-runtime", endpoint_url=url, **_AWS)
    if caller.wire in _LAZY_SDKS:
        make = partial(_LAZY_SDKS[caller.wire].make_client, url, is_async=True)
    async with make() as client:
        await asyncio.sleep(_SETTLE_SECONDS)
        if caller.block is not None:
            asyncio.get_running_loop().call_later(caller.block.after, time.sleep, caller.block.lasts)
        return list(await asyncio.gather(*(_aread(caller.wire, client, model) for model in models)))


async def _aread(wire: Wire, client: Any, model: str) -> Read:
    request = partial(_aconverse, client, model) if wire == "converse" else _request(wire, client, model)
    called = perf_counter_ns()
    stream = request()
    stream = await stream if isawaitable(stream) else stream
    return Read(model, called, [perf_counter_ns() async for _ in stream])


async def _aconverse(client: Any, model: str) -> Any:
    response = await client.converse_stream(modelId=model, messages=_CONVERSATION)
    return response["stream"]
