"""Compares whole runs at one own load each, as of a load test: a run counts as one, however many streams it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats
from scipy.ndimage import median_filter

from otel_itl.tools.explain.candidates import Candidate, Trial, make_trial
from otel_itl.tools.explain.facts import Facts, Floats, Integers, mean_by
from otel_itl.tools.explain.findings import Driver
from otel_itl.tools.explain.robust import Estimate, find_residuals

MIN_RUNS: Final = 5
"""Runs, below which those of one load differ by chance in a way that nothing shows."""
MIN_RUN_STREAMS: Final = 10
MAX_WITH_TIME: Final = 0.5
"""Largest correlation of the load with the order of the runs: else it is the upstream's drift as well."""
MIN_COVERED: Final = 0.8
"""Share of the streams that runs have; else there are none."""
WINDOW: Final = 7
"""Streams in a row of which the middle load is that of a run."""


MIN_WITHIN = 0.5
"""Share of the variance of the own load that hours and blocks of time leave, below which it is not tested.

Whole runs at one load leave little more than their first and last streams, which are no comparison of loads.
"""
MIN_ALIKE = 0.5
"""Least correlation, within hours and blocks, of the own load at the usual pace with that which was seen."""


def varies_within(facts: Facts, times: Floats) -> bool:
    """Return whether the own load varies within the same hour and block of time, and not only between runs.

    Args:
        facts: the streams.
        times: columns of hours and of blocks of time.
    """
    loads = np.column_stack([facts.load_mean, facts.load_seen])
    left = find_residuals(loads, np.column_stack([np.ones(len(loads)), times]))
    is_within = np.var(left, axis=0) >= MIN_WITHIN * np.var(loads, axis=0)
    return bool(is_within.all() and np.corrcoef(left.T)[0, 1] >= MIN_ALIKE)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of an input: stretches of streams in a row that all met the same own load."""

    number: Integers
    """Number of the run of each stream; -1: it is in none, such as the first and last of a run."""
    levels: Floats
    """Own load of each run."""

    @property
    def can_be_compared(self) -> bool:
        """There are enough, of several loads, and the load does not go with the time."""
        if len(self.levels) < MIN_RUNS or np.ptp(self.levels) == 0:
            return False
        return bool(abs(np.corrcoef(self.levels, np.arange(len(self.levels)))[0, 1]) <= MAX_WITH_TIME)


def find_runs(facts: Facts) -> Runs | None:
    """Divide the streams into runs at one own load; None: the load is not constant for long enough."""
    level = np.rint(median_filter(facts.load_seen, WINDOW, mode="nearest"))
    edges = np.flatnonzero(np.diff(level)) + 1
    number, levels = np.full(len(facts), -1, dtype=np.intp), list[float]()
    for rows in np.split(np.arange(len(facts)), edges):
        inside = rows[np.rint(facts.load_seen[rows]) == level[rows[0]]]
        if len(inside) >= MIN_RUN_STREAMS:
            number[inside] = len(levels)
            levels.append(level[rows[0]])
    return Runs(number, np.array(levels)) if np.mean(number >= 0) >= MIN_COVERED else None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The straight line through the typical latencies of runs, over their own load."""

    runs: Runs
    latencies: Floats
    """Geometric mean of each run in seconds."""
    estimate: Estimate
    """Seconds for each further open stream."""
    spread: float
    """Standard deviation of the runs around the line, in seconds."""


def compare_runs(runs: Runs, log_latency: Floats) -> RunComparison:
    """Fit the line by least squares: a t-test with two degrees of freedom less than there are runs."""
    is_in = runs.number >= 0
    latencies = np.exp(mean_by(runs.number[is_in], log_latency[is_in]))
    line = stats.linregress(runs.levels, latencies)
    left = latencies - line.intercept - line.slope * runs.levels
    spread = float(np.sqrt(np.sum(left**2) / (len(latencies) - 2)))
    found = Estimate(float(line.slope), float(line.stderr), len(latencies) - 1)
    return RunComparison(runs, latencies, found, spread)


def make_run_trial(found: RunComparison, facts: Facts) -> Trial:
    """Make the test of the own load over whole runs; a stream that is in none has the load that was seen."""
    levels = np.where(found.runs.number >= 0, found.runs.levels[found.runs.number], facts.load_seen)
    count = len(found.latencies)
    return make_trial(Candidate(driver=Driver.OWN_LOAD, column=levels, per=1.0, adds=True, runs=count), found.estimate)
