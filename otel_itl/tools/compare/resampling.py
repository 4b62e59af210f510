"""Resamples whole clusters: a permutation test for a difference, and a bootstrap interval for its size.

Gaps of a request are alike, and so are the requests of a session; a session is resampled as a whole, with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from otel_itl.tools.compare.levels import Floats, Level

CONFIDENCE = 0.95
_CELLS_AT_ONCE = 500_000
"""Weights in memory at a time."""
CHANCE: Final = 3.0
"""Standard errors by which two sides may differ by chance."""
_DIGITS = 10
"""Decimals of a score: what differs beyond them is a rounding error."""

Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
Effect = Callable[[Floats, Floats], Floats]
"""Weights of A's and of B's clusters, `(resamples, clusters)` each → the effect of each resample, a log ratio; or the
score that a test compares."""


@dataclass(frozen=True, slots=True)
class Design:
    """Which cluster is on which side.

    Args:
        is_b: for each cluster whether it is on side B.
        strata: for each cluster a number; labels are exchanged between clusters of the same stratum only.
        is_paired: each stratum is a pair, whose two clusters played the same script.
    """

    is_b: Bools
    strata: Indices
    is_paired: bool = False

    @property
    def fewest(self) -> int:
        """The clusters of the side that has fewer."""
        return int(min(self.is_b.sum(), (~self.is_b).sum()))

    @property
    def least_p(self) -> float:
        """The least p-value that an exchange of all labels can have: of few clusters it is large."""
        of_strata = [self.is_b[self.strata == stratum] for stratum in np.unique(self.strata)]
        ways = math.prod(math.comb(len(of_one), int(of_one.sum())) for of_one in of_strata)
        is_balanced = all(2 * of_one.sum() == len(of_one) for of_one in of_strata)
        return (2 if is_balanced else 1) / ways  # the exchange of both sides is as far apart

    @property
    def least_clusters(self) -> int:
        """The clusters a side whose least p-value is below 0.05: 2 of 70 exchanges, 2 of 64 of pairs."""
        return 6 if self.is_paired else 4

    def weights(self) -> tuple[Floats, Floats]:
        """Return the weights of A's and of B's clusters as they are."""
        return (~self.is_b).astype(float), self.is_b.astype(float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A bootstrap interval of an effect."""

    low: float
    high: float
    standard_error: float

    def widen(self, observed: float, error: float, clusters: int) -> Interval:
        """Return the interval of an effect that has a further standard error, which as many clusters are known to."""
        further = float(stats.t.ppf((1 + CONFIDENCE) / 2, max(clusters - 1, 1))) * error
        return Interval(
            low=observed - math.hypot(observed - self.low, further),
            high=observed + math.hypot(self.high - observed, further),
            standard_error=math.hypot(self.standard_error, error),
        )


@dataclass(frozen=True, slots=True)
class Control:
    """An effect without what goes with a covariate that differs between the sides by chance alone."""

    effect: Effect
    observed: float
    error: float
    """Its standard error because the covariate's share in it is estimated."""


class Resamples:
    """The exchanges of labels and the draws of clusters of a design, which all rows of these clusters share.

    Args:
        design: which cluster is on which side.
        exchanges: `is_b` of each exchange of labels, `(exchanges, clusters)`, as `exchange_labels` makes them.
        random: where the draws come from.
        draws: how many; None: as many as there are exchanges.
    """

    def __init__(self, design: Design, exchanges: Bools, random: np.random.Generator, draws: int | None = None) -> None:
        self.design = design
        self._exchanges = exchanges
        self._drawn = None
        if design.fewest >= 2:  # noqa: PLR2004 - a single cluster has no spread
            self._drawn = _draw_clusters(design, draws or len(exchanges), random)

    def exchange(self, score: Effect) -> Floats:
        """Return the absolute value of a score as observed, and then of each exchange of labels between the sides.

        scipy's `permutation_test` knows no strata; with one stratum the p-value is the same. The observed labels count
        as one of the exchanges, so that the test keeps its level exactly. An exchange in which one side has no sample
        says nothing against the observed one: it is infinite.
        """
        observed = [0.0 if math.isnan(value) else value for value in [_observe(score, self.design)]]
        exchanged = [score((~labels).astype(float), labels.astype(float)) for labels in _batches(self._exchanges)]
        absolute: Floats = np.abs(np.concatenate([np.array(observed), *exchanged]))
        return np.nan_to_num(np.round(absolute, _DIGITS), nan=np.inf, posinf=np.inf)

    def measure(self, effect: Effect) -> tuple[float, float]:
        """Return an effect as observed, and its standard error; infinite with fewer than two clusters on a side."""
        drawn = np.array([math.inf]) if self._drawn is None else self._draw_effect(effect)
        known = drawn[np.isfinite(drawn)]
        return _observe(effect, self.design), float(np.std(known)) if known.size else math.inf

    def find_control(self, effect: Effect, covariate: Effect) -> Control | None:
        """Return an effect without what goes with a covariate in its resamples (a control variate).

        None: it has none, or the covariate differs by more than chance.
        """
        if self._drawn is None:
            return None
        observed, difference = _observe(effect, self.design), _observe(covariate, self.design)
        drawn, of_covariate = self._draw_effect(effect), self._draw_effect(covariate)
        slope = _find_slope(drawn, of_covariate)
        if not slope or not math.isfinite(observed) or abs(difference) > CHANCE * float(np.std(of_covariate)):
            return None
        rest = float(np.std(drawn - slope * of_covariate))
        further = rest * abs(difference) / float(np.std(of_covariate)) / math.sqrt(len(self.design.is_b))
        return Control(_subtract(effect, covariate, slope), observed - slope * difference, further)

    def control_score(self, score: Effect, covariate: Effect) -> Effect:
        """Return a score without what goes with a covariate in its exchanges, which keeps p exact."""
        drawn, of_covariate = (
            np.concatenate([one((~labels).astype(float), labels.astype(float)) for labels in _batches(self._exchanges)])
            for one in (score, covariate)
        )
        return _subtract(score, covariate, _find_slope(drawn, of_covariate))

    def bootstrap_interval(self, effect: Effect, fitted: int = 0) -> Interval | None:
        """Return the 95 % interval of an effect by resampling clusters within their side and stratum.

        Percentiles of the resampled effects, taken further out as a t-distribution of as many clusters asks (Hesterberg
        2015, "What Teachers Should Know About the Bootstrap", 5.3). BCa covers less here, and of tails clearly less. A
        resample whose effect is not known may be anywhere: it is at both ends.

        Args:
            effect: of a resample.
            fitted: numbers of each side that were fitted to its clusters before.

        Returns:
            The interval; None with fewer than two clusters on a side, or where no resample has an effect.
        """
        if self._drawn is None or self.design.fewest - fitted < 2:  # noqa: PLR2004 - as above
            return None
        drawn = self._draw_effect(effect)
        known = drawn[np.isfinite(drawn)]
        if np.isnan(drawn).all():
            return None
        tail = _tail(self.design.fewest - fitted)
        # Without interpolation, which has no value between a number and infinity.
        low = np.quantile(np.nan_to_num(drawn, nan=-np.inf, posinf=np.inf, neginf=-np.inf), tail, method="lower")
        high = np.quantile(np.nan_to_num(drawn, nan=np.inf, posinf=np.inf, neginf=-np.inf), 1 - tail, method="higher")
        return Interval(
            low=float(low), high=float(high), standard_error=float(np.std(known)) if known.size == drawn.size else 0.0
        )

    def _draw_effect(self, effect: Effect) -> Floats:
        """Return the effect of each draw of clusters."""
        is_b = self.design.is_b
        drawn = np.empty((0, len(is_b))) if self._drawn is None else self._drawn
        return np.concatenate([effect(weights * ~is_b, weights * is_b) for weights in map(_to_floats, _batches(drawn))])


def _to_floats(drawn: NDArray[T]) -> Floats:
    return drawn.astype(float)


def _subtract(effect: Effect, covariate: Effect, slope: float) -> Effect:
    """Return an effect without a covariate times a slope."""
    return lambda a, b: effect(a, b) - slope * covariate(a, b)


def _find_slope(effects: Floats, covariates: Floats) -> float:
    """Return how much of resampled effects goes with a covariate; 0, where one is not known of all, or always alike."""
    if not np.isfinite(effects).all() or not np.isfinite(covariates).all():
        return 0.0
    centered = covariates - covariates.mean()
    squares = float(centered @ centered)
    return float(centered @ effects) / squares if squares > 10**-_DIGITS else 0.0


def _observe(effect: Effect, design: Design) -> float:
    """Return the effect of the clusters as they are."""
    return float(effect(*(weights[np.newaxis] for weights in design.weights()))[0])


def draw_weights(clusters: int, size: int, random: np.random.Generator) -> Floats:
    """Draw as many clusters as there are, with replacement; returns how often each is drawn, `(size, clusters)`."""
    return random.multinomial(clusters, np.full(clusters, 1 / clusters), size).astype(float)


def level_interval(
    level: Level, clusters: int, resamples: int, random: np.random.Generator
) -> tuple[float, float] | None:
    """Return the 95 % interval of one figure by resampling its clusters; the method is that of `bootstrap_interval`.

    Returns:
        The lower and the upper end, which may be infinite; None with fewer than two clusters, or without a sample.
    """
    if clusters < 2:  # noqa: PLR2004 - a single cluster has no spread
        return None
    drawn = np.concatenate([level.of(weights) for weights in _batches(draw_weights(clusters, resamples, random))])
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return None
    tail = _tail(clusters)
    # Without interpolation, which has no value between a number and infinity.
    return float(np.quantile(known, tail, method="lower")), float(np.quantile(known, 1 - tail, method="higher"))


def exchange_labels(design: Design, size: int, random: np.random.Generator) -> Bools:
    """Shuffle the labels within each stratum; return `is_b` of each exchange, `(size, clusters)`."""
    by_stratum = np.argsort(design.strata, kind="stable")
    labels = np.empty((size, len(by_stratum)), dtype=bool)
    for rows in _batches(labels):  # views
        keys = design.strata[by_stratum] + random.random(rows.shape)  # shuffles within a stratum alone
        rows[:, by_stratum] = design.is_b[by_stratum][np.argsort(keys, axis=1)]
    return labels


def _draw_clusters(design: Design, size: int, random: np.random.Generator) -> NDArray[np.uint16]:
    """Return how often each cluster is drawn, `(size, clusters)`: as many of each side and stratum as there are."""
    if design.is_paired:
        return draw_weights(design.fewest, size, random)[:, design.strata].astype(np.uint16)
    weights = np.zeros((size, len(design.is_b)), dtype=np.uint16)
    for group in np.unique(np.stack([design.strata, design.is_b]), axis=1).T:
        members = np.flatnonzero((design.strata == group[0]) & (design.is_b == group[1]))
        weights[:, members] = draw_weights(len(members), size, random)
    return weights


def _tail(clusters: int) -> float:
    """Return the share beyond each end of a percentile interval that covers like a 95 % t-interval of the clusters."""
    quantile = stats.t.ppf((1 - CONFIDENCE) / 2, clusters - 1) * np.sqrt(clusters / (clusters - 1))
    return float(stats.norm.cdf(quantile))


def _batches(resamples: NDArray[T]) -> Iterator[NDArray[T]]:
    """Yield rows of resamples, as many as fit into memory as weights."""
    at_once = max(_CELLS_AT_ONCE // max(resamples.shape[1], 1), 1)
    for start in range(0, len(resamples), at_once):
        yield resamples[start : start + at_once]
