"""The quantities that a comparison judges, one row each: what is counted, and in which clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

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
MakeLevel = Callable[[Clusters, float | None], Level]
"""Makes the figure of clusters; the second argument is the ITL objective in seconds."""


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
    level: MakeLevel
    percentile: float | None = None
    needs_objective: bool = False

    @property
    def is_latency(self) -> bool:
        """It decides alone whether the answer is known; a rate of rare events decides only if it is slower."""
        return self.unit is Unit.SECONDS


def _percentile(q: float, samples: Callable[[Request], Iterable[float]]) -> MakeLevel:
    """Return what makes a percentile of the samples of requests."""

    def make(clusters: Clusters, _: float | None) -> Percentile:
        return Percentile([np.concatenate([*map(samples, requests), np.empty(0)]) for requests in clusters], q)

    return make


def _sum_up(clusters: Clusters, number: Callable[[Request], float]) -> Floats:
    """Sum a number of requests up for each cluster."""
    return np.array([sum(map(number, requests)) for requests in clusters], dtype=float)


def _share(events: Callable[[Request], float]) -> MakeLevel:
    """Return what makes the share of the requests that have an event."""
    return lambda clusters, _: Rate(
        _sum_up(clusters, events), _sum_up(clusters, lambda _: 1), is_count=True, is_share=True
    )


def _time_per_token(clusters: Clusters, _: float | None) -> Rate:
    times, tokens = (
        _sum_up(clusters, number) for number in (lambda one: one.decode_time, lambda one: one.later_tokens)
    )
    return Rate(times, tokens, is_count=False)


def _stalls(clusters: Clusters, _: float | None) -> Rate:
    stalls, tokens = (_sum_up(clusters, number) for number in (lambda one: one.stalls, lambda one: one.tokens))
    return Rate(stalls, tokens, is_count=True, per=1_000)


def _over_objective(clusters: Clusters, objective: float | None) -> Rate:
    edge = np.inf if objective is None else objective
    within = _sum_up(clusters, lambda request: int(np.searchsorted(request.gaps, edge, "right")))
    gaps = _sum_up(clusters, lambda request: len(request.gaps))
    return Rate(gaps - within, gaps, is_count=True, is_share=True)


def _first_token(request: Request) -> list[float]:
    return [] if request.time_to_first_token is None else [request.time_to_first_token]


QUANTITIES = (
    Quantity(key="ttft_p50", title="TTFT p50", unit=Unit.SECONDS, level=_percentile(50, _first_token), percentile=50),
    *(
        Quantity(
            key=f"itl_p{q}",
            title=f"ITL p{q}",
            unit=Unit.SECONDS,
            level=_percentile(q, lambda request: request.gaps),
            percentile=q,
        )
        for q in (50, 95, 99)
    ),
    Quantity(key="tpot", title="TPOT", unit=Unit.SECONDS, level=_time_per_token),
    Quantity(
        key="over_objective", title="over objective", unit=Unit.SHARE, level=_over_objective, needs_objective=True
    ),
    Quantity(key="stalls", title="stalls/1,000 tokens", unit=Unit.PER_THOUSAND_TOKENS, level=_stalls),
    Quantity(
        key="truncated",
        title="truncated",
        unit=Unit.SHARE,
        level=_share(lambda request: request.outcome is Outcome.TRUNCATED),
    ),
    Quantity(
        key="errors",
        title="errors",
        unit=Unit.SHARE,
        level=_share(lambda request: request.outcome is Outcome.ERROR),
    ),
)
"""The rows of a model, in their order."""
