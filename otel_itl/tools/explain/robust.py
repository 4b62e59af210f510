"""Fits latency by Huber regression: costs in seconds add up, factors multiply, and outliers count for little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from otel_itl.tools.explain.facts import Bools, Floats, Integers

FLOOR = 0.1
"""A fitted latency is at least this share of the median: the fit works with logarithms."""
MAX_FIRST = 20
"""The first fit is not robust: a latency counts for at most this multiple of the median."""
ROUNDS = 4
"""Linearizations, of which the last is robust; the fit is close to linear, and has converged by then."""
MIN_CLUSTERS = 5
"""A clustering with fewer clusters has no errors: a single long session is judged by its blocks of time."""
MIN_OWN = 0.05
"""Share of the variance of a column that the covariates leave, below which it is not separated from them."""
TOLERANCE = 1e-9
"""Relative length below which a column counts as 0."""
MAX_ITERATIONS = 500
PRECISION = 1e-4
"""A step that is smaller, as a share of where residuals are clipped, ends the fit."""
CLIPPED = 1.345
"""Residuals beyond this many standard deviations count as if they were there: 95 % as efficient as least squares."""


class Parts(NamedTuple):
    """What a latency is made of: `(costs @ a) * exp(factors @ b)`. One row for each stream."""

    costs: Floats
    """Each of its columns adds a number of seconds; the first is the constant."""
    factors: Floats
    """Each of its columns multiplies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A robust fit, as a linear model of the logarithm."""

    design: Floats
    """The columns of costs, then those of factors, so that coefficients are seconds and logarithms of factors."""
    response: Floats
    """What a linear model of `design` explains. An outlier is moved to where it counts for as little as in the fit, so
    that least squares of this response are the robust estimates, and their covariance the robust one's."""
    log_latency: Floats
    """Logarithm of the latency, with outliers moved likewise."""
    coefficients: Floats


def fit_robustly(latency: Floats, parts: Parts) -> Fit:
    """Fit the parts to latencies in seconds by a Huber regression of the logarithms."""
    logs, middle = np.log(latency), float(np.median(latency))
    width = parts.costs.shape[1]
    coefficients: Floats = np.zeros(width + parts.factors.shape[1])
    coefficients[:width] = _least_squares(np.minimum(latency, MAX_FIRST * middle), parts.costs)
    for _ in range(ROUNDS - 1):
        design, level = _linearize(parts, coefficients[:width], middle)
        coefficients = _least_squares(logs - level + 1.0, design)
    design, level = _linearize(parts, coefficients[:width], middle)
    fitted, moved = _fit_huber(logs - level + 1.0, design)
    return Fit(
        design=design,
        response=fitted + moved,
        log_latency=level + fitted - 1.0 + moved,
        coefficients=_least_squares(fitted, design),
    )


def _least_squares(response: Floats, columns: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(columns, response, rcond=None)[0])


def find_residuals(response: Floats, columns: Floats) -> Floats:
    """Return what least squares of the columns leave of a response, or of each column of one."""
    return np.asarray(response - columns @ _least_squares(response, columns))


def _linearize(parts: Parts, costs: Floats, middle: float) -> tuple[Floats, Floats]:
    """Return the design around a fit of the costs, and the logarithm of what they add up to."""
    level = np.maximum(parts.costs @ costs, FLOOR * middle)
    return np.hstack([parts.costs / level[:, None], parts.factors]), np.log(level)


def _fit_huber(response: Floats, design: Floats) -> tuple[Floats, Floats]:
    """Return the fitted values of a Huber regression, and its residuals: clipped, scaled by the share that is not.

    Least squares of the clipped residuals moves the fit until nothing is left to move; the scale, by which residuals
    are clipped, is their own (Huber's proposal 2).
    """
    columns = span(design)
    fitted = columns @ (columns.T @ response)
    residuals = response - fitted
    reach = CLIPPED * float(np.sqrt(np.mean(residuals**2)))
    for _ in range(MAX_ITERATIONS):
        moved = np.clip(residuals, -reach, reach)
        step = columns @ (columns.T @ moved)
        fitted, residuals = fitted + step, residuals - step
        reach = CLIPPED * float(np.sqrt(np.mean(np.minimum(residuals**2, reach**2))))
        if np.abs(step).max() <= PRECISION * reach:
            break
    is_inside = np.abs(residuals) <= reach
    if not is_inside.any():  # a fit without any error but that of rounding
        return fitted, residuals
    return fitted, np.clip(residuals, -reach, reach) / is_inside.mean()


class Estimate(NamedTuple):
    """A coefficient with its standard error, and the clusters it rests on."""

    value: float
    standard_error: float
    clusters: int

    @property
    def p(self) -> float:
        """Two-sided p-value of a t-test; 1 where the standard error is not known."""
        if self.standard_error <= 0:
            return 1.0
        return float(2 * stats.t.sf(abs(self.value) / self.standard_error, self.clusters - 1))

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval; without a known standard error it is the value alone."""
        if self.standard_error == 0:
            return self.value, self.value
        reach = float(stats.t.ppf(0.975, self.clusters - 1)) * self.standard_error
        return self.value - reach, self.value + reach


def span(columns: Floats) -> Floats:
    """Return orthonormal columns that span the same as these, of which some may depend on others."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > TOLERANCE * max(sizes.max(initial=0.0), TOLERANCE)])


class Regression(NamedTuple):
    """A linear regression: the response, the columns that explain it, and which streams may be alike."""

    response: Floats
    tested: Floats
    """Columns of interest; those that add seconds come first."""
    covariates: Floats
    """Columns that are adjusted for and not tested, the constant among them."""
    times: Floats
    """Columns that are adjusted for as well: the level of the upstream at the time."""
    clusterings: Sequence[Integers]
    """Each has the cluster of each row; of the errors by each clustering the largest is taken."""


def estimate(regression: Regression, adding: int = 0) -> list[Estimate]:
    """Estimate the coefficients of the tested columns, each adjusted for the others and for the covariates.

    A cost is a number of seconds at the upstream's usual level, and that level is known only as well as the times that
    were seen allow: the errors of the first `adding` columns have it as well.
    """
    basis = span(np.hstack([regression.covariates, regression.times]))
    tested, response = (one - basis @ (basis.T @ one) for one in (regression.tested, regression.response))
    values = _least_squares(response, tested)
    known = np.hstack([regression.tested, regression.covariates])
    coefficients = _least_squares(regression.response, np.hstack([known, regression.times]))
    level = regression.response - known @ coefficients[: known.shape[1]]
    scales = np.arange(len(values)) < adding
    clusterings = [groups for groups in regression.clusterings if len(np.unique(groups)) >= MIN_CLUSTERS]
    if not clusterings:
        return [Estimate(float(value), 0.0, 0) for value in values]
    errors = np.max([_jackknife(tested, response, level, scales, groups) for groups in clusterings], axis=0)
    found = []
    for value, error, column in zip(values, errors, regression.tested.T, strict=True):
        clusters = min(_count_smaller(groups, column) for groups in clusterings)
        found.append(Estimate(float(value), float(error), clusters) if clusters > 1 else Estimate(float(value), 0.0, 0))
    return found


def estimate_alone(regression: Regression) -> list[Estimate]:
    """Estimate the coefficient of each tested column, adjusted for the covariates and not for the other tested ones.

    A column of which the covariates leave less than `MIN_OWN` has no standard error.
    """
    basis = span(np.hstack([regression.covariates, regression.times]))
    tested, response = (one - basis @ (basis.T @ one) for one in (regression.tested, regression.response))
    level, scales = np.zeros(len(response)), np.zeros(1, dtype=bool)
    clusterings = [groups for groups in regression.clusterings if len(np.unique(groups)) >= MIN_CLUSTERS]
    found = []
    for column, whole in zip(tested.T, regression.tested.T, strict=True):
        square, clusters = (
            float(column @ column),
            min((_count_smaller(groups, whole) for groups in clusterings), default=0),
        )
        if square < MIN_OWN * np.var(whole) * len(whole) or clusters < 2:  # noqa: PLR2004 - one has no spread
            found.append(Estimate(0.0, 0.0, 0))
            continue
        errors = [_jackknife(column[:, None], response, level, scales, groups)[0] for groups in clusterings]
        found.append(Estimate(float(column @ response) / square, float(max(errors)), clusters))
    return found


def _count_smaller(groups: Integers, column: Floats) -> int:
    """Return how many clusters a column that is 0 or 1 varies over: those of the value that fewer have.

    A value that two sessions have is compared over two, however many have the other. Any other column has all.
    """
    if not np.isin(column, (0.0, 1.0)).all():
        return len(np.unique(groups))
    return min(len(np.unique(groups[column == value])) for value in (0.0, 1.0))


def _jackknife(tested: Floats, response: Floats, level: Floats, scales: Bools, groups: Integers) -> Floats:
    """Return the standard errors of least squares by leaving out one cluster after the other.

    Few clusters, or some large ones, make the usual sandwich too small; this one errs to the other side.
    """
    _, numbers = np.unique(groups, return_inverse=True)
    count = int(numbers.max()) + 1
    squares, products = np.zeros((count, *tested.shape[1:] * 2)), np.zeros((count, tested.shape[1]))
    np.add.at(squares, numbers, tested[:, :, None] * tested[:, None, :])
    np.add.at(products, numbers, tested * response[:, None])
    left = np.linalg.pinv(squares.sum(axis=0) - squares, hermitian=True)
    values = np.einsum("gij,gj->gi", left, products.sum(axis=0) - products)
    sums, sizes = np.bincount(numbers, level), np.bincount(numbers)
    levels = (level.sum() - sums) / np.maximum(len(level) - sizes, 1) - level.mean()
    values *= 1 + np.outer(levels, scales)
    return np.asarray(np.sqrt((count - 1) / count * np.sum((values - values.mean(axis=0)) ** 2, axis=0)))
