"""One request's span from its start to its end, with its token events, and what is handed to the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from otel_itl import conventions as names
from otel_itl.core.codec import encode, encode_each, encode_lazily
from otel_itl.core.measures import Measures, measure
from otel_itl.core.request import Request
from otel_itl.core.sessions import Sessions, SessionStatus, TrackedRequest
from otel_itl.core.slo import Objectives, SLOResult, evaluate
from otel_itl.core.stalls import Cause
from otel_itl.core.stream import FinishedStream
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.export import attributes
from otel_itl.export.logs import EventLog, StallReports
from otel_itl.export.metrics import Measured, StreamMetrics
from otel_itl.export.other_instrumentations import in_charge, recorded_by, unsuppressed
from otel_itl.export.sdk_internals.lazy_events import add_events
from otel_itl.recording.internal_errors import report_error

logger = logging.getLogger("otel_itl")

DEFAULT_EVENT_LIMIT = 128


class SpanHandle(NamedTuple):
    """The span that a request reports to."""

    span: Span
    context: Context
    turn: TrackedRequest | None
    """Its place in the session that it belongs to, if any."""
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
        objectives: what streams are held against.
        claim: told the id of every span that is measured here.
    """

    def __init__(  # noqa: PLR0913 - the three signals, and what each says
        self,
        tracer: Tracer,
        logger: Logger,
        stream_metrics: StreamMetrics,
        *,
        token_events: str,
        objectives: Objectives,
        claim: Callable[[int], None],
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._metrics = stream_metrics
        self._token_events = token_events
        self._objectives = objectives
        self._claim = claim
        self._sessions: Sessions = Sessions()
        self._fell_back = False

    def begin(self, request: Request, unix_ns: int) -> SpanHandle:
        """Start the span of a request, or join the one that another instrumentation has started for it."""
        context = get_current()
        outer = get_current_span(context)
        turn = (
            None if request.session_id is None else self._sessions.begin_request(request.session_id, _served(request))
        )
        previous = [turn.previous_link] if turn is not None and isinstance(turn.previous_link, SpanContext) else []
        if in_charge(context):
            for link in previous:
                outer.add_link(link)
            ticket = SpanHandle(outer, context, turn, own=False)
        else:
            with unsuppressed():
                span = self._tracer.start_span(
                    f"{request.operation} {request.model}" if request.model else request.operation,
                    kind=SpanKind.CLIENT,
                    attributes=attributes.at_start(request),
                    links=[Link(link) for link in previous],
                    start_time=unix_ns,
                )
            ticket = SpanHandle(span, set_span_in_context(span), turn, own=True, elsewhere=recorded_by(outer))
        if turn is not None:
            turn.set_link(ticket.span.get_span_context())
        return ticket

    def follow(self, ticket: SpanHandle, so_far: Callable[[], FinishedStream]) -> None:
        """Enrich another instrumentation's span at the latest when it ends, which may be before the stream does."""
        span: Any = ticket.span
        if not span.is_recording():
            return
        end = span.end

        def ending(*args: Any, **kwargs: Any) -> None:
            span.__dict__.pop("end", None)
            try:
                ended = so_far()
                measures = measure(ended.timeline)
                self._describe(ticket, ended, measures, self._judge(ended, measures), None)
            except Exception as error:  # noqa: BLE001 - the fence
                report_error("enriching a span", error)
            end(*args, **kwargs)

        try:
            span.end = ending
        except AttributeError:
            return

    def stall_reports(self, ticket: SpanHandle, request: Request, unix_ns: int) -> StallReports:
        """Who tells of the stalls of a stream while it is open."""
        return StallReports(EventLog(self._logger, ticket.context, request, unix_ns), self._metrics)

    def conclude(self, ticket: SpanHandle, ended: FinishedStream) -> None:
        """Report a stream that ended: on its span, in log events, and to the metrics."""
        timeline, span = ended.timeline, ticket.span
        measures = measure(timeline)
        verdict = self._judge(ended, measures)
        standing = _standing(ticket.turn, ended, measures)
        if not ticket.own:
            getattr(span, "__dict__", {}).pop("end", None)
        self._describe(ticket, ended, measures, verdict, standing)
        log = EventLog(self._logger, ticket.context, ended.request, timeline.request_unix_ns)
        self._tell(log, ticket, ended, standing)
        if ticket.own:
            if timeline.outcome is Outcome.ERROR:
                span.set_status(Status(StatusCode.ERROR))
            with unsuppressed():
                span.end(end_time=timeline.request_unix_ns + timeline.end)
        self._metrics.add(
            Measured(
                request=ended.request,
                response_model=ended.response.model,
                timeline=timeline,
                measures=measures,
                error_type=ended.error_type,
                # Of the span its ids alone: until the metrics are recorded, its events are to go.
                context=set_span_in_context(NonRecordingSpan(span.get_span_context())),
                standard=ticket.own,
                elsewhere=ticket.elsewhere,
                verdict=verdict,
            )
        )

    def _judge(self, ended: FinishedStream, measures: Measures) -> SLOResult | None:
        slo = self._objectives.for_model(ended.request.model)
        if slo is None:
            return None
        stalled = any(stall.cause is Cause.UPSTREAM for stall in ended.stalls)
        return evaluate(slo, ended.timeline, measures, is_stalled=stalled)

    def _tell(self, log: EventLog, ticket: SpanHandle, ended: FinishedStream, standing: SessionStatus | None) -> None:
        """The log events of a stream's end."""
        timeline = ended.timeline
        if self._token_events == "log":
            for event in encode(timeline):
                log.emit(event.name, event.unix_ns, event.attributes)
        if ticket.own and timeline.outcome is Outcome.ERROR:
            # Without the exception's text: it may quote the prompt.
            said: dict[str, Any] = {"exception.type": ended.error_type or "unknown"}
            log.emit(names.EXCEPTION_EVENT, timeline.request_unix_ns + timeline.end, said, SeverityNumber.WARN)
        if timeline.outcome is Outcome.TRUNCATED:
            said = {names.CHUNK_COUNT: len(timeline) + timeline.unrecorded}
            log.tell(names.TRUNCATED_EVENT, timeline.end, said, SeverityNumber.WARN)
        if standing is not None and standing.onset is not None:
            log.tell(
                names.SESSION_DEGRADED, timeline.end, attributes.of_degradation(standing.onset), SeverityNumber.WARN
            )

    def _describe(
        self,
        ticket: SpanHandle,
        ended: FinishedStream,
        measures: Measures,
        verdict: SLOResult | None,
        standing: SessionStatus | None,
    ) -> None:
        """Put attributes and token events on the span, if it is still open."""
        span = ticket.span
        if not span.is_recording():
            return
        self._claim(span.get_span_context().span_id)
        span.set_attributes(
            {
                **(attributes.standard(ended.response, measures, ended.error_type) if ticket.own else {}),
                **attributes.ours(ended.timeline, measures, ended.concurrency),
                **attributes.of_stalls(ended),
                **attributes.of_verdict(verdict),
                **attributes.of_standing(standing),
            }
        )
        for stall in ended.stalls[: names.STALLS_TOLD]:
            began = ended.timeline.request_unix_ns + round(stall.start * SECOND)
            span.add_event(names.STALL_EVENT, attributes.of_stall(stall), began)
        if self._token_events in {"packed", "each"}:
            self._add_events(span, ended.timeline, _event_limit(span))

    def _add_events(self, span: Span, timeline: Timeline, limit: int) -> None:
        each = encode_each(timeline, limit) if self._token_events == "each" else None
        if each is not None:
            for event in each:
                span.add_event(event.name, event.attributes, event.unix_ns)
            return
        if self._token_events == "each" and not self._fell_back:
            self._fell_back = True
            logger.warning(
                "A stream has more output chunks than the %d events that its span may hold: its token events are "
                "packed. Raise OTEL_SPAN_EVENT_COUNT_LIMIT to have one for each.",
                limit,
            )
        add_events(span, encode_lazily(timeline, limit))


def _served(request: Request) -> str:
    """The model, told apart from those of the same name elsewhere."""
    return f"{request.provider}/{request.server_address}/{request.model}"


def _standing(turn: TrackedRequest | None, ended: FinishedStream, measures: Measures) -> SessionStatus | None:
    """How the stream's session stands with it."""
    if turn is None:
        return None
    first, last = ended.timeline.output_bounds
    decode = (ended.timeline.arrived[last] - ended.timeline.arrived[first]) / SECOND if first >= 0 else 0.0
    return turn.end(measures.upstream_samples.nanoseconds, stall_count=len(ended.stalls), decode_duration=decode)


def _event_limit(span: Span) -> int:
    """How many events the span may still hold."""
    limit = getattr(getattr(span, "_limits", None), "max_events", DEFAULT_EVENT_LIMIT)
    held: Any = getattr(span, "events", ())
    return (1 << 31 if limit is None else limit) - len(held)
