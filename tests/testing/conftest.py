"""A scripted server, and the real clients that are pointed at it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import anthropic
import openai
import pytest

from otel_itl.testing import ScriptedServer, chat, completions, messages, responses

ASKED = [{"role": "user", "content": "hello"}]
CLIENT = {"api_key": "none", "max_retries": 0, "timeout": 5.0}
# The HTTP clients below load no certificates (`verify=False`): that takes longer than most tests, for no TLS.


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@dataclass(frozen=True)
class Surface:
    """One way to ask: `collect(server, into)` streams a response with a real client and appends each chunk."""

    wire: str
    build: ModuleType
    collect: Callable[[ScriptedServer, list[Any]], None]

    def read(self, server: ScriptedServer) -> list[Any]:
        chunks: list[Any] = []
        self.collect(server, chunks)
        return chunks


def openai_client(server: ScriptedServer, **options: Any) -> openai.OpenAI:
    http_client = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(base_url=server.openai_url, http_client=http_client, **{**CLIENT, **options})


def async_openai_client(server: ScriptedServer, **options: Any) -> openai.AsyncOpenAI:
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=server.openai_url, http_client=http_client, **{**CLIENT, **options})


def anthropic_client(server: ScriptedServer, **options: Any) -> anthropic.Anthropic:
    http_client = anthropic.DefaultHttpxClient(verify=False)
    return anthropic.Anthropic(base_url=server.anthropic_url, http_client=http_client, **{**CLIENT, **options})


def async_anthropic_client(server: ScriptedServer, **options: Any) -> anthropic.AsyncAnthropic:
    http_client = anthropic.DefaultAsyncHttpxClient(verify=False)
    return anthropic.AsyncAnthropic(base_url=server.anthropic_url, http_client=http_client, **{**CLIENT, **options})


CALLS: dict[str, tuple[ModuleType, Callable[..., Any], Callable[..., Any], Callable[[Any], Any]]] = {
    "chat": (
        chat,
        openai_client,
        async_openai_client,
        lambda client: client.chat.completions.create(model="m", messages=ASKED, stream=True),
    ),
    "completions": (
        completions,
        openai_client,
        async_openai_client,
        lambda client: client.completions.create(model="m", prompt="hello", stream=True),
    ),
    "responses": (
        responses,
        openai_client,
        async_openai_client,
        lambda client: client.responses.create(model="m", input="hello", stream=True),
    ),
    "messages": (
        messages,
        anthropic_client,
        async_anthropic_client,
        lambda client: client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True),
    ),
}


def surface_of(wire: str, *, is_async: bool, timeout: float = 5.0) -> Surface:
    build, sync_client, async_client, call = CALLS[wire]

    def collect(server: ScriptedServer, into: list[Any]) -> None:
        with sync_client(server, timeout=timeout) as client:
            for chunk in call(client):
                into.append(chunk)  # noqa: PERF402 - what came before an error stays

    async def acollect(server: ScriptedServer, into: list[Any]) -> None:
        async with async_client(server, timeout=timeout) as client:
            async for chunk in await call(client):
                into.append(chunk)  # noqa: PERF401 - what came before an error stays

    return Surface(wire, build, (lambda server, into: asyncio.run(acollect(server, into))) if is_async else collect)


def skip_what_the_sdk_lacks(wire: str) -> None:
    if wire == "responses" and not hasattr(openai.OpenAI, "responses"):
        pytest.skip(f"openai {openai.__version__} has no responses API")


@pytest.fixture(params=[f"{wire}-{face}" for wire in CALLS for face in ("sync", "async")])
def surface(request: pytest.FixtureRequest) -> Surface:
    wire, face = request.param.split("-")
    skip_what_the_sdk_lacks(wire)
    return surface_of(wire, is_async=face == "async")


@pytest.fixture(params=list(CALLS))
def sync_surface(request: pytest.FixtureRequest) -> Surface:
    skip_what_the_sdk_lacks(request.param)
    return surface_of(request.param, is_async=False)


@pytest.fixture(params=list(CALLS))
def impatient(request: pytest.FixtureRequest) -> Surface:
    """A surface whose client waits 0.2 s for the next byte."""
    skip_what_the_sdk_lacks(request.param)
    return surface_of(request.param, is_async=False, timeout=0.2)


class RawClient:
    """A client that sees the bytes, and the reads they came in."""

    def __init__(self, server: ScriptedServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=5)

    def ask(self, path: str = "/v1/chat/completions", body: bytes = b'{"model": "m"}', method: str = "POST") -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)

    def read_until(self, end: bytes) -> list[bytes]:
        """The reads it took until what was read ends so, or until the server closed."""
        reads: list[bytes] = []
        while not b"".join(reads).endswith(end):
            data = self.socket.recv(65536)
            if not data:
                break
            reads.append(data)
        return reads


@pytest.fixture
def raw(server: ScriptedServer) -> Iterator[RawClient]:
    client = RawClient(server)
    yield client
    client.socket.close()


@pytest.fixture
def clients() -> dict[str, Callable[..., Any]]:
    return {
        "openai": openai_client,
        "async_openai": async_openai_client,
        "anthropic": anthropic_client,
        "async_anthropic": async_anthropic_client,
    }
