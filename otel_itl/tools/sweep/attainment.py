"""Judges the share of requests, and of gaps, over the objective, with an interval that allows for samples being alike.

Requests that are open at a time share queues and batches, and the gaps of a request are alike. The interval is the
exact one of a binomial share (Clopper and Pearson), of as many independent samples as there are by the variance between
blocks of time and between requests (Korn and Graubard 1998). Where nothing is over the objective, no variance is seen,
and a request counts as one sample, however many gaps it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from otel_itl.tools.compare.levels import Floats

TAIL: Final = 0.025
"""Probability beyond each end of an interval."""
_MAX_FACTOR: Final = 1_000.0
"""A sample that would have to be this many times larger is not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of samples that are over the objective, as `measure_share` finds it of one level."""

    value: float
    samples: int
    independent: float
    """Number of independent samples that are as much worth."""
    requests: int
    """Requests that the samples are of."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return find_bounds(self.value * self.independent, self.independent)


def least_requests(allowed: float) -> int:
    """Return with how many requests at least it can be known that no more than a share of them are over the objective.

    Of fewer, all may be in time by chance. The number holds for gaps, too, although a request has many: requests that
    are slow from end to end could all be missing.
    """
    return math.ceil(math.log(TAIL) / math.log1p(-allowed)) if 0 < allowed < 1 else 1


def find_bounds(over: float, samples: float) -> tuple[float, float]:
    """Return the 95 % interval of a share, given independent samples and how many of them are over the objective.

    Numbers need not be whole. Without a sample it is 0 to 1.
    """
    low = float(stats.beta.ppf(TAIL, over, samples - over + 1)) if over > 0 else 0.0
    high = float(stats.beta.ppf(1 - TAIL, over + 1, samples - over)) if over < samples else 1.0
    return low, high


def measure_share(blocks: Sequence[Sequence[tuple[int, int]]]) -> Share | None:
    """Return the share of samples over the objective; None: there is no sample.

    Args:
        blocks: for each block of time the requests with a sample: how many samples are over, and how many there are.
    """
    requests = [request for block in blocks for request in block]
    samples = sum(size for _, size in requests)
    if not samples:
        return None
    value = sum(over for over, _ in requests) / samples
    by_block = [(sum(over for over, _ in block), sum(size for _, size in block)) for block in blocks if block]
    if value in {0.0, 1.0}:
        independent = float(len(requests))
    else:
        independent = min(_count_independent(np.array(clusters, float), value) for clusters in (requests, by_block))
    return Share(value=value, samples=samples, independent=independent, requests=len(requests))


def estimate_requests(share: Share, allowed: float) -> int | None:
    """Return about how many requests would decide whether a share is more than is allowed, if it stays what it is.

    Returns:
        The number; None: the share is so close to what is allowed that no reasonable number would.
    """
    factor = 1.0
    while factor < _MAX_FACTOR:
        factor *= 1.1
        samples, requests = factor * share.independent, factor * share.requests
        low, high = find_bounds(share.value * samples, samples)
        if low > allowed or (high <= allowed and requests >= least_requests(allowed)):
            return math.ceil(requests)
    return None


def _count_independent(clusters: Floats, value: float) -> float:
    """Return how many independent samples have the same variance as the samples of some clusters, and no more of them.

    The variance by linearization (Cochran, Sampling Techniques, 6.3). It is known the worse, the fewer clusters there
    are: as a t-interval is wider than a normal one, fewer samples count.

    Args:
        clusters: samples over the objective, and samples, of each cluster.
        value: share of all samples that are over it.
    """
    over, sizes = clusters.T
    count, total = len(sizes), float(sizes.sum())
    if count < 2:  # noqa: PLR2004 - no variance between fewer
        return 1.0
    variance = count / (count - 1) * float(np.square(over - value * sizes).sum()) / total**2
    if not variance:
        return total
    widening = float(stats.norm.ppf(TAIL) / stats.t.ppf(TAIL, count - 1)) ** 2
    return min(value * (1 - value) / variance * widening, total)
