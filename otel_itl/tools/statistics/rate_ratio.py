"""The score interval of the ratio of two rates (Miettinen and Nurminen 1985), which exists where one of them is 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import brentq

_FURTHEST = 30.0
"""Log ratios beyond it are infinite."""


class Events(NamedTuple):
    """Events, and the exposure in which they occurred: requests, or tokens. Neither has to be a whole number."""

    number: float
    exposure: float


def log_ratio_interval(a: Events, b: Events, quantile: float, *, is_share: bool) -> tuple[float, float]:
    """Return the interval of the log ratio of B's rate to A's; an end is infinite where nothing bounds it.

    Args:
        a: one side.
        b: the other.
        quantile: of the score, such as 1.96.
        is_share: an event is a part of the exposure, so that events are binomial; else they are Poisson.
    """

    def score(log_ratio: float) -> float:
        return _score(a, b, math.exp(log_ratio), is_share=is_share)

    low = _find(lambda at: score(at) - quantile, -math.inf) if b.number else -math.inf
    high = _find(lambda at: score(at) + quantile, math.inf) if a.number else math.inf
    return low, high


def _find(function: Callable[[float], float], beyond: float) -> float:
    """Return where a descending function is 0; `beyond` if it is so nowhere."""
    if function(-_FURTHEST) > 0 > function(_FURTHEST):
        return float(brentq(function, -_FURTHEST, _FURTHEST, xtol=1e-6))
    return beyond


def _score(a: Events, b: Events, ratio: float, *, is_share: bool) -> float:
    """Return how many standard errors B's rate lies above `ratio` times A's, with rates that have this ratio."""
    difference = b.number / b.exposure - ratio * a.number / a.exposure
    rate = _fit_share(a, b, ratio) if is_share else (a.number + b.number) / (a.exposure + ratio * b.exposure)
    rest_a, rest_b = (1 - rate, 1 - ratio * rate) if is_share else (1.0, 1.0)
    variance = ratio * rate * rest_b / b.exposure + ratio**2 * rate * rest_a / a.exposure
    return difference / math.sqrt(max(variance, 1e-300))


def _fit_share(a: Events, b: Events, ratio: float) -> float:
    """Return the most likely share of A, given that B's is `ratio` times as large."""
    square = ratio * (a.exposure + b.exposure)
    linear = ratio * (b.exposure + a.number) + a.exposure + b.number
    root = math.sqrt(max(linear**2 - 4 * square * (a.number + b.number), 0.0))
    return min(2 * (a.number + b.number) / (linear + root), 1.0, 1 / ratio)
