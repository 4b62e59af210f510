"""Drives a server by `otel-itl sweep`'s own load, and takes the same requests from the server's record."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from bench.sweep.service import Job
from bench.sweep.simulate import Design
from bench.truth.pressure import prioritized
from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.driver import run_sweep
from otel_itl.tools.sweep.endpoint import Endpoint
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.prompts import Prompt
from otel_itl.tools.sweep.records import Round, Sweep

MAX_TOKENS: Final = 1_000
"""More than any answer has: its length is the server's choice."""
DRAIN_SECONDS: Final = 4.0
SHORT: Final = Prompt([{"role": "user", "content": "hello"}], MAX_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an endpoint is driven, besides its levels and times."""

    seed: int = 0
    """Seed of the arrivals."""
    is_open_loop: bool = True
    """Requests are due by the clock."""
    prompt: Prompt = SHORT
    """Sent each time."""
    workers: int = 1
    """Processes that send the requests."""
    is_prioritized: bool = True
    """This process has real-time priority, where that is allowed: other work on the machine does not delay the load."""


def drive(url: str, design: Design, objective: SLO | None, manner: Manner = Manner()) -> Sweep:
    """Drive an endpoint as designed, and return what was recorded.

    Args:
        url: base URL of the endpoint.
        design: levels and times.
        objective: objective that the sweep is judged by.
        manner: the rest.
    """
    plan = SweepPlan(
        peak=design.peak,
        prompts=lambda _: manner.prompt,
        levels=design.levels,
        rounds=design.rounds,
        is_open_loop=manner.is_open_loop,
        arrivals=design.arrivals,
        steady_seconds=design.steady,
        warmup_seconds=design.warm_up,
        drain_seconds=DRAIN_SECONDS,
        objective=objective,
        workers=manner.workers,
        seed=manner.seed,
    )
    endpoint = Endpoint(sdk="openai", model="simulated", base_url=url)
    with prioritized() if manner.is_prioritized else nullcontext():
        return asyncio.run(run_sweep(plan, endpoint, lambda _: None))


def select_steady(jobs: list[Job], sweep: Sweep, level: float) -> list[Job]:
    """Return the requests of the server's record that arrived in the steady parts of a level.

    The requests that a sweep records are the last ones that the server got, so that the earliest arrival after being
    sent gives the distance between the two clocks.

    Args:
        jobs: all requests that the server got, in the order of arrival.
        sweep: what the load recorded; the server got nothing after it.
        level: level of the rounds.
    """
    sent = sorted(request.sent for request in sweep.requests if request.sent is not None)
    latest = jobs[-len(sent) :]
    distance = min(job.arrived - moment for job, moment in zip(latest, sent, strict=True))
    rounds = [one for one in sweep.rounds if one.level == level]
    return [job for job in latest if any(_is_within(job.arrived - distance, one) for one in rounds)]


def _is_within(moment: float, one: Round) -> bool:
    return one.steady_from is not None and one.steady_from <= moment < one.steady_from + one.seconds
