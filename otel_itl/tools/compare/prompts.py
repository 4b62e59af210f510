"""Adjusts latencies for the length of prompts: makes what B's and A's requests took that of prompts of one length.

The logarithm of a latency is taken as a straight line of the logarithm of the prompt length, on each side with a slope
of its own. Requests are moved along A's line to the mean prompt of their side, and from there along the mean of both
slopes to the middle between the sides: between two points of a curve that is wrong in third order only. This takes out
of the comparison what differs because the prompts do, and of the noise what comes from prompts of many lengths.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.compare.requests import PACE, TTFT, Request
from otel_itl.tools.compare.resampling import Bools
from otel_itl.tools.statistics.clusters import sum_variance

FITTED: Final = 1
"""Numbers that are fitted to each side: a slope."""
_MIN_KNOWN: Final = 0.9
"""Share of a side's requests whose prompt length has to be known."""
_MIN_REQUESTS: Final = 20
_MIN_CLUSTERS: Final = 10
"""Requests and clusters of a side from which a slope is fitted."""
_MIN_SPREAD: Final = 0.02
"""Standard deviation of the logarithms of prompts that are of one length, but for a few tokens."""
_FURTHEST: Final = 2.0
"""Standard deviations of the prompts of a side by which the line is followed at most."""
_CHANCE: Final = 3.0
"""Standard errors by which mean prompts may differ by chance."""

Latency = Callable[[Request], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How a latency goes with the prompt length, on each side of one model."""

    means: tuple[float, float]
    """Of the logarithms of the prompts of A and of B."""
    slopes: tuple[float, float] | None
    """None: the data do not show any."""
    variance: float = 0.0
    """Of the mean slope."""
    is_chance: bool = False
    """The means differ by no more than sessions do."""

    @property
    def difference(self) -> float:
        """The log ratio of B's prompts to A's."""
        return self.means[1] - self.means[0]

    @property
    def standard_error(self) -> float:
        """Of the log ratio of the latencies, because of the slopes."""
        return abs(self.difference) * math.sqrt(self.variance)

    def is_confounded(self, margin: float) -> bool:
        """Return whether the prompts differ, and what that makes of the latency is not known."""
        return self.slopes is None and not self.is_chance and abs(self.difference) > math.log1p(margin)

    def factor(self, request: Request, *, is_b: bool) -> float:
        """Return what the latency of a request is multiplied by.

        Within a side it is moved along A's line: what depends on the prompt more on B than on A stays in B's tail.
        """
        if self.slopes is None:
            return 1.0
        at, mean = _log_prompt(request), self.means[is_b]
        within = self.slopes[0] * (mean - (mean if at is None else at))
        return math.exp(within + sum(self.slopes) / 2 * (sum(self.means) / 2 - mean))


def take_first_token(request: Request) -> float:
    """Return the time to first token; 0: unknown, set aside, or never."""
    return 0.0 if TTFT in request.set_aside else request.time_to_first_token or 0.0


def take_pace(request: Request) -> float:
    """Return the time per output token; 0: unknown, or set aside."""
    return request.decode_time / request.later_tokens if request.later_tokens and PACE not in request.set_aside else 0.0


def fit_line(clusters: Sequence[Sequence[Request]], is_b: Bools, take: Latency) -> Line | None:
    """Fit how a latency of the requests to one model goes with the prompt length; None: prompt lengths are not known.

    Args:
        clusters: the requests of each cluster.
        is_b: for each cluster whether it is on side B.
        take: the latency of a request; 0: it has none.
    """
    sides = [[own for own, of_b in zip(clusters, is_b, strict=True) if of_b == side] for side in (False, True)]
    taken = [_take(of_side, take) for of_side in sides]
    if any(one is None for one in taken):
        return None
    (mean_a, error_a), (mean_b, error_b) = (_mean(lengths, owners) for lengths, _, owners in filter(None, taken))
    means = mean_a, mean_b
    is_chance = abs(mean_b - mean_a) <= _CHANCE * math.hypot(error_a, error_b)
    furthest = abs(mean_b - mean_a) / 2
    fitted = [_fit(*of_side, furthest) for of_side in filter(None, taken)]
    slopes = [one for one in fitted if one is not None]
    if len(slopes) < 2:  # noqa: PLR2004 - two sides
        return Line(means=means, slopes=None, is_chance=is_chance)
    (slope_a, variance_a), (slope_b, variance_b) = slopes
    return Line(means=means, slopes=(slope_a, slope_b), variance=(variance_a + variance_b) / 4, is_chance=is_chance)


def adjust(
    clusters: Sequence[Sequence[Request]], is_b: Bools, first: Line | None, pace: Line | None
) -> Sequence[Sequence[Request]]:
    """Return the clusters with what their requests would have taken with prompts of one length, by two lines."""
    if all(line is None or line.slopes is None for line in (first, pace)):
        return clusters
    return [
        [
            _scale(
                one,
                1.0 if first is None else first.factor(one, is_b=bool(of_b)),
                1.0 if pace is None else pace.factor(one, is_b=bool(of_b)),
            )
            for one in requests
        ]
        for requests, of_b in zip(clusters, is_b, strict=True)
    ]


def _scale(request: Request, first: float, pace: float) -> Request:
    """Return a request with its latencies multiplied by two factors, and the bounds of its latencies as well."""
    ttft = request.time_to_first_token
    return replace(
        request,
        time_to_first_token=None if ttft is None else ttft * first,
        gaps=array("d", (np.asarray(request.gaps) * pace).tobytes()) if pace != 1.0 else request.gaps,
        decode_time=request.decode_time * pace,
        lowest=None if request.lowest is None else _scale(request.lowest, first, pace),
        highest=None if request.highest is None else _scale(request.highest, first, pace),
    )


def _log_prompt(request: Request) -> float | None:
    return math.log(request.prompt_tokens) if request.prompt_tokens else None


def _take(clusters: Sequence[Sequence[Request]], take: Latency) -> tuple[Floats, Floats, Floats] | None:
    """Return log prompt lengths, log latencies and clusters of the requests that have both; None: too few have."""
    rows, known, all_requests = [], 0, 0
    for number, requests in enumerate(clusters):
        all_requests += len(requests)
        for one in requests:
            at, latency = _log_prompt(one), take(one)
            known += at is not None
            if at is not None and latency > 0:
                rows.append((at, math.log(latency), number))
    if not rows or known < _MIN_KNOWN * all_requests:
        return None
    lengths, latencies, owners = np.array(rows, dtype=float).T
    return lengths, latencies, owners


def _mean(lengths: Floats, owners: Floats) -> tuple[float, float]:
    """Return the mean of log prompt lengths and its standard error; 0, where all are alike, infinite of one cluster."""
    mean = float(lengths.mean())
    clusters, sizes = _sum_up(lengths - mean, owners), _sum_up(np.ones(len(lengths)), owners)
    if len(sizes) < 2:  # noqa: PLR2004 - no spread
        return mean, math.inf if float(lengths.std()) > _MIN_SPREAD else 0.0
    return mean, math.sqrt(sum_variance(clusters, sizes)) / len(lengths)


def _fit(lengths: Floats, latencies: Floats, owners: Floats, furthest: float) -> tuple[float, float] | None:
    """Return the slope of one side and its variance, by how alike clusters are; None: it is not shown by these data.

    Args:
        lengths: of the prompts, in logarithms.
        latencies: likewise.
        owners: the cluster of each.
        furthest: how far the line will be followed.
    """
    clusters = len(np.unique(owners))
    spread = float(lengths.std())
    if len(lengths) < _MIN_REQUESTS or clusters < _MIN_CLUSTERS or spread < max(_MIN_SPREAD, furthest / _FURTHEST):
        return None
    centered = lengths - lengths.mean()
    squares = float(centered @ centered)
    slope = float(centered @ latencies) / squares
    rest = latencies - latencies.mean() - slope * centered
    of_clusters = _sum_up(centered * rest, owners)
    return slope, clusters / (clusters - 2) * float(of_clusters @ of_clusters) / squares**2


def _sum_up(values: Floats, owners: Floats) -> Floats:
    """Return the sum of the values of each cluster that has any."""
    _, numbers = np.unique(owners, return_inverse=True)
    return np.bincount(numbers, weights=values).astype(float)
