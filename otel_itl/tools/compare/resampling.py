"""Resamples whole clusters: a permutation test for a difference, and a bootstrap interval for its size.

Gaps of a request are alike, and so are the requests of a session; a session is resampled as a whole, with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from otel_itl.tools.compare.levels import Floats, Level

CONFIDENCE = 0.95
_CELLS_AT_ONCE = 4_000_000
"""Weights in memory at a time."""

Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
Effect = Callable[[Floats, Floats], Floats]
"""Weights of A's and of B's clusters, `(resamples, clusters)` each → the effect of each resample, a log ratio."""


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

    def weights(self) -> tuple[Floats, Floats]:
        """Return the weights of A's and of B's clusters as they are."""
        return (~self.is_b).astype(float), self.is_b.astype(float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A bootstrap interval of an effect."""

    low: float
    high: float
    standard_error: float


def permutation_p(effect: Effect, design: Design, resamples: int, random: np.random.Generator) -> float:
    """Return the two-sided p-value of an effect, where labels of clusters are exchanged between the sides.

    scipy's `permutation_test` knows no strata; with one stratum the result is the same. The observed labels count as
    one of the permutations, so that the test keeps its level exactly.

    Args:
        effect: the log ratio of two weightings.
        design: which cluster is on which side.
        resamples: number of random permutations.
        random: where they come from.
    """
    weights_a, weights_b = design.weights()
    observed = abs(float(effect(weights_a[np.newaxis], weights_b[np.newaxis])[0]))
    if not np.isfinite(observed):
        return 1.0
    as_extreme = 1
    for size in _batches(resamples, len(design.is_b)):
        is_b = _permute_labels(design, size, random)
        permuted = effect((~is_b).astype(float), is_b.astype(float))
        # A permutation in which one side has no sample says nothing against the observed one.
        as_extreme += int(np.sum(~(np.abs(permuted) < observed - 1e-12)))
    return as_extreme / (resamples + 1)


def bootstrap_interval(effect: Effect, design: Design, resamples: int, random: np.random.Generator) -> Interval | None:
    """Return the 95 % interval of an effect by resampling clusters within their side and stratum.

    Percentiles of the resampled effects, taken further out as a t-distribution of as many clusters asks (Hesterberg
    2015, "What Teachers Should Know About the Bootstrap", 5.3). BCa covers less here, and of tails clearly less.

    Returns:
        The interval; None with fewer than two clusters on a side, or where no resample has a finite effect.
    """
    if design.fewest < 2:  # noqa: PLR2004 - a single cluster has no spread
        return None
    batches = _batches(resamples, len(design.is_b))
    drawn = np.concatenate([effect(*_draw_sides(design, size, random)) for size in batches])
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size:
        return None
    tail = _tail(design.fewest)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(low=float(low), high=float(high), standard_error=float(np.std(drawn)))


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
    batches = _batches(resamples, clusters)
    drawn = np.concatenate([level.of(draw_weights(clusters, size, random)) for size in batches])
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return None
    tail = _tail(clusters)
    # Without interpolation, which has no value between a number and infinity.
    return float(np.quantile(known, tail, method="lower")), float(np.quantile(known, 1 - tail, method="higher"))


def _permute_labels(design: Design, size: int, random: np.random.Generator) -> Bools:
    """Shuffle the labels within each stratum; return `is_b` of each permutation, `(size, clusters)`."""
    by_stratum = np.argsort(design.strata, kind="stable")
    keys = design.strata[by_stratum] + random.random((size, len(by_stratum)))  # shuffles within a stratum alone
    labels = np.empty(keys.shape, dtype=bool)
    labels[:, by_stratum] = design.is_b[by_stratum][np.argsort(keys, axis=1)]
    return labels


def _draw_sides(design: Design, size: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return how often each cluster is drawn, `(size, clusters)`, for A and for B: that of the other side is 0."""
    if design.is_paired:
        weights = draw_weights(design.fewest, size, random)[:, design.strata]
    else:
        weights = np.zeros((size, len(design.is_b)))
        for group in np.unique(np.stack([design.strata, design.is_b]), axis=1).T:
            members = np.flatnonzero((design.strata == group[0]) & (design.is_b == group[1]))
            weights[:, members] = draw_weights(len(members), size, random)
    return weights * ~design.is_b, weights * design.is_b


def _tail(clusters: int) -> float:
    """Return the share beyond each end of a percentile interval that covers like a 95 % t-interval of the clusters."""
    quantile = stats.t.ppf((1 - CONFIDENCE) / 2, clusters - 1) * np.sqrt(clusters / (clusters - 1))
    return float(stats.norm.cdf(quantile))


def _batches(resamples: int, clusters: int) -> Iterator[int]:
    """Yield sizes of batches that together are all resamples and that fit into memory."""
    at_once = max(_CELLS_AT_ONCE // max(clusters, 1), 1)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)
