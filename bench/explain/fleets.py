"""Simulates the streams of a fleet: bursts of parallel sessions over four weeks, a slow drift, and planted drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np
from scipy.signal import lfilter

from otel_itl.explain.findings import Driver, Target
from otel_itl.explain.observations import MAX_PARTS, MIN_PART_GAPS, Observation, Observations

SECOND = 1_000_000_000
MONDAY = int(datetime(2026, 3, 2, tzinfo=timezone.utc).timestamp())
HOUR = 3_600
DAY = 24 * HOUR
TTFT, ITL = Target.TTFT, Target.ITL
FIRST_TOKEN = 0.4
GAP = 0.02
IDLE = 600
SLOW_HOURS = (9, 11)
SWITCH_DAY = 13.4
"""Days after the first Monday, when another response model answers."""

Planted = Mapping[tuple[Driver, Target], float]
"""Driver and target → its size, in the unit of its effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How the streams of a fleet vary, and what drives them. Standard deviations are of logarithms."""

    name: str
    planted: Planted = field(default_factory=dict)
    days: int = 28
    bursts: int = 80
    """Groups of parallel sessions."""
    requests: int = 3
    """Of each session, on average."""
    parallel: float = 3.0
    """Sessions of a burst, on average."""
    weekdays: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Of the slow hours, where the calendar is planted."""
    drift: float = 0.12
    """Of the upstream's wandering within hours."""
    between_days: float = 0.08
    between_sessions: float = 0.12
    between_requests: float = 0.2
    is_heavy: bool = False
    """Requests follow a t-distribution with three degrees of freedom, and one in fifty takes five times as long."""
    load_follows_hours: bool = False
    """Far more sessions are parallel in the slow hours."""
    is_speculative: bool = False
    """Half of the sessions get several tokens in a chunk."""


def simulate(fleet: Fleet, random: np.random.Generator) -> Observations:
    """Simulate the streams of a fleet."""
    start, session = _arrivals(fleet, random)
    count = len(start)
    hour, weekday = (start % DAY) // HOUR, (start // DAY).astype(int) % 7
    tokens = np.clip(random.lognormal(5.2, 0.6, count), 40, 1_500).round()
    prompt, cached = _prompts(session, random)
    retries = random.choice([0, 1, 2], count, p=[0.93, 0.06, 0.01])
    server = random.integers(2, size=session.max() + 1)[session]
    per_chunk = np.where(fleet.is_speculative & (random.random(session.max() + 1) < 0.5)[session], 2.5, 1.0)
    per_chunk *= random.uniform(1.0, 1.1, count)
    is_new = start >= SWITCH_DAY * DAY
    is_slow = np.isin(weekday, fleet.weekdays) & (hour >= SLOW_HOURS[0]) & (hour < SLOW_HOURS[1])
    noise = {target: _noise(fleet, start, session, random) for target in Target}
    parts = _part_tokens(tokens)
    middle = np.array([np.mean(one) for one in parts])

    def cost(driver: Driver, target: Target) -> float:
        return fleet.planted.get((driver, target), 0.0)

    def latency(target: Target, load: np.ndarray, idle: np.ndarray) -> np.ndarray:
        adds = (
            (FIRST_TOKEN if target is TTFT else GAP)
            + cost(Driver.OWN_LOAD, target) * (load - 1)
            + cost(Driver.PROMPT, target) * (prompt - (cached if target is TTFT else 0)) / 1_000
            + cost(Driver.CACHED_PROMPT, target) * cached / 1_000
            + cost(Driver.POSITION, target) * middle / 1_000
            + cost(Driver.TOKENS_PER_CHUNK, target) * (per_chunk - 1)
            + cost(Driver.RETRIES, target) * retries
            + cost(Driver.IDLE, target) * (idle >= IDLE)
        )
        factors = (
            (1 + cost(Driver.CALENDAR, target) * is_slow)
            * (1 + cost(Driver.SERVER_ADDRESS, target) * (server == 1))
            * (1 + cost(Driver.RESPONSE_MODEL, target) * is_new)
        )
        return adds * factors * np.exp(noise[target])

    ttft, itl = np.full(count, FIRST_TOKEN), np.full(count, GAP)
    for _ in range(4):
        end = start + ttft + tokens * itl
        load, idle = _count_open(start, end), _silence(start, end)
        ttft, itl = latency(TTFT, load, idle), latency(ITL, load, idle)
    duration = ttft + tokens * itl
    slope = cost(Driver.POSITION, ITL)
    return Observations(
        used=[
            Observation(
                model="openai / gpt",
                session=f"{session[row]}",
                start_ns=int((MONDAY + start[row]) * SECOND),
                duration=float(duration[row]),
                tokens=int(tokens[row]),
                ttft=float(ttft[row]),
                itl=float(itl[row]),
                parts=_parts(parts[row], itl[row], slope, random),
                prompt_tokens=int(prompt[row]),
                cached_tokens=int(cached[row]),
                tokens_per_chunk=float(per_chunk[row]),
                attempts=1 + int(retries[row]),
                server=f"10.0.0.{server[row]}:8000",
                response_model="gpt-2" if is_new[row] else "gpt-1",
            )
            for row in range(count)
        ],
        instances={f"{number}" for number in range(12)},
    )


def _arrivals(fleet: Fleet, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return when each request starts, in seconds after the first midnight, ascending, and its session."""
    starts, sessions, number = [], [], 0
    for _ in range(fleet.bursts):
        day = random.integers(fleet.days)
        hour = np.clip(random.normal(13, 3.5), 6, 22)
        is_slow = SLOW_HOURS[0] <= hour < SLOW_HOURS[1]
        crowd = fleet.parallel * (0.6 + 0.8 * np.exp(-(((hour - 14) / 3) ** 2)))
        if fleet.load_follows_hours:
            crowd = fleet.parallel * (1.8 if is_slow else 0.7)
        for _ in range(1 + random.poisson(crowd - 1 if crowd > 1 else 0.2)):
            moment = day * DAY + hour * HOUR + random.exponential(3)
            for _ in range(1 + random.poisson(fleet.requests - 1)):
                starts.append(moment)
                sessions.append(number)
                moment += 5 + random.exponential(12)
            number += 1
    order = np.argsort(starts)
    return np.array(starts)[order], np.array(sessions)[order]


def _prompts(session: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the input tokens of each request, and those of them in the cache: a session's prompts grow."""
    length: dict[int, float] = {}
    prompt, cached = np.empty(len(session)), np.zeros(len(session))
    for row, number in enumerate(session):
        before = length.get(number, 0.0)
        prompt[row] = before + random.lognormal(6.8 if before == 0 else 5.8, 0.8)
        cached[row] = before * 0.9 if random.random() < 0.7 else 0.0
        length[number] = prompt[row]
    return prompt.round(), cached.round()


def _noise(fleet: Fleet, start: np.ndarray, session: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the logarithm of what nothing explains: requests, sessions, days and a drift are each alike."""
    count = len(start)
    day = (start // DAY).astype(int)
    steps = np.sqrt(1 - 0.92**2)
    quarter_hours = lfilter([steps], [1.0, -0.92], random.normal(size=fleet.days * 96 + 96 * 2))[96:]
    own = random.standard_t(3, count) / np.sqrt(3) if fleet.is_heavy else random.normal(size=count)
    spikes = np.where(fleet.is_heavy & (random.random(count) < 0.02), np.log(5), 0.0)
    return (
        fleet.between_requests * own
        + fleet.between_sessions * random.normal(size=session.max() + 1)[session]
        + fleet.between_days * random.normal(size=fleet.days + 1)[day]
        + fleet.drift * quarter_hours[(start // (HOUR / 4)).astype(int)]
        + spikes
    )


def _count_open(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    begun = np.searchsorted(start, start, side="right")
    return begun - np.searchsorted(np.sort(end), start, side="right")


def _silence(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    return np.maximum(start - np.concatenate([[start[0]], np.maximum.accumulate(end)[:-1]]), 0)


def _part_tokens(tokens: np.ndarray) -> list[np.ndarray]:
    """Return the middle of each part of each answer."""
    counts = np.clip(tokens // MIN_PART_GAPS, 1, MAX_PARTS).astype(int)
    return [(np.arange(count) + 0.5) * length / count for count, length in zip(counts, tokens, strict=True)]


def _parts(
    middles: np.ndarray, level: float, slope: float, random: np.random.Generator
) -> tuple[tuple[float, float], ...]:
    """Return the parts of one answer, with gaps that are alike between neighbours."""
    if len(middles) < 2:
        return ()
    wander = np.cumsum(random.normal(0, 0.03, len(middles)))
    noise = np.exp(random.normal(0, 0.05, len(middles)) + wander - wander.mean())
    gaps = (level + slope * (middles - middles.mean()) / 1_000) * noise
    return tuple(zip(middles.tolist(), gaps.tolist(), strict=True))
