"""The quantities that a comparison judges, one row each: what is counted, and in which clusters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.levels import Level, Percentile, Rate
from otel_itl.tools.compare.requests import Request

MIN_BEYOND = 10
"""Samples beyond a percentile, below which it is refused: it would be the value of a few gaps."""
MIN_CLUSTERS = 5
"""Clusters a side below which p99 is refused."""

Clusters = Sequence[Sequence[Request]]
"""The requests of each cluster."""
Number = Callable[[Request], float]
MakeLevel = Callable[[Clusters, float | None], Level]
"""Makes the figure of clusters; the second argument is the ITL objective in seconds."""


class Unit(Enum):
    """What a quantity is a number of."""

    SECONDS = "s"
    SHARE = "share"
    PER_THOUSAND_TOKENS = "per 1,000 tokens"
    REQUESTS_PER_SECOND = "requests/s"
    TOKENS_PER_SECOND = "tokens/s"


_SUFFIXES: Final = {
    Unit.SECONDS: ", ms",
    Unit.SHARE: ", %",
    Unit.REQUESTS_PER_SECOND: ", 1/s",
    Unit.TOKENS_PER_SECOND: "/s",
}
"""Unit → what stands behind the title of a column that is in it."""


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A figure that a table has."""

    key: str
    """Its identifier, in JSON and on the command line."""
    title: str
    unit: Unit

    @property
    def heading(self) -> str:
        """The title with the unit that people read it in."""
        return self.title + _SUFFIXES.get(self.unit, "")


@dataclass(frozen=True, slots=True)
class Quantity(NamedFigure):
    """One row of a comparison. The effect is the ratio of B's figure to A's."""

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


def _rate(events: Number, exposure: Number, **rate: Any) -> MakeLevel:
    """Return what makes a rate of what is summed up over the requests of each cluster."""

    def make(clusters: Clusters, _: float | None) -> Rate:
        return Rate(*([sum(map(number, requests)) for requests in clusters] for number in (events, exposure)), **rate)

    return make


def _share(outcome: Outcome) -> MakeLevel:
    """Return what makes the share of the requests that have an outcome."""
    return _rate(lambda request: request.outcome is outcome, lambda _: 1, is_share=True)


def _over_objective(clusters: Clusters, objective: float | None) -> Level:
    """Make the share of the gaps that are longer than the objective."""

    def count_over(request: Request) -> int:
        return len(request.gaps) - bisect_right(request.gaps, objective or 0.0)

    return _rate(count_over, lambda request: len(request.gaps), is_share=True)(clusters, None)


def _first_token(request: Request) -> list[float]:
    return [] if request.time_to_first_token is None else [request.time_to_first_token]


QUANTITIES = (
    Quantity("ttft_p50", "TTFT p50", Unit.SECONDS, _percentile(50, _first_token), percentile=50),
    *(
        Quantity(f"itl_p{q}", f"ITL p{q}", Unit.SECONDS, _percentile(q, lambda request: request.gaps), percentile=q)
        for q in (50, 95, 99)
    ),
    Quantity(
        "tpot", "TPOT", Unit.SECONDS, _rate(lambda one: one.decode_time, lambda one: one.later_tokens, is_count=False)
    ),
    Quantity("over_objective", "over objective", Unit.SHARE, _over_objective, needs_objective=True),
    Quantity(
        "stalls",
        "stalls/1,000 tokens",
        Unit.PER_THOUSAND_TOKENS,
        _rate(lambda one: one.stalls, lambda one: one.tokens, per=1_000),
    ),
    Quantity("truncated", "truncated", Unit.SHARE, _share(Outcome.TRUNCATED)),
    Quantity("errors", "errors", Unit.SHARE, _share(Outcome.ERROR)),
)
"""The rows of a model, in their order."""
