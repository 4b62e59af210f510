"""Percentile spectra of one side with bands: what a picture of a comparison is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otel_itl.tools.compare.levels import Percentile
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.compare.resampling import draw_weights

_RESAMPLES = 400
_TAILS = (2.5, 97.5)
_GRID = (*range(1, 90, 2), *range(90, 99), 99, 99.3, 99.5, 99.7, 99.9, 99.95, 99.99)


class Point(NamedTuple):
    """A percentile with its 95 % band by resampling clusters. Times are seconds."""

    q: float
    value: float
    low: float
    high: float


def gap_spectrum(requests: Sequence[Request], seed: int) -> list[Point]:
    """Return the percentiles of the gaps of requests, up to the last one that ten gaps lie beyond."""
    clusters: dict[str, list[float]] = {}
    for request in requests:
        clusters.setdefault(request.cluster, []).extend(request.gaps)
    samples = list(clusters.values())
    count = sum(map(len, samples))
    if not count:
        return []
    random = np.random.default_rng(seed)
    weights = np.vstack([np.ones(len(samples)), draw_weights(len(samples), _RESAMPLES, random)])
    known = [q for q in _GRID if count * (1 - q / 100) >= 10 or q <= 50]  # noqa: PLR2004 - as rows of a comparison
    points = []
    for q in known:
        found = Percentile(samples, q).of(weights)
        low, high = np.nanpercentile(found[1:], _TAILS)
        points.append(Point(q, float(found[0]), float(low), float(high)))
    return points
