"""One request's span from its start to its end, with its token events, and what is handed to the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from otel_itl import conventions as names
from otel_itl.codec import TokenEvent, encode, encode_each
from otel_itl.exchange import Ended, Request
from otel_itl.export import attributes
from otel_itl.export.metrics import Measured, StreamMetrics
from otel_itl.export.neighbours import in_charge, recorded_by, unsuppressed
from otel_itl.fence import contained
from otel_itl.measures import Measures, measure
from otel_itl.timeline import Outcome, Timeline

logger = logging.getLogger("otel_itl")

DEFAULT_EVENT_LIMIT = 128


class Ticket(NamedTuple):
    """The span that a request reports to."""

    span: Span
    context: Context
    own: bool
    """False: the span is another instrumentation's, which ends it and records the standard metrics."""
    elsewhere: frozenset[str] = frozenset()
    """Standard metrics that another instrumentation records for the request, whoever's the span is."""


class Telemetry:
    """Spans, token events and log events of streams.

    Args:
        tracer: makes the spans.
        logger: emits log events.
        stream_metrics: take the streams that ended.
        token_events: the form of the token events.
        claim: told the id of every span that is measured here.
    """

    def __init__(
        self,
        tracer: Tracer,
        logger: Logger,
        stream_metrics: StreamMetrics,
        token_events: str,
        claim: Callable[[int], None],
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._metrics = stream_metrics
        self._token_events = token_events
        self._claim = claim
        self._fell_back = False

    def begin(self, request: Request, unix_ns: int) -> Ticket:
        """Start the span of a request, or join the one that another instrumentation has started for it."""
        context = get_current()
        outer = get_current_span(context)
        if in_charge(context):
            return Ticket(outer, context, own=False)
        with unsuppressed():
            span = self._tracer.start_span(
                f"{request.operation} {request.model}" if request.model else request.operation,
                kind=SpanKind.CLIENT,
                attributes=attributes.at_start(request),
                start_time=unix_ns,
            )
        return Ticket(span, set_span_in_context(span), own=True, elsewhere=recorded_by(outer))

    def follow(self, ticket: Ticket, so_far: Callable[[], Ended]) -> None:
        """Enrich another instrumentation's span at the latest when it ends, which may be before the stream does."""
        span: Any = ticket.span
        if not span.is_recording():
            return
        end = span.end

        def ending(*args: Any, **kwargs: Any) -> None:
            span.__dict__.pop("end", None)
            try:
                ended = so_far()
                self._describe(ticket, ended, measure(ended.timeline))
            except Exception as error:  # noqa: BLE001 - the fence
                contained("enriching a span", error)
            end(*args, **kwargs)

        try:
            span.end = ending
        except AttributeError:
            return

    def conclude(self, ticket: Ticket, ended: Ended) -> None:
        """Report a stream that ended: on its span, in log events, and to the metrics."""
        timeline, span = ended.timeline, ticket.span
        measures = measure(timeline)
        if not ticket.own:
            getattr(span, "__dict__", {}).pop("end", None)
        self._describe(ticket, ended, measures)
        if self._token_events == "log":
            for event in encode(timeline):
                self._emit(event, ticket.context)
        if ticket.own:
            if timeline.outcome is Outcome.ERROR:
                span.set_status(Status(StatusCode.ERROR))
                self._emit(_exception(timeline, ended.error_type), ticket.context, SeverityNumber.WARN)
            with unsuppressed():
                span.end(end_time=timeline.request_unix_ns + timeline.end)
        self._metrics.add(
            Measured(
                request=ended.request,
                response_model=ended.answer.model,
                timeline=timeline,
                measures=measures,
                error_type=ended.error_type,
                # Of the span its ids alone: until the metrics are recorded, its events are to go.
                context=set_span_in_context(NonRecordingSpan(span.get_span_context())),
                standard=ticket.own,
                elsewhere=ticket.elsewhere,
            )
        )

    def _describe(self, ticket: Ticket, ended: Ended, measures: Measures) -> None:
        """Put attributes and token events on the span, if it is still open."""
        span = ticket.span
        if not span.is_recording():
            return
        self._claim(span.get_span_context().span_id)
        if ticket.own:
            span.set_attributes(attributes.standard(ended.answer, measures, ended.error_type))
        span.set_attributes(attributes.ours(ended.timeline, measures, ended.concurrency))
        if self._token_events in {"packed", "each"}:
            for event in self._events(ended.timeline, _event_limit(span)):
                span.add_event(event.name, event.attributes, event.unix_ns)

    def _events(self, timeline: Timeline, limit: int) -> list[TokenEvent]:
        each = encode_each(timeline, limit) if self._token_events == "each" else None
        if each is not None:
            return each
        if self._token_events == "each" and not self._fell_back:
            self._fell_back = True
            logger.warning(
                "A stream has more output chunks than the %d events that its span may hold: its token events are "
                "packed. Raise OTEL_SPAN_EVENT_COUNT_LIMIT to have one for each.",
                limit,
            )
        return encode(timeline, limit)

    def _emit(self, event: TokenEvent, context: Context, severity: SeverityNumber = SeverityNumber.INFO) -> None:
        self._logger.emit(
            LogRecord(
                timestamp=event.unix_ns,
                context=context,
                severity_number=severity,
                severity_text=severity.name,
                attributes=event.attributes,
                event_name=event.name,
            )
        )


def _event_limit(span: Span) -> int:
    """How many events the span may still hold."""
    limit = getattr(getattr(span, "_limits", None), "max_events", DEFAULT_EVENT_LIMIT)
    held: Any = getattr(span, "events", ())
    return (1 << 31 if limit is None else limit) - len(held)


def _exception(timeline: Timeline, error_type: str | None) -> TokenEvent:
    """The standard event of a failed operation, without the exception's text: it may quote the prompt."""
    return TokenEvent(
        names.EXCEPTION_EVENT, timeline.request_unix_ns + timeline.end, {"exception.type": error_type or "unknown"}
    )
