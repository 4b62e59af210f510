"""Drives one round: one repeat of one level, from its warm-up until its last stream has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from otel_itl.tools.sweep.arrivals import iterate_arrivals
from otel_itl.tools.sweep.brakes import Brakes, RoundEnd
from otel_itl.tools.sweep.flight import Flight, describe_flight_failure
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.progress import Phase
from otel_itl.tools.sweep.saturation import PARTS, FirstTokenWait, is_over_saturated
from otel_itl.tools.sweep.self_check import SelfCheck, make_self_check
from otel_itl.tools.sweep.sender import RequestSender

TICK: Final = 0.02
"""Seconds between two looks at a round: how late one is, is the lag of the event loop."""
WARM_UP_DURATIONS: Final = 1.5
"""Request durations for which a round warms up: then as many streams end as begin."""
MAX_WARM_UP_DURATIONS: Final = 6.0
"""Longest warm-up, in durations of a request at the expected peak: it lasts longer where requests take longer."""
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
class RoundRecord:
    """What was sent in one round, before it is judged. Times are on the clock of the event loop, in seconds."""

    level: float
    number: int
    rate: float | None
    flights: list[Flight] = field(default_factory=list)
    steady_from: float | None = None
    """When the steady part began; None: the round ended in its warm-up."""
    steady_until: float | None = None
    concurrency: float = 0.0
    max_concurrency: int = 0
    check: SelfCheck = field(default_factory=make_self_check)
    """How well this machine did in the steady part."""
    end: RoundEnd | None = None
    """Why the round ended before its time; None: it was driven to its end, or the sweep was stopped."""
    reason: str | None = None
    """Why the round or the sweep ended before its time, in one clause; None: it did not."""
    is_complete: bool = False
    """Its steady part lasted as long as planned."""


class RoundDriver:
    """Drives one round.

    Args:
        plan: the options.
        sender: sends the requests.
        duration: duration of a request at the expected peak (s).
        report: called at each tick with what the round does.
        random: source of the random arrivals, or of the random start of each caller.
    """

    def __init__(
        self,
        plan: SweepPlan,
        sender: RequestSender,
        *,
        duration: float,
        report: Callable[[Phase], None],
        random: Random,
    ) -> None:
        self._plan, self._sender, self._duration = plan, sender, duration
        self._report, self._random = report, random
        self._brakes: Brakes = sender.brakes
        self._clock = asyncio.get_running_loop().time
        self._ended = self._errors = 0
        self._last_failure: Flight | None = None
        self._time_of_ended = 0.0
        self._open_steady = 0
        self._ends_at = 0.0
        self._areas: list[tuple[float, float]] = []
        """Start, thirds and end of the steady part (s), each with the stream-seconds of `Concurrency.area` there."""

    async def run(self, level: float, number: int) -> RoundRecord:
        """Drive a level, and return the record of what was sent once its streams have ended.

        The rate of an open loop follows from Little's law: streams open at a time over the duration of a request.

        Raises:
            PromptError: a prompt cannot be made.
        """
        record = RoundRecord(
            level, number, level * self._plan.peak / self._duration if self._plan.is_open_loop else None
        )
        began = self._clock()
        send_loops = [asyncio.ensure_future(send_loop) for send_loop in self._make_send_loops(record, began)]
        try:
            await self._watch(record, send_loops, began)
        finally:
            for send_loop in send_loops:
                send_loop.cancel()
            await asyncio.gather(*send_loops, return_exceptions=True)
            self._end_steady(record)
            await self._sender.drain(self._drain_seconds, lambda: self._report(Phase.DRAIN))
            record.end, record.reason = self._brakes.round_end, self._brakes.reason or self._brakes.stop_reason
        return record

    # --- Sending -------------------------------------------------------------------------------------------------

    def _make_send_loops(self, record: RoundRecord, began: float) -> list[Coroutine[Any, Any, None]]:
        """Make the coroutines that send the requests: one schedule, or the callers of a closed loop."""
        if record.rate is not None:
            return [self._send_on_schedule(record, record.rate, began)]
        callers = max(round(record.level * self._plan.peak), 1)
        # Callers that begin at one moment would stay in step.
        delays = (self._random.uniform(0, self._duration) for _ in range(callers))
        return [self._ask_again(record, delay) for delay in delays]

    async def _send_on_schedule(self, record: RoundRecord, rate: float, began: float) -> None:
        """Send each request when it is due, whatever has become of the earlier ones: no coordinated omission."""
        for offset in iterate_arrivals(self._plan, rate, self._random):
            due = began + offset
            self._sender.prepare()
            if (wait := due - self._clock()) > 0:
                await asyncio.sleep(wait)
            if self._send(record, due) is None:
                if not self._brakes.are_applied:
                    self._brakes.end_round(RoundEnd.LIMITED, self._sender.budget.exhausted or "a limit was reached")
                return

    async def _ask_again(self, record: RoundRecord, delay: float) -> None:
        """Send a request, wait until it has ended, and send the next."""
        await asyncio.sleep(delay)
        while not self._brakes.are_applied:
            flight = self._send(record, self._clock())
            if flight is None or flight.task is None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)  # until open requests leave room for another one
                continue
            await asyncio.wait([flight.task])
            if flight.error is not None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    def _send(self, record: RoundRecord, due: float) -> Flight | None:
        """Send one request of the round; None: the brakes are applied."""
        is_due_later = record.steady_from is not None and due >= record.steady_from
        is_steady = is_due_later and record.steady_until is None and due < self._ends_at
        flight = self._sender.send(level=record.level, round_number=record.number, is_steady=is_steady, due=due)
        if flight is not None and flight.task is not None:
            record.flights.append(flight)
            self._open_steady += is_steady
            flight.task.add_done_callback(lambda _: self._note_end(flight))
        return flight

    # --- Watching ------------------------------------------------------------------------------------------------

    async def _watch(self, record: RoundRecord, send_loops: Sequence[asyncio.Future[None]], began: float) -> None:
        """Lead the round through its parts, until its steady streams have ended or the brakes are applied.

        The load is kept up while steady streams are open: the last ones are measured under it, too.
        """
        drained_by = None
        while not self._brakes.are_applied:
            due = self._clock() + TICK
            await asyncio.sleep(TICK)
            now = self._clock()
            record.check.note_lag(now - due)
            for send_loop in send_loops:
                if send_loop.done() and not send_loop.cancelled():
                    send_loop.result()
            self._brake_on_failures()
            self._brake_on_pile_up()
            if record.steady_from is None:
                self._begin_steady(record, now - began, now)
            elif record.steady_until is None and now >= self._ends_at:
                record.is_complete = True
                self._end_steady(record)
                drained_by = now + self._drain_seconds
            elif drained_by is not None and (now >= drained_by or not self._open_steady):
                self._brake_on_saturation(record)
                return
            self._note_third(record, now)
            self._report(_phase_of(record))

    def _begin_steady(self, record: RoundRecord, elapsed: float, now: float) -> None:
        """Begin the steady part if the warm-up has lasted long enough."""
        warm_up = self._plan.warmup_seconds
        if warm_up is None:
            slowest = max(self._duration, self._time_of_ended / self._ended if self._ended else 0.0)
            is_over = self._ended > 0 and elapsed >= WARM_UP_DURATIONS * slowest
            is_over = is_over or elapsed >= MAX_WARM_UP_DURATIONS * self._duration
        else:
            is_over = elapsed >= warm_up
        if is_over:
            record.steady_from, self._ends_at = now, now + self._plan.steady_seconds
            self._areas.append((now, self._sender.concurrency.area(now)))
            self._sender.concurrency.forget_most()
            record.check.begin(now)

    def _note_third(self, record: RoundRecord, now: float) -> None:
        """Note the concurrency at the end of the first and of the second third of the steady part."""
        if record.steady_from is None or record.steady_until is not None or len(self._areas) >= PARTS:
            return
        if now >= record.steady_from + len(self._areas) / PARTS * self._plan.steady_seconds:
            self._areas.append((now, self._sender.concurrency.area(now)))

    def _end_steady(self, record: RoundRecord) -> None:
        """End the steady part, if it has begun and not ended."""
        if record.steady_from is None or record.steady_until is not None:
            return
        now = self._clock()
        record.steady_until = now
        record.check.end(now)
        self._areas.append((now, self._sender.concurrency.area(now)))
        record.concurrency = self._mean_concurrency(0, len(self._areas) - 1)
        record.max_concurrency = self._sender.concurrency.most

    def _mean_concurrency(self, first: int, last: int) -> float:
        """Return how many streams were open at a time, on average, between two of the moments that were noted."""
        (start, before), (end, after) = self._areas[first], self._areas[last]
        return (after - before) / (end - start) if end > start else float(self._sender.concurrency.open)

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
        if flight.error is not None:
            self._errors += 1
            self._last_failure = flight
        self._time_of_ended += flight.ended - flight.sent

    def _brake_on_failures(self) -> None:
        """End the round if too many of its requests fail."""
        if self._errors >= MIN_ERRORS and self._errors > self._plan.limits.max_error_share * self._ended:
            share = self._errors / self._ended
            why = "" if self._last_failure is None else f" ({describe_flight_failure(self._last_failure)})"
            self._brakes.end_round(RoundEnd.FAILING, f"{share:.0%} of the requests failed{why}")

    def _brake_on_pile_up(self) -> None:
        """End the round if far more streams are open than were planned."""
        limit = self._plan.limits.max_open_streams
        if limit is None:
            most = max(self._plan.levels) * self._plan.peak
            limit = round(max(MAX_OPEN_FACTOR * most, most + MIN_OPEN_ABOVE))
        if self._sender.concurrency.open >= limit:
            self._brakes.end_round(RoundEnd.SATURATED, f"{self._sender.concurrency.open} streams were open")

    def _brake_on_saturation(self, record: RoundRecord) -> None:
        """Note that the endpoint does not keep up, where concurrency and TTFT both rose over the steady part.

        Called when its streams have ended, or have had their time: of those that came last, the longest waits are known
        last.
        """
        start, end = record.steady_from, record.steady_until
        if start is None or end is None or record.rate is None or len(self._areas) != PARTS + 1:
            return
        concurrency = [self._mean_concurrency(third, third + 1) for third in range(3)]
        steady = (flight for flight in record.flights if flight.is_steady and flight.counts_as_wait)
        waits = [FirstTokenWait(flight.due, flight.first_token_wait) for flight in steady]
        if is_over_saturated(waits, concurrency, start, end):
            self._brakes.end_round(RoundEnd.SATURATED, "concurrency and TTFT kept rising")


def _phase_of(record: RoundRecord) -> Phase:
    if record.steady_from is None:
        return Phase.WARM_UP
    return Phase.STEADY if record.steady_until is None else Phase.DRAIN
