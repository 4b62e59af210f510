"""Records of a sweep: the driver writes them, the analysis reads them. Times are seconds on the clock of the driver."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.export.file.encoding import Document as OTLPDocument
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.sweep.brakes import INTERRUPTED, RoundEnd
from otel_itl.tools.sweep.concurrency import Span
from otel_itl.tools.sweep.server_metrics import Reading


@dataclass(eq=False, slots=True, kw_only=True)
class DueRequest:
    """One request that was due, whether or not it was sent: when it was, what became of it, what was measured of it.

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
    task: asyncio.Task[None] | None = None
    """Sends it, and reads its stream to the end; None: it may not be sent."""
    sent: float | None = None
    """When the request was sent; None: it never was."""
    first_token: float | None = None
    """When its first token was there; None: it has got none."""
    ended: float | None = None
    """When its stream ended; None: the stream is open, or was cut off."""
    status: int | None = None
    """HTTP status of a failure."""
    error: str | None = None
    """Type of a failure, as `error.type` of its span; `NoToken`: it was answered without a token."""
    detail: str | None = None
    """The endpoint's own message about the failure, or what became of the connection; None: neither is known."""
    span_id: int | None = None
    span: Any = None
    """The span of the stream, between the stream's end and its being read."""
    document: OTLPDocument | None = None
    """The same as OTLP, where another process has measured it."""
    usage: tuple[int | None, int | None] = (None, None)
    """Input and output tokens that the endpoint has reported; None: it has not."""
    measured: Request | None = None
    """What was measured of its stream; None: the stream never began."""
    is_buffered: bool = False
    """A proxy or the server buffered its answer: its gaps are not the model's."""
    described: dict[str, Any] | None = None
    """Its stream as the page shows it; None: no page was asked for, or the request counts for nothing."""
    stall_causes: Counter[str] = field(default_factory=Counter)
    """Cause of a stall → how many."""
    most_tokens: int | None = None
    """Tokens that its answer was to have at most; None: it was not sent."""
    is_exact: bool = False
    """Its answer was to have exactly as many."""
    held_up: float = 0.0
    """Seconds for which the caller or this machine held the stream up; 0, where that is too little to set it aside."""
    held_up_by: Cause | None = None
    """Why its figures are not the endpoint's, and are set aside: the caller or this machine held the stream up."""

    @property
    def duration(self) -> float | None:
        """Seconds from when it was sent to the end of its stream; None: it was not, or has not ended."""
        return None if self.sent is None or self.ended is None else self.ended - self.sent

    @property
    def is_held_up(self) -> bool:
        """Its figures are set aside."""
        return self.held_up_by is not None

    @property
    def is_shorter(self) -> bool:
        """Its answer was to have an exact length, and has fewer tokens."""
        return self.is_exact and self.measured is not None and 0 < self.measured.tokens < (self.most_tokens or 0)

    @property
    def is_longer(self) -> bool:
        """Its answer has more tokens than it was to have at most."""
        return self.measured is not None and self.most_tokens is not None and self.measured.tokens > self.most_tokens

    @property
    def is_truncated(self) -> bool:
        """Its answer ended without a finish reason, and without a failure."""
        return self.error is None and self.measured is not None and self.measured.outcome is Outcome.TRUNCATED

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from when the request was due to its first token: waiting to be sent counts; None: no token."""
        if self.measured is None or self.measured.time_to_first_token is None or self.sent is None:
            return None
        return self.sent - self.due + self.measured.time_to_first_token

    @property
    def stalls(self) -> int:
        """Number of its stalls, with or without a known cause."""
        return max(self.stall_causes.total(), self.measured.stalls if self.measured else 0)

    @property
    def failure(self) -> str | None:
        """Type of its failure, with the HTTP status: `500 InternalServerError`; None: the request did not fail."""
        if self.status is not None and self.error != str(self.status):
            return f"{self.status} {self.error or ''}".strip()
        return self.error

    @property
    def failure_with_detail(self) -> str:
        """Why it failed: `401 AuthenticationError: wrong key`."""
        return f"{self.failure}" if self.detail is None else f"{self.failure}: {self.detail}"


@dataclass(eq=False, slots=True, kw_only=True)
class Round:
    """One repeat of one level."""

    level: float
    round: int
    rate: float | None
    """Requests per second that were due; None: a closed loop."""
    requests: list[DueRequest] = field(default_factory=list)
    steady_from: float | None = None
    """When the steady part began; None: the round ended in its warm-up."""
    steady_until: float | None = None
    """When the steady part ended."""
    concurrency: float = 0.0
    """Streams open at a time in the steady part, on average."""
    max_concurrency: int = 0
    """Streams open at a time in the steady part, at most."""
    schedule_delay_p99: float = 0.0
    """99th percentile of how late requests were sent, in seconds."""
    loop_lag_p99: float = 0.0
    """99th percentile of how late the event loop was, in seconds."""
    host_delay_share: float = 0.0
    """Share of the steady part in which this process waited for a CPU."""
    server: Sequence[Reading] = ()
    """The server's own metrics in the steady part."""
    end: RoundEnd | None = None
    """Why the round ended before its time; None: it was driven to its end, or the sweep was stopped."""
    reason: str | None = None
    """Why the round or the sweep ended before its time, in one clause; None: it did not."""
    is_complete: bool = False
    """Its steady part lasted as long as planned."""
    void_reason: str | None = None
    """Why the round counts for nothing, in one clause (`429 from the endpoint`); None: it counts."""
    is_failing: bool = False
    """It was ended before its time because more of its requests failed than are allowed."""
    is_driver_bound: bool = False
    """The round is void because this machine could not drive it."""

    @property
    def spans(self) -> list[Span]:
        """When each request was sent and when its stream ended, which is never where it has not."""
        return [(one.sent, inf if one.ended is None else one.ended) for one in self.requests if one.sent is not None]

    @property
    def seconds(self) -> float:
        """Length of the steady part; 0: there was none."""
        if self.steady_from is None or self.steady_until is None:
            return 0.0
        return self.steady_until - self.steady_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All that a sweep recorded: its rounds, with their requests."""

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
    began: float = 0.0
    """When the sweep began, on the clock of the driver."""
    stop_reason: str | None = None
    """Why the sweep ended before the last level, in one clause (`--max-requests 500 was reached`); None: it did not."""
    has_server_metrics: bool = False
    """The server's own metrics were asked for."""
    metrics_problem: str | None = None
    """Why the last reading of these that failed did, in one clause; None: none has failed."""
    request_count: int = 0
    """Requests that were sent, with those that measured how long one takes."""
    cost: float | None = None
    """What the requests cost by `--prices`; None: no price was given."""

    @property
    def allowed(self) -> float:
        """Share of requests, and of gaps, that may be over the objective; without one, 0."""
        return 0.0 if self.objective is None else 1 - self.objective.target

    @property
    def is_interrupted(self) -> bool:
        """Ctrl-C ended it."""
        return self.stop_reason == INTERRUPTED

    @property
    def requests(self) -> list[DueRequest]:
        """The requests of all rounds."""
        return [request for one in self.rounds for request in one.requests]
