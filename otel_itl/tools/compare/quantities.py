"""The quantities that a comparison judges, one row each: what is counted, and in which clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.levels import Floats, Level, Percentile, Rate
from otel_itl.tools.compare.requests import Request

MIN_BEYOND = 10
"""Samples beyond a percentile, below which it is refused: it would be the value of a few gaps."""
MIN_CLUSTERS = 5
"""Clusters a side below which p99 is refused."""

Clusters = Sequence[Sequence[Request]]
"""The requests of each cluster."""


class Unit(Enum):
    """What a quantity is a number of."""

    SECONDS = "s"
    SHARE = "share"
    PER_THOUSAND_TOKENS = "per 1,000 tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One row of a comparison. The effect is the ratio of B's figure to A's."""

    key: str
    """Its identifier, in JSON and on the command line."""
    title: str
    unit: Unit
    level: Callable[[Clusters, float | None], Level]
    """Makes the figure of clusters; the second argument is the ITL objective in seconds."""
    samples: Callable[[Clusters], Floats]
    """The number of samples of each cluster."""
    percentile: float | None = None
    is_latency: bool = True
    """It decides alone whether the answer is known; a rate of rare events decides only if it is slower."""
    needs_objective: bool = False
    is_of_arrivals: bool = True
    """It depends on when chunks came, and so may be uncertain."""
    above: Callable[[Clusters], Floats] | None = None
    """By how much the figures of each cluster, times its samples, may be more; None: that is not shown."""

    def events(self, clusters: Clusters, objective: float | None) -> float:
        """Return how many events all clusters have together; latencies have no events."""
        return 0.0 if self.is_latency else float(_COUNTED[self.key](clusters, objective).sum())


def _per_cluster(clusters: Clusters, number: Callable[[Request], float]) -> Floats:
    """Sum a number of requests up for each cluster."""
    return np.array([sum(map(number, requests)) for requests in clusters], dtype=float)


def _count_requests(clusters: Clusters) -> Floats:
    return np.array([len(requests) for requests in clusters], dtype=float)


def _count_gaps(clusters: Clusters) -> Floats:
    return _per_cluster(clusters, lambda request: len(request.gaps))


def _count_tokens(clusters: Clusters) -> Floats:
    return _per_cluster(clusters, lambda request: request.tokens)


def _count_first_tokens(clusters: Clusters) -> Floats:
    return _per_cluster(clusters, lambda request: request.time_to_first_token is not None)


def _count_later_tokens(clusters: Clusters) -> Floats:
    return _per_cluster(clusters, lambda request: request.later_tokens)


def _count_over(clusters: Clusters, objective: float | None) -> Floats:
    """Count the gaps over the ITL objective in each cluster."""
    edge = np.inf if objective is None else objective
    return _per_cluster(clusters, lambda request: len(request.gaps) - int(np.searchsorted(request.gaps, edge, "right")))


def _count_stalls(clusters: Clusters, _: float | None) -> Floats:
    return _per_cluster(clusters, lambda request: request.stalls)


def _count_outcome(outcome: Outcome) -> Callable[[Clusters, float | None], Floats]:
    return lambda clusters, _: _per_cluster(clusters, lambda request: request.outcome is outcome)


_COUNTED: Final[Mapping[str, Callable[[Clusters, float | None], Floats]]] = {
    "over_objective": _count_over,
    "stalls": _count_stalls,
    "truncated": _count_outcome(Outcome.TRUNCATED),
    "errors": _count_outcome(Outcome.ERROR),
}


def _first_tokens(clusters: Clusters, _: float | None) -> Level:
    """Return the median time to first token."""
    found = [
        [request.time_to_first_token for request in requests if request.time_to_first_token is not None]
        for requests in clusters
    ]
    return Percentile(found, 50)


def _gaps(q: float) -> Callable[[Clusters, float | None], Level]:
    """Return what makes a percentile of the gaps."""
    return lambda clusters, _: Percentile(
        [np.concatenate([*(request.gaps for request in requests), np.empty(0)]) for requests in clusters], q
    )


def _time_per_token(clusters: Clusters, _: float | None) -> Level:
    times = _per_cluster(clusters, lambda request: request.decode_time)
    return Rate(times, _count_later_tokens(clusters), is_count=False)


def _events(
    key: str, exposure: Callable[[Clusters], Floats], *, is_share: bool = True
) -> Callable[[Clusters, float | None], Level]:
    """Return what makes a rate of events."""
    return lambda clusters, objective: Rate(
        _COUNTED[key](clusters, objective), exposure(clusters), is_count=True, is_share=is_share
    )


def _thousands_of_tokens(clusters: Clusters) -> Floats:
    return _count_tokens(clusters) / 1_000


QUANTITIES = (
    Quantity(
        key="ttft_p50",
        title="TTFT p50",
        unit=Unit.SECONDS,
        level=_first_tokens,
        samples=_count_first_tokens,
        percentile=50,
    ),
    *(
        Quantity(
            key=f"itl_p{q}",
            title=f"ITL p{q}",
            unit=Unit.SECONDS,
            level=_gaps(q),
            samples=_count_gaps,
            percentile=q,
        )
        for q in (50, 95, 99)
    ),
    Quantity(
        key="tpot",
        title="TPOT",
        unit=Unit.SECONDS,
        level=_time_per_token,
        samples=_count_later_tokens,
        above=lambda clusters: _per_cluster(clusters, lambda request: request.decode_time_above),
    ),
    Quantity(
        key="over_objective",
        title="over objective",
        unit=Unit.SHARE,
        level=_events("over_objective", _count_gaps),
        samples=_count_gaps,
        is_latency=False,
        needs_objective=True,
    ),
    Quantity(
        key="stalls",
        title="stalls/1,000 tokens",
        unit=Unit.PER_THOUSAND_TOKENS,
        level=_events("stalls", _thousands_of_tokens, is_share=False),
        samples=_count_tokens,
        is_latency=False,
        is_of_arrivals=False,
    ),
    *(
        Quantity(
            key=key,
            title=key,
            unit=Unit.SHARE,
            level=_events(key, _count_requests),
            samples=_count_requests,
            is_latency=False,
            is_of_arrivals=False,
        )
        for key in ("truncated", "errors")
    ),
)
"""The rows of a model, in their order."""
