"""Measures how long a request takes at the expected peak: by Little's law, the rate of a level follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.failures import NO_TOKEN
from otel_itl.tools.sweep.measurement import CALIBRATION
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.records import DueRequest
from otel_itl.tools.sweep.rounds import TICK, raise_failure
from otel_itl.tools.sweep.sender import RequestSender

REQUESTS_PER_CALLER: Final = 3
"""The first of a caller opens its connection, and is left out of the mean."""
MIN_MEASURED: Final = 10
MAX_MEASURED: Final = 30
"""Requests from which on no more are waited for: the mean of ten varies by a tenth or two."""
QUICK_SECONDS: Final = 10.0
"""After this time, `MIN_MEASURED` requests are enough."""
MAX_USED_SHARE: Final = 0.1
"""Share of a limit (`--max-requests`, …) from which on `MIN_MEASURED` requests are enough."""
FIRST_CALLERS: Final = 3
"""Callers that begin at once. The others begin as soon as one of these has got a token."""
MAX_SECONDS: Final = 300.0
MIN_ERRORS: Final = 3
"""Failures from which on calibrating ends, if no request has succeeded."""


class Calibration:
    """Has as many callers as the expected peak ask one request after the other, until the mean is known.

    Args:
        plan: the options.
        sender: sends the requests.
        report: called several times a second.
        random: random start of each caller.
    """

    def __init__(self, plan: SweepPlan, sender: RequestSender, report: Callable[[], None], random: Random) -> None:
        self._plan, self._sender, self._report, self._random = plan, sender, report, random
        self._clock = asyncio.get_running_loop().time
        self.requests: list[DueRequest] = []
        self._is_answered = asyncio.Event()
        """A token has come."""
        self._durations: list[float] = []
        self._first_durations: list[float] = []
        self._errors: list[DueRequest] = []

    async def measure(self) -> float | None:
        """Return the mean duration of a request (s); None: the brakes were applied before it was known.

        Raises:
            CommandError: requests fail, or none ends in time.
            CommandError: a prompt cannot be made.
        """
        count = self._plan.callers_at(1.0)
        count = min(count, self._plan.max_requests or count)
        callers = [asyncio.ensure_future(self._ask_again(number)) for number in range(count)]
        try:
            await self._watch(callers)
        finally:
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
            slowest = max([*self._first_durations, *self._durations, 1.0])
            given = self._plan.drain_seconds
            await self._sender.drain(4 * slowest if given is None else given, self._report)
        durations = self._durations or self._first_durations
        if durations:
            return sum(durations) / len(durations)
        if self._sender.brakes.are_applied:
            return None
        raise CommandError(
            f"no request ended within {MAX_SECONDS:g} s at the expected peak: there is no rate to derive levels of."
        )

    async def _watch(self, callers: Sequence[asyncio.Future[None]]) -> None:
        """Wait until enough requests are measured, or the brakes are applied."""
        began = self._clock()
        wanted = max((REQUESTS_PER_CALLER - 1) * len(callers), MIN_MEASURED)
        while not self._sender.brakes.are_applied and self._clock() < began + MAX_SECONDS:
            is_quick = self._clock() < began + QUICK_SECONDS and self._sender.budget.used_share < MAX_USED_SHARE
            if len(self._durations) >= (max(wanted, MAX_MEASURED) if is_quick else wanted):
                return
            await asyncio.wait(callers, timeout=TICK)
            raise_failure(callers)
            self._refuse_failures()
            if any(request.first_token is not None for request in self.requests[: 2 * FIRST_CALLERS]):
                self._is_answered.set()
            self._report()

    async def _ask_again(self, number: int) -> None:
        """Send one request after the other; those of `number` 3 and above only once the endpoint has sent a token."""
        if number >= FIRST_CALLERS:
            await self._is_answered.wait()
        await asyncio.sleep(self._random.uniform(0, TICK))
        durations = self._first_durations
        async for request in self._sender.ask_in_turn(self._send):
            if request.error is not None:
                self._errors.append(request)
            elif request.duration is not None:
                durations.append(request.duration)
                durations = self._durations

    def _send(self) -> DueRequest | None:
        """Send a request; None: it may not be sent."""
        request = DueRequest(level=1.0, round=CALIBRATION, is_steady=False, due=self._clock())
        if not self._sender.send(request):
            return None
        self.requests.append(request)
        return request

    def _refuse_failures(self) -> None:
        """Raise CommandError if requests fail beyond the limit of the plan."""
        errors, ended = len(self._errors), len(self._errors) + len(self._durations) + len(self._first_durations)
        if errors < MIN_ERRORS or errors <= self._plan.max_error_share * ended:
            return
        if all(request.error == NO_TOKEN for request in self._errors):
            raise CommandError(
                f"{errors} of {ended} requests were answered without a token: is this the right base URL, "
                "and does it stream?"
            )
        why = self._errors[-1].failure_with_detail
        raise CommandError(
            f"{errors} of {ended} requests failed at the expected peak ({why}): there is nothing to sweep."
        )
