"""Searches for the knees of simulated servers: whether the level that is found is within the objective by the law."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from bench.sweep.cases import BATCHING, SLOTS, Case, plan
from bench.sweep.simulate import Design, is_steady, make_round, make_sweep, play_round
from bench.truth.tables import table
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.records import Round
from otel_itl.tools.sweep.schedule import Search

DESIGN: Final = Design(rounds=3, steady=10.0)
HIGHEST: Final = 5.0
TRUTH_ROUNDS: Final = 20


class Searched(NamedTuple):
    """One search."""

    case: Case
    result: SweepResult
    rounds: int


def search(case: Case, seed: int) -> Searched:
    """Search for the knee of a simulated server."""
    schedule = Search(HIGHEST, DESIGN.rounds, Random(seed))  # noqa: S311 - a simulation
    rounds: list[Round] = []
    began = 0.0
    result = analyze(make_sweep(case.design, case.objective, rounds))
    while (taken := schedule.take()) is not None:
        level, number = taken
        played = play_round(case.law, case.design, level, 1_000 * seed + number)
        rounds.append(make_round(played, case.design, number, began))
        began += max([case.design.length, *(job.sent[-1] for job in played.jobs)])
        result = analyze(make_sweep(case.design, case.objective, rounds))
        schedule.note(result.levels, result.sweep.allowed)
    return Searched(case, result, len(rounds))


def find_share(case: Case, level: float) -> float:
    """Return the larger share over the two parts of the objective, by the law."""
    played = (play_round(case.law, case.design, level, -1 - number) for number in range(TRUTH_ROUNDS))
    jobs = [job for one in played for job in one.jobs if is_steady(job, case.design) and job.sent]
    ttft, itl = case.objective.ttft or 0.0, case.objective.itl or 0.0
    late = np.mean([(job.time_to_first_token or 0.0) > ttft for job in jobs])
    return max(float(late), float(np.mean(np.concatenate([job.gaps for job in jobs]) > itl)))


def search_table(count: int, repeats: int) -> str:
    """Search for the knees of some servers, each a few times, and return a table of what was found."""
    header = ["server", "searches", "knee found", "not within the objective by the law", "rounds, median"]
    cases = [plan(seed, replace(DESIGN)) for seed in range(count)]
    found = [search(case, repeats * number + one) for number, case in enumerate(cases) for one in range(repeats)]
    rows = []
    for kind in (BATCHING, SLOTS):
        own = [one for one in found if one.case.name == kind]
        knees = [(one.case, one.result.knee.level) for one in own if one.result.knee is not None]
        wrong = sum(find_share(case, level) > 1 - case.objective.target for case, level in knees)
        rows.append([kind, str(len(own)), str(len(knees)), str(wrong), f"{median(one.rounds for one in own):g}"])
    return table(header, rows)
