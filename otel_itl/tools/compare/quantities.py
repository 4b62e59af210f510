"""The quantities that a comparison judges, one row each: what is counted, and in which clusters."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.levels import Level, Mean, Percentile, Pool, Rate
from otel_itl.tools.compare.requests import GAPS, PACE, TTFT, Request

MEDIAN = 50
PROMPT_LENGTH: Final = "prompt_length"
_LEFT: Final = {Outcome.CLOSED, Outcome.ABANDONED, Outcome.INTERRUPTED}
_OUTCOMES: Final = {
    "truncated": Outcome.TRUNCATED,
    "errors": Outcome.ERROR,
    "cancelled": Outcome.CANCELLED,
    "closed": Outcome.CLOSED,
    "abandoned": Outcome.ABANDONED,
}

Number = Callable[[Request], float]
Samples = Callable[[Request], Iterable[float]]


class Clustered:
    """The requests of each cluster to one model, and what is pooled of them.

    Args:
        clusters: the requests of each.
    """

    def __init__(self, clusters: Sequence[Sequence[Request]]) -> None:
        self.clusters = clusters
        self._pools: dict[Samples, Pool] = {}

    def pool(self, samples: Samples) -> Pool:
        """Return the samples of the requests, which several percentiles share."""
        if samples not in self._pools:
            pooled = [np.concatenate([*map(samples, requests), np.empty(0)]) for requests in self.clusters]
            self._pools[samples] = Pool(pooled)
        return self._pools[samples]


MakeLevel = Callable[[Clustered, float | None], Level]
"""Makes the figure of clusters; the second argument is the ITL objective in seconds."""


class Unit(Enum):
    """What a quantity is a number of."""

    SECONDS = "s"
    SHARE = "share"
    PER_THOUSAND_TOKENS = "per 1,000 tokens"
    REQUESTS_PER_SECOND = "requests/s"
    TOKENS_PER_SECOND = "tokens/s"
    TOKENS = "tokens"
    STREAMS = "streams"


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


class Direction(Enum):
    """What it means that B's figure is higher than A's."""

    SLOWER = 1
    FASTER = -1
    LONGER = 0
    """The answers or prompts are longer, which is neither."""
    MORE = 2
    """There are more of them, which is neither."""


class Role(Enum):
    """What a quantity does to the exit code, unless rows are chosen."""

    REQUIRED = 2
    """It has to be known."""
    ALARM = 1
    """It decides only if it is slower: rare events are seldom known."""
    SHOWN = 0
    """It decides nothing, as it follows from the length of the answers as well."""


@dataclass(frozen=True, slots=True)
class Quantity(NamedFigure):
    """One row of a comparison. The effect is the ratio of B's figure to A's."""

    level: MakeLevel
    percentile: float | None = None
    needs_objective: bool = False
    direction: Direction = Direction.SLOWER
    field: str | None = None
    """The field of `Measures` from which streams may be set aside; None: none is."""
    role: Role = Role.REQUIRED
    is_of_buffered: bool = False
    """It is there for streams that a proxy buffered, whose other figures are refused: else nothing is said of their
    pace."""

    @property
    def is_optional(self) -> bool:
        """It is left out where the sample is too small for it."""
        return self.percentile is not None and self.percentile > MEDIAN and self.field == TTFT


def _percentile(q: float, samples: Samples) -> MakeLevel:
    """Return what makes a percentile of the samples of requests."""

    def make(clustered: Clustered, _: float | None) -> Percentile:
        return Percentile(clustered.pool(samples), q)

    return make


def _rate(events: Number, exposure: Number, **rate: Any) -> MakeLevel:
    """Return what makes a rate of what is counted over the requests of each cluster."""

    def make(clustered: Clustered, _: float | None) -> Rate:
        summed = ([sum(map(number, requests)) for requests in clustered.clusters] for number in (events, exposure))
        return Rate(*summed, **rate)

    return make


def _mean(amount: Number, exposure: Number) -> MakeLevel:
    """Return what makes a mean of the amounts of requests."""

    def make(clustered: Clustered, _: float | None) -> Mean:
        of_each = ([list(map(number, requests)) for requests in clustered.clusters] for number in (amount, exposure))
        return Mean(*of_each)

    return make


def _share(is_event: Callable[[Request], bool]) -> MakeLevel:
    """Return what makes the share of the requests that something is true of."""
    return _rate(is_event, lambda _: 1, is_share=True)


def _over_objective(clustered: Clustered, objective: float | None) -> Level:
    """Make the share of the gaps that are longer than the objective."""

    def count_over(request: Request) -> int:
        gaps = _gaps(request)
        return len(gaps) - bisect_right(gaps, objective or 0.0)

    return _rate(count_over, lambda request: len(_gaps(request)), is_share=True)(clustered, None)


def _first_token(request: Request) -> Sequence[float]:
    """Return the time to the first token: infinite, where none came."""
    if TTFT in request.set_aside:
        return ()
    return (math.inf if request.time_to_first_token is None else request.time_to_first_token,)


def _gaps(request: Request) -> Sequence[float]:
    return () if GAPS in request.set_aside else request.gaps


def _end_to_end(request: Request) -> Sequence[float]:
    """Return the time to the end: infinite, where the answer was not completed; none, where the caller left it."""
    if request.outcome in _LEFT:
        return ()
    return (request.duration if request.outcome is Outcome.COMPLETED else math.inf,)


def _has(outcome: Outcome) -> Callable[[Request], bool]:
    return lambda request: request.outcome is outcome


def _is_kept(request: Request) -> bool:
    return PACE not in request.set_aside


def _is_over(request: Request) -> bool:
    return request.outcome is Outcome.COMPLETED


QUANTITIES = (
    *(
        Quantity(
            f"ttft_p{q}",
            f"TTFT p{q}",
            Unit.SECONDS,
            _percentile(q, _first_token),
            percentile=q,
            field=TTFT,
        )
        for q in (50, 95, 99)
    ),
    *(
        Quantity(
            f"itl_p{q}",
            f"ITL p{q}",
            Unit.SECONDS,
            _percentile(q, _gaps),
            percentile=q,
            field=GAPS,
        )
        for q in (50, 95, 99)
    ),
    Quantity(
        "burst_to_burst",
        "burst to burst",
        Unit.SECONDS,
        _mean(lambda one: one.buffered_time, lambda one: one.buffered_gaps),
        is_of_buffered=True,
    ),
    Quantity(
        "tpot",
        "TPOT",
        Unit.SECONDS,
        _mean(
            lambda one: one.decode_time if _is_kept(one) else 0.0, lambda one: one.later_tokens if _is_kept(one) else 0
        ),
        field=PACE,
    ),
    Quantity("e2e_p50", "end to end p50", Unit.SECONDS, _percentile(50, _end_to_end), percentile=50, role=Role.SHOWN),
    Quantity(
        "speed",
        "tokens",
        Unit.TOKENS_PER_SECOND,
        _mean(
            lambda one: 0 if one.outcome in _LEFT else one.tokens,
            lambda one: 0.0 if one.outcome in _LEFT else one.duration,
        ),
        direction=Direction.FASTER,
        role=Role.SHOWN,
    ),
    Quantity(
        "answer_length",
        "answer length",
        Unit.TOKENS,
        _mean(lambda one: one.tokens if _is_over(one) else 0, lambda one: int(_is_over(one))),
        direction=Direction.LONGER,
        role=Role.SHOWN,
    ),
    Quantity(
        PROMPT_LENGTH,
        "prompt length",
        Unit.TOKENS,
        _mean(lambda one: one.prompt_tokens or 0, lambda one: int(bool(one.prompt_tokens))),
        direction=Direction.LONGER,
        role=Role.SHOWN,
    ),
    Quantity(
        "open_streams",
        "open streams",
        Unit.STREAMS,
        _mean(lambda one: one.open_streams, lambda one: int(bool(one.open_streams))),
        direction=Direction.MORE,
        role=Role.SHOWN,
    ),
    Quantity(
        "over_objective",
        "over objective",
        Unit.SHARE,
        _over_objective,
        needs_objective=True,
        field=GAPS,
        role=Role.ALARM,
    ),
    Quantity(
        "stalls",
        "stalls/1,000 tokens",
        Unit.PER_THOUSAND_TOKENS,
        _rate(lambda one: one.stalls, lambda one: one.tokens, per=1_000),
        role=Role.ALARM,
    ),
    Quantity("no_token", "no token", Unit.SHARE, _share(lambda one: one.time_to_first_token is None), role=Role.ALARM),
    *(Quantity(key, key, Unit.SHARE, _share(_has(outcome)), role=Role.ALARM) for key, outcome in _OUTCOMES.items()),
)
"""The rows of a model, in their order."""
