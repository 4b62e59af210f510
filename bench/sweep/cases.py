"""Servers that carry a known level and not the next one: by how they slow down, or by where their slots end."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from bench.sweep.service import Job, Law
from bench.sweep.simulate import LEVELS, Design, is_steady, play_round
from otel_itl.core.slo import SLO

BATCHING, SLOTS = "slows down", "slots end"
TRUTH_SECONDS = 150.0
"""Length of the simulated steady parts that the true percentiles of a level are taken from."""
BEYOND = 8.0
"""Level after the highest that is driven."""
TARGET = 0.9
"""Share that has to be within the objective: of 99 % a sweep knows only after ten times as many requests."""
GENEROUS = 10.0
"""Objective for a first token that no level misses, in seconds."""


class Figures(NamedTuple):
    """Percentiles of a level in seconds."""

    ttft_p50: float
    ttft_p90: float
    itl_p50: float
    itl_p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server, how it is driven, and what should be found."""

    name: str
    law: Law
    design: Design
    objective: SLO
    knee: float | None
    """Highest level that meets the objective by the law; None: none does."""
    truth: dict[float, Figures]
    """Level → what a very long measurement would give."""


def figures(jobs: Iterable[Job]) -> Figures:
    """Return the percentiles of some requests."""
    known = [job for job in jobs if job.sent]
    first = np.quantile([job.time_to_first_token or 0.0 for job in known], [0.5, TARGET])
    gaps = np.quantile(np.concatenate([job.gaps for job in known]), [0.5, TARGET])
    return Figures(*map(float, (*first, *gaps)))


def find_truth(law: Law, design: Design) -> dict[float, Figures]:
    """Return the percentiles of each level over many simulated rounds."""
    rounds = round(TRUTH_SECONDS / design.steady) + 1
    return {level: figures(_steady(law, design, level, rounds)) for level in design.levels}


def _steady(law: Law, design: Design, level: float, rounds: int) -> list[Job]:
    played = (play_round(law, design, level, -1 - number) for number in range(rounds))
    return [job for one in played for job in one.jobs if is_steady(job, design)]


@cache  # the truth takes a while
def plan(seed: int, design: Design) -> Case:
    """Return a server of which a level is the knee: all levels in turn, both kinds in turn, the rest random."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    kind = (BATCHING, SLOTS)[seed % 2]
    knee = LEVELS[seed // 2 % len(LEVELS)]
    design = replace(design, peak=chance.randint(3, 5))
    law = Law(
        step=chance.uniform(0.03, 0.045),
        free=design.peak,
        spread=chance.uniform(0.04, 0.12),
        prefill=chance.uniform(0.01, 0.08),
        tokens=(chance.randint(6, 9), chance.randint(14, 18)),
    )
    after = (*LEVELS, BEYOND)[LEVELS.index(knee) + 1]
    return (_batching if kind == BATCHING else _slots)(law, design, knee, after)


def _batching(law: Law, design: Design, knee: float, after: float) -> Case:
    """Return a server that has slots for all, and slows down so much after the knee that gaps miss their objective."""
    slower = replace(law, slope=0.55 * law.step / (after * design.peak), slots=8 * design.peak)
    truth = find_truth(slower, replace(design, levels=(*LEVELS, BEYOND)))
    itl = (truth[knee].itl_p90 * truth[after].itl_p90) ** 0.5
    objective = SLO(ttft=GENEROUS, itl=itl, target=TARGET)
    return Case(name=BATCHING, law=slower, design=design, objective=objective, knee=knee, truth=truth)


def _slots(law: Law, design: Design, knee: float, after: float) -> Case:
    """Return a server that is as fast with all its slots taken, which end between the knee and the next level."""
    limited = replace(law, slots=round(design.peak * (knee * after) ** 0.5) + 1)
    truth = find_truth(limited, replace(design, levels=(*LEVELS, BEYOND)))
    objective = SLO(ttft=(truth[knee].ttft_p90 * truth[after].ttft_p90) ** 0.5, itl=4 * law.step, target=TARGET)
    return Case(name=SLOTS, law=limited, design=design, objective=objective, knee=knee, truth=truth)
