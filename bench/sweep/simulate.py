"""Simulates sweeps: the law of a server by a clock of its own, and the records that the load would have made of it."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate, takewhile
from random import Random
from typing import Literal

from bench.sweep.service import Job, Law, Service
from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.sweep.arrivals import iterate_constant, iterate_poisson
from otel_itl.tools.sweep.records import DueRequest, Round, Sweep

LEVELS = (1.0, 1.5, 2.0, 3.0, 5.0)
PUNCTUAL = 0.001
"""Delay of the schedule and of the event loop that a simulated round reports, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is driven. Times are seconds."""

    peak: int = 4
    levels: tuple[float, ...] = LEVELS
    arrivals: Literal["poisson", "constant"] = "poisson"
    rounds: int = 1
    warm_up: float = 1.0
    steady: float = 3.0
    tail: float = 1.0
    """Requests go on being due for so long after the steady part, so that its last ones do not run alone."""

    @property
    def length(self) -> float:
        """Length of a round's schedule."""
        return self.warm_up + self.steady + self.tail


@dataclass(frozen=True, slots=True)
class Played:
    """One simulated round: what became of each request that was due, by the round's own clock."""

    level: float
    rate: float
    jobs: list[Job]


def play(service: Service, due: Iterable[float], follow: Callable[[Job], float | None] = lambda _: None) -> list[Job]:
    """Serve requests until none is left, as fast as it can be computed.

    Args:
        service: the server.
        due: when the requests arrive.
        follow: called with each request that ended; returns when its caller sends the next one, None: never.
    """
    arrivals, jobs, now = sorted(due), [], 0.0
    while arrivals or not service.is_idle:
        if service.is_idle:
            now = max(now, arrivals[0])
        while arrivals and arrivals[0] <= now:
            job = service.submit(heapq.heappop(arrivals))
            if job is not None:
                jobs.append(job)
        now += service.begin_step(now)
        for job in service.end_step(now):
            following = follow(job) if job.is_over else None
            if following is not None:
                heapq.heappush(arrivals, following)
    return jobs


def expected_duration(law: Law, peak: int) -> float:
    """Return how long a request takes on average where as many run as at the expected peak."""
    step = law.expected_step(peak)
    return step / 2 + max(law.prefill, step) + step * (sum(law.tokens) / 2 - 1)


def play_round(law: Law, design: Design, level: float, seed: int) -> Played:
    """Simulate one round of an open loop on a server that is idle when it begins."""
    rate = level * design.peak / expected_duration(law, design.peak)
    if design.arrivals == "poisson":
        endless = iterate_poisson(rate, Random(f"{seed} {level}"))  # noqa: S311 - a simulation
    else:
        endless = iterate_constant(rate)
    due = takewhile(lambda moment: moment < design.length, endless)
    return Played(level, rate, play(Service(law, seed), due))


def simulate(law: Law, design: Design, objective: SLO, seed: int) -> Sweep:
    """Simulate a sweep."""
    rounds, began = [], 0.0
    for number in range(design.rounds):
        for level in design.levels:
            played = play_round(law, design, level, 1000 * seed + number)
            rounds.append(make_round(played, design, number, began))
            began += max([design.length, *(job.sent[-1] for job in played.jobs)])
    return make_sweep(design, objective, rounds)


def make_sweep(design: Design, objective: SLO, rounds: list[Round]) -> Sweep:
    """Return what the load would have recorded of some rounds."""
    return Sweep(
        endpoint="http://127.0.0.1/v1",
        model="simulated",
        peak=design.peak,
        is_open_loop=True,
        objective=objective,
        levels=design.levels,
        rounds=rounds,
    )


def is_steady(job: Job, design: Design) -> bool:
    """Return whether a request of a round was due in the steady part."""
    return design.warm_up <= job.arrived < design.warm_up + design.steady


def make_round(played: Played, design: Design, number: int, began: float) -> Round:
    """Return what the load would have recorded of a round."""
    start, end = design.warm_up, design.warm_up + design.steady
    spans = [(max(job.arrived, start), min(job.sent[-1], end)) for job in played.jobs]
    edges = sorted([(a, 1) for a, b in spans if a < b] + [(b, -1) for a, b in spans if a < b])
    return Round(
        level=played.level,
        round=number,
        rate=played.rate,
        requests=[_due_request(played, job, design, number, began) for job in played.jobs],
        steady_from=began + start,
        steady_until=began + end,
        concurrency=sum(b - a for a, b in spans if a < b) / design.steady,
        max_concurrency=max(accumulate(change for _, change in edges), default=0),
        schedule_delay_p99=PUNCTUAL,
        loop_lag_p99=PUNCTUAL,
        host_delay_share=0.0,
    )


def _due_request(played: Played, job: Job, design: Design, number: int, began: float) -> DueRequest:
    return DueRequest(
        level=played.level,
        round=number,
        is_steady=is_steady(job, design),
        due=began + job.arrived,
        sent=began + job.arrived,
        ended=began + job.sent[-1],
        measured=as_request(job, f"{played.level} {number} {job.arrived}"),
    )


def as_request(job: Job, cluster: str) -> Request:
    """Return a request as its measurement would, if nothing delayed it."""
    return Request(
        cluster=cluster,
        is_in_session=False,
        model="openai / simulated",
        time_to_first_token=job.time_to_first_token,
        gaps=array("d", sorted(job.gaps)),
        decode_time=job.sent[-1] - job.sent[0],
        later_tokens=job.tokens - 1,
        tokens=job.tokens,
        stalls=job.stalls,
        outcome=Outcome.COMPLETED,
        itl_objective=None,
    )
