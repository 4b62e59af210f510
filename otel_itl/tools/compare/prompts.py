"""Compares the prompts of both sides: latencies that depend on them are compared only where the prompts are alike.

No law of how a latency goes with the prompt is assumed. Where prompts are alike, what their lengths make of the first
token is chance: `levels` are the control variate by which a resampled ratio loses that part of its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Final

import numpy as np

from otel_itl.tools.compare.effects import make_effect
from otel_itl.tools.compare.levels import Floats, Level, Percentile, Pool, Rate
from otel_itl.tools.compare.requests import GAPS, PACE, TTFT, Request
from otel_itl.tools.compare.resampling import CHANCE, Bools, Resamples
from otel_itl.tools.compare.verdicts import Estimate
from otel_itl.tools.report.render.number_format import format_three_digits

CONFOUNDED: Final = "give sides with like prompts"
"""What to do where a figure is not compared because prompts differ."""
_COMPARED: Final = (5, 25, 50, 75, 95)
"""Percentiles of the prompt lengths that are alike where prompts are, besides their mean."""
_MIN_KNOWN: Final = 0.9
"""Share of a side's requests whose prompt length has to be known to take out noise."""
_MIN_CLUSTERS: Final = 10
"""Clusters of a side, likewise."""
_MIN_REQUESTS: Final = 20
_MIN_CLUSTERS_OF_SLOPE: Final = 3
"""Requests and clusters of a side from which it is known whether its pace depends on the prompt."""
_SURELY: Final = 2.0
"""Standard errors of a slope that is not 0."""

_Clusters = Sequence[Sequence[Request]]
"""The requests of each cluster to one model."""


def _take_gap(request: Request) -> float:
    """Return the mean gap; 0: unknown, or set aside."""
    return float(np.mean(request.gaps)) if len(request.gaps) and GAPS not in request.set_aside else 0.0


def _take_pace(request: Request) -> float:
    """Return the time per output token; 0: unknown, or set aside."""
    return request.decode_time / request.later_tokens if request.later_tokens and PACE not in request.set_aside else 0.0


_LATENCIES: Final[Mapping[str, Callable[[Request], float]]] = {GAPS: _take_gap, PACE: _take_pace}
"""Field of figures that may depend on the prompt → the latency of a request by which that is known."""


class Prompts:
    """The prompts of some models on both sides.

    Args:
        requests: of each model the requests of each cluster.
        resamples: of these clusters.
        margin: the relative difference that does not matter.
    """

    def __init__(self, requests: Mapping[str, _Clusters], resamples: Resamples, margin: float) -> None:
        self._requests, self._resamples, self._margin = requests, resamples, margin
        self._pools = [Pool([_lengths(own) for own in clusters]) for clusters in requests.values()]
        self._differing = {
            model: why
            for (model, clusters), pool in zip(requests.items(), self._pools, strict=True)
            if (why := self._compare(clusters, pool)) is not None
        }
        """Of each model whose prompts differ how, and the largest log ratio."""
        is_b = resamples.design.is_b
        self._is_known = resamples.design.fewest >= _MIN_CLUSTERS and all(
            _share_known(clusters, is_side) >= _MIN_KNOWN for clusters in requests.values() for is_side in (is_b, ~is_b)
        )

    def levels(self, field: str | None, percentile: float | None) -> Sequence[Level] | None:
        """Return of each model the prompts at the percentile of a figure; None: they are not needed, or not known."""
        if field != TTFT or percentile is None or not self._is_known:
            return None
        return [Percentile(pool, percentile) for pool in self._pools]

    def refuse(self, field: str | None) -> Estimate | None:
        """Return why the figures of a field are not compared; None: prompts are alike, or do not matter to them."""
        for model, (how, difference) in self._differing.items():
            if field == TTFT or self._depends(model, field, difference):
                return Estimate(why=f"B's prompts are {how}, and what that makes of it is not known: {CONFOUNDED}")
        return None

    def _compare(self, clusters: _Clusters, pool: Pool) -> tuple[str, float] | None:
        """Return how the prompts to a model differ, and the largest log ratio; None: not by more than chance."""
        if not pool.values.size:
            return None
        lengths = [_lengths(own) for own in clusters]
        mean = Rate([sum(own) for own in lengths], [len(own) for own in lengths], is_count=False)
        levels: dict[str, Level] = {"": mean} | {f"p{q}": Percentile(pool, q) for q in _COMPARED}
        found: dict[str, float] = {}
        for name, level in levels.items():
            observed, error = self._resamples.measure(make_effect([level], [1.0]))
            # An error is not known of a single cluster, nor is the difference of a side without lengths.
            if abs(observed) > max(math.log1p(self._margin), CHANCE * error):
                found[name] = observed
        if not found:
            return None
        largest = max(found, key=lambda name: abs(found[name]))
        ratio = format_three_digits(math.exp(found.get("", found[largest])))
        how = f"{ratio} times as long" if "" in found else f"of other lengths ({largest} is {ratio} times A's)"
        return how, abs(found[largest])

    def _depends(self, model: str, field: str | None, difference: float) -> bool:
        """Return whether the pace of a side follows its prompts, and by how much they differ makes it matter."""
        if field is None or field not in _LATENCIES:
            return False
        is_b = self._resamples.design.is_b
        slopes = [
            _find_slope(list(compress(self._requests[model], of_side)), _LATENCIES[field]) for of_side in (is_b, ~is_b)
        ]
        return any(
            abs(slope) > _SURELY * error
            and (abs(slope) + _SURELY * error) * difference > math.log1p(self._margin) / 2  # steeper at an end
            for slope, error in filter(None, slopes)
        )


def _lengths(requests: Sequence[Request]) -> list[int]:
    return [one.prompt_tokens for one in requests if one.prompt_tokens]


def _share_known(clusters: _Clusters, is_side: Bools) -> float:
    """Return the share of a side's requests whose prompt length is known."""
    of_side = list(compress(clusters, is_side))
    return sum(len(_lengths(own)) for own in of_side) / max(sum(map(len, of_side)), 1)


def _find_slope(clusters: _Clusters, take: Callable[[Request], float]) -> tuple[float, float] | None:
    """Return the slope of the log of a latency over that of the prompt on one side, and its standard error by clusters.

    None: too few have both, or all prompts are of one length.
    """
    rows = [
        (math.log(one.prompt_tokens), math.log(latency), number)
        for number, requests in enumerate(clusters)
        for one in requests
        if one.prompt_tokens and (latency := take(one)) > 0
    ]
    count = len({number for _, _, number in rows})
    if len(rows) < _MIN_REQUESTS or count < _MIN_CLUSTERS_OF_SLOPE:
        return None
    columns: Floats = np.array(rows, dtype=float).T
    centered, latencies = (one - one.mean() for one in columns[:2])
    squares = float(centered @ centered)
    if squares <= 0:
        return None
    slope = float(centered @ latencies) / squares
    of_clusters = np.bincount(columns[2].astype(int), weights=centered * (latencies - slope * centered))
    return slope, math.sqrt(count / (count - 2) * float(of_clusters @ of_clusters)) / squares
