"""What a sweep records: the load writes it, the analysis reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from otel_itl.compare.requests import Request
from otel_itl.core.slo import SLO


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request that was due. Times are seconds since the sweep began."""

    level: float
    """Load, in multiples of the expected peak."""
    round: int
    """Which of the repeats of its level, from 0."""
    is_steady: bool
    """It was due in the steady part of its round, neither in the warm-up nor while the round drained."""
    scheduled: float
    """When it was due; in a closed loop, when its caller was free."""
    sent: float | None
    """When it was sent; None: it never was."""
    ended: float | None
    """When its stream ended; None: it was cut off by the end of the sweep."""
    request: Request | None
    """The stream, measured; None: it never began."""
    status: int | None = None
    """HTTP status of a failure."""
    error: str | None = None
    """Type of a failure, as `error.type` of its span."""
    stall_causes: Counter[str] = field(default_factory=Counter)
    """Cause of a stall → how many."""
    is_bound: bool = False
    """Its caller or this machine held it up: its figures are not the endpoint's."""

    @property
    def time_to_first_token(self) -> float | None:
        """From the moment when it was due to the first token: waiting to be sent counts; None: no token."""
        if self.request is None or self.request.time_to_first_token is None or self.sent is None:
            return None
        return self.sent - self.scheduled + self.request.time_to_first_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One repeat of one level. Times are seconds since the sweep began."""

    level: float
    round: int
    rate: float | None
    """Requests per second that were due; None: a closed loop."""
    steady_from: float
    steady_until: float
    concurrency: float
    """Streams open at a time in the steady part, on average."""
    max_concurrency: int
    schedule_delay: float
    """99th percentile of how late requests were sent, in seconds."""
    loop_lag: float
    """99th percentile of how late the event loop was, in seconds."""
    host_delay: float
    """Share of the steady part in which this process waited for a CPU."""
    void: str | None = None
    """Why the round counts for nothing, in one clause (`429 from the endpoint`); None: it counts."""
    is_driver_bound: bool = False
    """It is void because this machine could not drive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All that a sweep recorded."""

    endpoint: str
    model: str
    peak: float
    """The expected peak: streams open at a time."""
    is_open: bool
    """Requests were due by the clock, whether or not earlier ones had ended."""
    objective: SLO | None
    levels: Sequence[float]
    """That were planned, ascending."""
    rounds: Sequence[Round]
    attempts: Sequence[Attempt]
    stopped: str | None = None
    """Why it ended before the last level, in one clause (`--max-requests 500 was reached`); None: it did not."""
    cost: float | None = None
    """By the price table; None: none was given."""
