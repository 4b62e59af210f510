"""What every sink gets: the span that a stream reports to, the finished stream, and what was derived from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, set_span_in_context

from otel_itl.core.measures import Measures
from otel_itl.core.sessions import SessionStatus, TrackedRequest
from otel_itl.core.slo import SLOResult
from otel_itl.core.stream import FinishedStream


class SpanHandle:
    """The span that a request reports to, from its start to its one report.

    It is made before the span: whatever fails while the span is started, there is a handle to end it by.
    """

    __slots__ = (
        "claim_delivery",
        "claim_report",
        "context",
        "finished",
        "is_own",
        "noted_ends",
        "recorded_elsewhere",
        "records_standard",
        "report",
        "session_request",
        "span",
    )

    def __init__(self) -> None:
        self.span: Span = INVALID_SPAN
        """Ours, that of the SDK, or that of another instrumentation."""
        self.context = Context()
        """Holds the span and whatever the caller's context holds."""
        self.is_own = False
        """We have started the span, and end it."""
        self.records_standard = False
        """We record the standard metrics; False: another instrumentation does."""
        self.noted_ends: list[int] = []
        """When the SDK ended its own span (ns since the epoch), which is kept open until the stream is described on it:
        the first counts."""
        self.session_request: TrackedRequest | None = None
        """The request's place in its session; None: it belongs to none."""
        self.recorded_elsewhere: frozenset[str] = frozenset()
        """Standard metrics that another instrumentation records all the same."""
        self.claim_report: Callable[[], bool] = partial(Lock().acquire, blocking=False)
        """Returns True to its first caller alone, which computes the report of the stream. No function of ours, so that
        none can fail between the claim and its result."""
        self.claim_delivery: Callable[[], bool] = partial(Lock().acquire, blocking=False)
        """Likewise, to the one that delivers the report."""
        self.finished: FinishedStream | None = None
        """The stream, from the computing of its report to its delivery."""
        self.report: StreamReport | None = None
        """The report, likewise; None: it could not be computed."""

    @property
    def is_adopted(self) -> bool:
        """Whether the span is the SDK's own."""
        return self.records_standard and not self.is_own

    def join_session(self, session_request: TrackedRequest) -> None:
        """Set the request's place in its session."""
        self.session_request = session_request

    def join_span(self, span: Span, context: Context) -> None:
        """Report to a span that another instrumentation has started for this very request."""
        self.span, self.context = span, context

    def start_span(self, start: Callable[[], Span], recorded_elsewhere: frozenset[str]) -> None:
        """Start a span of our own and report to it."""
        self.span, self.is_own, self.records_standard = start(), True, True
        self.context = set_span_in_context(self.span)
        self.recorded_elsewhere = recorded_elsewhere

    def release(self) -> None:
        """Drop the span and the report, when that was delivered."""
        self.span, self.context = INVALID_SPAN, Context()
        self.is_own = self.records_standard = False
        self.finished = self.report = self.session_request = None

    def adopt_span(self, span: Span, recorded_elsewhere: frozenset[str]) -> None:
        """Report to the span that the SDK has started for this very request, instead of one of our own.

        The SDK describes request and response and counts the tokens there; we add the latency.
        """
        self.span, self.records_standard = span, True
        self.context = set_span_in_context(span)
        self.recorded_elsewhere = recorded_elsewhere


class StreamReport(NamedTuple):
    """A finished stream, measured and judged, on its way to the sinks."""

    handle: SpanHandle
    finished: FinishedStream
    measures: Measures
    slo: SLOResult | None
    """How the stream met its objective; None: it has none, or this could not be evaluated."""
    session: SessionStatus | None
    """The status of the stream's session; None: it belongs to none."""
