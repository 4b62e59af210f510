"""Simulated sweeps of an endpoint with a known law."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from otel_itl.core.slo import PROFILES, SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.sweep.records import DueRequest, Round, Sweep

CHAT = PROFILES["chat"]
PEAK = 24.0
TOKENS = 41
SECONDS = 20.0
LEVELS = (1.0, 1.5, 2.0, 3.0, 5.0)


def measured(
    first: float | None = 0.2, gaps: Sequence[float] = (0.02,) * 40, outcome: Outcome = Outcome.COMPLETED
) -> Request:
    """A measured request with these figures (seconds)."""
    return Request(
        cluster="r",
        is_in_session=False,
        model="openai / m",
        time_to_first_token=first,
        gaps=array("d", sorted(gaps)),
        decode_time=sum(gaps),
        later_tokens=len(gaps),
        tokens=0 if first is None else len(gaps) + 1,
        stalls=0,
        outcome=outcome,
        itl_objective=None,
    )


def due_request(due: float = 0.0, *, late: float = 0.0, of: Request | None = None, **other: Any) -> DueRequest:
    """A request at level 1 that is sent `late` seconds after it was due."""
    sent = due + late
    took = 0.0 if of is None else (of.time_to_first_token or 0.0) + of.decode_time
    given = {"level": 1.0, "round": 0, "is_steady": True, "sent": sent, "ended": sent + took, **other}
    return DueRequest(due=due, measured=of, **given)


def one_round(level: float = 1.0, number: int = 0, start: float = 0.0, **other: Any) -> Round:
    """A round whose steady part begins at `start` and lasts `SECONDS`."""
    given = {
        "rate": 10.0,
        "steady_from": start,
        "steady_until": start + SECONDS,
        "concurrency": level * PEAK,
        "max_concurrency": round(level * PEAK) + 5,
        "schedule_delay_p99": 0.001,
        "loop_lag_p99": 0.001,
        "host_delay_share": 0.0,
        **other,
    }
    return Round(level=level, round=number, **given)


def sweep_of(rounds: Sequence[Round], requests: Sequence[DueRequest], **other: Any) -> Sweep:
    """A sweep of these."""
    given = {
        "endpoint": "http://127.0.0.1:1/v1",
        "model": "m",
        "peak": PEAK,
        "is_open_loop": True,
        "objective": CHAT,
        "levels": LEVELS,
        "request_count": len(requests),
        **other,
    }
    for one in rounds:
        one.requests = [request for request in requests if (request.level, request.round) == (one.level, one.round)]
    return Sweep(rounds=rounds, **given)


Law = Callable[[float], float]
"""Streams that are open → seconds."""


def simulate(
    gap: Law,
    first: Law = lambda _: 0.2,
    *,
    seed: int = 1,
    rounds: int = 3,
    levels: Sequence[float] = LEVELS,
    capacity: float = np.inf,
    void: Mapping[float, Mapping[str, Any]] | None = None,
    noisy: Mapping[float, float] | None = None,
    long_gaps: Mapping[float, float] | None = None,
    held_up: Mapping[float, float] | None = None,
    seconds: float = SECONDS,
    objective: SLO | None = CHAT,
    **other: Any,
) -> Sweep:
    """Simulate a sweep of an open loop.

    Args:
        gap: median inter-token latency by the streams that are open; single gaps vary by a quarter.
        first: median time to first token.
        seed: of what varies.
        rounds: of each level.
        levels: that are driven.
        capacity: requests per second that the endpoint completes; more are queued.
        void: level → what its rounds have besides.
        noisy: level → factor by which its last round is slower.
        long_gaps: level → share of its gaps that last 0.5 s.
        held_up: level → share of its requests that this machine held up.
        seconds: of the steady part of each round.
        objective: that is judged by.
        other: fields of the sweep.
    """
    random = np.random.default_rng(seed)
    duration = first(PEAK) + (TOKENS - 1) * gap(PEAK)
    warm_up = 2 * duration
    made: list[Round] = []
    requests: list[DueRequest] = []
    start = 0.0
    for number in range(rounds):
        for level in levels:
            steady_from = start + warm_up
            rate = level * PEAK / duration
            until = steady_from + seconds
            made.append(
                one_round(level, number, steady_from, rate=rate, steady_until=until, **(void or {}).get(level, {}))
            )
            slower = (noisy or {}).get(level, 1.0) if number == rounds - 1 else 1.0
            free = start
            moment = start
            of_round = random.normal(0, 0.02)
            while (moment := moment + random.exponential(1 / rate)) < until:
                begun = max(moment, free)
                free = begun + 1 / capacity
                streams = level * PEAK
                gaps = (
                    gap(streams)
                    * slower
                    * np.exp(of_round + random.normal(0, 0.05) + random.normal(0, 0.25, TOKENS - 1))
                )
                gaps[random.random(TOKENS - 1) < (long_gaps or {}).get(level, 0.0)] = 0.5
                waited = begun - moment
                ttft = first(streams) * slower * float(np.exp(of_round + random.normal(0, 0.2))) + waited
                requests.append(
                    due_request(
                        moment,
                        of=measured(ttft, gaps.tolist()),
                        level=level,
                        round=number,
                        is_steady=moment >= steady_from,
                        held_up_by=Cause.HOST if random.random() < (held_up or {}).get(level, 0.0) else None,
                    )
                )
            start = until
    return sweep_of(made, requests, levels=levels, objective=objective, **other)
