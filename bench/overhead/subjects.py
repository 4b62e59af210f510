"""The SDKs as the benchmark drives them: the same streams over loopback, from bytes in memory, or without parsing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from otel_itl.testing import Script, chat, messages
from otel_itl.testing.script import CREATED, ID, MODEL

MODEL_NAME = "bench-model"
PROMPT = [{"role": "user", "content": "Tell me a story."}]
_VALUES = {ID: json.dumps("response-1"), MODEL: json.dumps(MODEL_NAME), CREATED: "1700000000"}
_HEAD, _TAIL, _DISTINCT = 3, 4, 8
"""Chunks at the beginning and the end of a stream that are not all alike, and how many different ones are between."""
_HEADERS = {"content-type": "text/event-stream"}

Open = Callable[[], Any]
"""Makes a request; returns its stream."""
AsyncOpen = Callable[[], Awaitable[Any]]


class Ready:
    """A server-sent event whose JSON is parsed already: the SDK has nothing left to do."""

    __slots__ = ("chunk", "data", "event")

    def __init__(self, event: str | None, data: str, chunk: Any) -> None:
        self.event = event
        self.data = data
        self.chunk = chunk

    def json(self) -> Any:
        """The chunk."""
        return self.chunk


class ReadyDecoder:
    """In place of the SDK's decoder of server-sent events: the events there are, whatever the bytes."""

    def __init__(self, events: Sequence[Ready]) -> None:
        self._events = events

    def iter_bytes(self, _: Iterator[bytes]) -> Iterator[Ready]:
        """The events."""
        return iter(self._events)

    async def aiter_bytes(self, _: AsyncIterator[bytes]) -> AsyncIterator[Ready]:
        """The events."""
        for event in self._events:
            yield event


@dataclass(frozen=True)
class Subject:
    """One SDK: how its streams are scripted, which clients it has, how a stream is asked for."""

    package: str
    script: Callable[[int], Script]
    """A whole stream of so many tokens, a chunk each."""
    extra_chunks: int
    """Chunks beside those of the tokens."""
    clients: tuple[str, str]
    request: Callable[[Any], Any]
    patched: tuple[tuple[str, str], ...]
    """Classes that some instrumentation patches: module and name."""
    prefix: str = ""
    """Of the path below the server's URL."""

    @cached_property
    def sdk(self) -> ModuleType:
        """The SDK."""
        return import_module(self.package)

    def chunks(self, tokens: int) -> int:
        """How many chunks the SDK yields for so many tokens."""
        return tokens + self.extra_chunks

    def connected(self, url: str) -> tuple[Any, Any]:
        """A sync and an async client of a server."""
        sync, asynchronous = (getattr(self.sdk, name) for name in self.clients)
        options = {"api_key": "none", "base_url": url + self.prefix, "max_retries": 0}
        return sync(**options), asynchronous(**options)

    def in_memory(self, tokens: int) -> tuple[Any, Any]:
        """Clients whose every response is that many tokens, parsed by the SDK from bytes in memory."""
        blocks = [step.event.encode(_VALUES) for step in self.script(tokens)]
        http = self._http

        async def stream() -> AsyncIterator[bytes]:
            for block in blocks:
                yield block

        return self._transported(
            lambda _: http.Response(200, headers=_HEADERS, content=iter(blocks)),
            lambda _: http.Response(200, headers=_HEADERS, content=stream()),
        )

    def stubbed(self, tokens: int, *, distinct: bool = True) -> tuple[Any, Any]:
        """Clients whose every response is that many tokens, with HTTP and all parsing stubbed out.

        `distinct`: every event is an object of its own; else one stands for nearly all.
        """
        events = self._ready(tokens) if distinct else self._repeated(tokens)
        http = self._http
        clients = self._transported(
            lambda _: http.Response(200, headers=_HEADERS, content=b""),
            lambda _: http.Response(200, headers=_HEADERS, content=b""),
        )
        for client in clients:
            client._make_sse_decoder = lambda: ReadyDecoder(events)  # noqa: SLF001 - the seam of the stub
            client._process_response_data = _as_it_is  # noqa: SLF001
        return clients

    @property
    def _http(self) -> Any:
        """The HTTP library that the SDK brings, httpx or httpx2."""
        return import_module(self.sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    def _transported(self, answer: Any, answer_async: Any) -> tuple[Any, Any]:
        http = self._http
        sync, asynchronous = (getattr(self.sdk, name) for name in self.clients)
        options = {"api_key": "none", "base_url": "http://bench.invalid" + self.prefix, "max_retries": 0}
        return (
            sync(**options, http_client=http.Client(transport=http.MockTransport(answer))),
            asynchronous(**options, http_client=http.AsyncClient(transport=http.MockTransport(answer_async))),
        )

    def _repeated(self, tokens: int) -> list[Ready]:
        few = _HEAD + _DISTINCT + _TAIL
        ready = self._ready(few)
        return [*ready[:_HEAD], *[ready[_HEAD]] * (tokens - few), *ready[_HEAD:]]

    @lru_cache  # noqa: B019 - subjects live as long as the process
    def _ready(self, tokens: int) -> list[Ready]:
        client, _ = self.in_memory(tokens)
        chunks = list(self.request(client))
        assert len(chunks) == self.chunks(tokens), (len(chunks), self.chunks(tokens))
        # A chunk that was parsed a moment ago is in the processor's caches; thousands that were parsed before are not.
        for index in range(_HEAD + _DISTINCT, len(chunks) - _TAIL):
            chunks[index] = chunks[_HEAD + index % _DISTINCT]
        ready = [Ready(getattr(chunk, "type", None), "{", chunk) for chunk in chunks]
        return [*ready, Ready(None, "[DONE]", None)]


def _as_it_is(*, data: Any, cast_to: Any, response: Any) -> Any:  # noqa: ARG001 - the SDK's signature
    return data


def _chat(tokens: int) -> Script:
    """Chat completions of exactly so many chunks; the last one has the finish reason and the usage, too."""
    steps = [chat.text(f"token{index} ") for index in range(tokens - 1)]
    usage = chat.usage_object(tokens)
    last = chat.delta("answer", {"content": "end"}, tokens=1, finish_reason="stop", usage=usage)
    return Script([*steps, last, chat.done()])


def _messages(tokens: int) -> Script:
    return messages.reply(tokens)


OPENAI = Subject(
    package="openai",
    script=_chat,
    extra_chunks=0,
    clients=("OpenAI", "AsyncOpenAI"),
    request=lambda client: client.chat.completions.create(model=MODEL_NAME, messages=PROMPT, stream=True),
    patched=(
        ("openai", "OpenAI"),
        ("openai", "AsyncOpenAI"),
        ("openai._base_client", "SyncAPIClient"),
        ("openai._base_client", "AsyncAPIClient"),
        ("openai._streaming", "Stream"),
        ("openai._streaming", "AsyncStream"),
        ("openai.resources.chat.completions", "Completions"),
        ("openai.resources.chat.completions", "AsyncCompletions"),
    ),
    prefix="/v1",
)
ANTHROPIC = Subject(
    package="anthropic",
    script=_messages,
    extra_chunks=5,
    clients=("Anthropic", "AsyncAnthropic"),
    request=lambda client: client.messages.create(model=MODEL_NAME, messages=PROMPT, max_tokens=4096, stream=True),
    patched=(
        ("anthropic", "Anthropic"),
        ("anthropic", "AsyncAnthropic"),
        ("anthropic._base_client", "SyncAPIClient"),
        ("anthropic._base_client", "AsyncAPIClient"),
        ("anthropic._streaming", "Stream"),
        ("anthropic._streaming", "AsyncStream"),
        ("anthropic.resources.messages", "Messages"),
        ("anthropic.resources.messages", "AsyncMessages"),
    ),
)
SUBJECTS = {subject.package: subject for subject in (OPENAI, ANTHROPIC)}
