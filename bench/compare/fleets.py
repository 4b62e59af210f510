"""Simulates the streams of one side: gaps in requests, requests in sessions, and neighbours that are alike."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import lfilter

from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.requests import Request, Side

GAP = 0.02
TTFT = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How the streams of one side vary. Standard deviations are of logarithms."""

    name: str
    sessions: int = 10
    requests: int = 6
    gaps: int = 80
    between_sessions: float = 0.3
    between_requests: float = 0.2
    between_gaps: float = 0.5
    autocorrelation: float = 0.5
    """Of neighbouring gaps."""
    spikes: float = 0.0
    """Share of gaps that are 20 times as long."""
    heavy: bool = False
    """Gaps follow a t-distribution with three degrees of freedom instead of the normal one."""
    uneven: bool = False
    """Sessions have up to three times as many requests as `requests`, and requests from a few gaps to hundreds."""
    models: int = 1
    """Each request is to one of so many models, of which each is half as fast as the one before."""
    tick: float = 0.0
    """Gaps and first tokens are multiples of it, so that most are tied; 0: they are not."""
    errors: float = 0.0
    """Share of the requests that fail; those of a session are alike."""
    prompts: float = 0.0
    """Standard deviation of the logarithms of prompt lengths between sessions, and again between their requests: the
    first token is by their `prefill`th power later. 0: no length is recorded."""
    prefill: float = 0.7
    records_prompts: bool = True
    slows_prefill: bool = False
    """The slowdown is of the first token alone."""
    paired: bool = False
    """Both sides play the same sessions: what is particular to a session and to its requests is the same."""


FLEETS = (
    Fleet(name="sessions of requests"),
    Fleet(name="requests without sessions", sessions=60, requests=1, between_sessions=0.0),
    Fleet(name="many sessions", sessions=30, requests=4),
    Fleet(name="strong autocorrelation", autocorrelation=0.95),
    Fleet(name="sessions of uneven size", uneven=True, sessions=16),
    Fleet(name="heavy tails", heavy=True, between_gaps=0.4),
    Fleet(name="rare long gaps", spikes=0.005, sessions=16),
    Fleet(name="two models", models=2, sessions=16),
    Fleet(name="ties", tick=0.005, sessions=16),
    Fleet(name="errors of few sessions", errors=0.1, sessions=30),
    Fleet(name="sixty sessions", sessions=60, requests=4),
    Fleet(name="prompts of many lengths", prompts=0.7, sessions=30, slows_prefill=True),
    Fleet(name="the same, not recorded", prompts=0.7, sessions=30, slows_prefill=True, records_prompts=False),
    Fleet(name="the same scripts on both sides", paired=True, between_sessions=0.6),
)


def simulate(fleet: Fleet, side: str, random: np.random.Generator, script: int, factor: float = 1.0) -> Side:
    """Simulate one side.

    Args:
        fleet: how its streams vary.
        side: its name.
        random: source of what is particular to this side.
        script: seed of what both sides share, if the fleet is paired.
        factor: all gaps and first tokens take so many times as long.
    """
    shared = np.random.default_rng(script) if fleet.paired else random
    made = Side(name=side)
    for session in range(fleet.sessions):
        of_session = shared.normal(0, fleet.between_sessions)
        session_prompt = random.normal(0, fleet.prompts) if fleet.prompts else 0.0
        session_errors = random.exponential() if fleet.errors else 0.0
        requests = int(shared.integers(1, 3 * fleet.requests + 1)) if fleet.uneven else fleet.requests
        for _ in range(requests):
            level = of_session + shared.normal(0, fleet.between_requests)
            model = int(shared.integers(fleet.models))
            gaps = _gaps(
                fleet, random, GAP * (1.0 if fleet.slows_prefill else factor) * 2**model * float(np.exp(level))
            )
            prompt = session_prompt + random.normal(0, fleet.prompts) if fleet.prompts else 0.0
            first = TTFT * factor * float(np.exp(level + fleet.prefill * prompt + random.normal(0, 0.3)))
            if fleet.tick:
                first, gaps = (np.maximum(np.round(one / fleet.tick), 1) * fleet.tick for one in (first, gaps))
            cluster = f"{session}" if fleet.paired else f"{side} {session}"
            request = _request(cluster, f"model {model}", float(first), gaps, is_alone=fleet.requests == 1)
            request = replace(
                request,
                prompt_tokens=round(1_000 * np.exp(prompt)) if fleet.prompts and fleet.records_prompts else None,
            )
            fails = fleet.errors > 0 and random.random() < min(fleet.errors * session_errors, 1.0)
            made.requests.append(replace(request, outcome=Outcome.ERROR) if fails else request)
    return made


def _gaps(fleet: Fleet, random: np.random.Generator, typical: float) -> np.ndarray:
    """Return the gaps of one request in seconds."""
    count = max(int(fleet.gaps * random.lognormal(0, 0.8)), 3) if fleet.uneven else fleet.gaps
    kick = np.sqrt(1 - fleet.autocorrelation**2)
    noise = random.standard_t(3, count) / np.sqrt(3) if fleet.heavy else random.normal(0, 1, count)
    start = [fleet.autocorrelation * random.normal()]
    logs, _ = lfilter([kick], [1.0, -fleet.autocorrelation], noise, zi=start)
    factors = np.where(random.random(count) < fleet.spikes, 20.0, 1.0)
    return typical * np.exp(fleet.between_gaps * logs) * factors


def _request(cluster: str, model: str, first: float, gaps: np.ndarray, *, is_alone: bool) -> Request:
    return Request(
        cluster=cluster,
        is_in_session=not is_alone,
        model=model,
        time_to_first_token=first,
        gaps=array("d", np.sort(gaps)),
        decode_time=float(gaps.sum()),
        later_tokens=len(gaps),
        tokens=len(gaps) + 1,
        stalls=0,
        outcome=Outcome.COMPLETED,
        itl_objective=None,
        duration=first + float(gaps.sum()),
    )
