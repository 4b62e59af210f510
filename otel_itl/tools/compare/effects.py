"""Estimates the effect of a row: the log ratio of B's figures to A's, its interval and its p-value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeGuard

import numpy as np

from otel_itl.core.measures import MIN_UNCERTAINTY
from otel_itl.tools.compare.levels import Floats, Level, Rate
from otel_itl.tools.compare.quantities import Quantity, Unit
from otel_itl.tools.compare.rate_intervals import rate_interval
from otel_itl.tools.compare.resampling import Effect, Resamples
from otel_itl.tools.compare.verdicts import Estimate

NEVER_ON_BOTH: Final = "it is infinite on both sides"
"""Why nothing is known of a time where most requests of both sides never got so far."""


def estimate_effect(
    levels: Sequence[Level],
    shares: Floats,
    resamples: Resamples,
    floors: Sequence[float] | None = None,
    prompts: Sequence[Level] | None = None,
) -> Estimate:
    """Estimate an effect, its interval, and the scores of its test; `shares` and `floors` as for `make_effect`.

    A model whose figure is infinite on both sides says nothing: how long those took that did respond is not compared.

    Args:
        levels: the figures of each model.
        shares: how much the ratio of each model counts.
        resamples: of the clusters.
        floors: what the figures of each model are at least taken for.
        prompts: the lengths of the prompts of each model, which are alike but for chance: what goes with them is taken
            out of the effect as noise; None: nothing is.
    """
    design, sides = resamples.design, resamples.design.weights()
    is_said = [not all(math.isinf(level.shown(of_side)) for of_side in sides) for level in levels]
    if not any(is_said):
        return Estimate(why=NEVER_ON_BOTH)
    counted = np.where(is_said, shares, 0.0)
    effect = make_effect(levels, counted, floors)
    observed = float(effect(*(of_side[np.newaxis] for of_side in sides))[0])
    if math.isnan(observed):
        return Estimate(why="a figure of 0, or of no sample, has no ratio")
    score, unadjusted = _score(levels, counted), observed
    control = None if prompts is None else resamples.find_control(effect, make_effect(prompts, counted))
    if prompts is not None and control is not None:
        effect, observed = control.effect, control.observed
        score = resamples.control_score(score, _score(prompts, counted))
    rates = [level for level in levels if isinstance(level, Rate) and level.is_count]
    fitted = 0 if control is None else 1
    interval = rate_interval(rates, shares, design) if rates else resamples.bootstrap_interval(effect, fitted)
    if interval is None:
        return Estimate(ratio=math.exp(observed), why="a single session or request has no spread")
    if control is not None:
        interval = interval.widen(observed, control.error, design.fewest - fitted)
    return Estimate(
        ratio=math.exp(observed),
        unadjusted_ratio=None if control is None else math.exp(unadjusted),
        interval=interval,
        exchanged=resamples.exchange(score),
        least_p=design.least_p,
        least_clusters=design.least_clusters,
    )


def find_shares(levels: Sequence[Level], requests: Sequence[int]) -> Floats:
    """Return how much the ratio of each model counts: its share of the requests; of a rate, of the events.

    A model without an event says nothing about a ratio.
    """
    counts = [float(level.sum_up(np.ones(len(level.sizes))).number) for level in levels if _is_count(level)]
    of_each: Floats = np.asarray(counts or requests, dtype=float)
    return of_each / float(of_each.sum())


def _is_count(level: Level) -> TypeGuard[Rate]:
    return isinstance(level, Rate) and level.is_count


def make_effect(
    levels: Sequence[Level], shares: Floats | Sequence[float], floors: Sequence[float] | None = None
) -> Effect:
    """Return the effect of a row: the log ratio of B's figure to A's, averaged over the models by their shares.

    Pooled rows average the models' own ratios, so that more requests to a slow model are not read as a slower model.
    `floors` are what the figures of each model are at least taken for; None: 0, which has no ratio.
    """
    bounded = [one for one in zip(levels, floors or [0.0] * len(levels), shares, strict=True) if one[2]]

    def effect(weights_a: Floats, weights_b: Floats) -> Floats:
        """Return the log ratio of each resample, which may be infinite; NaN where no model has both."""
        total, known = np.zeros(len(weights_a)), np.zeros(len(weights_a))
        with np.errstate(divide="ignore", invalid="ignore"):
            for level, floor, share in bounded:
                figures = (np.maximum(level.of(weights), floor) for weights in (weights_a, weights_b))
                log_a, log_b = (np.log(np.where(of_side > 0, of_side, np.nan)) for of_side in figures)
                ratio = np.where(log_a == log_b, 0.0, log_b - log_a)  # two that are infinite are the same
                is_known = ~np.isnan(ratio)
                total += np.where(is_known, ratio * share, 0.0)
                known += is_known * share
            return np.asarray(total / np.where(known, known, np.nan))

    return effect


def _score(levels: Sequence[Level], shares: Floats) -> Effect:
    """Return the score of a test: the difference of B's scores and A's, averaged over the models by their shares."""
    counted = [(level, share) for level, share in zip(levels, shares, strict=True) if share]

    def score(weights_a: Floats, weights_b: Floats) -> Floats:
        """Return the score of each resample; NaN where no model has both sides."""
        total, known = np.zeros(len(weights_a)), np.zeros(len(weights_a))
        for level, share in counted:
            difference = level.score(weights_b) - level.score(weights_a)
            is_known = ~np.isnan(difference)
            total += np.where(is_known, difference * share, 0.0)
            known += is_known * share
        return np.asarray(total / np.where(known, known, np.nan))

    return score


def find_floor(quantity: Quantity, level: Level, weights: tuple[Floats, Floats]) -> float:
    """Return the seconds that figures are raised to before the ratio of a bound: 1 ms, or what was measured, if less.

    The least of a figure that may be almost nothing on both sides would else have no ratio, or any.
    """
    if quantity.unit is not Unit.SECONDS:
        return 0.0
    measured = (level.shown(of_side) for of_side in weights)
    return min([MIN_UNCERTAINTY, *(figure for figure in measured if figure > 0)])
