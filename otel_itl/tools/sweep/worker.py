"""A process that asks the endpoint for a sweep: it sends what `WorkerPool` gives it, and measures it."""

from __future__ import annotations

import asyncio
import gc
import pickle
import socket
import struct
import time
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, Final, NamedTuple

from otel_itl.core.slo import SLO
from otel_itl.export.file.encoding import Document as OTLPDocument
from otel_itl.recording.evidence.turns import find_delay_source
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.asker import LocalAsker
from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.failures import Failure
from otel_itl.tools.sweep.judging import find_tail
from otel_itl.tools.sweep.measurement import Measurement, take_document
from otel_itl.tools.sweep.prompts import Prompt
from otel_itl.tools.sweep.records import DueRequest

TICK: Final = 0.02
"""Seconds between two looks at the clock: how late one is, is the lag of the event loop."""
_LENGTH: Final = struct.Struct("!Q")


class Task(NamedTuple):
    """A request to send."""

    number: int
    level: float
    round: int
    is_steady: bool
    due: float
    prompt: Prompt


class Cancel(NamedTuple):
    """A request to cut off."""

    number: int


class Fetch(NamedTuple):
    """A question, at the end of a round, for all streams, and for how well the round was driven between two moments."""

    start: float
    end: float


class Greeting(NamedTuple):
    """The process can measure, or it cannot."""

    refusal: str | None = None
    """Why it cannot, in one sentence."""


class Token(NamedTuple):
    """The first token of a request is there."""

    number: int
    moment: float


class Over(NamedTuple):
    """A request has ended, or was cut off, which is never at a moment of its own."""

    number: int
    sent: float | None
    ended: float | None
    usage: tuple[int | None, int | None]
    failure: Failure | None


class Fetched(NamedTuple):
    """The streams of a round by the numbers of their requests, and how well the process drove it."""

    documents: dict[int, OTLPDocument]
    loop_lag_p99: float
    host_delay_share: float


def pack(message: object) -> bytes:
    """Return a message with its length before it."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


async def receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message; None: there is none, as the other process has ended."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))  # noqa: S301 - of our own other process
    return None


def main(descriptor: int) -> None:
    """Serve the pool at the other end of a socket, until it closes the socket or ends."""
    asyncio.run(_serve(socket.socket(fileno=descriptor)))


async def _serve(connection: socket.socket) -> None:
    """Say whether the endpoint can be asked and measured, and do what the pool asks for."""
    reader, writer = await asyncio.open_connection(sock=connection)
    endpoint, objective = await receive(reader)
    try:
        with closing(_Worker(writer, endpoint, objective)) as worker:
            writer.write(pack(Greeting()))
            await worker.run(reader)
    except CommandError as error:
        writer.write(pack(Greeting(str(error))))
        await writer.drain()
    finally:
        writer.close()


class _Worker:
    """Sends requests, each in a task of its own."""

    def __init__(self, writer: asyncio.StreamWriter, endpoint: Endpoint, objective: SLO | None) -> None:
        self._writer, self._client = writer, Client(endpoint)
        self._measurement = Measurement(endpoint.sdk, objective)
        self._asker = LocalAsker(self._client, self._report_token)
        self._requests: dict[DueRequest, int] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._read_delay = find_delay_source() or (lambda: 0)
        self._ticks: list[tuple[float, float, int]] = []
        """When the loop looked at the clock, how late that was (s), and how long it had waited for a CPU (ns)."""

    def close(self) -> None:
        """Stop measuring."""
        self._measurement.close()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Do what the pool asks for, until it has gone."""
        self._freeze()
        ticking = asyncio.ensure_future(self._tick())
        while (message := await receive(reader)) is not None:
            if isinstance(message, Task):
                self._tasks[message.number] = asyncio.ensure_future(self._ask(message))
            elif isinstance(message, Cancel) and message.number in self._tasks:
                self._tasks[message.number].cancel()
            elif isinstance(message, Fetch):
                self._writer.write(pack(await self._fetch(message)))
                self._freeze()
        for task in [ticking, *self._tasks.values()]:
            task.cancel()
        await asyncio.gather(ticking, *self._tasks.values(), return_exceptions=True)
        await self._client.close()

    async def _ask(self, task: Task) -> None:
        """Send a request, and report what has become of it."""
        request = DueRequest(level=task.level, round=task.round, is_steady=task.is_steady, due=task.due)
        self._requests[request] = task.number
        failure: Failure | None = None
        try:
            failure = await self._asker.ask(request, task.prompt)
        finally:
            self._tasks.pop(task.number, None)
            over = Over(task.number, request.sent, request.ended, request.usage, failure)
            self._writer.write(pack(over))

    def _report_token(self, request: DueRequest) -> None:
        self._writer.write(pack(Token(self._requests[request], request.first_token or 0.0)))

    async def _tick(self) -> None:
        """Note how late the loop is, and how long it has waited for a CPU."""
        while True:
            due = time.monotonic() + TICK
            await asyncio.sleep(TICK)
            self._ticks.append((time.monotonic(), max(time.monotonic() - due, 0.0), self._read_delay()))

    async def _fetch(self, fetch: Fetch) -> Fetched:
        """Collect the streams of a round that has ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        ticks = [tick for tick in self._ticks if fetch.start <= tick[0] <= fetch.end]
        waited = sum(after[2] - before[2] for before, after in pairwise(ticks)) / 1e9
        documents = {}
        for request, number in self._requests.items():
            if (document := take_document(request)) is not None:
                documents[number] = document
            await asyncio.sleep(0)
        self._requests, self._ticks = {}, []
        seconds = fetch.end - fetch.start
        return Fetched(documents, find_tail(lag for _, lag, _ in ticks), waited / seconds if seconds > 0 else 0.0)

    def _freeze(self) -> None:
        """Leave what exists out of the next full garbage collection, which would block the event loop for long."""
        gc.collect()
        gc.freeze()
