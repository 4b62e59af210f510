"""An inference server for a sweep to drive: OpenAI's wire format over real sockets, served by a `Service`'s law.

It runs in a process of its own, with one loop for all streams, and keeps the truth about every request. Where that is
allowed it has real-time priority, so that other work on the machine does not break its law.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.sweep.service import Job, Law, Service
from bench.truth.pressure import prioritize

RETRY_AFTER: Final = 1
"""Seconds that a refused client is asked to wait."""
_HEADERS: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LAST: Final = b"0\r\n\r\n"
_ROOT: Final = str(Path(__file__).parents[2])


class Running(NamedTuple):
    """A server that runs."""

    url: str
    """Base URL of its API."""
    port: int

    def truth(self) -> list[Job]:
        """Return every request that it got, in the order of arrival. Moments are those of `time.monotonic()`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/truth", timeout=10) as response:
            return [Job(**one) for one in json.load(response)]


@contextmanager
def upstream(law: Law, seed: int = 0) -> Iterator[Running]:
    """Run a server until the end of the block."""
    arguments = [sys.executable, "-m", "bench.sweep.upstream", json.dumps(law.as_json()), str(seed)]
    process = subprocess.Popen(arguments, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    try:
        assert process.stdout is not None
        prioritize(process.pid)
        port = int(process.stdout.readline())
        yield Running(f"http://127.0.0.1:{port}/v1", port)
    finally:
        process.communicate()


class Upstream:
    """The server.

    Args:
        service: how it serves.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs: list[Job] = []
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._over: dict[int, asyncio.Event] = {}
        self._has_work = asyncio.Event()

    async def decode(self) -> None:
        """Run the steps, for ever. A step that began late does not make the next one later."""
        due = time.monotonic()
        while True:
            if self._service.is_idle:
                self._has_work.clear()
                await self._has_work.wait()
                due = time.monotonic()
            due += self._service.begin_step(due)
            await asyncio.sleep(due - time.monotonic())
            for job in self._service.end_step(due):
                self._send(job)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the server ends
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        arrived = time.monotonic()
        if head.startswith(b"GET /truth"):
            _respond(writer, b"200 OK", [_as_json(job) for job in self._jobs])
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        question = json.loads(await reader.readexactly(length) or b"{}")
        if head.startswith(b"GET"):
            _respond(writer, b"200 OK", {"object": "list", "data": [{"id": "simulated", "object": "model"}]})
            return
        job = self._service.submit(arrived, question.get("max_completion_tokens") or question.get("max_tokens"))
        if job is None:
            error = {"message": "too many requests wait", "type": "rate_limit_error"}
            _respond(writer, b"429 Too Many Requests\r\nretry-after: %d" % RETRY_AFTER, {"error": error})
            return
        self._jobs.append(job)
        await self._stream(job, writer)
        if job.is_cancelled:
            raise ConnectionResetError

    async def _stream(self, job: Job, writer: asyncio.StreamWriter) -> None:
        """Wait until the loop has sent all of an answer."""
        over = self._over[id(job)] = asyncio.Event()
        self._writers[id(job)] = writer
        writer.write(_HEADERS + _chunk({"role": "assistant", "content": ""}))
        self._has_work.set()
        try:
            await over.wait()
        finally:
            del self._over[id(job)], self._writers[id(job)]

    def _send(self, job: Job) -> None:
        """Send the newest token of an answer, and its end after the last one."""
        writer = self._writers[id(job)]
        if writer.is_closing():
            job.is_cancelled = True
        else:
            job.sent[-1] = time.monotonic()
            writer.write(_chunk({"content": f"w{len(job.sent)} "}))
            if job.is_over:
                writer.write(_chunk({}, "stop") + _usage(job.tokens) + _event(b"[DONE]") + _LAST)
        if job.is_over:
            self._over[id(job)].set()


def _respond(writer: asyncio.StreamWriter, status: bytes, content: Any) -> None:
    body = json.dumps(content).encode()
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % (status, len(body)) + body)


def _event(content: bytes) -> bytes:
    event = b"data: " + content + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def _chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    shared = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "simulated"}
    return _event(json.dumps({**shared, "choices": [choice]}).encode())


def _usage(tokens: int) -> bytes:
    usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": tokens + 8}
    shared = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "simulated"}
    return _event(json.dumps({**shared, "choices": [], "usage": usage}).encode())


def _as_json(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Job.__slots__}


async def _serve(law: Law, seed: int) -> None:
    served = Upstream(Service(law, seed))
    decoding = asyncio.create_task(served.decode())
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, partial(sys.stdin.buffer.read))
    decoding.cancel()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input ends; the port is the first line of standard output."""
    law, seed = sys.argv[1:] if arguments is None else arguments
    gc.disable()  # a collection would be a pause that no law knows
    asyncio.run(_serve(Law.from_json(json.loads(law)), int(seed)))


if __name__ == "__main__":
    main()
