"""Computes a figure of many weightings of the same clusters at once: percentiles of pooled samples, and rates.

A resample of clusters is a row of weights: how often each cluster is in it. Permutations and bootstraps of any figure
are then one operation on a matrix of weights, `(resamples, clusters)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from otel_itl.tools.statistics.clusters import sum_variance
from otel_itl.tools.statistics.rate_ratio import Events

Floats = NDArray[np.float64]
"""An array of float64."""

MAX_BINS = 4_096
"""Up to this number of different values samples are pooled exactly, beyond it in bins of equal counts: the rank of a
percentile is then off by less than a fortieth of a percent."""


_GROUP = 64
"""Values that are looked at together."""


class Level(Protocol):
    """A figure of pooled clusters, such as the median of their gaps."""

    sizes: Floats
    """The samples of each cluster; of a rate its exposure."""

    @property
    def is_empty(self) -> bool:
        """No cluster has a sample, or an event that is counted."""

    def of(self, weights: Floats) -> Floats:
        """Return the figure for each row of `weights`, `(resamples, clusters)`; NaN where nothing is known."""

    def shown(self, weights: Floats) -> float:
        """Return the figure of one weighting as it is shown; NaN where nothing is known."""

    def score(self, weights: Floats) -> Floats:
        """Return for each row of `weights` what a test compares: it rises and falls with the figure, without ties."""

    def count_samples(self, weights: Floats) -> tuple[float, float]:
        """Return the number of samples of one weighting, and how many independent samples are worth as much."""


class Pool:
    """The samples of clusters, of which percentiles are taken.

    Args:
        samples: of each cluster, in any order; infinity is one that is longer than all others.
    """

    def __init__(self, samples: Sequence[ArrayLike]) -> None:
        self.values, counts = _count_in_bins([np.asarray(values, dtype=float) for values in samples])
        self.sizes: Floats = counts.sum(axis=1, dtype=np.float64)
        self.up_to = np.ascontiguousarray(np.cumsum(counts, axis=1, dtype=np.float32).T)
        """How many samples of each cluster are at most a value, `(values, clusters)`."""


class Percentile:
    """A percentile of the samples of clusters, by linear interpolation between closest ranks.

    Args:
        samples: of the clusters.
        q: which percentile, 0 to 100.
    """

    def __init__(self, samples: Pool | Sequence[ArrayLike], q: float) -> None:
        pool = samples if isinstance(samples, Pool) else Pool(samples)
        self._q = q / 100
        self._values, self.sizes, self._up_to = pool.values, pool.sizes, pool.up_to

    @property
    def is_empty(self) -> bool:
        """No cluster has a sample."""
        return not self._values.size

    def of(self, weights: Floats) -> Floats:
        """Return the percentile for each row of `weights`, which are whole numbers; NaN without a sample."""
        if not self._values.size:
            return np.full(len(weights), np.nan)
        total = weights @ self._up_to[-1]
        rank = (total - 1) * self._q
        low = np.floor(rank)
        lower, upper = self._value_at(weights, low), self._value_at(weights, np.ceil(rank))
        with np.errstate(invalid="ignore"):  # between two infinities, which are equal
            between = np.where(lower == upper, lower, lower + (upper - lower) * (rank - low))
        return np.where(total > 0, between, np.nan)

    def shown(self, weights: Floats) -> float:
        """Return the percentile of one weighting."""
        return float(self.of(weights[np.newaxis])[0])

    def score(self, weights: Floats) -> Floats:
        """Return the share of the samples beyond the percentile of all clusters together; half of those that are it.

        Where most samples are the same number, most exchanges have the same percentiles, but not the same shares.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(weights @ self._beyond / (weights @ self.sizes))

    @cached_property
    def _beyond(self) -> Floats:
        """Return of each cluster the samples beyond the percentile of all together, and half of those that are it."""
        if not self._values.size:
            return self.sizes
        value = self.shown(np.ones(len(self.sizes)))
        return self.sizes - (self._count_up_to(value, "left") + self._count_up_to(value, "right")) / 2

    def _count_up_to(self, value: float, side: Literal["left", "right"]) -> Floats:
        """Return how many samples of each cluster are below a value (left), or at most the value (right)."""
        values = int(np.searchsorted(self._values, value, side))
        return self._up_to[values - 1].astype(float) if values else np.zeros(len(self.sizes))

    def _value_at(self, weights: Floats, ranks: Floats) -> Floats:
        """Return for each row of weights the value that has its rank, counted from 0.

        Which group of neighbouring values it is in is found first, and then where in the group.
        """
        weights = weights.astype(np.float32)
        last = len(self._values) - 1
        ends = np.minimum(np.arange(_GROUP - 1, last + _GROUP, _GROUP), last)
        groups = _count_up_to(weights @ self._up_to[ends].T, ranks)
        found = np.empty(len(weights))
        for group in np.unique(groups):
            rows, first = groups == group, int(group) * _GROUP
            within = _count_up_to(weights[rows] @ self._up_to[first : first + _GROUP].T, ranks[rows])
            found[rows] = self._values[np.minimum(first + within, last)]
        return found

    def count_samples(self, weights: Floats) -> tuple[float, float]:
        """Return the number of samples, and how many independent ones are worth as much (Kish's design effect).

        By the share of samples beyond the percentile, whose variance between clusters is known without resampling.
        """
        if not self._values.size:
            return 0.0, 0.0
        beyond = self.sizes - self._count_up_to(self.shown(weights), "right")
        return effective_samples(beyond, self.sizes, weights, is_share=True)


class Rate:
    """Events over exposure, both summed over clusters: truncations per request, seconds per token.

    Args:
        events: of each cluster.
        exposure: of each cluster.
        is_count: the events are counted. Half an event is then added, so that the ratio of two rates exists where one
            of them has none (Haldane and Anscombe).
        is_share: an event is a part of the exposure, so that the rate is at most 1.
        per: the rate is that of so much exposure.
    """

    def __init__(
        self, events: ArrayLike, exposure: ArrayLike, *, is_count: bool = True, is_share: bool = False, per: float = 1.0
    ) -> None:
        self._events, self.sizes = np.asarray(events, dtype=float), np.asarray(exposure, dtype=float)
        self._added = 0.5 if is_count else 0.0
        self.is_share, self._per = is_share, per

    @property
    def is_count(self) -> bool:
        """The events are counted."""
        return self._added > 0

    def sum_up(self, weights: Floats) -> Events:
        """Return the events and the exposure of one weighting."""
        return Events(float(weights @ self._events), float(weights @ self.sizes))

    @property
    def is_empty(self) -> bool:
        """No cluster has exposure, or an event where events are counted."""
        return not (self._events if self._added else self.sizes).any()

    def of(self, weights: Floats) -> Floats:
        """Return the rate for each row of `weights`; NaN without exposure."""
        return self._divide(weights, self._added)

    def shown(self, weights: Floats) -> float:
        """Return the rate of one weighting, without the half event."""
        return float(self._divide(weights, 0.0))

    def score(self, weights: Floats) -> Floats:
        """Return the logarithm of the rate for each row of `weights`; NaN where it is 0."""
        rates = self.of(weights)
        return np.log(np.where(rates > 0, rates, np.nan))

    def _divide(self, weights: Floats, added: float) -> Floats:
        exposure = weights @ self.sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(exposure > 0, (weights @ self._events + added) / exposure * self._per, np.nan)

    def count_samples(self, weights: Floats) -> tuple[float, float]:
        """Return the exposure, and how much independent exposure is worth as much; both equal where none is counted."""
        if not self._added:
            exposure = float(weights @ self.sizes)
            return exposure, exposure
        return effective_samples(self._events, self.sizes, weights, is_share=self.is_share)


class Mean(Rate):
    """What the requests of clusters took, over their exposure: seconds per token, tokens per answer.

    Args:
        amounts: of each request of each cluster.
        exposure: likewise.
    """

    def __init__(self, amounts: Sequence[Sequence[float]], exposure: Sequence[Sequence[float]]) -> None:
        super().__init__([sum(own) for own in amounts], [sum(own) for own in exposure], is_count=False)
        pairs = [np.array([own, over], dtype=float) for own, over in zip(amounts, exposure, strict=True)]
        self._requests = np.array([np.count_nonzero(own[1]) for own in pairs])
        self._squares = np.array([[own[0] @ own[0], own[0] @ own[1], own[1] @ own[1]] for own in pairs])
        """Of each cluster what the squares of the deviations of its requests add up to: they depend on the mean."""

    def count_samples(self, weights: Floats) -> tuple[float, float]:
        """Return the number of requests, and how many independent ones are worth as much.

        The variance of the mean between clusters, by linearization, over that between independent requests.
        """
        total, (amount, exposure) = float(weights @ self._requests), self.sum_up(weights)
        clusters = int(np.count_nonzero(weights * self.sizes))
        if clusters < 2 or not exposure:  # noqa: PLR2004 - no variance between fewer
            return total, min(total, float(clusters))
        mean, chosen = amount / exposure, (weights > 0) & (self.sizes > 0)
        between = sum_variance(self._events[chosen], self.sizes[chosen])
        of_requests = float(weights @ (self._squares @ np.array([1.0, -2.0 * mean, mean**2]))) * total / (total - 1)
        return total, total / max(between / of_requests, 1.0) if of_requests > 0 else total


def effective_samples(events: Floats, sizes: Floats, weights: Floats, *, is_share: bool) -> tuple[float, float]:
    """Return how many samples there are, and how many independent ones have the same variance.

    The variance of a rate between clusters over that of as many independent samples is the design effect. It is taken
    as 1 where it is below, and where no event is known.

    Args:
        events: of each cluster.
        sizes: samples of each cluster.
        weights: 1 for the clusters that count, else 0.
        is_share: an event is a sample, so that events are binomial; else they are Poisson.
    """
    chosen = (weights > 0) & (sizes > 0)
    events, sizes = events[chosen], sizes[chosen]
    total, clusters = float(sizes.sum()), len(sizes)
    rate = float(events.sum()) / total if total else 0.0
    independent = rate * (1 - rate) * total if is_share else rate * total
    if clusters < 2 or independent <= 0:  # noqa: PLR2004 - no variance between fewer
        return total, min(total, float(clusters))
    return total, total / max(sum_variance(events, sizes) / independent, 1.0)


def _count_up_to(counts: NDArray[np.float32], ranks: Floats) -> NDArray[np.intp]:
    """Return for each row how many of its ascending counts are at most its rank."""
    return np.asarray((counts <= ranks[:, np.newaxis]).sum(axis=1))


def _count_in_bins(samples: Sequence[Floats]) -> tuple[Floats, NDArray[np.float32]]:
    """Count the samples of each cluster by value, or in `MAX_BINS` bins where there are more different values.

    Returns:
        The values (the middles of bins), ascending, and the counts `(clusters, values)`.
    """
    pooled = np.concatenate([*samples, np.empty(0)])
    if not pooled.size:
        return np.empty(0), np.zeros((len(samples), 0), dtype=np.float32)
    order = np.argsort(pooled, kind="stable")
    ascending = pooled[order]
    is_first = np.concatenate([[True], ascending[1:] != ascending[:-1]])
    values, of_rank = ascending[is_first], np.cumsum(is_first) - 1
    if len(values) > MAX_BINS:
        of_rank = np.arange(len(pooled)) * MAX_BINS // len(pooled)
        values = ascending[(np.arange(MAX_BINS) * 2 + 1) * len(pooled) // (2 * MAX_BINS)]
    owners = np.repeat(np.arange(len(samples)), [len(own) for own in samples])[order]
    counts = np.bincount(owners * len(values) + of_rank, minlength=len(samples) * len(values))
    return values, counts.reshape(len(samples), len(values)).astype(np.float32)
