"""Finds the bend in what a driver costs: a load or a prompt length from which on a unit costs another sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from otel_itl.tools.explain.candidates import THOUSAND, Candidate, Trial, make_cost
from otel_itl.tools.explain.facts import Floats
from otel_itl.tools.explain.findings import Bend, Driver
from otel_itl.tools.explain.robust import Estimate, find_residuals

BENDING: Final = frozenset({Driver.OWN_LOAD, Driver.PROMPT})
"""Drivers that may have a bend."""
QUANTILES: Final = tuple(np.linspace(0.1, 0.95, 18))
"""Shares of the streams below the places where a bend is sought."""
MIN_SIDE: Final = 0.05
"""Least share of the streams on either side of a bend."""
SURE: Final = 0.005
"""A bend has a smaller p, after Bonferroni's adjustment over the places where it is sought."""
MAX_RATIO: Final = 0.5
"""The slope on one side is at most this share of that on the other: else a straight line says it as well."""


def find_knots(candidate: Candidate) -> list[float]:
    """Return the places where a bend is sought, in multiples of `per`: whole streams, or hundreds of tokens."""
    if candidate.driver not in BENDING:
        return []
    whole = 1.0 if candidate.driver is Driver.OWN_LOAD else 100.0 / THOUSAND
    places = np.unique(np.rint(np.quantile(candidate.column, QUANTILES) / whole) * whole)
    above = [float(np.mean(candidate.column > place)) for place in places]
    return [float(place) for place, share in zip(places, above, strict=True) if MIN_SIDE <= share <= 1 - MIN_SIDE]


def split_column(column: Floats, knot: float) -> list[Floats]:
    """Return what of a driver lies below a knot, and what above it."""
    return [np.minimum(column, knot), np.maximum(column - knot, 0.0)]


def choose_knot(knots: list[float], found: list[Estimate]) -> float | None:
    """Return the knot at which a bend is surest, given the test of each; None: at none is it sure."""
    if not knots:
        return None
    best = min(range(len(knots)), key=lambda place: found[place].p)
    return knots[best] if found[best].p * len(knots) < SURE else None


def find_best_knot(knots: list[float], column: Floats, scale: Floats, response: Floats, basis: Floats) -> float:
    """Return the knot with which least squares leaves least of a response.

    Args:
        knots: where a bend may be.
        column: the driver.
        scale: what makes a cost of it a share of the level.
        response: of the fit.
        basis: orthonormal columns of everything else.
    """

    def left(knot: float) -> float:
        parts = np.column_stack([part * scale for part in split_column(column, knot)])
        own = parts - basis @ (basis.T @ parts)
        rest = response - basis @ (basis.T @ response)
        return float(np.sum(find_residuals(rest, own) ** 2))

    return min(knots, key=left)


def is_bent(below: Estimate, above: Estimate) -> bool:
    """Return whether the slopes on both sides differ enough, beyond their intervals, to be named apart."""
    flat, steep = sorted((below, above), key=lambda one: abs(one.value))
    (low, high), (other_low, other_high) = flat.interval(), steep.interval()
    return flat.value / steep.value <= MAX_RATIO and (high < other_low or other_high < low)


def bend_trial(trial: Trial, knot: float, found: Sequence[Estimate]) -> Trial:
    """Return the test of a cost with its bend, given the estimates below and above it."""
    candidate, (below, above) = trial.candidate, found
    low, high = split_column(candidate.column, knot)
    bend = Bend(knot * (candidate.per or 1.0), make_cost(candidate, below), make_cost(candidate, above))
    return replace(trial, contribution=below.value * low + above.value * high, bend=bend)
