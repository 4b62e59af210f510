"""Coordinated omission: what a closed loop leaves out of a server's pause, and what an open loop finds of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from bench.sweep.drive import Manner, drive
from bench.sweep.service import Law
from bench.sweep.simulate import Design, is_steady, play_round
from bench.sweep.upstream import upstream
from bench.truth.tables import table

PAUSING: Final = Law(step=0.02, free=4, tokens=(36, 44), prefill=0.01, pause_every=20.0, pause=1.0)
DESIGN: Final = Design(peak=4, levels=(1.0,), warm_up=1.0, steady=20.0)
LATE: Final = 0.25
"""A first token that takes longer than this (s) met the pause."""
TRUTH_ROUNDS: Final = 100


def omission_table(design: Design = DESIGN, law: Law = PAUSING) -> str:
    """Drive a server that pauses, by both loops, and return a table of the first tokens beside the truth."""
    rows = [["a user who comes at any moment", *_cells(find_truth(law, design))]]
    for name, is_open_loop in (("sweep, open loop", True), ("sweep, closed loop", False)):
        rows.append([name, *_cells(measure(law, design, is_open_loop=is_open_loop))])
    return table(["times to first token", "requests", "p50", "p99", "largest", f"over {1e3 * LATE:.0f} ms"], rows)


def find_truth(law: Law, design: Design) -> list[float]:
    """Return the times to first token (s) of users who come at random moments, of many simulated rounds."""
    played = (play_round(law, design, 1.0, seed) for seed in range(TRUTH_ROUNDS))
    jobs = [job for one in played for job in one.jobs if is_steady(job, design)]
    return [job.time_to_first_token for job in jobs if job.time_to_first_token is not None]


def measure(law: Law, design: Design, *, is_open_loop: bool) -> list[float]:
    """Return the times to first token (s) that a sweep finds, from the moments when requests were due."""
    with upstream(law) as server:
        sweep = drive(server.url, replace(design, levels=(1.0,)), None, Manner(is_open_loop=is_open_loop))
    steady = [request for request in sweep.requests if request.is_steady]
    return [request.time_to_first_token for request in steady if request.time_to_first_token is not None]


def _cells(times: list[float]) -> list[str]:
    percentiles = [f"{1e3 * value:.0f} ms" for value in (*np.quantile(times, [0.5, 0.99]), max(times))]
    return [f"{len(times):,}", *percentiles, f"{100 * np.mean(np.array(times) > LATE):.1f} %"]
