"""Judges the share of requests, and of gaps, over the objective, with an interval that allows for samples being alike.

Requests that are open at a time share queues and batches, and the gaps of a request are alike. The interval is the
exact one of a binomial share (Clopper and Pearson), of as many independent samples as there are by the variance between
blocks of time and between requests (Korn and Graubard 1998). Where nothing is over the objective, no such variance is
seen, and a request counts as one sample, however many gaps it has.

A spell in which everything is slow may be missing from a short round altogether. How alike the times of a spell are
shows in all times, not only in those over the objective: where they are worth too few independent ones, the objective
has to be so far from them that a log-normal distribution of the same mean and spread is within it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy import stats

from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.statistics.clusters import sum_variance
from otel_itl.tools.sweep.sample_size import TAIL, least_requests

MIN_BLOCKS_TO_PAIR: Final = 20
"""Blocks of time from which on two neighbours are also taken as one, as spells may last longer than a block."""
_MAX_FACTOR: Final = 1_000.0
"""A sample that would have to be this many times larger is not named."""
_SHORTEST: Final = 1e-6
_SAME: Final = 1e-9
"""Deviations that are no larger are rounding errors."""

Blocks = Sequence[Sequence[Floats]]
"""For each block of time its requests, and of each its times (s); infinity is one that never ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of samples that are over the objective, as `measure_share` finds it of one level."""

    value: float
    samples: int
    independent: float
    """Number of independent samples that are worth as much."""
    requests: int
    """Requests that the samples are of."""
    independent_times: float
    """Number of independent samples by how alike all times are, whether or not they are over the objective."""
    distance: float
    """Least distance of the objective from the mean of the logarithms, in standard deviations."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return find_bounds(self.value * self.independent, self.independent)


def find_bounds(over: float, samples: float) -> tuple[float, float]:
    """Return the 95 % interval of a share, given independent samples and how many of them are over the objective.

    Numbers need not be whole. Without a sample it is 0 to 1.
    """
    low = float(stats.beta.ppf(TAIL, over, samples - over + 1)) if over > 0 else 0.0
    high = float(stats.beta.ppf(1 - TAIL, over + 1, samples - over)) if over < samples else 1.0
    return low, high


def is_within(shares: Sequence[Share], allowed: float) -> bool:
    """Return whether it is known that the share over the objective of several levels together is at most `allowed`."""
    over, independent = pool(shares)
    least = least_requests(allowed)
    if sum(share.requests for share in shares) < least or find_bounds(over, independent)[1] > allowed:
        return False
    has_enough = sum(share.independent_times for share in shares) >= least
    return has_enough or any(share.distance >= stats.norm.isf(allowed) for share in shares)


def pool(shares: Sequence[Share]) -> tuple[float, float]:
    """Return how many independent samples of several levels are over the objective, and how many there are."""
    return sum(share.value * share.independent for share in shares), sum(share.independent for share in shares)


def measure_share(blocks: Blocks, limit: float) -> Share | None:
    """Return the share of times that are longer than a limit (s); None: there is no time."""
    requests = [request for block in blocks for request in block if len(request)]
    if not requests:
        return None
    over = partial(_compare, limit)
    counted = [(over(request).sum(), len(request)) for request in requests]
    samples = sum(size for _, size in counted)
    value = sum(late for late, _ in counted) / samples
    independent = float(len(requests)) if value in {0.0, 1.0} else _count_alike(blocks, over)
    logs = _take_logs(np.concatenate(requests))
    independent_times = _count_alike(blocks, _take_logs) if logs.size else 0.0
    return Share(
        value=float(value),
        samples=samples,
        independent=independent,
        requests=len(requests),
        independent_times=independent_times,
        distance=_find_distance(logs, limit, max(independent_times, _count_units(blocks))),
    )


def estimate_requests(share: Share, allowed: float) -> int | None:
    """Return about how many requests would decide whether a share is more than is allowed, if it stays what it is.

    Returns:
        The number; None: no number up to a thousand times as many would.
    """
    factor = 1.0
    is_far = share.distance >= stats.norm.isf(allowed)
    likeness = 1.0 if is_far else max(share.requests / max(share.independent_times, 1.0), 1.0)
    while factor < _MAX_FACTOR:
        factor *= 1.1
        samples, requests = factor * share.independent, factor * share.requests
        low, high = find_bounds(share.value * samples, samples)
        if low > allowed or (high <= allowed and requests >= least_requests(allowed) * likeness):
            return math.ceil(requests)
    return None


def _compare(limit: float, times: Floats) -> Floats:
    """Return 1 for each time over a limit, else 0."""
    return (times > limit).astype(float)


def _take_logs(times: Floats) -> Floats:
    """Return the logarithms of the times that ended."""
    logs: Floats = np.log(np.maximum(times[np.isfinite(times)], _SHORTEST))
    return logs


def _find_distance(logs: Floats, limit: float, independent: float) -> float:
    """Return how far a limit is at least from the mean of logarithms, in standard deviations, with 97.5 % confidence.

    The limits of the mean and of the spread are combined by their distances (Zou and Donner 2008): those of a spread
    are far from it on one side only, where few independent times show it.

    Args:
        logs: of all times.
        limit: in seconds.
        independent: how many independent ones the times are worth.
    """
    if independent < 2:  # noqa: PLR2004 - no spread of fewer
        return -math.inf
    spread = float(np.std(logs))
    if spread <= _SAME:
        return math.inf if math.log(limit) > float(logs[0]) else -math.inf
    distance = (math.log(limit) - float(np.mean(logs))) / spread
    if distance <= 0:
        return -math.inf
    narrowest = distance * math.sqrt(float(stats.chi2.ppf(TAIL, independent - 1)) / independent)
    return distance - math.hypot(distance - narrowest, float(stats.norm.isf(TAIL)) / math.sqrt(independent))


def _count_alike(blocks: Blocks, measure: Callable[[Floats], Floats]) -> float:
    """Return how many independent samples are worth as much as all, by the likeness that leaves the fewest.

    Args:
        blocks: as for `measure_share`.
        measure: what is measured of the times of a request.
    """
    measured = [[measure(request) for request in block] for block in blocks]
    return min(_count_independent(clusters) for clusters in _cluster(measured))


def _count_units(blocks: Blocks) -> int:
    """Return how many independent samples there are at least, however alike the times of a block are."""
    measured = [[_take_logs(request) for request in block] for block in blocks]
    return min(sum(bool(cluster.size) for cluster in clusters) for clusters in _cluster(measured))


def _cluster(blocks: Blocks) -> Iterator[list[Floats]]:
    """Yield the samples by request, by block, and where there are many blocks, by two neighbouring blocks."""
    by_block = [np.concatenate(block) for block in blocks if block]
    yield [request for block in blocks for request in block]
    yield by_block
    if len(by_block) >= MIN_BLOCKS_TO_PAIR:
        yield [np.concatenate(by_block[start : start + 2]) for start in range(0, len(by_block), 2)]


def _count_independent(clusters: Sequence[Floats]) -> float:
    """Return how many independent samples have a mean of the same variance as that of clusters, and no more of them.

    The variance is known the worse, the fewer clusters there
    are: as a t-interval is wider than a normal one, fewer samples count.
    """
    filled = [cluster for cluster in clusters if len(cluster)]
    count, samples = len(filled), np.concatenate([*filled, np.empty(0)])
    if count < 2:  # noqa: PLR2004 - no variance between fewer
        return float(count)
    total = float(samples.size)
    variance = sum_variance([cluster.sum() for cluster in filled], [len(cluster) for cluster in filled]) / total**2
    if variance <= _SAME**2:
        return total
    widening = float(stats.norm.ppf(TAIL) / stats.t.ppf(TAIL, count - 1)) ** 2
    return min(float(samples.var()) / variance * widening, total)
