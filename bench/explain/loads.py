"""Simulates fleets in which the own load is no cause, or is set by hand: arrivals that follow slowness, and runs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.explain.fleets import MONDAY, SECOND
from otel_itl.tools.explain.observations import Observation, Observations

FIRST_TOKEN = 0.4
GAP = 0.02
PATIENCE = 1.25
"""A stream that is slower than usual by this factor is followed by further requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackFleet:
    """Requests that follow slowness; the own load has no effect."""

    name: str
    hedges: int
    """Requests that are made beside a slow stream."""
    drift: float
    """Standard deviation of the upstream's drift within minutes."""
    days: int = 14
    requests: int = 700

    def simulate(self, random: np.random.Generator) -> Observations:
        """Simulate the streams: the upstream's level wanders, and each slow stream is followed by others."""
        hours = np.sort(random.uniform(8, 18, self.requests)) * 3_600
        days = random.integers(self.days, size=self.requests)
        waiting = [
            (float(day * 86_400 + hour), number, 2) for number, (day, hour) in enumerate(zip(days, hours, strict=True))
        ]
        heapq.heapify(waiting)
        number, level, before, used = len(waiting), 0.0, 0.0, []
        while waiting:
            start, session, may_hedge = heapq.heappop(waiting)
            keep = np.exp(-(start - before) / 120)
            level, before = keep * level + np.sqrt(1 - keep**2) * random.normal(0, self.drift), start
            pace = GAP * np.exp(level + random.normal(0, 0.1))
            first = FIRST_TOKEN * np.exp(level + random.normal(0, 0.1))
            tokens = int(np.clip(random.lognormal(5.2, 0.6), 40, 1_500))
            if may_hedge and level > np.log(PATIENCE):
                for _ in range(self.hedges):
                    number += 1
                    heapq.heappush(waiting, (start + random.uniform(0.5, 3), number, may_hedge - 1))
            used.append(_observe(start, session, tokens, first, pace))
        return Observations(used=used, instances={f"{one}" for one in range(12)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Whole runs at one number of streams each, as of a load test."""

    name: str
    levels: Sequence[int]
    cost: float
    """Seconds a token for each further stream; negative: the load makes it faster."""
    streams: int = 40
    """Streams of a run."""
    pause: float = 5.0
    """Seconds between two runs."""
    warm_up: float = 0.0
    """Share by which the first run is slower; it fades from run to run."""

    def simulate(self, random: np.random.Generator) -> Observations:
        """Simulate the streams: each of a run's callers begins one as soon as the one before has ended."""
        at, used, session = 36_000.0, [], 0
        for number, streams in enumerate(self.levels):
            free = [at + random.uniform(0, 0.05) for _ in range(streams)]
            level = random.normal(0, 0.03) + np.log(1 + self.warm_up * 0.5**number)
            for _ in range(self.streams):
                start = heapq.heappop(free)
                session += 1
                tokens = int(random.integers(60, 200))
                pace = (GAP + self.cost * (streams - 1)) * np.exp(level + random.normal(0, 0.04))
                one = _observe(start, session, tokens, FIRST_TOKEN * np.exp(random.normal(0, 0.1)), pace)
                used.append(one)
                heapq.heappush(free, start + one.duration + 0.005)
            at = max(free) + self.pause
        return Observations(used=sorted(used, key=lambda one: one.start_ns), instances={"one"})


FEEDBACK = (
    FeedbackFleet(name="retries after slowness", hedges=1, drift=0.3),
    FeedbackFleet(name="hedging by three", hedges=3, drift=0.3),
    FeedbackFleet(name="hedging, a restless upstream", hedges=2, drift=0.5),
)
RUNS = (
    Runs(name="runs of 1, 2 and 1 streams", levels=(1, 2, 1), cost=0.009),
    Runs(name="runs of 1 and 2 streams", levels=(1, 2), cost=0.009, streams=60),
    Runs(name="runs of 1, 2, 1, 2 and 1", levels=(1, 2, 1, 2, 1), cost=0.009),
    Runs(name="runs of 1, 2, 4, 8 and 16", levels=(1, 2, 4, 8, 16), cost=0.003),
    Runs(name="runs of 1, 2, 4, 8, 4, 2, 1", levels=(1, 2, 4, 8, 4, 2, 1), cost=0.003),
    Runs(name="nine runs of 1 and 4", levels=(1, 4, 4, 1, 4, 1, 1, 4, 4), cost=0.003),
    Runs(name="runs of 1, 2 and 1, no effect", levels=(1, 2, 1), cost=0.0),
    Runs(name="runs of 1, 2, 1, 2 and 1, no effect", levels=(1, 2, 1, 2, 1), cost=0.0),
    Runs(name="nine runs of 1 and 4, no effect", levels=(1, 4, 4, 1, 4, 1, 1, 4, 4), cost=0.0),
    Runs(name="nine runs of 1 and 4, a warm-up", levels=(1, 4, 4, 1, 4, 1, 1, 4, 4), cost=0.0, warm_up=0.5),
)


def _observe(start: float, session: int, tokens: int, first: float, pace: float) -> Observation:
    """Return a stream with the latencies that it has."""
    return Observation(
        model="openai / gpt",
        session=f"{session}",
        start_ns=int((MONDAY + start) * SECOND),
        duration=float(first + pace * tokens),
        tokens=tokens,
        ttft=float(first),
        itl=float(pace),
        prompt_tokens=int(997 * session % 4_001),
    )
