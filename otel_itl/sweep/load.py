"""Sends the requests of a sweep, and follows those that are open."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from functools import partial
from typing import Final

from otel_itl.sweep.brakes import Brakes
from otel_itl.sweep.budget import Budget
from otel_itl.sweep.clients import Client, describe_failure
from otel_itl.sweep.flight import Flight, current_flight
from otel_itl.sweep.measurement import read_usage, wait_for_span
from otel_itl.sweep.prompts import Prompts

DRAIN_TICK: Final = 0.05
"""Seconds between two looks at the streams that are still open."""


class Load:
    """Sends requests, each in a task of its own, so that none waits for another.

    Args:
        client: of the endpoint.
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
        self.open = 0
        """Streams that are open now."""
        self.errors = 0
        self._changes = array("d")
        self._open_after = array("q")

    def begin_round(self) -> None:
        """Forget the concurrency of the round before."""
        self._changes, self._open_after = array("d", [self._loop.time()]), array("q", [self.open])

    def send(self, *, level: float, round_number: int, is_steady: bool, scheduled: float) -> Flight | None:
        """Send a request.

        Returns:
            The request on its way; None: it may not be sent.

        Raises:
            PromptError: there is no prompt for it.
        """
        if self.brakes.are_applied:
            return None
        prompt = self._prompts.make(self._numbers)
        reservation = self.budget.reserve(prompt)
        if reservation is None:
            self.brakes.stop(self.budget.exhausted or "a limit was reached")
            return None
        self._numbers += 1
        flight = Flight(
            level=level,
            round=round_number,
            is_steady=is_steady,
            scheduled=scheduled,
            prompt=prompt,
            reservation=reservation,
        )
        flight.task = self._loop.create_task(self._fly(flight))
        self._tasks.add(flight.task)
        flight.task.add_done_callback(self._tasks.discard)
        return flight

    def mean_concurrency(self, start: float, end: float) -> float:
        """Return how many streams were open at a time on average, between two moments of this round."""
        if end <= start:
            return float(self.open)
        area, ends = 0.0, [*self._changes[1:], end]
        for began, ended, count in zip(self._changes, ends, self._open_after, strict=True):
            area += max(min(ended, end) - max(began, start), 0.0) * count
        return area / (end - start)

    def max_concurrency(self, start: float, end: float) -> int:
        """Return how many streams were open at a time at most, between two moments of this round."""
        most, before = 0, 0
        for moment, count in zip(self._changes, self._open_after, strict=True):
            if moment > end:
                break
            most = max(most, count) if moment >= start else most
            before = count if moment < start else before
        return max(most, before)

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
        if self.brakes.are_applied:  # since it was scheduled
            self.budget.release(flight.reservation)
            return
        current_flight.set(flight)
        self._count(+1)
        try:
            await self._ask(flight)
        finally:
            self.budget.settle(flight.reservation, *read_usage(flight))

    async def _ask(self, flight: Flight) -> None:
        """Send one request and read its stream to the end."""
        flight.sent = self._loop.time()
        try:
            await self._client.ask(flight.prompt, partial(self._note_token, flight))
        except asyncio.CancelledError:
            flight.is_cut_off = True
            raise
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises is a failure of the request
            self._note_failure(flight, error)
        finally:
            self._count(-1)
        flight.ended = self._loop.time()
        await wait_for_span(flight)

    def _note_token(self, flight: Flight) -> None:
        flight.first_token = self._loop.time()

    def _note_failure(self, flight: Flight, error: Exception) -> None:
        """Note why a request has failed, and apply the brakes if the endpoint asks for that."""
        failure = describe_failure(error)
        flight.status, flight.error = failure.status, failure.name
        self.errors += 1
        self.brakes.note_failure(failure.status, failure.retry_after)

    def _count(self, change: int) -> None:
        """Note that a stream was opened or has ended."""
        self.open += change
        self._changes.append(self._loop.time())
        self._open_after.append(self.open)
