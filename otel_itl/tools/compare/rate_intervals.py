"""The interval of the ratio of two rates of events, which come in clusters, averaged over models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

from otel_itl.tools.compare.levels import Floats, Rate
from otel_itl.tools.compare.resampling import CONFIDENCE, Design, Interval
from otel_itl.tools.statistics.rate_ratio import Events, log_ratio_interval


def rate_interval(rates: Sequence[Rate], shares: Floats, design: Design) -> Interval | None:
    """Return the 95 % interval of the log ratio of B's rates to A's, averaged over models by their shares.

    Score intervals of each model, of as many independent samples as its clusters are worth (Rao and Scott 1992), with
    the quantile of a t-distribution of as many clusters. Their distances from the ratios are added up as the squares of
    standard errors are (Zou and Donner 2008). A bootstrap would never draw an event that a side does not have.

    Returns:
        The interval; None with fewer than two clusters on a side.
    """
    if design.fewest < 2:  # noqa: PLR2004 - a single cluster has no spread
        return None
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, design.fewest - 1))
    middle, below, above = 0.0, 0.0, 0.0
    for rate, share in zip(rates, shares, strict=True):
        if share:
            ratio, (low, high) = _interval_of(rate, design, quantile)
            middle += share * ratio
            below += (share * (ratio - low)) ** 2
            above += (share * (high - ratio)) ** 2
    low, high = middle - math.sqrt(below), middle + math.sqrt(above)
    error = (high - low) / (2 * quantile)
    return Interval(low=low, high=high, standard_error=error if math.isfinite(error) else 0.0)


def _interval_of(rate: Rate, design: Design, quantile: float) -> tuple[float, tuple[float, float]]:
    """Return the log ratio of one model, with half an event added to both sides, and its interval."""
    weights = design.weights()
    sides = [rate.sum_up(of_side) for of_side in weights]
    if not all(side.exposure for side in sides):
        return 0.0, (-math.inf, math.inf)
    counted = [rate.count_samples(of_side) for of_side in weights]
    # A side with no event, or with nothing else, does not show how alike the events of a cluster are.
    shown = [count for count, side in zip(counted, sides, strict=True) if _varies(rate, side)]
    effect = max(total / worth for total, worth in shown or counted)
    a, b = (Events(side.number / effect, side.exposure / effect) for side in sides)
    low, high = log_ratio_interval(a, b, quantile, is_share=rate.is_share)
    ratio = math.log((sides[1].number + 0.5) / sides[1].exposure) - math.log(
        (sides[0].number + 0.5) / sides[0].exposure
    )
    return min(max(ratio, low), high), (low, high)


def _varies(rate: Rate, side: Events) -> bool:
    """Return whether a side has events, and exposure without one."""
    return side.number > 0 and not (rate.is_share and side.number == side.exposure)
