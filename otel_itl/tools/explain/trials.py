"""Tests every candidate for one latency of one model, each beside all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otel_itl.tools.explain.calendar import can_search, find_window
from otel_itl.tools.explain.candidates import THOUSAND, Candidate, Trial, make_candidates, make_trial
from otel_itl.tools.explain.facts import Facts, Floats, Integers, mean_by
from otel_itl.tools.explain.findings import Driver, Target
from otel_itl.tools.explain.position import Position, estimate_position
from otel_itl.tools.explain.robust import Estimate, Fit, Parts, Regression, estimate, find_residuals, fit_robustly, span

MIN_STREAMS = 60
"""Streams of one model, below which nothing is tested."""
MIN_PER_LEVEL = 20
"""Streams for each level of time that is adjusted for."""
MAX_WINDOWS = 2
SURE = 0.01
"""A window with a smaller p is adjusted for in the tests of the others."""
SIDE_BLOCKS = 8
"""Blocks of time on either side of a moment that are compared."""
MIN_SIDE_BLOCKS = 3
MIN_WITHIN = 0.5
"""Share of the variance of the own load that hours and blocks of time leave, below which it is not tested.

Whole runs at one load leave little more than their first and last streams, which are no comparison of loads.
"""
MIN_ALIKE = 0.5
"""Least correlation, within hours and blocks, of the own load at the usual pace with that which was seen."""


def run_trials(facts: Facts, target: Target, random: np.random.Generator) -> Trials | None:
    """Test what may drive a latency of one model; None: it has too few streams of which the latency is known."""
    latency = facts.column(target.value)
    is_known = latency > 0
    if is_known.sum() < MIN_STREAMS:
        return None
    position = estimate_position(facts) if target is Target.ITL else None
    return Trials(facts.select(is_known), target, latency[is_known], random, position)


class Trials:
    """The fit of one latency of one model, and the tests of all its candidates.

    `trials` has the tests, and `log_latency` the logarithm of the latency without outliers (see `robust.Fit`);
    `variance` is that of the logarithm with them.
    `residuals` is what is left of it after everything that was adjusted for. `position` is tested apart.
    """

    def __init__(
        self, facts: Facts, target: Target, latency: Floats, random: np.random.Generator, position: Position | None
    ) -> None:
        self.facts, self.target, self._latency, self.position = facts, target, latency, position
        self._hours = _dummies(_merge(facts.hour))
        self._blocks = _dummies(_merge(facts.block))
        self._candidates = make_candidates(facts, target, latency, examines_load=self._has_loads_within_blocks())
        self._adding = [one for one in self._candidates if one.adds]
        self._steps = [one for one in self._candidates if one.has_moment]
        self._side_by_side = [one for one in self._candidates if not one.adds and not one.has_moment]
        tokens = facts.column("tokens")
        is_even = target is Target.TTFT or np.ptp(tokens) == 0
        length = [] if is_even else [tokens / THOUSAND]
        self._constant = np.column_stack([np.ones(len(facts)), *length])
        """Not of interest: of a longer answer more of the tokens come late."""
        fit, windows = self._find_windows(random)
        sure = [one for one in windows if one.p <= SURE]
        within_days = [*self._adding, *self._side_by_side]
        estimates = self._estimate(fit, sure, within_days)
        self.trials = [
            *(make_trial(one, found) for one, found in zip(within_days, estimates, strict=True)),
            *(trial for one in self._steps if (trial := self._compare_sides(fit, sure, one)) is not None),
            *windows,
        ]
        self.log_latency = fit.log_latency
        self.variance = float(np.var(np.log(latency)))
        self.residuals = fit.response - fit.design @ fit.coefficients

    @property
    def tests(self) -> list[Trial]:
        """Every test, that of the position in the answer included."""
        return [*self.trials, *([] if self.position is None else [self.position.trial])]

    @property
    def twins(self) -> dict[Driver, Driver]:
        """Driver that was left out → the one that it varies together with."""
        return {twin: candidate.driver for candidate in self._candidates for twin in candidate.twins}

    def _has_loads_within_blocks(self) -> bool:
        """Return whether the own load varies within the same hour and block of time, and not only between runs."""
        loads = np.column_stack([self.facts.load_mean, self.facts.load_seen])
        left = find_residuals(loads, np.column_stack([np.ones(len(loads)), self._hours, self._blocks]))
        is_within = np.var(left, axis=0) >= MIN_WITHIN * np.var(loads, axis=0)
        return bool(is_within.all() and np.corrcoef(left.T)[0, 1] >= MIN_ALIKE)

    @property
    def typical(self) -> float:
        """Geometric mean of the latency in seconds."""
        return float(np.exp(self.log_latency.mean()))

    def _find_windows(self, random: np.random.Generator) -> tuple[Fit, list[Trial]]:
        """Find the windows one after the other; returns the last fit, and the test of each window."""
        windows: list[Trial] = []
        fit = self._fit(windows)
        while can_search(self.facts) and len(windows) < MAX_WINDOWS:
            load = [one.column**2 for one in self._adding if one.driver is Driver.OWN_LOAD]
            columns = np.column_stack([*self._columns_beside(fit, windows), *load])
            found = find_window(fit.response, columns, self.facts, random, windows)
            if found is None:
                break
            windows.append(found)
            if found.p > SURE:
                break
            fit = self._fit(windows)
        return fit, windows

    def _fit(self, windows: Sequence[Trial]) -> Fit:
        """Fit everything at once."""
        costs = np.column_stack([self._constant, *(one.column for one in self._adding)])
        factors = [one.column for one in self._side_by_side]
        rows = [one.candidate.column for one in windows]
        times = self._make_times(windows)
        return fit_robustly(self._latency, Parts(costs, np.column_stack([*factors, *rows, times])))

    def _make_times(self, windows: Sequence[Trial]) -> Floats:
        """Make the columns of hours, of blocks of time and of the sides of a moment, all of which are adjusted for.

        Their mean is 0, so that costs are those of the average time. Hours and blocks have it inside and outside of a
        window and on either side of a moment as well, so that they do not stand for these.
        """
        moments = [one.column - one.column.mean() for one in self._steps]
        rows = [one.candidate.column for one in windows]
        sides = np.column_stack([np.ones(len(self.facts)), *moments, *rows])
        times = span(find_residuals(np.column_stack([self._hours, self._blocks]), sides))
        return np.column_stack([*moments, times])

    def _estimate(self, fit: Fit, windows: Sequence[Trial], tested: Sequence[Candidate]) -> list[Estimate]:
        """Estimate coefficients within blocks of time, at the same hour and outside of the windows."""
        if not tested:
            return []
        base = self._constant.shape[1]
        first = fit.design[:, base : base + len(self._adding)]
        regression = Regression(
            response=fit.response,
            tested=np.column_stack([first, *(one.column for one in self._side_by_side)]),
            covariates=np.column_stack([fit.design[:, :base], *(one.candidate.column for one in windows)]),
            times=self._make_times(windows),
            clusterings=[self.facts.session, self.facts.block],
        )
        return estimate(regression, adding=len(self._adding))

    def _columns_beside(
        self, fit: Fit, windows: Sequence[Trial], left_out: Candidate | None = None
    ) -> list[np.ndarray]:
        """Return what windows and moments are found beside: all costs, all other candidates, and known windows."""
        others = [one for one in [*self._side_by_side, *self._steps] if one is not left_out]
        return [
            fit.design[:, : self._constant.shape[1] + len(self._adding)],
            *(one.column for one in others),
            *(one.candidate.column for one in windows),
        ]

    def _compare_sides(self, fit: Fit, windows: Sequence[Trial], step: Candidate) -> Trial | None:
        """Compare blocks of time before a moment with blocks after it; None: there are too few.

        Neighbouring days are alike as well, so a block is as long as a few of them where there are many.
        """
        change = step.replacement
        if change is None:
            return None
        columns = np.column_stack([step.column, *self._columns_beside(fit, windows, step)])
        coefficient = np.linalg.lstsq(columns, fit.response, rcond=None)[0][0]
        partial = find_residuals(fit.response, columns) + coefficient * step.column
        before, after = (_means(partial[rows], self.facts.block[rows]) for rows in (change.is_before, change.is_after))
        if min(len(before), len(after)) < MIN_SIDE_BLOCKS:
            return None
        standard_error = float(np.sqrt(np.var(before, ddof=1) / len(before) + np.var(after, ddof=1) / len(after)))
        found = Estimate(float(np.mean(after) - np.mean(before)), standard_error, min(len(before), len(after)))
        alone = np.var(find_residuals(step.column, columns[:, 1:]))
        shared = float(np.sqrt(np.var(step.column) / alone)) if alone > 0 else 1.0
        return make_trial(step, found._replace(standard_error=found.standard_error * shared))


def _merge(levels: Integers) -> Integers:
    """Join neighbouring levels, such as hours or days, until each has enough streams."""
    values, numbers, counts = np.unique(levels, return_inverse=True, return_counts=True)
    joined, inside = np.zeros(len(values), dtype=np.intp), 0
    for index in range(1, len(values)):
        inside += counts[index - 1]
        is_full = inside >= MIN_PER_LEVEL and counts[index:].sum() >= MIN_PER_LEVEL
        joined[index] = joined[index - 1] + is_full
        inside = 0 if is_full else inside
    return joined[numbers]


def _dummies(levels: Integers) -> Floats:
    """Return a column for each level but the first."""
    return np.asarray(levels[:, None] == np.unique(levels)[1:], dtype=np.float64)


def _means(values: Floats, blocks: Integers) -> Floats:
    """Return the means of up to `SIDE_BLOCKS` groups of neighbouring blocks, each with about as many streams."""
    _, numbers, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    groups = min(SIDE_BLOCKS, len(counts))
    return mean_by((middle * groups / len(values)).astype(np.intp)[numbers], values)
