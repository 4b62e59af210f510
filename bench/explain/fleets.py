"""Simulates the streams of a fleet: bursts of parallel sessions over four weeks, a slow drift, and planted drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np
from scipy.signal import lfilter

from otel_itl.tools.explain.findings import Driver, Target
from otel_itl.tools.explain.observations import MAX_PARTS, MIN_PART_GAPS, Observation, Observations

SECOND = 1_000_000_000
MONDAY = int(datetime(2026, 3, 2, tzinfo=timezone.utc).timestamp())
HOUR = 3_600
DAY = 24 * HOUR
TTFT, ITL = Target.TTFT, Target.ITL
FIRST_TOKEN = 0.4
GAP = 0.02
IDLE = 600
SLOW_HOURS = (9, 11)
DAY_HOURS = (7, 20)
"""When there is traffic."""
SOON = 0.4
"""Share of the bursts that follow another one after minutes."""
SWITCH_DAY = 13.4
"""Days after the first Monday, when another response model answers."""

VERSION_DAY = 8.6
"""Days after the first Monday, when another version of the application is deployed."""

Planted = Mapping[tuple[Driver, Target], float]
"""Driver and target → its size, in the unit of its effect."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fleet:
    """How the streams of a fleet vary, and what drives them. Standard deviations are of logarithms."""

    name: str
    planted: Planted = field(default_factory=dict)
    days: int = 28
    bursts: int = 80
    """Groups of parallel sessions."""
    requests: float = 3
    """Requests of each session, on average."""
    parallel: float = 3.0
    """Sessions of a burst, on average."""
    weekdays: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Weekdays of the slow hours, where the calendar is planted."""
    drift: float = 0.08
    """Standard deviation of the upstream's drift within hours."""
    between_days: float = 0.05
    between_sessions: float = 0.1
    between_requests: float = 0.15
    is_heavy: bool = False
    """Requests follow a t-distribution with three degrees of freedom, and one in fifty takes five times as long."""
    load_follows_hours: bool = False
    """Far more sessions are parallel in the slow hours."""
    is_speculative: bool = False
    """Half of the sessions get several tokens in a chunk."""
    knots: Mapping[Driver, float] = field(default_factory=dict)
    """Own load or prompt tokens from which on they cost what is planted, and nothing below."""
    tenants_differ: bool = False
    """The tenant that is slow has prompts of three times the length."""


NOTHING = (
    Fleet(name="nothing"),
    Fleet(name="an upstream that drifts", drift=0.3, between_days=0.2),
    Fleet(name="heavy tails", is_heavy=True),
    Fleet(name="own load follows the hours", load_follows_hours=True),
    Fleet(name="several tokens in a chunk", is_speculative=True),
)
"""Nothing drives the latency of these."""
ALONE = (
    Fleet(name="prompt, TTFT", planted={(Driver.PROMPT, TTFT): 0.1}),
    Fleet(name="cached tokens apart, TTFT", planted={(Driver.PROMPT, TTFT): 0.12, (Driver.CACHED_PROMPT, TTFT): 0.05}),
    Fleet(name="prompt, ITL", planted={(Driver.PROMPT, ITL): 0.0016}),
    Fleet(name="own load, TTFT", planted={(Driver.OWN_LOAD, TTFT): 0.04}, parallel=4.0),
    Fleet(name="own load, ITL", planted={(Driver.OWN_LOAD, ITL): 0.0015}, parallel=4.0),
    Fleet(name="position, ITL", planted={(Driver.POSITION, ITL): 0.01}),
    Fleet(name="idle time, TTFT", planted={(Driver.IDLE, TTFT): 4.0}),
    Fleet(
        name="Tuesday 9-11 h, ITL",
        planted={(Driver.CALENDAR, ITL): 0.6},
        weekdays=(1,),
        days=84,
        bursts=1_300,
        parallel=1.2,
        requests=1.5,
    ),
    Fleet(name="every day 9-11 h, TTFT", planted={(Driver.CALENDAR, TTFT): 0.4}, bursts=360, parallel=1.2, requests=2),
    Fleet(name="response model, ITL", planted={(Driver.RESPONSE_MODEL, ITL): 0.4}, bursts=160),
    Fleet(name="server address, ITL", planted={(Driver.SERVER_ADDRESS, ITL): 0.2}),
    Fleet(name="tokens per chunk, ITL", planted={(Driver.TOKENS_PER_CHUNK, ITL): 0.006}, is_speculative=True),
    Fleet(name="retries, TTFT", planted={(Driver.RETRIES, TTFT): 0.8}),
    Fleet(name="prompt, ITL, heavy tails", planted={(Driver.PROMPT, ITL): 0.0016}, is_heavy=True),
)
CONFOUNDED = (
    Fleet(
        name="9-11 h, when own load is high",
        planted={(Driver.CALENDAR, ITL): 0.4},
        load_follows_hours=True,
        bursts=320,
        parallel=1.5,
        requests=2,
    ),
    Fleet(
        name="own load, high at 9-11 h",
        planted={(Driver.OWN_LOAD, ITL): 0.0015},
        load_follows_hours=True,
        bursts=120,
        parallel=4.0,
        requests=2,
    ),
)
MIXED = (
    Fleet(
        name="prompt, idle time and position",
        planted={(Driver.PROMPT, ITL): 0.0016, (Driver.IDLE, TTFT): 4.0, (Driver.POSITION, ITL): 0.01},
    ),
    Fleet(
        name="prompt, retries, response model",
        planted={(Driver.PROMPT, TTFT): 0.1, (Driver.RETRIES, TTFT): 0.8, (Driver.RESPONSE_MODEL, ITL): 0.4},
        bursts=160,
    ),
    Fleet(
        name="own load, server, weekdays 9-11 h",
        planted={(Driver.OWN_LOAD, ITL): 0.0015, (Driver.SERVER_ADDRESS, ITL): 0.15, (Driver.CALENDAR, ITL): 0.4},
        weekdays=(0, 1, 2, 3, 4),
        parallel=2.5,
        bursts=320,
        requests=2,
    ),
)
ATTRIBUTES = (
    Fleet(name="a tenant, ITL", planted={(Driver.ATTRIBUTE, ITL): 0.3}),
    Fleet(
        name="a tenant with long prompts",
        planted={(Driver.ATTRIBUTE, ITL): 0.3, (Driver.PROMPT, ITL): 0.0016},
        tenants_differ=True,
    ),
    Fleet(name="prompts alone, which a tenant has", planted={(Driver.PROMPT, ITL): 0.0016}, tenants_differ=True),
)
BENT = (
    Fleet(
        name="own load from 4 on, ITL",
        planted={(Driver.OWN_LOAD, ITL): 0.004},
        knots={Driver.OWN_LOAD: 4.0},
        parallel=5.0,
        bursts=160,
    ),
    Fleet(name="prompt from 2,000 on, ITL", planted={(Driver.PROMPT, ITL): 0.004}, knots={Driver.PROMPT: 2_000.0}),
    Fleet(name="prompt from 2,000 on, TTFT", planted={(Driver.PROMPT, TTFT): 0.2}, knots={Driver.PROMPT: 2_000.0}),
)
KINDS = (*NOTHING, *ALONE, *CONFOUNDED, *MIXED, *ATTRIBUTES, *BENT)


def simulate(fleet: Fleet, random: np.random.Generator) -> Observations:
    """Simulate the streams of a fleet."""
    start, session = _arrivals(fleet, random)
    count = len(start)
    hour, weekday = (start % DAY) // HOUR, (start // DAY).astype(int) % 7
    tokens = np.clip(random.lognormal(5.2, 0.6, count), 40, 1_500).round()
    prompt, cached = _prompts(session, random)
    attributes, is_acme = _attributes(start, session, np.random.default_rng([len(session), int(tokens.sum())]))
    if fleet.tenants_differ:
        prompt = np.where(is_acme, 3 * prompt, prompt)
    retries = random.choice([0, 1, 2], count, p=[0.93, 0.06, 0.01])
    server = (random.random(session.max() + 1) < 0.35)[session].astype(int)
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
            + cost(Driver.OWN_LOAD, target) * np.maximum(load - fleet.knots.get(Driver.OWN_LOAD, 1.0), 0)
            + cost(Driver.PROMPT, target)
            * np.maximum(prompt - (cached if target is TTFT else 0) - fleet.knots.get(Driver.PROMPT, 0.0), 0)
            / 1_000
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
            * (1 + cost(Driver.ATTRIBUTE, target) * is_acme)
        )
        return adds * factors * np.exp(noise[target])

    ttft, itl = np.full(count, FIRST_TOKEN), np.full(count, GAP)
    for _ in range(4):
        end = start + ttft + tokens * itl
        at_start, mean = _count_open(start, end), _mean_open(start, end)
        idle = _silence(start, end)
        ttft, itl = latency(TTFT, at_start, idle), latency(ITL, mean, idle)
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
                attributes=attributes[row],
            )
            for row in range(count)
        ],
        instances={f"{number}" for number in range(12)},
    )


def _arrivals(fleet: Fleet, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return when each request starts, in seconds after the first midnight, ascending, and its session."""
    starts, sessions, number = [], [], 0
    day, hour = 0, 0.0
    for _ in range(fleet.bursts):
        if random.random() < SOON and 0 < hour < DAY_HOURS[1]:
            hour += random.lognormal(np.log(0.25), 0.8)
        else:
            day, hour = int(random.integers(fleet.days)), float(random.uniform(*DAY_HOURS))
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


def _attributes(
    start: np.ndarray, session: np.ndarray, random: np.random.Generator
) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return what an application says of its requests, and which are of the tenant that may be slow."""
    sessions = session.max() + 1
    tenants = np.array(["acme", "beta", "core", "dune"])[random.choice(4, sessions, p=[0.2, 0.5, 0.2, 0.1])]
    hosts = random.integers(12, size=sessions)
    templates = random.integers(5, size=len(session))
    made = [
        {
            "tenant.id": str(tenants[one]),
            "host.name": f"host-{hosts[one]}",
            "cloud.region": f"region-{hosts[one] % 3}",
            "template": f"{templates[row]}",
            "service.version": "2.1" if start[row] >= VERSION_DAY * DAY else "2.0",
        }
        for row, one in enumerate(session)
    ]
    return made, tenants[session] == "acme"


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


def _mean_open(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how many streams are open during each stream, on average."""
    shared = np.minimum.outer(end, end) - np.maximum.outer(start, start)
    return np.clip(shared, 0, None).sum(axis=1) / (end - start)


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
