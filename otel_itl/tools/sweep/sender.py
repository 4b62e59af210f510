"""Sends the requests of a sweep, and follows those that are open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, Protocol

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.brakes import Brakes
from otel_itl.tools.sweep.budget import Budget, Reservation
from otel_itl.tools.sweep.failures import Failure
from otel_itl.tools.sweep.prompts import Prompt, Prompts
from otel_itl.tools.sweep.records import DueRequest

DRAIN_TICK: Final = 0.05
"""Seconds between two looks at the streams that are still open."""
PAUSE_AFTER_FAILURE: Final = 0.2
"""Seconds that a caller of a closed loop waits after a failure, so that an endpoint that is down is not flooded."""


class Asker(Protocol):
    """Asks the endpoint."""

    async def ask(self, request: DueRequest, prompt: Prompt) -> Failure | None:
        """Send a request, read its stream to the end, and note its times and usage; return why it failed, if it did."""


class RequestSender:
    """Sends requests, each in a task of its own, so that none waits for another.

    Args:
        asker: asks the endpoint, from this process or from several others.
        is_exact: answers are to be as long as they may be.
        prompts: what is asked.
        budget: what may be consumed.
        brakes: decide whether anything may be sent.
    """

    def __init__(self, asker: Asker, prompts: Prompts, budget: Budget, brakes: Brakes, *, is_exact: bool) -> None:
        self.asker, self._prompts, self._is_exact = asker, prompts, is_exact
        self.budget, self.brakes = budget, brakes
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: Prompt | None = None
        self.open = 0
        """Streams that are open now."""
        self.errors = 0

    def prepare(self) -> Prompt:
        """Make the prompt of the next request ahead of time, so that sending it takes no longer than it has to.

        Raises:
            CommandError: there is none.
        """
        if self._next is None:
            self._next = self._prompts(self._numbers)
            self._numbers += 1
        return self._next

    def send(self, request: DueRequest) -> bool:
        """Send a request, in the task that it gets.

        Returns:
            Whether it is on its way; else it may not be sent. Where the brakes are not applied, that is because open
            requests reserve what is left of a limit: as soon as some have ended, it may fit.

        Raises:
            CommandError: there is no prompt for it.
        """
        if self.brakes.are_applied:
            return False
        prompt = self.prepare()
        reservation = self.budget.reserve(prompt)
        if reservation is None:
            if not self.budget.is_waiting:
                self.brakes.stop(self.budget.exhausted or "a limit was reached")
            return False
        self._next = None
        request.most_tokens, request.is_exact = prompt.max_output_tokens, self._is_exact
        request.task = self._loop.create_task(self._send(request, prompt, reservation))
        self._tasks.add(request.task)
        request.task.add_done_callback(partial(self._forget, request, reservation))
        return True

    async def ask_in_turn(self, send: Callable[[], DueRequest | None]) -> AsyncIterator[DueRequest]:
        """Send one request after the other, each when the one before has ended, until the brakes are applied.

        Args:
            send: sends the next request; None: it may not be sent yet.

        Yields:
            Each request when it has ended.
        """
        while not self.brakes.are_applied:
            request = send()
            if request is None or request.task is None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)  # until open requests leave room for another one
                continue
            await asyncio.wait([request.task])
            yield request
            if request.error is not None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    async def drain(self, seconds: float, on_wait: Callable[[], None]) -> None:
        """Wait for the open streams to end, and cut off those that have not.

        Args:
            seconds: to wait; less where the brakes demand it.
            on_wait: called several times a second meanwhile.
        """
        until = self._loop.time() + seconds
        while self._tasks and self._loop.time() < min(until, self.brakes.drain_until):
            await asyncio.wait(self._tasks, timeout=DRAIN_TICK)
            on_wait()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, request: DueRequest, reservation: Reservation, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended; a request that was never sent consumes nothing."""
        self._tasks.discard(task)
        if request.sent is None:
            self.budget.release(reservation)

    async def _send(self, request: DueRequest, prompt: Prompt, reservation: Reservation) -> None:
        """Send one request, read its stream to the end, and settle what it has consumed."""
        if self.brakes.are_applied:  # since the task was created
            return
        request.sent = self._loop.time()
        self.open += 1
        try:
            failure = await self.asker.ask(request, prompt)
        except CommandError as error:  # the process that sends it has ended: so does the sweep
            self.brakes.stop(str(error))
            return
        finally:
            self.open -= 1
            self.budget.settle(reservation, *request.usage)
        if failure is not None:
            request.status, request.error, request.detail = failure.status, failure.name, failure.detail
            self.errors += 1
            self.brakes.note_failure(failure.status, failure.retry_after)
