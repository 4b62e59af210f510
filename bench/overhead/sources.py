"""Streams of SDKs that have little in common: Bedrock's and Google's, from bytes in memory or from a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from time import perf_counter_ns
from typing import Any, NamedTuple

from otel_itl.testing import Script, ScriptedServer, bedrock, gemini

KEYS = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
_CONVERSE = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "hello"}]}]}
_INVOKE = {"modelId": "m", "body": "{}"}

Mark = Callable[[], int]
"""Reads a clock or a counter."""
OpenStream = Callable[[Sequence[bytes]], Any]
"""Requests a stream of these blocks; the result is a context of an iterator, an async one where the SDK's is."""


class Source(NamedTuple):
    """Streams of one kind.

    Args:
        name: in a table.
        sdk: to be instrumented.
        script: returns the script of a stream, given its number of tokens.
        make: returns what requests a stream: an iterator over chunks.
        is_async: whether the result of the request is awaited, and iterated over asynchronously.
    """

    name: str
    sdk: str
    script: Callable[[int], Script]
    make: Callable[[Sequence[bytes]], Callable[[], Any]]
    is_async: bool = False

    def reader(self, tokens: int) -> Reader:
        """Return what reads streams of that many tokens from bytes in memory."""
        blocks = [step.event.encode() for step in self.script(tokens) if step.event.encode()]
        return Reader(self.make(blocks), len(blocks), is_async=self.is_async)


class Reader:
    """Reads one stream after the other.

    Args:
        request: makes the request and returns an iterator over its chunks, or (async) an awaitable of one.
        chunks: how many come.
    """

    def __init__(self, request: Callable[[], Any], chunks: int, *, is_async: bool) -> None:
        self.chunks = chunks
        self._request = request
        self._is_async = is_async

    def read(self, mark: Mark, *, floor: bool) -> list[int]:
        """Return the marks after the first and after the last chunk: request and end are not between them."""
        if self._is_async:
            return asyncio.run(self._read_async(mark, floor=floor))
        chunks, marks = self._request(), []
        ends = (1, self.chunks)
        for number, _ in enumerate(_floor(chunks) if floor else chunks, start=1):
            if number in ends:
                marks.append(mark())
        return marks

    async def _read_async(self, mark: Mark, *, floor: bool) -> list[int]:
        chunks = await self._request()
        number, marks = 0, []
        ends = (1, self.chunks)
        async for _ in _async_floor(chunks) if floor else chunks:
            number += 1
            if number in ends:
                marks.append(mark())
        return marks


class _Response:
    """The response under an event stream, of urllib3 and of aiohttp."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks

    def stream(self) -> Iterator[bytes]:
        return iter(self._blocks)

    @property
    def content(self) -> _Response:
        return self

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        for block in self._blocks:
            yield block, True

    def close(self) -> None:
        """Do nothing."""


def _bedrock(operation: str, request: Any, blocks: Sequence[bytes]) -> Callable[[], Any]:
    """Return what requests a stream of botocore."""
    session: Any = import_module("botocore.session").get_session()
    response_type: Any = import_module("botocore.awsrequest").AWSResponse
    session.register(
        "before-send.bedrock-runtime", lambda request, **_: response_type(request.url, 200, {}, _Response(blocks))
    )
    client = session.create_client("bedrock-runtime", **KEYS)
    return lambda: _chunks_of(getattr(client, operation)(**request))


def _bedrock_async(operation: str, request: Any, blocks: Sequence[bytes]) -> Callable[[], Any]:
    """Return what requests a stream of aiobotocore."""
    session: Any = import_module("aiobotocore.session").get_session()
    response_type: Any = import_module("aiobotocore.awsrequest").AioAWSResponse
    session.register(
        "before-send.bedrock-runtime", lambda request, **_: response_type(request.url, 200, {}, _Response(blocks))
    )

    async def read() -> Any:
        async with session.create_client("bedrock-runtime", **KEYS) as client:
            return aiter(_chunks_of(await getattr(client, operation)(**request)))

    return read


def _chunks_of(response: Any) -> Any:
    return response.get("stream") or response["body"]


def _google_client(blocks: Sequence[bytes], *, is_async: bool) -> Any:
    """Return a client of google-genai whose responses come from memory."""
    module: Any = import_module("google.genai._api_client")
    http: Any = getattr(module, "httpx2", None) or module.httpx

    async def stream() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    def answer(_: Any) -> Any:
        return http.Response(200, content=stream() if is_async else iter(blocks))

    arguments = {"transport": http.MockTransport(answer)}
    options = {"client_args": arguments, "async_client_args": arguments}
    return import_module("google.genai").Client(api_key="none", http_options=options)


def _google(blocks: Sequence[bytes]) -> Callable[[], Any]:
    client = _google_client(blocks, is_async=False)  # which closes its connections when it is dropped
    return lambda: client.models.generate_content_stream(model="m", contents="hello")


def _google_async(blocks: Sequence[bytes]) -> Callable[[], Any]:
    client = _google_client(blocks, is_async=True)

    async def read() -> Any:
        return await client.aio.models.generate_content_stream(model="m", contents="hello")

    return read


def _gemini(tokens: int) -> Script:
    return gemini.reply(tokens, continuous_usage=True)


SOURCES = (
    Source("`converse_stream`, sync", "bedrock", bedrock.reply, partial(_bedrock, "converse_stream", _CONVERSE)),
    Source(
        *("`converse_stream`, async", "bedrock", bedrock.reply, partial(_bedrock_async, "converse_stream", _CONVERSE)),
        is_async=True,
    ),
    Source(
        *("`invoke_model…`, sync", "bedrock", bedrock.anthropic_reply),
        partial(_bedrock, "invoke_model_with_response_stream", _INVOKE),
    ),
    Source(
        *("`invoke_model…`, async", "bedrock", bedrock.anthropic_reply),
        partial(_bedrock_async, "invoke_model_with_response_stream", _INVOKE),
        is_async=True,
    ),
    Source("`generate_content_stream`, sync", "google-genai", _gemini, _google),
    Source("`generate_content_stream`, async", "google-genai", _gemini, _google_async, is_async=True),
)
"""Everything that is measured from bytes in memory."""


def over_a_socket(server: ScriptedServer, tokens: int, gap: float) -> Reader:
    """Return what reads `converse_stream` of boto3 from a server that sends each chunk alone."""
    session: Any = import_module("botocore.session").get_session()
    client = session.create_client("bedrock-runtime", endpoint_url=server.url, **KEYS)
    script = bedrock.reply(tokens, gaps=gap)
    server.always(script)
    return Reader(lambda: client.converse_stream(**_CONVERSE)["stream"], len(script.steps), is_async=False)


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
