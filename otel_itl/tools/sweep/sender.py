"""Sends the requests of a sweep, and follows those that are open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from otel_itl.tools.sweep.brakes import Brakes
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.concurrency import Concurrency
from otel_itl.tools.sweep.failures import WITHOUT_TOKEN, Failure, describe_failure
from otel_itl.tools.sweep.flight import Flight, current_flight
from otel_itl.tools.sweep.measurement import read_usage, wait_for_span
from otel_itl.tools.sweep.prompts import Prompt, Prompts

DRAIN_TICK: Final = 0.05
"""Seconds between two looks at the streams that are still open."""


class RequestSender:
    """Sends requests, each in a task of its own, so that none waits for another.

    Args:
        client: client of the endpoint.
        prompts: what is asked.
        budget: what may be consumed.
        brakes: decide whether anything may be sent.
    """

    def __init__(self, client: Client, prompts: Prompts, budget: Budget, brakes: Brakes) -> None:
        self._client, self._prompts = client, prompts
        self.budget, self.brakes = budget, brakes
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: Prompt | None = None
        self.concurrency = Concurrency()
        self.errors = 0

    def prepare(self) -> Prompt:
        """Make the prompt of the next request ahead of time, so that sending it takes no longer than it has to.

        Raises:
            PromptError: there is none.
        """
        if self._next is None:
            self._next = self._prompts.make(self._numbers)
            self._numbers += 1
        return self._next

    def send(self, *, level: float, round_number: int, is_steady: bool, due: float) -> Flight | None:
        """Send a request.

        Returns:
            The request on its way; None: it may not be sent. Where the brakes are not applied, that is because open
            requests reserve what is left of a limit: as soon as some have ended, it may fit.

        Raises:
            PromptError: there is no prompt for it.
        """
        if self.brakes.are_applied:
            return None
        prompt = self.prepare()
        reservation = self.budget.reserve(prompt)
        if reservation is None:
            if not self.budget.is_waiting:
                self.brakes.stop(self.budget.exhausted or "a limit was reached")
            return None
        self._next = None
        flight = Flight(
            level=level,
            round=round_number,
            is_steady=is_steady,
            due=due,
            prompt=prompt,
            reservation=reservation,
        )
        flight.task = self._loop.create_task(self._fly(flight))
        self._tasks.add(flight.task)
        flight.task.add_done_callback(partial(self._forget, flight))
        return flight

    def _forget(self, flight: Flight, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended; a request that was never sent consumes nothing."""
        self._tasks.discard(task)
        if flight.sent is None:
            self.budget.release(flight.reservation)

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

    async def _fly(self, flight: Flight) -> None:
        """Send one request, read its stream to the end, and settle what it has consumed."""
        if self.brakes.are_applied:  # since the task was created
            return
        current_flight.set(flight)
        self.concurrency.change(+1, self._loop.time())
        try:
            await self._ask(flight)
        finally:
            self.budget.settle(flight.reservation, *read_usage(flight))

    async def _ask(self, flight: Flight) -> None:
        """Send one request and read its stream to the end."""
        flight.sent = self._loop.time()
        try:
            await self._client.ask(flight.prompt, partial(self._note_token, flight))
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises is a failure of the request
            self._note_failure(flight, describe_failure(error))
        else:
            if flight.first_token is None:
                self._note_failure(flight, WITHOUT_TOKEN)
        finally:
            self.concurrency.change(-1, self._loop.time())
        flight.ended = self._loop.time()
        await wait_for_span(flight)

    def _note_token(self, flight: Flight) -> None:
        flight.first_token = self._loop.time()

    def _note_failure(self, flight: Flight, failure: Failure) -> None:
        """Note why a request has failed, and apply the brakes if the endpoint asks for that."""
        flight.status, flight.error, flight.detail = failure.status, failure.name, failure.detail
        self.errors += 1
        self.brakes.note_failure(failure.status, failure.retry_after)
