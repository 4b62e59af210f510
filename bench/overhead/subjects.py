"""The SDKs under test: the same streams over loopback, from bytes in memory, or without HTTP and parsing."""

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
"""How many different chunks a stream has at its beginning, at its end, and between them."""
_HEADERS = {"content-type": "text/event-stream"}

Open = Callable[[], Any]
"""Makes a request and returns its stream."""
AsyncOpen = Callable[[], Awaitable[Any]]


class Ready:
    """A server-sent event whose JSON is parsed already, so that the SDK has nothing to parse."""

    __slots__ = ("chunk", "data", "event")

    def __init__(self, event: str | None, data: str, chunk: Any) -> None:
        self.event = event
        self.data = data
        self.chunk = chunk

    def json(self) -> Any:
        """Return the chunk."""
        return self.chunk


class ReadyDecoder:
    """Replaces the SDK's decoder of server-sent events: returns fixed events, whatever the bytes are."""

    def __init__(self, events: Sequence[Ready]) -> None:
        self._events = events

    def iter_bytes(self, _: Iterator[bytes]) -> Iterator[Ready]:
        """Return the events."""
        return iter(self._events)

    async def aiter_bytes(self, _: AsyncIterator[bytes]) -> AsyncIterator[Ready]:
        """Yield the events."""
        for event in self._events:
            yield event


@dataclass(frozen=True)
class Subject:
    """One SDK: the script of its streams, its clients, and how a stream is requested."""

    package: str
    script: Callable[[int], Script]
    """Returns the script of a whole stream, given its number of tokens; each token is one chunk."""
    extra_chunks: int
    """Number of chunks that carry no token."""
    clients: tuple[str, str]
    request: Callable[[Any], Any]
    patched: tuple[tuple[str, str], ...]
    """Classes that an instrumentation may patch: module and name."""
    prefix: str = ""
    """Prefix of the path below the server's URL."""

    @cached_property
    def sdk(self) -> ModuleType:
        """Module of the SDK."""
        return import_module(self.package)

    def chunks(self, tokens: int) -> int:
        """Return the number of chunks that the SDK yields for a number of tokens."""
        return tokens + self.extra_chunks

    def connected(self, url: str) -> tuple[Any, Any]:
        """Return a sync and an async client of a server."""
        sync, asynchronous = (getattr(self.sdk, name) for name in self.clients)
        options = {"api_key": "none", "base_url": url + self.prefix, "max_retries": 0}
        return sync(**options), asynchronous(**options)

    def in_memory(self, tokens: int) -> tuple[Any, Any]:
        """Return clients whose responses have that many tokens, parsed by the SDK from bytes in memory."""
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
        """Return clients whose responses have that many tokens, with stubs in place of HTTP and parsing.

        Args:
            tokens: of each response.
            distinct: whether every event is an object of its own; else nearly all are the same object.
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
        """Module of the HTTP library that the SDK uses, httpx or httpx2."""
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
        # A chunk that was just parsed is in the CPU's caches; thousands that were parsed before are not.
        for index in range(_HEAD + _DISTINCT, len(chunks) - _TAIL):
            chunks[index] = chunks[_HEAD + index % _DISTINCT]
        ready = [Ready(getattr(chunk, "type", None), "{", chunk) for chunk in chunks]
        return [*ready, Ready(None, "[DONE]", None)]


def _as_it_is(*, data: Any, cast_to: Any, response: Any) -> Any:  # noqa: ARG001 - the SDK's signature
    return data


def _chat(tokens: int) -> Script:
    """Return a chat completion with one chunk per token; the last one also has the finish reason and the usage."""
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
