"""Records of a sweep: the driver writes them, the analysis reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from otel_itl.core.slo import SLO
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.report.certainty import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRequest:
    """One request that was due, whether or not it was sent. Times are seconds since the sweep began.

    Times count from the moment when it was due, so that a request that had to wait before it was sent is not left out
    or shortened (coordinated omission).
    """

    level: float
    """Load, in multiples of the expected peak."""
    round: int
    """Number of the repeat of its level, from 0."""
    is_steady: bool
    """The request was due in the steady part of its round, neither in the warm-up nor while the round drained."""
    due: float
    """When the request was due; in a closed loop, when its caller was free."""
    sent: float | None
    """When the request was sent; None: it never was."""
    ended: float | None
    """When its stream ended; None: the stream was cut off by the end of the sweep."""
    measured: Request | None
    """What was measured of its stream; None: the stream never began."""
    status: int | None = None
    """HTTP status of a failure."""
    error: str | None = None
    """Type of a failure, as `error.type` of its span; `NoToken`: it was answered without a token."""
    detail: str | None = None
    """The endpoint's own message about the failure, or what became of the connection; None: neither is known."""
    stall_causes: Counter[str] = field(default_factory=Counter)
    """Cause of a stall → how many."""
    held_up_by: Cause | None = None
    """Why its figures are not the endpoint's, and are set aside: the caller or this machine held the stream up."""

    @property
    def is_held_up(self) -> bool:
        """Its figures are set aside."""
        return self.held_up_by is not None

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from when the request was due to its first token: waiting to be sent counts; None: no token."""
        if self.measured is None or self.measured.time_to_first_token is None or self.sent is None:
            return None
        return self.sent - self.due + self.measured.time_to_first_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One repeat of one level. Times are seconds since the sweep began."""

    level: float
    round: int
    rate: float | None
    """Requests per second that were due; None: a closed loop."""
    steady_from: float
    """When the steady part began."""
    steady_until: float
    """When the steady part ended."""
    concurrency: float
    """Streams open at a time in the steady part, on average."""
    max_concurrency: int
    """Streams open at a time in the steady part, at most."""
    schedule_delay_p99: float
    """99th percentile of how late requests were sent, in seconds."""
    loop_lag_p99: float
    """99th percentile of how late the event loop was, in seconds."""
    host_delay_share: float
    """Share of the steady part in which this process waited for a CPU."""
    void_reason: str | None = None
    """Why the round counts for nothing, in one clause (`429 from the endpoint`); None: it counts."""
    is_failing: bool = False
    """It was ended before its time because more of its requests failed than are allowed."""
    is_driver_bound: bool = False
    """The round is void because this machine could not drive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All that a sweep recorded: its rounds and its requests."""

    endpoint: str
    model: str
    peak: float
    """The expected peak: streams open at a time."""
    is_open_loop: bool
    """Requests were due by the clock, whether or not earlier ones had ended."""
    objective: SLO | None
    levels: Sequence[float]
    """Levels that were planned, ascending."""
    rounds: Sequence[Round]
    requests: Sequence[DueRequest]
    stop_reason: str | None = None
    """Why the sweep ended before the last level, in one clause (`--max-requests 500 was reached`); None: it did not."""
    request_count: int = 0
    """Requests that were sent, with those that measured how long one takes."""
    cost: float | None = None
    """What the requests cost by the price table; None: no table was given."""
