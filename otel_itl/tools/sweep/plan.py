"""What a sweep is to do: every option, with its default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.prices import Price
from otel_itl.tools.sweep.prompts import Prompts
from otel_itl.tools.sweep.sample_size import least_requests

DEFAULT_LEVELS: Final = (1.0, 1.5, 2.0, 3.0, 5.0)
DEFAULT_ROUNDS: Final = 3
MAX_STREAMS: Final = 10_000
"""Streams open at a time: about what one process can hold."""
MAX_WORKERS: Final = 64
MIN_STEADY_SECONDS: Final = 30.0
MAX_STEADY_SECONDS: Final = 300.0
"""Longest steady part of a round, unless `--seconds` is given."""
SAMPLE_FACTOR: Final = 2
"""Requests of a level, in those with which it can be known at all that it is within the objective: one or two may be
late."""
WARM_UP_DURATIONS: Final = 1.5
"""Request durations for which a round warms up: then as many streams end as begin."""
DEFAULT_MAX_ERROR_SHARE: Final = 0.1
DEFAULT_PROMPT_TOKENS: Final = 256
DEFAULT_ANSWER_TOKENS: Final = 256
MAX_REQUESTS_ELSEWHERE: Final = 5_000
"""Requests at most to a host that is not this machine, unless `--max-requests` is given."""

Arrivals = Literal["poisson", "constant", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The options of one sweep, which the command line has checked. Times are seconds."""

    peak: float
    """The expected peak: streams open at a time."""
    prompts: Prompts
    """What is asked, and with how many tokens at most it may be answered."""
    levels: tuple[float, ...] = DEFAULT_LEVELS
    """Multiples of the peak, in any order."""
    is_search: bool = False
    """The levels that are driven are searched for, up to the highest one, instead of those of `levels`."""
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
    steady_seconds: float | None = None
    """How long each round measures; None: until a level has the requests that an answer takes, see `steady_at`."""
    warmup_seconds: float | None = None
    """How long each round runs at its level before it measures; None: one and a half request durations."""
    drain_seconds: float | None = None
    """How long what was sent in the steady part may take to end after it; None: four request durations, at least 10."""
    request_duration: float | None = None
    """Mean duration of a request at the expected peak, from which the rates follow; None: it is measured first."""
    max_requests: int | None = None
    """Requests that are sent at most. No limit is exceeded by requests under way: each counts with its maximum until it
    ends."""
    max_tokens: int | None = None
    """Input and output tokens together at most, as the endpoint reports them."""
    max_cost: float | None = None
    """Cost of all requests at most, which needs a price."""
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE
    """Share of failed requests in one round beyond which neither this level nor a higher one is tried again."""
    price: Price | None = None
    objective: SLO | None = None
    workers: int | None = None
    """Processes that send the requests; None: as many as the highest level needs, by the tokens of its answers, and no
    more than there are CPUs."""
    seed: int = 0
    """Seed of all random choices: the requests of a sweep with the same seed are due at the same moments."""
    server_metrics: str | None = None
    """URL of the server's own Prometheus metrics; None: they are not read."""
    output: str | None = None
    """A new file for the streams, as OTLP JSON lines; None: they are kept nowhere."""
    has_page: bool = False
    """The streams are described for a page."""

    @property
    def ascending_levels(self) -> tuple[float, ...]:
        """The levels in the order of the first round."""
        return tuple(sorted(self.levels))

    def steady_at(self, level: float, duration: float) -> float:
        """Return how long a round of a level measures, given the duration of a request (s).

        So long that all rounds of the level together have the requests that an answer about the objective takes.
        """
        if self.steady_seconds is not None:
            return self.steady_seconds
        wanted = 0 if self.objective is None else SAMPLE_FACTOR * least_requests(1 - self.objective.target)
        seconds = wanted / self.rounds * duration / (level * self.peak)
        return min(max(seconds, MIN_STEADY_SECONDS), MAX_STEADY_SECONDS)

    def estimate_round(self, level: float, duration: float) -> float:
        """Return about how many seconds a round of a level takes, given the duration of a request (s)."""
        warm_up = WARM_UP_DURATIONS * duration if self.warmup_seconds is None else self.warmup_seconds
        return warm_up + self.steady_at(level, duration) + 2 * duration

    def callers_at(self, level: float) -> int:
        """Return how many callers a level has, where each asks again as soon as it is answered."""
        return max(round(level * self.peak), 1)
