"""Drives one round: one repeat of one level, from its warm-up until its last stream has ended."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Coroutine, Iterable
from math import inf
from random import Random
from typing import Any, Final

from otel_itl.recording.evidence.turns import find_delay_source
from otel_itl.tools.sweep.arrivals import iterate_arrivals
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.concurrency import clip_spans, mean_open, most_open
from otel_itl.tools.sweep.judging import find_tail
from otel_itl.tools.sweep.plan import WARM_UP_DURATIONS, SweepPlan
from otel_itl.tools.sweep.progress import Phase
from otel_itl.tools.sweep.records import DueRequest, Round
from otel_itl.tools.sweep.saturation import is_over_saturated
from otel_itl.tools.sweep.sender import RequestSender

TICK: Final = 0.02
"""Seconds between two looks at a round: how late one is, is the lag of the event loop."""
MAX_WARM_UP_DURATIONS: Final = 6.0
"""Longest warm-up, in durations of a request at the expected peak: it lasts longer where requests take longer."""
DRAIN_DURATIONS: Final = 4.0
MIN_DRAIN: Final = 10.0
"""Seconds."""
MIN_ERRORS: Final = 5
"""Failures in a round from which on their share is looked at while it runs."""
MAX_OPEN_FACTOR: Final = 4
"""Streams open at a time end the round from this multiple of the highest level on,"""
MIN_OPEN_ABOVE: Final = 64
"""or from this number above it, whichever is more."""


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
        self._brakes = sender.brakes
        self._read_delay = find_delay_source() or (lambda: 0)
        self._delay = 0
        """How long this thread had waited for a CPU (ns) when the steady part began."""
        self._lags = array("d")
        """How late the event loop was at each tick of the steady part (s)."""
        self._clock = asyncio.get_running_loop().time
        self._ended = self._errors = 0
        self._last_failure: DueRequest | None = None
        self._time_of_ended = 0.0
        self._open_steady = 0
        self._ends_at = 0.0

    async def run(self, level: float, repeat: int) -> Round:
        """Drive a level, and return what was sent once its streams have ended; nothing of it is measured or judged yet.

        The rate of an open loop follows from Little's law: streams open at a time over the duration of a request.

        Args:
            level: the load; 1.0 is the peak of the plan.
            repeat: number of the round at this level, from 0.

        Raises:
            CommandError: a prompt cannot be made.
        """
        rate = level * self._plan.peak / self._duration if self._plan.is_open_loop else None
        one = Round(level=level, round=repeat, rate=rate)
        began = self._clock()
        send_loops = [asyncio.ensure_future(send_loop) for send_loop in self._make_send_loops(one, began)]
        try:
            await self._watch(one, send_loops, began)
        finally:
            for send_loop in send_loops:
                send_loop.cancel()
            await asyncio.gather(*send_loops, return_exceptions=True)
            self._end_steady(one)
            await self._sender.drain(self._drain_seconds, lambda: self._report(Phase.DRAIN))
            one.end, one.reason = self._brakes.round_end, self._brakes.reason or self._brakes.stop_reason
            one.requests = [request for request in one.requests if request.sent is not None]
            if one.steady_from is not None and one.steady_until is not None and one.seconds:
                spans = clip_spans(one.spans, one.steady_from, one.steady_until)
                one.concurrency = mean_open(spans, one.steady_from, one.steady_until)
                one.max_concurrency = most_open(spans)
        return one

    # --- Sending -------------------------------------------------------------------------------------------------

    def _make_send_loops(self, one: Round, began: float) -> list[Coroutine[Any, Any, None]]:
        """Make the coroutines that send the requests: one schedule, or the callers of a closed loop."""
        if one.rate is not None:
            return [self._send_on_schedule(one, one.rate, began)]
        # Callers that begin at one moment would stay in step.
        callers = range(self._plan.callers_at(one.level))
        return [self._ask_again(one, self._random.uniform(0, self._duration)) for _ in callers]

    async def _send_on_schedule(self, one: Round, rate: float, began: float) -> None:
        """Send each request when it is due, whatever has become of the earlier ones: no coordinated omission."""
        for offset in iterate_arrivals(self._plan, rate, self._random):
            due = began + offset
            self._sender.prepare()
            if (wait := due - self._clock()) > 0:
                await asyncio.sleep(wait)
            if self._send(one, due) is None:
                if not self._brakes.are_applied:
                    self._brakes.end_round(RoundEnd.LIMITED, self._sender.budget.exhausted or "a limit was reached")
                return

    async def _ask_again(self, one: Round, delay: float) -> None:
        """Send one request after the other, the first after a delay (s)."""
        await asyncio.sleep(delay)
        async for _ in self._sender.ask_in_turn(lambda: self._send(one, self._clock())):
            pass

    def _send(self, one: Round, due: float) -> DueRequest | None:
        """Send one request of the round; None: it may not be sent."""
        is_steady = one.steady_until is None and (one.steady_from or inf) <= due < self._ends_at
        request = DueRequest(level=one.level, round=one.round, is_steady=is_steady, due=due)
        if not self._sender.send(request) or request.task is None:
            return None
        one.requests.append(request)
        self._open_steady += is_steady
        request.task.add_done_callback(lambda _: self._note_end(request))
        return request

    # --- Watching ------------------------------------------------------------------------------------------------

    async def _watch(self, one: Round, send_loops: Iterable[asyncio.Future[None]], began: float) -> None:
        """Lead the round through its parts, until its steady streams have ended or the brakes are applied.

        The load is kept up while steady streams are open: the last ones are measured under it, too.
        """
        drained_by = None
        while not self._brakes.are_applied:
            due = self._clock() + TICK
            await asyncio.sleep(TICK)
            now = self._clock()
            if one.steady_from is not None and one.steady_until is None:
                self._lags.append(max(now - due, 0.0))
            raise_failure(send_loops)
            self._brake_on_failures()
            self._brake_on_pile_up()
            if one.steady_from is None:
                self._begin_steady(one, now - began, now)
            elif one.steady_until is None and now >= self._ends_at:
                one.is_complete = True
                self._end_steady(one)
                drained_by = now + self._drain_seconds
            elif drained_by is not None and (now >= drained_by or not self._open_steady):
                self._brake_on_saturation(one)
                return
            self._report(_phase_of(one))

    def _begin_steady(self, one: Round, elapsed: float, now: float) -> None:
        """Begin the steady part if the warm-up has lasted long enough."""
        warm_up = self._plan.warmup_seconds
        if warm_up is None and self._ended:
            warm_up = WARM_UP_DURATIONS * max(self._duration, self._time_of_ended / self._ended)
        longest = MAX_WARM_UP_DURATIONS * self._duration if self._plan.warmup_seconds is None else inf
        if elapsed >= min(inf if warm_up is None else warm_up, longest):
            one.steady_from, self._ends_at = now, now + self._plan.steady_at(one.level, self._duration)
            self._delay = self._read_delay()

    def _end_steady(self, one: Round) -> None:
        """End the steady part, if it has begun and not ended."""
        if one.steady_from is None or one.steady_until is not None:
            return
        one.steady_until = self._clock()
        one.loop_lag_p99 = find_tail(self._lags)
        if one.seconds:
            one.host_delay_share = (self._read_delay() - self._delay) / 1e9 / one.seconds

    @property
    def _drain_seconds(self) -> float:
        given = self._plan.drain_seconds
        return max(MIN_DRAIN, DRAIN_DURATIONS * self._duration) if given is None else given

    # --- Brakes --------------------------------------------------------------------------------------------------

    def _note_end(self, request: DueRequest) -> None:
        """Count a request that has ended."""
        self._open_steady -= request.is_steady
        if request.duration is None:
            return
        self._ended += 1
        if request.error is not None:
            self._errors += 1
            self._last_failure = request
        self._time_of_ended += request.duration

    def _brake_on_failures(self) -> None:
        """End the round if too many of its requests fail."""
        if self._errors >= MIN_ERRORS and self._errors > self._plan.max_error_share * self._ended:
            share = self._errors / self._ended
            why = "" if self._last_failure is None else f" ({self._last_failure.failure_with_detail})"
            self._brakes.end_round(RoundEnd.FAILING, f"{share:.0%} of the requests failed{why}")

    def _brake_on_pile_up(self) -> None:
        """End the round if far more streams are open than were planned."""
        most = max(self._plan.levels) * self._plan.peak
        if self._sender.open >= round(max(MAX_OPEN_FACTOR * most, most + MIN_OPEN_ABOVE)):
            self._brakes.end_round(RoundEnd.SATURATED, f"{self._sender.open} streams were open")

    def _brake_on_saturation(self, one: Round) -> None:
        """Note that the endpoint does not keep up with an open loop.

        Called when its streams have ended, or have had their time: of those that came last, the longest waits are known
        last.
        """
        if one.rate is not None and is_over_saturated(one):
            self._brakes.end_round(RoundEnd.SATURATED, "concurrency and TTFT kept rising")


def raise_failure(tasks: Iterable[asyncio.Future[None]]) -> None:
    """Raise what a task has raised, if one has."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()


def _phase_of(one: Round) -> Phase:
    if one.steady_from is None:
        return Phase.WARM_UP
    return Phase.STEADY if one.steady_until is None else Phase.DRAIN
