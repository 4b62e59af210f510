"""Streams of the SDKs that have no client in common with OpenAI's, from bytes in memory or from a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from inspect import isawaitable
from time import perf_counter_ns
from typing import Any, NamedTuple

from bench.overhead.in_memory import (
    KEYS,
    QUESTION,
    request_bedrock,
    request_cohere,
    request_google,
    request_hugging_face,
    request_mistral,
    request_ollama,
    request_xai,
)
from otel_itl.testing import Script, ScriptedServer, bedrock, chat, cohere, gemini, mistral, ollama, xai
from otel_itl.testing.script import CREATED, ID, MODEL

_CONVERSE = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hello"}]}]}
_INVOKE = {"modelId": "m", "body": "{}"}

_VALUES = {ID: '"id"', MODEL: '"m"', CREATED: "1"}
"""What stands for the values that the server fills in."""

Mark = Callable[[], int]
"""Reads a clock or a counter."""


class Source(NamedTuple):
    """Streams of one kind.

    Args:
        name: in a table.
        sdk: to be instrumented.
        script: returns the script of a stream, given its number of tokens.
        make: returns what requests a stream: an iterator over chunks.
        is_async: whether the iterator is asynchronous; then the result of the request may have to be awaited.
    """

    name: str
    sdk: str
    script: Callable[[int], Script]
    make: Callable[[Sequence[bytes]], Callable[[], Any]]
    is_async: bool = False

    def reader(self, tokens: int) -> Reader:
        """Return what reads streams of that many tokens from bytes in memory."""
        blocks = [block for step in self.script(tokens) if (block := step.event.encode(_VALUES))]
        return Reader(self.make(blocks), is_async=self.is_async)


class Reader:
    """Reads one stream after the other.

    Args:
        request: makes the request and returns an iterator over its chunks, or (async) an awaitable of one.
    """

    def __init__(self, request: Callable[[], Any], *, is_async: bool) -> None:
        self._request = request
        self._is_async = is_async
        self.chunks = -1
        self.chunks = len(self.read(perf_counter_ns, floor=False))

    def read(self, mark: Mark, *, floor: bool) -> list[int]:
        """Return the marks after the first and after the last chunk: request and end are not between them."""
        if self._is_async:
            return asyncio.run(self._read_async(mark, floor=floor))
        chunks, marks = self._request(), []
        for number, _ in enumerate(_floor(chunks) if floor else chunks, start=1):
            if self._is_marked(number):
                marks.append(mark())
        return marks

    async def _read_async(self, mark: Mark, *, floor: bool) -> list[int]:
        requested = self._request()
        chunks = await requested if isawaitable(requested) else requested
        number, marks = 0, []
        async for _ in _async_floor(chunks) if floor else chunks:
            number += 1
            if self._is_marked(number):
                marks.append(mark())
        return marks

    def _is_marked(self, number: int) -> bool:
        """Return whether a chunk is the first or the last; every chunk is, while they are counted."""
        return number in {1, self.chunks} or self.chunks < 0


def _gemini(tokens: int) -> Script:
    return gemini.reply(tokens, continuous_usage=True)


_FACES = ((False, "sync"), (True, "async"))


def _both(name: str, sdk: str, script: Callable[[int], Script], make: Any) -> Iterator[Source]:
    """Yield the sync and the async source of one kind of stream."""
    for is_async, face in _FACES:
        yield Source(f"{name}, {face}", sdk, script, partial(make, is_async=is_async), is_async)


SOURCES = (
    *_both("`converse_stream`", "bedrock", bedrock.reply, partial(request_bedrock, "converse_stream", _CONVERSE)),
    *_both(
        *("`invoke_model…`", "bedrock", bedrock.anthropic_reply),
        partial(request_bedrock, "invoke_model_with_response_stream", _INVOKE),
    ),
    *_both("`generate_content_stream`", "google-genai", _gemini, request_google),
    *_both("ollama's `chat`", "ollama", ollama.reply, request_ollama),
    *_both(
        *("cohere's `chat_stream`", "cohere", cohere.reply),
        partial(request_cohere, "ClientV2", {"model": "m", "messages": QUESTION}),
    ),
    *_both(
        *("cohere's `chat_stream` of the first API", "cohere", cohere.v1_reply),
        partial(request_cohere, "Client", {"model": "m", "message": "hello"}),
    ),
    *_both("mistralai's `chat.stream`", "mistralai", mistral.reply, request_mistral),
    *_both("huggingface_hub's `chat_completion`", "huggingface-hub", chat.reply, request_hugging_face),
    *_both("xai-sdk's `chat.stream`", "xai", xai.reply, request_xai),
)
"""Everything that is measured from bytes in memory."""


def over_a_socket(server: ScriptedServer, tokens: int, gap: float) -> Reader:
    """Return what reads `converse_stream` of boto3 from a server that sends each chunk alone."""
    session: Any = import_module("botocore.session").get_session()
    client = session.create_client("bedrock-runtime", endpoint_url=server.url, **KEYS)
    server.always(bedrock.reply(tokens, gaps=gap))
    return Reader(lambda: client.converse_stream(**_CONVERSE)["stream"], is_async=False)


def _floor(chunks: Iterator[Any]) -> Iterator[Any]:
    """Take two moments of each chunk, and nothing else."""
    moments: list[int] = []
    append, pull = moments.append, iter(chunks).__next__
    while True:
        append(perf_counter_ns())
        try:
            chunk = pull()
        except StopIteration:
            return
        append(perf_counter_ns())
        yield chunk


async def _async_floor(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Do the same as `_floor`, for an asynchronous stream."""
    moments: list[int] = []
    append, pull = moments.append, aiter(chunks).__anext__
    while True:
        append(perf_counter_ns())
        try:
            chunk = await pull()
        except StopAsyncIteration:
            return
        append(perf_counter_ns())
        yield chunk
