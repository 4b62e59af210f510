"""How often a sweep says "within" of an endpoint whose share over the objective is known: the false ones, and the true.

Every request is drawn: its time to first token and its gaps are log-normal, with the share over the objective that is
planted. Requests are alike in no way, gaps within their request, or all that is due in the same spell of time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from bench.sweep.simulate import PUNCTUAL
from bench.truth.tables import table
from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.sweep.knee import analyze
from otel_itl.tools.sweep.records import DueRequest, Round, Sweep
from otel_itl.tools.sweep.results import LevelResult, Standing

OBJECTIVE: Final = SLO(ttft=0.5, itl=0.1)
SECONDS: Final = 30.0
ROUNDS: Final = 3
GAPS: Final = 40
SPREAD: Final = 0.4
"""Standard deviation of the logarithm of a time."""
FINE: Final = 0.01
"""Share over the objective, of what is allowed, of the part that is not asked about."""
FACTORS: Final = (0.1, 1.0, 1.5, 2.0, 3.0)
"""Shares over the objective as multiples of what is allowed: from 1 on, "within" is wrong."""
SPELL: Final = 5.0
"""Length of a spell (s) in which all requests are alike."""


class Likeness(Enum):
    """What has a part of its deviation in common, and how large that part is."""

    NONE = "nothing is alike", 0.0
    REQUESTS = "gaps of a request are alike", 0.7
    SPELLS = "requests of a spell are alike", 0.5


class Fleet(NamedTuple):
    """Requests of one kind: what is planted in which part of the objective."""

    is_about_gaps: bool
    likeness: Likeness
    requests: int
    """Of all rounds together."""

    @property
    def title(self) -> str:
        """What the row of a table says."""
        return f"{'gaps' if self.is_about_gaps else 'first tokens'}, {self.likeness.value[0]}"


FLEETS: Final = tuple(
    Fleet(is_about_gaps, likeness, requests)
    for requests in (70, 740)
    for is_about_gaps in (False, True)
    for likeness in Likeness
    if is_about_gaps or likeness is not Likeness.REQUESTS
)


def within_table(runs: int, fleets: Sequence[Fleet] = FLEETS) -> str:
    """Draw many sweeps of each fleet, and return how many in a hundred say "within", before and now."""
    header = ["over the objective", "requests", *(f"{factor:g} x allowed" for factor in FACTORS)]
    rows = []
    with ProcessPoolExecutor() as processes:
        for fleet in fleets:
            cells = processes.map(partial(_count, fleet, runs), FACTORS)
            rows.append([fleet.title, str(fleet.requests), *(f"{before:.0f} / {now:.0f}" for before, now in cells)])
    return table(header, rows)


def _count(fleet: Fleet, runs: int, factor: float) -> tuple[float, float]:
    """Return how many of a hundred sweeps say "within": by the interval of percentiles, and as it is now."""
    levels = [analyze(draw(fleet, factor, np.random.default_rng([seed, 7]))).levels[0] for seed in range(runs)]
    before = np.mean([is_within_by_percentiles(level) for level in levels])
    now = np.mean([level.standing is Standing.WITHIN for level in levels])
    return 100 * float(before), 100 * float(now)


def is_within_by_percentiles(level: LevelResult) -> bool:
    """Return whether the intervals of the p99 lie within the objective, which was how a level was judged before."""
    ends = [level.figures[key].interval for key in ("ttft_p99", "itl_p99")]
    return all(end is not None and end[1] <= limit for end, limit in zip(ends, (0.5, 0.1), strict=True))


def draw(fleet: Fleet, factor: float, random: np.random.Generator) -> Sweep:
    """Draw a sweep of one level, with a share over the objective that is a multiple of what is allowed."""
    allowed = 1 - OBJECTIVE.target
    shares = (FINE * allowed, factor * allowed)
    ttft, itl = shares if fleet.is_about_gaps else shares[::-1]
    rounds = [Round(level=1.0, round=number, rate=1.0) for number in range(ROUNDS)]
    for one in rounds:
        one.steady_from = one.round * 2 * SECONDS
        one.steady_until = one.steady_from + SECONDS
        one.concurrency, one.max_concurrency = 4.0, 8
        one.schedule_delay_p99 = one.loop_lag_p99 = PUNCTUAL
        due = np.sort(random.uniform(0, SECONDS, random.poisson(fleet.requests / ROUNDS)))
        firsts, gaps = _draw_times(fleet.likeness, due, random)
        firsts, gaps = _scale(firsts, ttft, OBJECTIVE.ttft or 0), _scale(gaps, itl, OBJECTIVE.itl or 0)
        make = partial(_make_request, one)
        one.requests = [make(*drawn) for drawn in zip(due, firsts, gaps, strict=True)]
    return Sweep(
        endpoint="http://127.0.0.1/v1",
        model="drawn",
        peak=4,
        is_open_loop=True,
        objective=OBJECTIVE,
        levels=(1.0,),
        rounds=rounds,
    )


def _draw_times(likeness: Likeness, due: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the deviations of the first tokens and of the gaps, of variance 1, with a part in common."""
    common = likeness.value[1]
    own = random.normal(size=(len(due), GAPS + 1))
    shared = np.zeros((len(due), 1))
    if likeness is Likeness.REQUESTS:
        shared = random.normal(size=(len(due), 1))
    elif likeness is Likeness.SPELLS:
        shared = random.normal(size=int(SECONDS / SPELL) + 1)[(due / SPELL).astype(int)][:, np.newaxis]
    drawn = common**0.5 * shared + (1 - common) ** 0.5 * own
    return drawn[:, 0], drawn[:, 1:]


def _scale(deviations: Floats, share: float, limit: float) -> Floats:
    """Return times of which a share is over a limit."""
    scaled: Floats = limit * np.exp(SPREAD * (deviations - stats.norm.isf(share)))
    return scaled


def _make_request(one: Round, due: float, first: float, gaps: Floats) -> DueRequest:
    """Return a request of a round, due so long after its steady part began."""
    moment = (one.steady_from or 0.0) + due
    return DueRequest(
        level=1.0,
        round=one.round,
        is_steady=True,
        due=moment,
        sent=moment,
        ended=moment + first + float(gaps.sum()),
        measured=Request(
            cluster=f"{one.round} {due}",
            is_in_session=False,
            model="openai / drawn",
            time_to_first_token=float(first),
            gaps=array("d", sorted(gaps)),
            decode_time=float(gaps.sum()),
            later_tokens=GAPS,
            tokens=GAPS + 1,
            stalls=0,
            outcome=Outcome.COMPLETED,
            itl_objective=None,
        ),
    )
