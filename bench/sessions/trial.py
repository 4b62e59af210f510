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
"""Requests of a slowdown: the detector has to notice it within these."""
NEVER = SLOW + 1


class Clock:
    """A clock that moves only when `now` is set."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now


class Steady(NamedTuple):
    """False alarms of sessions without a slowdown."""

    alarms: int
    requests: int

    @property
    def per_thousand(self) -> float:
        """False alarms per 1,000 requests."""
        return 1000 * self.alarms / self.requests


class Delays(NamedTuple):
    """Number of slow requests until each slowdown was detected, the last one included; `NEVER`: it was not."""

    requests: list[int]

    def percentile(self, q: float) -> int:
        """Return the delay that `q` percent of the slowdowns do not exceed."""
        return int(np.percentile(self.requests, q, method="higher"))

    def within(self, requests: int) -> float:
        """Return the share of the slowdowns that were detected within that number of requests."""
        return sum(delay <= requests for delay in self.requests) / len(self.requests)


def play(
    upstream: Upstream, rng: np.random.Generator, tokens: int, factors: Sequence[Sequence[float]]
) -> list[list[SessionStatus]]:
    """Return the status after each request of sessions, which take turns in a random order.

    Args:
        upstream: makes the gaps.
        rng: makes the random numbers.
        tokens: of each request.
        factors: for each session, by how much each of its requests is slower than usual.
    """
    clock = Clock()
    sessions: Sessions = Sessions(clock=clock)
    samples = [upstream.samples(rng, tokens, each) for each in factors]
    standings: list[list[SessionStatus]] = [[] for _ in factors]
    for number, session in _turns(rng, len(factors), len(factors[0])):
        turn = sessions.begin_request(str(session), "model")
        clock.now += ROUND_NS // len(factors)
        standings[session].append(turn.end(samples[session][number]))
    return standings


def steady(upstream: Upstream, tokens: int, trials: int, *, growth: float = 0.0, requests: int = 50) -> Steady:
    """Count the alarms of four sessions per trial, each request slower than the one before by `growth`."""
    rng = np.random.default_rng(1)
    factors = [(1 + growth) ** number for number in range(requests)]
    alarms = 0
    for _ in range(trials):
        played = play(upstream, rng, tokens, [factors] * 4)
        alarms += sum(standing.onset is not None for session in played for standing in session)
    return Steady(alarms, 4 * trials * requests)


def delays(upstream: Upstream, tokens: int, factor: float, trials: int) -> Delays:
    """Return how soon the slowdown of one session of three is detected, for each trial without an earlier alarm."""
    rng = np.random.default_rng(2)
    factors = [[1.0] * STEADY + [factor] * SLOW, *[[1.0] * (STEADY + SLOW)] * 2]
    found = []
    for _ in range(trials):
        degraded = [standing.is_degraded for standing in play(upstream, rng, tokens, factors)[0]]
        if not degraded[STEADY - 1]:
            found.append(next((delay for delay, is_degraded in enumerate(degraded[STEADY:], 1) if is_degraded), NEVER))
    return Delays(found)


def count_onsets(upstream: Upstream, sessions: int, slow: int, trials: int) -> Counter[DegradationScope]:
    """Count the reported slowdowns by scope, where `slow` of the sessions are twice as slow for fifteen requests."""
    rng = np.random.default_rng(3)
    ordinary, slowed = [1.0] * 45, [1.0] * 15 + [2.0] * 15 + [1.0] * 15
    counts: Counter[DegradationScope] = Counter()
    for _ in range(trials):
        played = play(upstream, rng, 100, [slowed] * slow + [ordinary] * (sessions - slow))
        counts.update(standing.onset.scope for session in played for standing in session if standing.onset)
    return counts


def _turns(rng: np.random.Generator, sessions: int, requests: int) -> Iterator[tuple[int, int]]:
    """Yield the number of a request within its session, and the number of the session."""
    for number in range(requests):
        for session in rng.permutation(sessions).tolist():
            yield number, session
