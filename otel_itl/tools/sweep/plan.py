"""What a sweep is to do: every option, with its default."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Final, Literal

from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.prices import Prices
from otel_itl.tools.sweep.prompts import Prompts

DEFAULT_LEVELS: Final = (1.0, 1.5, 2.0, 3.0, 5.0)
DEFAULT_ROUNDS: Final = 3
MAX_STREAMS: Final = 10_000
"""Streams open at a time: about what one process can hold."""
DEFAULT_STEADY_SECONDS: Final = 30.0
DEFAULT_MAX_ERROR_SHARE: Final = 0.1
DEFAULT_MAX_RETRY_AFTER: Final = 120.0

Arrivals = Literal["poisson", "constant", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLimits:
    """What a sweep may consume at most, and when it stops. None: no such limit.

    Requests under way never exceed `max_requests`, `max_tokens` or `max_cost`: each counts with its maximum until it
    ends.

    Raises:
        ValueError: a limit that is not positive, or an error share that is not between 0 and 1.
    """

    max_requests: int | None = None
    """Requests that are sent."""
    max_tokens: int | None = None
    """Input and output tokens together, as the endpoint reports them."""
    max_cost: float | None = None
    """Cost of all requests in the currency of the price table, which this limit needs."""
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    """Share of failed requests in one round beyond which neither this level nor a higher one is tried again."""
    max_retry_after: float = DEFAULT_MAX_RETRY_AFTER
    """Seconds: an endpoint that asks for a longer pause (`Retry-After`) ends the sweep."""
    max_open_streams: int | None = None
    """Streams open at a time; None: four times the concurrency of the highest level, at least 64 more than that."""

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_tokens", "max_cost", "max_retry_after", "max_open_streams"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                message = f"{name}={value!r} is not accepted: it takes a number above 0."
                raise ValueError(message)
        if not 0 < self.max_error_share <= 1:
            message = f"max_error_share={self.max_error_share!r} is not accepted: it takes a share above 0, at most 1."
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The options of one sweep. Times are seconds.

    Raises:
        ValueError: an option that is not accepted; the message names it, the value and what it takes.
    """

    peak: float
    """The expected peak: streams open at a time."""
    prompts: Prompts
    """What is asked, and with how many tokens at most it may be answered."""
    levels: tuple[float, ...] = DEFAULT_LEVELS
    """Multiples of the peak, in any order."""
    rounds: int = DEFAULT_ROUNDS
    """Repeats of each level. The first goes up from level to level, so that none above the first that is too much is
    tried; in the others the order is shuffled."""
    is_open_loop: bool = True
    """Requests are due by the clock, whether or not earlier ones have ended. Else as many callers as streams are
    planned each ask again as soon as they are answered."""
    arrivals: Arrivals = "poisson"
    """How requests that are due by the clock are spread: at random, evenly, or as in `inter_arrivals`."""
    inter_arrivals: tuple[float, ...] = ()
    """Recorded times between two requests, in their order: the shape of `recorded` arrivals, scaled to each rate."""
    steady_seconds: float = DEFAULT_STEADY_SECONDS
    """How long each round measures."""
    warmup_seconds: float | None = None
    """How long each round runs at its level before it measures; None: one and a half request durations."""
    drain_seconds: float | None = None
    """How long what was sent in the steady part may take to end after it; None: four request durations, at least 10."""
    request_duration: float | None = None
    """Mean duration of a request at the expected peak, from which the rates follow; None: it is measured first."""
    limits: SweepLimits = field(default_factory=SweepLimits)
    prices: Prices | None = None
    objective: SLO | None = None
    seed: int = 0
    """Seed of all random choices: the requests of a sweep with the same seed are due at the same moments."""
    output: str | None = None
    """A new file for the streams, as OTLP JSON lines; None: they are kept nowhere."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if not self.levels or len(set(self.levels)) != len(self.levels):
            message = f"levels={self.levels!r} is not accepted: it takes different multiples of the peak."
            raise ValueError(message)
        if self.rounds < 1:
            message = f"rounds={self.rounds!r} is not accepted: it takes a whole number from 1 up."
            raise ValueError(message)
        if self.arrivals == "recorded" and not any(self.inter_arrivals):
            raise ValueError("arrivals='recorded' needs the times between recorded requests: there are none.")
        if self.limits.max_cost is not None and self.prices is None:
            message = f"max_cost={self.limits.max_cost!r} needs a price table: there is none."
            raise ValueError(message)

    def _check_numbers(self) -> None:
        """Refuse a peak, a level or a time that is not a positive number."""
        numbers = {
            "peak": self.peak,
            "steady_seconds": self.steady_seconds,
            "drain_seconds": self.drain_seconds,
            "request_duration": self.request_duration,
            **{f"levels[{index}]": level for index, level in enumerate(self.levels)},
        }
        for name, value in numbers.items():
            if value is not None and not (isfinite(value) and value > 0):
                message = f"{name}={value!r} is not accepted: it takes a number above 0."
                raise ValueError(message)
        if self.warmup_seconds is not None and not (isfinite(self.warmup_seconds) and self.warmup_seconds >= 0):
            message = f"warmup_seconds={self.warmup_seconds!r} is not accepted: it takes a number from 0 up."
            raise ValueError(message)

    @property
    def ascending_levels(self) -> tuple[float, ...]:
        """The levels in the order of the first round."""
        return tuple(sorted(self.levels))
