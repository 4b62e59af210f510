"""Tests every candidate for one latency of one model, each beside all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otel_itl.tools.explain.attributes import find_attributes, leave_out_values, name_twins
from otel_itl.tools.explain.bends import bend_trial, choose_knot, find_best_knot, find_knots, is_bent, split_column
from otel_itl.tools.explain.calendar import can_search, find_window
from otel_itl.tools.explain.candidates import (
    THOUSAND,
    Candidate,
    Trial,
    leave_out_twins,
    make_candidates,
    make_trial,
)
from otel_itl.tools.explain.facts import MIN_SPREAD, Facts, Floats
from otel_itl.tools.explain.findings import Driver, Target
from otel_itl.tools.explain.levels import center, find_block_means, make_dummies, merge_levels
from otel_itl.tools.explain.position import estimate_position
from otel_itl.tools.explain.robust import (
    Estimate,
    Fit,
    Parts,
    Regression,
    estimate,
    estimate_alone,
    find_residuals,
    fit_robustly,
    span,
)
from otel_itl.tools.explain.runs import RunComparison, Runs, compare_runs, find_runs, make_run_trial, varies_within

MIN_STREAMS = 60
"""Streams of one model, below which nothing is tested."""
MAX_WINDOWS = 2
ROUNDS = 3
"""Fits in which a bend is moved."""
MAX_ATTRIBUTES = 6
"""Values of attributes that are tested beside all other drivers."""
MAX_CHANCE = 0.05
"""Largest p of such a value by itself, after Bonferroni's adjustment over all of them."""
SURE = 0.01
"""A window with a smaller p is adjusted for in the tests of the others."""
MIN_SIDE_BLOCKS = 3


def run_trials(
    facts: Facts, target: Target, random: np.random.Generator, attribute: str | None = None
) -> Trials | None:
    """Test what may drive a latency of one model; None: it has too few streams of which the latency is known.

    Args:
        facts: the streams.
        target: the latency.
        random: makes the exchanges of the search for windows.
        attribute: the one attribute to examine; None: all with few values.
    """
    latency = facts.column(target.value)
    is_known = latency > 0
    if is_known.sum() < MIN_STREAMS:
        return None
    return Trials(facts.select(is_known), target, latency[is_known], random, attribute)


class Trials:
    """The fit of one latency of one model, and the tests of all its candidates.

    `trials` has the tests, and `log_latency` the logarithm of the latency without outliers (see `robust.Fit`);
    `variance` is that of the logarithm with them.
    `residuals` is what is left of it after everything that was adjusted for. `position` is tested apart.
    """

    def __init__(
        self, facts: Facts, target: Target, latency: Floats, random: np.random.Generator, attribute: str | None
    ) -> None:
        self.facts, self.target, self._latency = facts, target, latency
        self.position = estimate_position(facts) if target is Target.ITL else None
        self._hours = make_dummies(merge_levels(facts.hour))
        self._blocks = make_dummies(merge_levels(facts.block))
        examines_load = varies_within(facts, np.column_stack([self._hours, self._blocks]))
        runs = None if examines_load else find_runs(facts)
        self._loads = [] if examines_load else self._make_loads(runs)
        """Columns of an own load that is not tested within blocks: what goes with it is no driver's."""
        own = make_candidates(facts, target, latency, examines_load=examines_load)
        self.attributes = find_attributes(facts, attribute)
        """The candidates of attributes, and why others have none."""
        self._candidates = leave_out_twins([*own, *self.attributes.candidates])
        self._adding = [one for one in self._candidates if one.adds]
        self._steps = [one for one in self._candidates if one.has_moment]
        side_by_side = [one for one in self._candidates if not one.adds and not one.has_moment]
        self._side_by_side = [one for one in side_by_side if one.attribute is None]
        self._knots: dict[str, float] = {}
        """Name of a candidate with a bend → where it is."""
        tokens = facts.column("tokens")
        is_even = target is Target.TTFT or np.ptp(tokens) == 0
        length = [] if is_even else [tokens / THOUSAND]
        self._constant = np.column_stack([np.ones(len(facts)), *length])
        """Not of interest: of a longer answer more of the tokens come late."""
        fit, rejected = self._choose_attributes([one for one in side_by_side if one.attribute is not None])
        fit, windows = self._find_windows(fit, random)
        windows = [name_twins(one, self.attributes.candidates) for one in windows]
        sure = [one for one in windows if one.p <= SURE]
        within_days = self._test_within_days(fit, sure)
        fit, bent = self._bend(fit, sure, within_days)
        self.log_latency = fit.log_latency
        self.runs = self._compare_runs(fit, runs, bent)
        self.trials = [
            *bent,
            *rejected,
            *(trial for one in self._steps if (trial := self._compare_sides(fit, sure, one)) is not None),
            *windows,
            *([] if self.runs is None else [make_run_trial(self.runs, facts)]),
        ]
        self.variance = float(np.var(np.log(latency)))
        self.residuals = fit.response - fit.design @ fit.coefficients

    @property
    def tests(self) -> list[Trial]:
        """Every test, that of the position in the answer included."""
        return [*self.trials, *([] if self.position is None else [self.position.trial])]

    @property
    def twins(self) -> dict[str, str]:
        """What was left out → the driver or attribute that it varies together with."""
        return {twin: candidate.name for candidate in self._candidates for twin in candidate.twins}

    @property
    def tested_attributes(self) -> list[str]:
        """Names of the attributes that were examined."""
        return sorted({one.candidate.attribute for one in self.trials if one.candidate.attribute is not None})

    @property
    def own_load(self) -> Floats:
        """The own load that the latency meets: at the request, or while the answer is written."""
        return self.facts.load_at_start if self.target is Target.TTFT else self.facts.load_mean

    @property
    def typical(self) -> float:
        """Geometric mean of the latency in seconds."""
        return float(np.exp(self.log_latency.mean()))

    def _make_loads(self, runs: Runs | None) -> list[Floats]:
        """Make columns that stand for an own load: one for each run, else a line and its square. Their mean is 0."""
        if runs is not None:
            return [center(column) for column in make_dummies(runs.number).T]
        return [center(self.own_load**power) for power in (1, 2)] if np.ptp(self.own_load) > MIN_SPREAD else []

    def _choose_attributes(self, candidates: Sequence[Candidate]) -> tuple[Fit, list[Trial]]:
        """Add the values and changes of attributes that matter to what is tested beside each other, the surest first.

        Many attributes say the same: a host, its zone, its cluster. So each is tested beside those that were added
        before. Returns the fit with those, and the tests of all others, which count for what was examined.
        """
        fit = self._fit([])
        steps = [(one, self._compare_sides(fit, [], one)) for one in self._steps if one.attribute is not None]
        doubtful = [trial for _, trial in steps if trial is not None and trial.p * len(steps) >= MAX_CHANCE]
        for one in [one for one, trial in steps if trial is None or any(trial is other for other in doubtful)]:
            self._steps = [other for other in self._steps if other is not one]
        left, fit = list(candidates), self._fit([]) if steps else fit
        found = estimate_alone(self._regress(fit, [], left)) if left else []
        for _ in range(MAX_ATTRIBUTES):
            best = min(range(len(left)), key=lambda number: found[number].p, default=None)
            if best is None or found[best].p * len(candidates) >= MAX_CHANCE:
                break
            self._side_by_side.append(left[best])
            left, unnamed = leave_out_values(left, found, best)
            doubtful += unnamed
            fit = self._fit([])
            found = estimate_alone(self._regress(fit, [], left)) if left else []
        return fit, [*doubtful, *(make_trial(one, estimate) for one, estimate in zip(left, found, strict=True))]

    def _test_within_days(self, fit: Fit, windows: Sequence[Trial]) -> list[Trial]:
        """Test what varies within days: all that adds, and all that answers side by side."""
        tested = [*self._adding, *self._side_by_side]
        estimates = self._estimate(fit, windows)
        return [make_trial(one, found[0]) for one, found in zip(tested, estimates, strict=True)]

    def _bend(self, fit: Fit, windows: Sequence[Trial], trials: list[Trial]) -> tuple[Fit, list[Trial]]:
        """Give a bend to what is sure to add and shows one; returns the fit and the tests with all bends.

        Whether a driver is named at all is decided by its straight line, so that a bend adds no finding.
        """
        for number, one in enumerate(self._adding):
            if trials[number].p < SURE:
                self._knots |= self._find_knot(fit, windows, one)
        if not self._knots:
            return fit, trials
        self._move_knots(windows)
        tested = [*self._adding, *self._side_by_side]
        while self._knots:
            fit = self._fit(windows)
            estimates = self._estimate(fit, windows)
            sides = zip(tested, estimates, strict=True)
            straight = [one.name for one, found in sides if len(found) > 1 and not is_bent(*found)]
            if not straight:
                return fit, self._make_bent(trials, estimates)
            for name in straight:
                del self._knots[name]
        return self._fit(windows), trials

    def _make_bent(self, trials: Sequence[Trial], estimates: Sequence[list[Estimate]]) -> list[Trial]:
        """Return tests with their bends; what is straight is tested beside them anew."""
        return [
            make_trial(trial.candidate, found[0])
            if len(found) == 1
            else bend_trial(trial, self._knots[trial.candidate.name], found)
            for trial, found in zip(trials, estimates, strict=True)
        ]

    def _move_knots(self, windows: Sequence[Trial]) -> None:
        """Move bends to where they fit best: a straight line shows that there is one, and less well where."""
        for _ in range(ROUNDS):
            fit = self._fit(windows)
            for one in [one for one in self._adding if one.name in self._knots]:
                before = self._adding[: self._adding.index(one)]
                column = self._constant.shape[1] + sum(len(self._split(other)) for other in before)
                others = np.delete(fit.design, [column, column + 1], axis=1)
                best = find_best_knot(find_knots(one), one.column, fit.design[:, 0], fit.response, span(others))
                self._knots[one.name] = best

    def _find_knot(self, fit: Fit, windows: Sequence[Trial], one: Candidate) -> dict[str, float]:
        """Return where a cost has a bend, by its name; empty: nowhere."""
        knots = find_knots(one)
        if not knots:
            return {}
        hinges = [Candidate(driver=one.driver, column=np.maximum(one.column - knot, 0.0), adds=True) for knot in knots]
        chosen = choose_knot(knots, estimate_alone(self._regress(fit, windows, hinges)))
        return {} if chosen is None else {one.name: chosen}

    def _compare_runs(self, fit: Fit, runs: Runs | None, trials: Sequence[Trial]) -> RunComparison | None:
        """Compare whole runs at one load each, with all other drivers at their usual values; None: they cannot be."""
        if runs is None or not runs.can_be_compared:
            return None
        width = self._constant.shape[1]
        others = sum(
            (center(one.contribution * (fit.design[:, 0] if one.candidate.adds else 1.0)) for one in trials), 0.0
        )
        lengths = fit.design[:, 1:width] @ fit.coefficients[1:width]
        return compare_runs(runs, fit.log_latency - others - center(lengths))

    def _find_windows(self, fit: Fit, random: np.random.Generator) -> tuple[Fit, list[Trial]]:
        """Find the windows one after the other; returns the last fit, and the test of each window."""
        windows: list[Trial] = []
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
        costs = np.column_stack([self._constant, *(part for one in self._adding for part in self._split(one))])
        factors = [one.column for one in self._side_by_side]
        rows = [one.candidate.column for one in windows]
        times = self._make_times(windows)
        return fit_robustly(self._latency, Parts(costs, np.column_stack([*factors, *rows, *self._loads, times])))

    def _split(self, one: Candidate) -> list[Floats]:
        """Return the column of a cost, or that below its bend and that above."""
        return split_column(one.column, self._knots[one.name]) if one.name in self._knots else [one.column]

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

    def _estimate(self, fit: Fit, windows: Sequence[Trial]) -> list[list[Estimate]]:
        """Estimate what varies within days, within blocks of time, at the same hour and outside of the windows.

        Returns:
            For each candidate its coefficient, or those below and above its bend.
        """
        counts = [len(self._split(one)) for one in self._adding]
        if not counts and not self._side_by_side:
            return []
        base, adding = self._constant.shape[1], sum(counts)
        regression = Regression(
            response=fit.response,
            tested=np.column_stack([fit.design[:, base : base + adding], *(one.column for one in self._side_by_side)]),
            covariates=np.column_stack(
                [fit.design[:, :base], *(one.candidate.column for one in windows), *self._loads]
            ),
            times=self._make_times(windows),
            clusterings=[self.facts.session, self.facts.block],
        )
        found = iter(estimate(regression, adding=adding))
        return [[next(found) for _ in range(count)] for count in [*counts, *(1 for _ in self._side_by_side)]]

    def _regress(self, fit: Fit, windows: Sequence[Trial], tested: Sequence[Candidate]) -> Regression:
        """Return the regression of further candidates beside everything that is fitted."""
        columns = [one.column * (fit.design[:, 0] if one.adds else 1.0) for one in tested]
        return Regression(
            response=fit.response,
            tested=np.column_stack(columns),
            covariates=np.column_stack(self._columns_beside(fit, windows)),
            times=self._make_times(windows),
            clusterings=[self.facts.session, self.facts.block],
        )

    def _columns_beside(
        self, fit: Fit, windows: Sequence[Trial], left_out: Candidate | None = None
    ) -> list[np.ndarray]:
        """Return what windows and moments are found beside: all costs, all other candidates, and known windows."""
        others = [one for one in [*self._side_by_side, *self._steps] if one is not left_out]
        costs = self._constant.shape[1] + sum(len(self._split(one)) for one in self._adding)
        return [
            fit.design[:, :costs],
            *self._loads,
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
        before, after = (
            find_block_means(partial[rows], self.facts.block[rows]) for rows in (change.is_before, change.is_after)
        )
        if min(len(before), len(after)) < MIN_SIDE_BLOCKS:
            return None
        standard_error = float(np.sqrt(np.var(before, ddof=1) / len(before) + np.var(after, ddof=1) / len(after)))
        found = Estimate(float(np.mean(after) - np.mean(before)), standard_error, min(len(before), len(after)))
        alone = np.var(find_residuals(step.column, columns[:, 1:]))
        shared = float(np.sqrt(np.var(step.column) / alone)) if alone > 0 else 1.0
        return make_trial(step, found._replace(standard_error=found.standard_error * shared))
