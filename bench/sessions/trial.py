"""One process with a few sessions on one model, as the detector sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bench.sessions.upstream import Upstream
from otel_itl.core.sessions import DegradationScope, Sessions, SessionStatus

ROUND_NS = 5_000_000_000
"""From one request of a session to its next, about."""
STEADY = 20
"""Requests before a slowdown."""
SLOW = 30
"""Requests of a slowdown; the detector may take no longer."""
NEVER = SLOW + 1


class Clock:
    """A clock that the simulation moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        """Nanoseconds."""
        return self.now


class Steady(NamedTuple):
    """What was reported of sessions that did not become slower."""

    alarms: int
    requests: int

    @property
    def per_thousand(self) -> float:
        """False alarms per 1,000 requests."""
        return 1000 * self.alarms / self.requests


class Delays(NamedTuple):
    """How many slow requests it took, the reported one included; `NEVER` where none was reported."""

    requests: list[int]

    def percentile(self, q: float) -> int:
        """The delay of that many percent of the slowdowns, or less."""
        return int(np.percentile(self.requests, q, method="higher"))

    def within(self, requests: int) -> float:
        """Share of the slowdowns that were reported by then."""
        return sum(delay <= requests for delay in self.requests) / len(self.requests)


def play(
    upstream: Upstream, rng: np.random.Generator, tokens: int, factors: Sequence[Sequence[float]]
) -> list[list[SessionStatus]]:
    """The standings of sessions, a sequence of factors each, that take turns in an order drawn anew each round."""
    clock = Clock()
    sessions: Sessions[None] = Sessions(clock=clock)
    samples = [upstream.samples(rng, tokens, each) for each in factors]
    standings: list[list[SessionStatus]] = [[] for _ in factors]
    for number, session in _turns(rng, len(factors), len(factors[0])):
        turn = sessions.begin_request(str(session), "model")
        clock.now += ROUND_NS // len(factors)
        standings[session].append(turn.end(samples[session][number]))
    return standings


def steady(upstream: Upstream, tokens: int, trials: int, *, growth: float = 0.0, requests: int = 50) -> Steady:
    """Four sessions a trial, from their first request; each request slower than the one before by `growth`."""
    rng = np.random.default_rng(1)
    factors = [(1 + growth) ** number for number in range(requests)]
    alarms = 0
    for _ in range(trials):
        played = play(upstream, rng, tokens, [factors] * 4)
        alarms += sum(standing.onset is not None for session in played for standing in session)
    return Steady(alarms, 4 * trials * requests)


def delays(upstream: Upstream, tokens: int, factor: float, trials: int) -> Delays:
    """One session of three becomes slower."""
    rng = np.random.default_rng(2)
    factors = [[1.0] * STEADY + [factor] * SLOW, *[[1.0] * (STEADY + SLOW)] * 2]
    found = []
    for _ in range(trials):
        reported = [standing.is_degraded for standing in play(upstream, rng, tokens, factors)[0]]
        if not reported[STEADY - 1]:
            found.append(next((delay for delay, degraded in enumerate(reported[STEADY:], 1) if degraded), NEVER))
    return Delays(found)


def count_reports(upstream: Upstream, sessions: int, slow: int, trials: int) -> Counter[DegradationScope]:
    """Count the reports by scope, where `slow` of the sessions are twice as slow for fifteen requests of 100 tokens."""
    rng = np.random.default_rng(3)
    ordinary, slowed = [1.0] * 45, [1.0] * 15 + [2.0] * 15 + [1.0] * 15
    counts: Counter[DegradationScope] = Counter()
    for _ in range(trials):
        played = play(upstream, rng, 100, [slowed] * slow + [ordinary] * (sessions - slow))
        counts.update(standing.onset.scope for session in played for standing in session if standing.onset)
    return counts


def _turns(rng: np.random.Generator, sessions: int, requests: int) -> Iterator[tuple[int, int]]:
    """Number of the request within its session, and session."""
    for number in range(requests):
        for session in rng.permutation(sessions).tolist():
            yield number, session
