"""Processes that ask the endpoint side by side, where one reads fewer chunks a second than the endpoint sends.

They share the clock of this process (`time.monotonic()`), which plans when each request is due, keeps the limits, and
judges what they have measured.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from typing import Final

from otel_itl.core.slo import SLO
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.failures import Failure
from otel_itl.tools.sweep.prompts import Prompt
from otel_itl.tools.sweep.records import DueRequest, Round
from otel_itl.tools.sweep.worker import Cancel, Fetch, Fetched, Greeting, Over, Task, Token, pack, receive

CHUNKS_A_SECOND: Final = 1_000
"""Chunks that one process reads, about half of the most that it can: with more, gaps are longer than the endpoint's."""
_ANSWER_SECONDS: Final = 120.0
"""A process that has not answered after this time has failed."""
_END_SECONDS: Final = 5.0
_CHILD: Final = "import sys; sys.path[:] = {path!r}; from otel_itl.tools.sweep.worker import main; main({descriptor})"
_ENDED: Final = "a worker process of the sweep has ended: what it had measured is lost; try fewer --workers."


def count_cores() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_needed(chunks: float) -> int:
    """Return how many processes read a number of chunks a second; no more than there are CPUs."""
    return 1 if sys.platform == "win32" else max(min(-int(-chunks // CHUNKS_A_SECOND), count_cores()), 1)


class WorkerPool:
    """Asks the endpoint from several processes, which end with this one.

    Args:
        workers: started, and greeted by `start`.
    """

    def __init__(self, workers: Sequence[_Worker]) -> None:
        self._workers = workers
        self._numbers = count()

    @classmethod
    async def start(cls, number: int, endpoint: Endpoint, objective: SLO | None) -> WorkerPool:
        """Start processes, and wait until they can measure.

        Raises:
            CommandError: one cannot.
        """
        if sys.platform == "win32":
            raise CommandError("--workers takes 1 on Windows: a socket cannot be handed to another process.")
        workers = [await _Worker.start() for _ in range(number)]
        pool = cls(workers)
        try:
            await asyncio.gather(*(worker.greet(endpoint, objective) for worker in workers))
        except BaseException:
            await pool.close()
            raise
        return pool

    async def ask(self, request: DueRequest, prompt: Prompt) -> Failure | None:
        """Have a request sent by the process that has the fewest open; see `Asker`."""
        worker = min(self._workers, key=lambda one: len(one.open))
        return await worker.ask(next(self._numbers), request, prompt)

    async def fetch(self, one: Round) -> None:
        """Add to the requests of a round their streams, and to the round how well the processes drove it.

        Raises:
            CommandError: a process has ended.
        """
        start, end = one.steady_from or 0.0, one.steady_until or 0.0
        for fetched in await asyncio.gather(*(worker.fetch(start, end) for worker in self._workers)):
            one.loop_lag_p99 = max(one.loop_lag_p99, fetched.loop_lag_p99)
            one.host_delay_share = max(one.host_delay_share, fetched.host_delay_share)

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(worker.close() for worker in self._workers))


class _Worker:
    """The end of a process in this one."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self.open: dict[int, asyncio.Future[Over]] = {}
        """Number of a request that is not over → what it waits for."""
        self._requests: dict[int, DueRequest] = {}
        self._fetched: asyncio.Future[Fetched] | None = None
        self._receiving: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls) -> _Worker:
        """Start a process."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = _start_process(theirs)
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def greet(self, endpoint: Endpoint, objective: SLO | None) -> None:
        """Send the process what it is to ask, and wait until it can measure.

        Raises:
            CommandError: it cannot.
        """
        self._writer.write(pack((endpoint, objective)))
        greeting = await asyncio.wait_for(receive(self._reader), _ANSWER_SECONDS)
        if not isinstance(greeting, Greeting) or greeting.refusal is not None:
            raise CommandError(getattr(greeting, "refusal", _ENDED))
        self._receiving = asyncio.ensure_future(self._receive())

    async def ask(self, number: int, request: DueRequest, prompt: Prompt) -> Failure | None:
        """Have the process send a request, and wait until it is over.

        Raises:
            CommandError: the process has ended.
        """
        self._check()
        self._writer.write(pack(Task(number, request.level, request.round, request.is_steady, request.due, prompt)))
        self._requests[number] = request
        over = self.open[number] = asyncio.get_running_loop().create_future()
        try:
            return self._note(request, await asyncio.shield(over))
        except asyncio.CancelledError:
            self._writer.write(pack(Cancel(number)))
            self._note(request, await asyncio.wait_for(over, _ANSWER_SECONDS))
            raise
        finally:
            del self.open[number]

    def _note(self, request: DueRequest, over: Over) -> Failure | None:
        """Note what has become of a request."""
        request.sent = request.sent if over.sent is None else over.sent
        request.ended, request.usage = over.ended, over.usage
        return over.failure

    async def fetch(self, start: float, end: float) -> Fetched:
        """Take over the streams of the round that has ended.

        Raises:
            CommandError: the process has ended.
        """
        self._check()
        self._fetched = asyncio.get_running_loop().create_future()
        self._writer.write(pack(Fetch(start, end)))
        fetched = await asyncio.wait_for(self._fetched, _ANSWER_SECONDS)
        for number, document in fetched.documents.items():
            self._requests[number].document = document
        self._requests = {}
        return fetched

    def _check(self) -> None:
        """Raise CommandError if the process has ended."""
        if self._receiving is None or self._receiving.done():
            raise CommandError(_ENDED)

    async def _receive(self) -> None:
        """Hand on what the process reports, until it has ended."""
        while (message := await receive(self._reader)) is not None:
            if isinstance(message, Token):
                self._requests[message.number].first_token = message.moment
            elif isinstance(message, Over):
                if (over := self.open.get(message.number)) is not None:
                    over.set_result(message)
            elif self._fetched is not None:
                self._fetched.set_result(message)
        for over in self.open.values():
            if not over.done():
                over.set_exception(CommandError(_ENDED))
        if self._fetched is not None and not self._fetched.done():
            self._fetched.set_exception(CommandError(_ENDED))

    async def close(self) -> None:
        """End the process."""
        self._writer.close()
        if self._receiving is not None:
            self._receiving.cancel()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_process(connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that serves at a socket."""
    code = _CHILD.format(path=sys.path, descriptor=connection.fileno())
    # Isolated: PYTHON* variables would bring an auto-instrumentation along. In a session of its own, Ctrl-C does not
    # reach it: this process decides when open streams are cut off.
    return subprocess.Popen(  # noqa: S603 - our own interpreter, our own code
        [sys.executable, "-I", "-c", code], pass_fds=[connection.fileno()], start_new_session=True
    )
