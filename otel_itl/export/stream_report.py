"""What every sink and the metrics get: the span that a stream reports to, the finished stream, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    INVALID_SPAN_CONTEXT,
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from otel_itl.core.columns import find_differences
from otel_itl.core.host_bound import find_host_part
from otel_itl.core.measures import MAX_HELD_WIDTH, Measures
from otel_itl.core.sessions import SessionStatus, TrackedRequest
from otel_itl.core.slo import SLOResult
from otel_itl.core.stream import FinishedStream

_NO_CONTEXT: Final = Context()


class SpanHandle:
    """The span that a request reports to, from its start to its one report.

    It is made before the span: whatever fails while the span is started, there is a handle to end it by.
    """

    __slots__ = (
        "_exemplar_context",
        "claim_delivery",
        "claim_report",
        "context",
        "is_own",
        "noted_ends",
        "recorded_elsewhere",
        "records_standard",
        "report",
        "session_request",
        "span",
        "span_context",
    )

    def __init__(self) -> None:
        self.span: Span = INVALID_SPAN
        """Ours, that of the SDK, or that of another instrumentation."""
        self.span_context: SpanContext = INVALID_SPAN_CONTEXT
        """The ids of the span, which exemplars refer to."""
        self._exemplar_context: Context | None = None
        self.context = _NO_CONTEXT
        """Holds the span and whatever the caller's context holds."""
        self.is_own = False
        """We have started the span, and end it."""
        self.records_standard = False
        """We record the standard metrics; False: another instrumentation does."""
        self.recorded_elsewhere: frozenset[str] = frozenset()
        """Standard metrics that another instrumentation records all the same, by their field of `StandardNames`."""
        self.noted_ends: list[int] = []
        """When the SDK ended its own span (ns since the epoch), which is kept open until the stream is described on it:
        the first counts."""
        self.session_request: TrackedRequest | None = None
        """The request's place in its session; None: it belongs to none."""
        self.claim_report: Callable[[], bool] = partial(Lock().acquire, blocking=False)
        """Returns True to its first caller alone, which computes the report of the stream. No function of ours, so that
        none can fail between the claim and its result."""
        self.claim_delivery: Callable[[], bool] = partial(Lock().acquire, blocking=False)
        """Likewise, to the one that delivers the report."""
        self.report: StreamReport | None = None
        """The report, from its computing to its delivery."""

    @property
    def is_adopted(self) -> bool:
        """Whether the span is the SDK's own."""
        return self.records_standard and not self.is_own

    @property
    def exemplar_context(self) -> Context:
        """A context that holds the ids of the span and nothing else, as instruments take it: made once."""
        if self._exemplar_context is None:
            self._exemplar_context = set_span_in_context(NonRecordingSpan(self.span_context), _NO_CONTEXT)
        return self._exemplar_context

    def join_span(self, span: Span, context: Context) -> None:
        """Report to a span that another instrumentation has started for this very request."""
        self.span, self.context, self.span_context = span, context, span.get_span_context()

    def adopt_span(self, span: Span, recorded_elsewhere: frozenset[str]) -> None:
        """Report to the span that the SDK has started for this very request, instead of one of our own.

        The SDK describes request and response and counts the tokens there; we add the latency, and record the standard
        metrics but those `recorded_elsewhere`, which are fields of `StandardNames`.
        """
        self.records_standard, self.recorded_elsewhere = True, recorded_elsewhere
        self.join_span(span, set_span_in_context(span))

    def release(self) -> None:
        """Drop the span and the report, when that was delivered: the metrics need the ids of the span alone."""
        self.span, self.context = INVALID_SPAN, _NO_CONTEXT
        self.report = self.session_request = None


class StreamReport(NamedTuple):
    """A finished stream, measured and judged, on its way to the sinks and to the metrics."""

    handle: SpanHandle
    finished: FinishedStream
    measures: Measures
    """Those of a stream without chunks where the stream could not be measured."""
    slo: SLOResult | None = None
    """How the stream met its objective; None: it has none, or this could not be evaluated."""
    session: SessionStatus | None = None
    """The status of the stream's session; None: it belongs to none."""

    @property
    def batch_key(self) -> tuple[Hashable, ...]:
        """Part of what streams share whose metrics are recorded as one batch; the rest is their attributes."""
        handle, finished = self.handle, self.finished
        slo = None if self.slo is None else self.slo.slo.profile
        is_sampled = handle.span_context.trace_flags & TraceFlags.SAMPLED
        outcome = finished.timeline.outcome
        return outcome, finished.error_type, slo, is_sampled, handle.records_standard, handle.recorded_elsewhere

    def find_known(self, figure: str) -> float | None:
        """Return a figure, given its field of `Measures`; None: there is none, or it is not known well enough."""
        value: float | None = getattr(self.measures, figure)
        return value if not self.measures.bounds or self.measures.is_known(figure) else None

    def find_uncertain(self) -> list[tuple[str, str]]:
        """Return which figures are not known to half of themselves (`ttft`, `itl`), and why (`consumer`, `host`)."""
        measures = self.measures
        if not measures.bounds:
            return []
        fields = {}
        if measures.is_uncertain("time_to_first_token"):
            fields["ttft"] = "time_to_first_token"
        if measures.pace_uncertainty >= MAX_HELD_WIDTH:
            fields["itl"] = "itl_mean"
        host_parts = {name: find_host_part(self.finished.host_delay, measures, field) for name, field in fields.items()}
        return [
            (name, "host" if 2 * host_parts[name] > measures.bounds[field].width else "consumer")
            for name, field in fields.items()
        ]

    def find_chunk_gaps(self) -> Sequence[float]:
        """Return the time between consecutive chunks (ns), ascending.

        For most streams the ITL samples are such gaps, which are sorted already. Tokens per chunk, choices, uncertain
        arrivals and bursts make the samples differ from the gaps.
        """
        timeline, measures = self.finished.timeline, self.measures
        arrived = timeline.arrived
        first, last = timeline.output_bounds
        samples_differ = (
            timeline.tokens
            or timeline.choices
            or timeline.skipped
            or measures.bounds
            or measures.burst_ratio
            or measures.output_chunk_count != last - first + 1
        )
        if samples_differ:
            return sorted(find_differences(arrived))
        others = [*find_differences(arrived[: first + 1]), *find_differences(arrived[last:])]
        samples = measures.itl_samples.nanoseconds
        return sorted([*samples, *others]) if others else samples
