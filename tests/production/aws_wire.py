"""botocore's clients over a transport in memory: a response comes in given pieces, and may break anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import aws

if TYPE_CHECKING:
    from faces import Face
    from wires import Line


class Response:
    """As much of the response of urllib3 and of aiohttp as botocore and aiobotocore read."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pieces = iter(line.wire.pieces)
        self.is_closed = False

    is_stream_consumed = False
    num_bytes_downloaded = 0

    def _next_pieces(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._line.sent += 1
            yield piece
        if self._line.wire.fault is not None:
            raise ConnectionResetError(self._line.wire.fault)

    def close(self) -> None:
        self.is_closed = True
        self._pieces = iter(())
        self._line.closed += 1


class BlockingResponse(Response):
    """Of urllib3."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        return self._next_pieces()

    def read(self) -> bytes:
        return b"".join(self._next_pieces())


class AwaitedResponse(Response):
    """Of aiohttp."""

    raw_headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def content(self) -> AwaitedResponse:
        return self

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        for piece in self._next_pieces():
            await asyncio.sleep(0)  # where a task can be cancelled, and others run
            yield piece, True

    async def read(self) -> bytes:
        return b"".join(self._next_pieces())


def client_on(line: Line, face: Face) -> Any:
    """A context manager of a client at the near end of `line`."""
    connect = _connected_async if face == "async" else _connected
    return connect(line)


@contextmanager
def _connected(line: Line) -> Iterator[Any]:
    from botocore.awsrequest import AWSResponse

    with aws.make_client("sync", "http://127.0.0.1") as client:
        client.meta.events.register("before-send", partial(_answer, line, AWSResponse, BlockingResponse))
        yield client


@asynccontextmanager
async def _connected_async(line: Line) -> AsyncIterator[Any]:
    from aiobotocore.awsrequest import AioAWSResponse

    async with aws.make_client("async", "http://127.0.0.1") as client:
        client.meta.events.register("before-send", partial(_answer, line, AioAWSResponse, AwaitedResponse))
        yield client


def _answer(line: Line, answer_type: Any, response_type: type[Response], *, request: Any, **_: Any) -> Any:
    """What the client gets for its request, which never leaves it."""
    line.take(request.body)
    if line.wire.refused is not None:
        raise ConnectionRefusedError(line.wire.refused)
    return answer_type(request.url, line.wire.status, dict(line.wire.headers), response_type(line))
