"""Drives one round: one repeat of one level, from its warm-up until its last stream has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from otel_itl.sweep.arrivals import iterate_arrivals
from otel_itl.sweep.brakes import Brakes, RoundEnd
from otel_itl.sweep.flight import Flight
from otel_itl.sweep.load import Load
from otel_itl.sweep.plan import SweepPlan
from otel_itl.sweep.progress import Phase
from otel_itl.sweep.saturation import PARTS, Wait, is_over_saturated
from otel_itl.sweep.self_check import SelfCheck, make_self_check

TICK: Final = 0.02
"""Seconds between two looks at a round: how late one is, is the lag of the event loop."""
WARM_UP_DURATIONS: Final = 1.5
"""Request durations for which a round warms up: then as many streams end as begin."""
MAX_WARM_UP_DURATIONS: Final = 6.0
"""Of a request at the expected peak. Where requests take longer at a level, its warm-up lasts longer, up to here."""
DRAIN_DURATIONS: Final = 4.0
MIN_DRAIN: Final = 10.0
"""Seconds."""
PAUSE_AFTER_FAILURE: Final = 0.2
"""Seconds that a caller of a closed loop waits after a failure, so that an endpoint that is down is not flooded."""
MIN_ERRORS: Final = 5
"""Failures in a round from which on their share is looked at while it runs."""
MAX_OPEN_FACTOR: Final = 4
MIN_OPEN_ABOVE: Final = 64


@dataclass(slots=True)
class RoundLoad:
    """What one round was, before it is judged. Times are on the clock of the event loop, in seconds."""

    level: float
    number: int
    rate: float | None
    flights: list[Flight] = field(default_factory=list)
    steady_from: float | None = None
    """None: it ended in its warm-up."""
    steady_until: float | None = None
    concurrency: float = 0.0
    max_concurrency: int = 0
    check: SelfCheck = field(default_factory=make_self_check)
    """How well this machine did in the steady part."""
    end: RoundEnd | None = None
    """None: it was driven to its end, or the sweep was stopped."""
    reason: str | None = None
    """Why it ended before its time, in one clause; None: it did not."""
    is_complete: bool = False
    """Its steady part lasted as long as planned."""


class RoundDriver:
    """Drives one round.

    Args:
        plan: the options.
        load: sends the requests.
        duration: of a request at the expected peak (s).
        report: called at each tick with what the round does.
        random: draws what is left to chance.
    """

    def __init__(
        self,
        plan: SweepPlan,
        load: Load,
        *,
        duration: float,
        report: Callable[[Phase], None],
        random: Random,
    ) -> None:
        self._plan, self._load, self._duration = plan, load, duration
        self._report, self._random = report, random
        self._brakes: Brakes = load.brakes
        self._clock = asyncio.get_running_loop().time
        self._ended = self._errors = 0
        self._time_of_ended = 0.0
        self._open_steady = 0
        self._ends_at = 0.0
        self._areas: list[tuple[float, float]] = []
        """Moments of the steady part, its begin, its thirds and its end, with the area of the concurrency there."""

    async def run(self, level: float, number: int) -> RoundLoad:
        """Drive a level, and return what was sent once it has ended.

        Raises:
            PromptError: a prompt cannot be made.
        """
        load = RoundLoad(level, number, level * self._plan.peak / self._duration if self._plan.is_open else None)
        began = self._clock()
        senders = [asyncio.ensure_future(sender) for sender in self._make_senders(load, began)]
        try:
            await self._watch(load, senders, began)
        finally:
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)
            self._end_steady(load)
            await self._load.drain(self._drain_seconds, lambda: self._report(Phase.DRAIN))
            load.end, load.reason = self._brakes.round_end, self._brakes.reason or self._brakes.stopped
        return load

    # --- Sending -------------------------------------------------------------------------------------------------

    def _make_senders(self, load: RoundLoad, began: float) -> list[Coroutine[Any, Any, None]]:
        """Make what sends the requests: one schedule, or the callers of a closed loop."""
        if load.rate is not None:
            return [self._send_on_schedule(load, load.rate, began)]
        callers = max(round(load.level * self._plan.peak), 1)
        # Callers that begin at one moment would stay in step.
        delays = (self._random.uniform(0, self._duration) for _ in range(callers))
        return [self._ask_again(load, delay) for delay in delays]

    async def _send_on_schedule(self, load: RoundLoad, rate: float, began: float) -> None:
        """Send each request when it is due, whatever has become of the earlier ones."""
        for offset in iterate_arrivals(self._plan, rate, self._random):
            scheduled = began + offset
            self._load.prepare()
            if (wait := scheduled - self._clock()) > 0:
                await asyncio.sleep(wait)
            if self._send(load, scheduled) is None:
                return

    async def _ask_again(self, load: RoundLoad, delay: float) -> None:
        """Send a request, wait until it has ended, and send the next."""
        await asyncio.sleep(delay)
        while (flight := self._send(load, self._clock())) is not None and flight.task is not None:
            await asyncio.wait([flight.task])
            if flight.error is not None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    def _send(self, load: RoundLoad, scheduled: float) -> Flight | None:
        """Send one request of the round; None: the brakes are applied."""
        is_due_later = load.steady_from is not None and scheduled >= load.steady_from
        is_steady = is_due_later and load.steady_until is None and scheduled < self._ends_at
        flight = self._load.send(level=load.level, round_number=load.number, is_steady=is_steady, scheduled=scheduled)
        if flight is not None and flight.task is not None:
            load.flights.append(flight)
            self._open_steady += is_steady
            flight.task.add_done_callback(lambda _: self._note_end(flight))
        return flight

    # --- Watching ------------------------------------------------------------------------------------------------

    async def _watch(self, load: RoundLoad, senders: Sequence[asyncio.Future[None]], began: float) -> None:
        """Lead the round through its parts, until its steady streams have ended or the brakes are applied.

        The load is kept up while steady streams are open: the last ones are measured under it, too.
        """
        drained_by = None
        while not self._brakes.are_applied:
            due = self._clock() + TICK
            await asyncio.sleep(TICK)
            now = self._clock()
            load.check.note_lag(now - due)
            for sender in senders:
                if sender.done() and not sender.cancelled():
                    sender.result()
            self._brake_on_failures()
            self._brake_on_pile_up()
            if load.steady_from is None:
                self._begin_steady(load, now - began, now)
            elif load.steady_until is None and now >= self._ends_at:
                load.is_complete = True
                self._end_steady(load)
                drained_by = now + self._drain_seconds
            elif drained_by is not None and (now >= drained_by or not self._open_steady):
                self._brake_on_saturation(load)
                return
            self._note_third(load, now)
            self._report(_phase_of(load))

    def _begin_steady(self, load: RoundLoad, elapsed: float, now: float) -> None:
        """Begin the steady part if the warm-up has lasted long enough."""
        warm_up = self._plan.warmup_seconds
        if warm_up is None:
            slowest = max(self._duration, self._time_of_ended / self._ended if self._ended else 0.0)
            is_over = self._ended > 0 and elapsed >= WARM_UP_DURATIONS * slowest
            is_over = is_over or elapsed >= MAX_WARM_UP_DURATIONS * self._duration
        else:
            is_over = elapsed >= warm_up
        if is_over:
            load.steady_from, self._ends_at = now, now + self._plan.steady_seconds
            self._areas.append((now, self._load.concurrency.area(now)))
            self._load.concurrency.forget_most()
            load.check.begin(now)

    def _note_third(self, load: RoundLoad, now: float) -> None:
        """Note the concurrency at the end of the first and of the second third of the steady part."""
        if load.steady_from is None or load.steady_until is not None or len(self._areas) >= PARTS:
            return
        if now >= load.steady_from + len(self._areas) / PARTS * self._plan.steady_seconds:
            self._areas.append((now, self._load.concurrency.area(now)))

    def _end_steady(self, load: RoundLoad) -> None:
        """End the steady part, if it has begun and not ended."""
        if load.steady_from is None or load.steady_until is not None:
            return
        now = self._clock()
        load.steady_until = now
        load.check.end(now)
        self._areas.append((now, self._load.concurrency.area(now)))
        load.concurrency = self._mean_concurrency(0, len(self._areas) - 1)
        load.max_concurrency = self._load.concurrency.most

    def _mean_concurrency(self, first: int, last: int) -> float:
        """Return how many streams were open at a time, on average, between two of the moments that were noted."""
        (start, before), (end, after) = self._areas[first], self._areas[last]
        return (after - before) / (end - start) if end > start else float(self._load.concurrency.open)

    @property
    def _drain_seconds(self) -> float:
        given = self._plan.drain_seconds
        return max(MIN_DRAIN, DRAIN_DURATIONS * self._duration) if given is None else given

    # --- Brakes --------------------------------------------------------------------------------------------------

    def _note_end(self, flight: Flight) -> None:
        """Count a request that has ended."""
        self._open_steady -= flight.is_steady
        if flight.ended is None or flight.sent is None:
            return
        self._ended += 1
        self._errors += flight.error is not None
        self._time_of_ended += flight.ended - flight.sent

    def _brake_on_failures(self) -> None:
        """End the round if too many of its requests fail."""
        if self._errors >= MIN_ERRORS and self._errors > self._plan.limits.max_error_rate * self._ended:
            share = self._errors / self._ended
            self._brakes.end_round(RoundEnd.FAILING, f"{share:.0%} of the requests failed")

    def _brake_on_pile_up(self) -> None:
        """End the round if far more streams are open than were planned."""
        limit = self._plan.limits.max_open
        if limit is None:
            most = max(self._plan.levels) * self._plan.peak
            limit = round(max(MAX_OPEN_FACTOR * most, most + MIN_OPEN_ABOVE))
        if self._load.concurrency.open >= limit:
            self._brakes.end_round(RoundEnd.SATURATED, f"{self._load.concurrency.open} streams were open")

    def _brake_on_saturation(self, load: RoundLoad) -> None:
        """Note that the endpoint does not keep up, where concurrency and TTFT both rose over the steady part.

        Called when its streams have ended, or have had their time: of those that came last, the longest waits are known
        last.
        """
        start, end = load.steady_from, load.steady_until
        if start is None or end is None or load.rate is None or len(self._areas) != PARTS + 1:
            return
        concurrency = [self._mean_concurrency(third, third + 1) for third in range(3)]
        steady = (flight for flight in load.flights if flight.is_steady and flight.has_waited)
        waits = [Wait(flight.scheduled, flight.wait) for flight in steady]
        if is_over_saturated(waits, concurrency, start, end):
            self._brakes.end_round(RoundEnd.SATURATED, "concurrency and TTFT kept rising")


def _phase_of(load: RoundLoad) -> Phase:
    if load.steady_from is None:
        return Phase.WARM_UP
    return Phase.STEADY if load.steady_until is None else Phase.DRAIN
