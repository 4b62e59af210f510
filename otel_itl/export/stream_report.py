"""What every sink gets: the span that a stream reports to, the finished stream, and what was derived from it."""

from __future__ import annotations

from typing import NamedTuple

from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.trace import Span  # noqa: TC002 - part of what is public

from otel_itl.core.measures import Measures
from otel_itl.core.sessions import SessionStatus, TrackedRequest
from otel_itl.core.slo import SLOResult
from otel_itl.core.stream import FinishedStream


class SpanHandle:
    """The span that a request reports to, from its start to its one report.

    Args:
        span: ours, or that of another instrumentation.
        context: holds the span and whatever the caller's context holds.
        session_request: the request's place in its session; None: it belongs to none.
        is_own: we end the span and record the standard metrics; False: another instrumentation does.
        recorded_elsewhere: standard metrics that another instrumentation records all the same.
    """

    __slots__ = ("_unreported", "context", "is_own", "recorded_elsewhere", "session_request", "span")

    def __init__(
        self,
        span: Span,
        context: Context,
        session_request: TrackedRequest | None,
        *,
        is_own: bool,
        recorded_elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        self.span = span
        self.context = context
        self.session_request = session_request
        self.is_own = is_own
        self.recorded_elsewhere = recorded_elsewhere
        self._unreported = [True]

    def claim_report(self) -> bool:
        """Claim the one report of the stream; returns False where it is claimed already. `list.pop` is atomic."""
        try:
            return self._unreported.pop()
        except IndexError:
            return False


class StreamReport(NamedTuple):
    """A finished stream, measured and judged, on its way to the sinks."""

    handle: SpanHandle
    finished: FinishedStream
    measures: Measures
    slo: SLOResult | None
    """How the stream met its objective; None: it has none, or this could not be evaluated."""
    session: SessionStatus | None
    """The status of the stream's session; None: it belongs to none."""
