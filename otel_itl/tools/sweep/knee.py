"""Finds the knee of a sweep: the highest level that meets the objective while goodput still rises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.sweep.records import Sweep
from otel_itl.tools.sweep.results import Figure, LevelResult, Quantity, Standing, compute_levels, quantities_of

MIN_GAIN = 0.5
"""Share of the load added by a level that has to come out as goodput, for goodput to rise."""
MIN_GAIN_OF_CALLERS = 0.2
"""The same in a closed loop, whose callers ask less often as soon as the endpoint is slower."""
_LONGEST = 3_600.0
"""Stands for an infinite latency (s) in a fit."""
_SHORTEST = 1e-6
_MIN_ERROR = 0.01
"""Smallest standard error of the logarithm of a percentile: a narrower interval is not better known than this."""
_INTERVAL_ERRORS = 2 * 1.96
"""Standard errors in a 95 % interval."""


HOLDS = 0
DOES_NOT_HOLD = 1
CANNOT_TELL = 3


class Point(NamedTuple):
    """A figure of a level over the streams that were open, with the ends of its interval."""

    streams: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The answers of a sweep."""

    sweep: Sweep
    levels: Sequence[LevelResult]
    """Levels that were driven, ascending, with how each stands to the objective."""

    @property
    def judged(self) -> list[LevelResult]:
        """Levels that are not void, ascending."""
        return [level for level in self.levels if level.standing is not None]

    @property
    def knee(self) -> LevelResult | None:
        """The highest level within the objective where goodput still rises; None: there is none, or none is known."""
        within = [level for level in self.levels if level.standing is Standing.WITHIN]
        return within[-1] if within else None

    @property
    def exit_code(self) -> int:
        """What a deployment pipeline acts on: 0, the objective holds at the expected peak; 1, it does not; 3, unknown.

        A level above the peak shows that the objective holds at the peak, too, and one below it that it does not. Where
        too many requests fail, a level does not hold, with or without an objective; without one, any other level holds.
        """
        if not self.judged:
            has_failed = any(one.is_failing for level in self.levels if level.level <= 1 for one in level.rounds)
            return DOES_NOT_HOLD if has_failed else CANNOT_TELL
        met = (Standing.WITHIN, Standing.SATURATED)
        if any(one.standing in met and one.level >= 1 for one in self.judged):
            return HOLDS
        missed = (Standing.BEYOND, Standing.FAILING)
        if any(one.standing in missed and one.level <= 1 for one in self.judged):
            return DOES_NOT_HOLD
        return HOLDS if self.sweep.objective is None else CANNOT_TELL

    def points_of(self, quantity: Quantity) -> list[Point]:
        """Return a figure of the levels that count and where it is finite; an infinite end is drawn at the value."""
        points = []
        for level in self.judged:
            figure = level.figures[quantity.key]
            if figure.value is not None and figure.bounds is not None and math.isfinite(figure.value):
                low, high = (end if math.isfinite(end) else figure.value for end in figure.bounds)
                points.append(Point(level.concurrency, figure.value, low, high))
        return points


def analyze(sweep: Sweep) -> SweepResult:
    """Compute the figures of a sweep, and find its knee.

    Percentiles are fitted by isotonic regression over the levels, as more load makes nothing faster, and goodput
    likewise up to its peak: a single noisy level is pooled with its neighbours and does not decide.
    """
    levels = compute_levels(sweep)
    known = [level for level in levels if level.figures]
    judged = iter(_judge(known, sweep) if known else ())
    return SweepResult(sweep=sweep, levels=[next(judged) if level.figures else level for level in levels])


def _judge(known: Sequence[LevelResult], sweep: Sweep) -> Iterator[LevelResult]:
    """Yield the levels that count, with their standing."""
    is_rising = _find_rising(known, is_open_loop=sweep.is_open_loop)
    quantities = reversed(quantities_of(sweep.objective))  # the inter-token latency comes first
    limits = {quantity.key: quantity.limit for quantity in quantities if quantity.limit is not None}
    fits = {key: _fit_bounds([level.figures[key] for level in known]) for key in limits}
    for number, level in enumerate(known):
        beyond = [key for key, (low, _) in fits.items() if low[number] > limits[key]]
        uncertain = [key for key, (_, high) in fits.items() if high[number] > limits[key]]
        if level.is_failing:
            yield replace(level, standing=Standing.FAILING)
        elif beyond or uncertain:
            standing = Standing.BEYOND if beyond else Standing.UNCERTAIN
            factors = {key: (level.figures[key].value or 0.0) / limits[key] for key in beyond or uncertain}
            yield replace(level, standing=standing, missed=max(factors, key=factors.__getitem__))
        else:
            yield replace(level, standing=Standing.WITHIN if is_rising[number] else Standing.SATURATED)


def _fit_bounds(figures: Sequence[Figure]) -> tuple[Floats, Floats]:
    """Fit the bounds of intervals so that they rise with the level, weighted by how well each level is known.

    Logarithms are fitted, as the error of a latency grows with it. An unknown figure takes no part.

    Returns:
        The lower and the upper bounds in seconds, one for each level; an unknown one is 0, and meets any objective.
    """
    known = [number for number, figure in enumerate(figures) if figure.bounds is not None]
    logs = np.log(np.clip([figures[number].bounds or (0.0, 0.0) for number in known], _SHORTEST, _LONGEST))
    fitted = np.zeros((2, len(figures)))
    if known:
        errors = np.maximum((logs[:, 1] - logs[:, 0]) / _INTERVAL_ERRORS, _MIN_ERROR)
        for side in (0, 1):
            fitted[side, known] = np.exp(isotonic_regression(logs[:, side], weights=errors**-2.0).x)
    return fitted[0], fitted[1]


def _find_rising(known: Sequence[LevelResult], *, is_open_loop: bool) -> list[bool]:
    """Return for each level whether enough of the load that it adds comes out as goodput.

    The load of an open loop is what was due; of a closed loop, the number of callers, where the lowest level counts as
    all coming out.
    """
    goodput = np.array([level.figures["goodput"].value or 0.0 for level in known])
    fitted = _fit_peak(goodput, np.array([level.seconds for level in known]))
    if is_open_loop:
        load = np.array([level.due_per_second for level in known])
    else:
        load = np.array([level.level for level in known]) * (fitted[0] / known[0].level)
    gained, added = np.diff(fitted, prepend=0.0), np.diff(load, prepend=0.0)
    share = MIN_GAIN if is_open_loop else MIN_GAIN_OF_CALLERS
    return [bool(gain > 0 and gain >= share * more) for gain, more in zip(gained, added, strict=True)]


def _fit_peak(values: Floats, weights: Floats) -> Floats:
    """Fit values that rise up to one of them and fall from there on, as goodput does beyond what can be carried."""
    fits = []
    for peak in range(1, len(values) + 1):
        rising = isotonic_regression(values[:peak], weights=weights[:peak]).x
        falling = values[peak:]
        if falling.size:
            falling = isotonic_regression(falling, weights=weights[peak:], increasing=False).x
        fits.append(np.concatenate([rising, falling]))
    best: Floats = min(fits, key=lambda fit: float(weights @ np.square(fit - values)))
    return best
