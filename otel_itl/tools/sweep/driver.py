"""Runs a sweep from its calibration to its last round."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import closing
from functools import partial
from math import inf
from random import Random
from typing import Final

from otel_itl.core.slo import Objectives
from otel_itl.tools.sweep.asker import LocalAsker
from otel_itl.tools.sweep.brakes import Brakes, RoundEnd, interrupts_handled
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.calibration import Calibration
from otel_itl.tools.sweep.clients import Client
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.judging import add_stream, judge_round
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.measurement import Measurement
from otel_itl.tools.sweep.plan import MIN_STEADY_SECONDS, SweepPlan
from otel_itl.tools.sweep.pool import WorkerPool, count_needed
from otel_itl.tools.sweep.progress import Phase, Progress
from otel_itl.tools.sweep.records import Round, Sweep
from otel_itl.tools.sweep.rounds import TICK, RoundDriver
from otel_itl.tools.sweep.schedule import Schedule, Search
from otel_itl.tools.sweep.sender import RequestSender
from otel_itl.tools.sweep.server_metrics import MetricsReader, Reading
from otel_itl.tools.sweep.storage import StreamStore
from otel_itl.tools.view.document import describe_stream

REPORT_SECONDS: Final = 0.25
"""Seconds between two reports of progress."""


async def run_sweep(plan: SweepPlan, endpoint: Endpoint, on_progress: Callable[[Progress], None]) -> Sweep:
    """Drive the endpoint through the levels of the plan, and return what was recorded.

    Ctrl-C (SIGINT) stops sending and lets open streams end for up to 10 s; a second one cuts them off. Either way the
    rounds that were made are returned, with `stop_reason="interrupted"`.

    Args:
        plan: the options.
        endpoint: what is asked, and nothing else.
        on_progress: called several times a second, on the event loop.

    Raises:
        CommandError: requests fail at the expected peak, or none ends; a prompt cannot be made, the endpoint cannot be
            asked, or this process cannot be measured.
        FileExistsError, OSError: the output file exists, or cannot be written.
    """
    brakes = Brakes(asyncio.get_running_loop().time)
    client = Client(endpoint)
    try:
        with (
            closing(Measurement(endpoint.sdk, plan.objective)),
            closing(StreamStore(plan.output)) as store,
            interrupts_handled(brakes.interrupt),
        ):
            sender = RequestSender(LocalAsker(client), plan.prompts, Budget(plan), brakes, is_exact=endpoint.is_exact)
            sweeper = _Sweeper(plan, endpoint, store, sender, on_progress)
            try:
                await sweeper.run()
            finally:
                await sweeper.close()
    finally:
        gc.unfreeze()
        await client.close()
    return sweeper.record()


class _Sweeper:
    """One run of a plan.

    Args:
        plan: the options.
        endpoint: what is asked.
        store: reads and stores the streams.
        sender: sends the requests.
        on_progress: called several times a second.
    """

    def __init__(
        self,
        plan: SweepPlan,
        endpoint: Endpoint,
        store: StreamStore,
        sender: RequestSender,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._plan, self._endpoint, self._store = plan, endpoint, store
        self._sender, self._on_progress = sender, on_progress
        self._brakes = sender.brakes
        self._clock = asyncio.get_running_loop().time
        self._objectives = None if plan.objective is None else Objectives((("*", plan.objective),))
        self.began = self._clock()
        self._reported = -inf
        self._level, self._number = min(plan.levels), 0
        self._round_began: float | None = None
        self._round_seconds = MIN_STEADY_SECONDS
        """Estimate of what one round takes."""
        self.schedule = self._make_schedule()
        self.rounds: list[Round] = []
        self._pool: WorkerPool | None = None
        self._metrics = None if plan.server_metrics is None else MetricsReader(plan.server_metrics)
        self._tokens = 0
        """Tokens of the answers that measured how long a request takes."""
        self._answers = 0

    async def run(self) -> None:
        """Find how long a request takes, and drive the rounds until none is left or the sweep is stopped.

        Raises:
            CommandError, OSError: see `run_sweep`.
        """
        duration = self._plan.request_duration or await self._calibrate()
        if duration is None:
            return
        levels = self._plan.ascending_levels
        await self._start_workers(duration)
        self._round_seconds = sum(self._plan.estimate_round(level, duration) for level in levels) / len(levels)
        while self._brakes.stop_reason is None and (taken := self.schedule.take()) is not None:
            self._level, self._number = taken
            await self._pause()
            if self._brakes.stop_reason is None:
                self._brakes.begin_round()
                await self._run_round(duration)

    async def _start_workers(self, duration: float) -> None:
        """Start the processes that send the requests, if the highest level needs more than this one.

        Args:
            duration: duration of a request at the expected peak (s).

        Raises:
            CommandError: one cannot measure.
        """
        plan = self._plan
        tokens = self._tokens / self._answers if self._answers else 0.0
        number = plan.workers or count_needed(max(plan.levels) * plan.peak * tokens / duration)
        if number > 1 and self._brakes.stop_reason is None:
            self._sender.asker = self._pool = await WorkerPool.start(number, self._endpoint, plan.objective)

    async def close(self) -> None:
        """End the processes that send the requests, if there are others than this one."""
        if self._pool is not None:
            await self._pool.close()

    async def _calibrate(self) -> float | None:
        """Measure how long a request takes (s); None: the sweep was stopped before."""
        report = partial(self._report, Phase.CALIBRATION)
        calibration = Calibration(self._plan, self._sender, report, self._make_random("calibration"))
        try:
            duration = await calibration.measure()
        finally:
            async for _, stream in self._store.collect(calibration.requests):
                self._tokens += stream.measures.token_count
                self._answers += 1
            await self._store.store(is_counted=False)
        if self._brakes.reason is not None:
            self._brakes.stop(f"{self._brakes.reason} at the expected peak")
        return duration

    async def _run_round(self, duration: float) -> None:
        """Drive one round, and record it.

        Args:
            duration: duration of a request at the expected peak (s).
        """
        # A full collection would block the event loop for a tenth of a second: what exists now is left out of the next.
        gc.collect()
        gc.freeze()
        self._round_began = self._clock()
        random = self._make_random(f"{self._level} {self._number}")
        driver = RoundDriver(self._plan, self._sender, duration=duration, report=self._report, random=random)
        readings: list[Reading] = []
        watching = None if self._metrics is None else asyncio.ensure_future(self._metrics.watch(readings))
        one = await driver.run(self._level, self._number)
        if watching is not None:
            watching.cancel()
        start, end = one.steady_from or inf, one.steady_until or inf
        one.server = [reading for reading in readings if start <= reading.moment <= end]
        self._report(Phase.READING)
        if self._pool is not None:
            await self._pool.fetch(one)
        async for request, stream in self._store.collect(one.requests):
            add_stream(request, stream, self._objectives)
            if self._plan.has_page and request.is_steady:
                request.described = describe_stream(stream)
        judge_round(one, self._plan.steady_at(one.level, duration))
        await self._store.store(is_counted=one.void_reason is None)
        self.rounds.append(one)
        if one.end is not None:
            # A queue grows as well where this machine does not keep up.
            is_own = one.end is RoundEnd.SATURATED and one.is_driver_bound
            self.schedule.exclude(one.level, one.end, (one.void_reason if is_own else one.reason) or "")
        if isinstance(self.schedule, Search):
            so_far = self.record()
            self.schedule.note(analyze(so_far).levels, so_far.allowed)
        self._round_seconds = (self._clock() - self._round_began + self._round_seconds) / 2
        self._round_began = None

    def record(self) -> Sweep:
        """Return what was recorded so far."""
        plan, endpoint, budget = self._plan, self._endpoint, self._sender.budget
        return Sweep(
            endpoint=endpoint.address,
            model=endpoint.model,
            peak=plan.peak,
            is_open_loop=plan.is_open_loop,
            objective=plan.objective,
            levels=sorted({one.level for one in self.rounds}) if plan.is_search else plan.ascending_levels,
            rounds=self.rounds,
            began=self.began,
            stop_reason=self._brakes.stop_reason or self.schedule.skipped,
            cost=budget.cost,
            request_count=budget.requests,
            has_server_metrics=self._metrics is not None,
            metrics_problem=None if self._metrics is None else self._metrics.problem,
        )

    def _make_schedule(self) -> Schedule:
        """Make what decides which level is driven next."""
        plan, random = self._plan, self._make_random("levels")
        if plan.is_search:
            return Search(max(plan.levels), plan.rounds, random)
        return Schedule(plan.ascending_levels, plan.rounds, random)

    def _make_random(self, purpose: str) -> Random:
        """Make the random generator for one purpose: random numbers used elsewhere do not change its sequence."""
        return Random(f"{self._plan.seed} {purpose}")  # noqa: S311 - moments and orders, no secret

    async def _pause(self) -> None:
        """Wait for as long as the endpoint asks for, or until the sweep is stopped."""
        while self._clock() < self._brakes.not_before and self._brakes.stop_reason is None:
            await asyncio.sleep(TICK)
            self._report(Phase.PAUSE)

    def _report(self, phase: Phase) -> None:
        """Report progress, unless that was done a moment ago."""
        now = self._clock()
        if now < self._reported + REPORT_SECONDS:
            return
        self._reported = now
        budget, schedule = self._sender.budget, self.schedule
        left = (schedule.planned - len(self.rounds)) * self._round_seconds
        if self._round_began is not None:
            left -= min(now - self._round_began, self._round_seconds)
        left += max(self._brakes.not_before - now, 0.0)
        self._on_progress(
            Progress(
                phase=phase,
                level=self._level,
                seconds_left=max(left, 0.0) if self._brakes.stop_reason is None else 0.0,
                rounds_over=len(self.rounds),
                rounds_planned=schedule.planned,
                requests=budget.requests,
                open=self._sender.open,
                errors=self._sender.errors,
                cost=budget.cost,
                stopping=self._brakes.stop_reason,
            )
        )
