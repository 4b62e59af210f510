"""One request's span from its start to its end, with its token events, and what is handed to the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.context import Context, get_current
from opentelemetry.trace import (
    Link,
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
from otel_itl.conventions import StandardNames, Where
from otel_itl.core.codec import encode, encode_each, encode_later
from otel_itl.core.measures import SECOND, Measures, first_and_last_output, measure
from otel_itl.core.sessions import Sessions, Standing, Turn
from otel_itl.core.slo import Objectives, Verdict, judge
from otel_itl.core.stalls import Cause
from otel_itl.core.stream import FinishedStream, Request
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.export import attributes
from otel_itl.export.error_reporter import ErrorReporter
from otel_itl.export.logs import EventLog, StallReports
from otel_itl.export.measured_stream import measured_stream
from otel_itl.export.metrics import StreamMetrics
from otel_itl.export.other_instrumentations import is_other_in_charge, metrics_recorded_within, without_suppression
from otel_itl.export.sdk_internals.lazy_events import add_events
from otel_itl.export.sdk_internals.span_limits import event_limit
from otel_itl.recording.internal_errors import report_error

logger = logging.getLogger("otel_itl")


class SpanHandle(NamedTuple):
    """The span that a request reports to."""

    span: Span
    context: Context
    turn: Turn[SpanContext] | None
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
        standard_names: the generation of the standard names.
        errors: receives our own failures.
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
        standard_names: StandardNames,
        claim: Callable[[int], None],
        errors: ErrorReporter,
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._metrics = stream_metrics
        self._token_events = token_events
        self._objectives = objectives
        self._standard_names = standard_names
        self._claim = claim
        self._errors = errors
        self._sessions: Sessions[SpanContext] = Sessions()
        self._fell_back = False

    def begin(self, request: Request, unix_ns: int) -> SpanHandle:
        """Start the span of a request, or join the one that another instrumentation has started for it."""
        context = get_current()
        outer = get_current_span(context)
        turn = None if request.session_id is None else self._sessions.enter(request.session_id, _served(request))
        previous = [] if turn is None or turn.previous is None else [turn.previous]
        if is_other_in_charge(context):
            for link in previous:
                outer.add_link(link)
            ticket = SpanHandle(outer, context, turn, own=False)
        else:
            with without_suppression():
                span = self._tracer.start_span(
                    f"{request.operation} {request.model}" if request.model else request.operation,
                    kind=SpanKind.CLIENT,
                    attributes=attributes.at_start(request),
                    links=[Link(link) for link in previous],
                    start_time=unix_ns,
                )
            ticket = SpanHandle(
                span, set_span_in_context(span), turn, own=True, elsewhere=metrics_recorded_within(outer)
            )
        if turn is not None:
            turn.leave(ticket.span.get_span_context())
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
                report_error(Where.SPAN_ENRICH, error)
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
        self._emit(log, ticket, ended, standing)
        if ticket.own:
            if timeline.outcome is Outcome.ERROR:
                span.set_status(Status(StatusCode.ERROR))
            with without_suppression():
                span.end(end_time=timeline.request_unix_ns + timeline.end)
        self._metrics.add(
            measured_stream(
                ended,
                measures,
                verdict,
                span.get_span_context(),
                records_standard=ticket.own,
                recorded_elsewhere=ticket.elsewhere,
            )
        )

    def _judge(self, ended: FinishedStream, measures: Measures) -> Verdict | None:
        slo = self._objectives.of(ended.request.model)
        if slo is None:
            return None
        stalled = any(stall.cause is Cause.UPSTREAM for stall in ended.stalls)
        return judge(slo, ended.timeline, measures, stalled=stalled)

    def _emit(self, log: EventLog, ticket: SpanHandle, ended: FinishedStream, standing: Standing | None) -> None:
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
            log.emit_about_request(names.TRUNCATED_EVENT, timeline.end, said, SeverityNumber.WARN)
        if standing is not None and standing.onset is not None:
            log.emit_about_request(
                names.SESSION_DEGRADED, timeline.end, attributes.of_degradation(standing.onset), SeverityNumber.WARN
            )

    def _describe(
        self,
        ticket: SpanHandle,
        ended: FinishedStream,
        measures: Measures,
        verdict: Verdict | None,
        standing: Standing | None,
    ) -> None:
        """Put attributes and token events on the span, if it is still open."""
        span = ticket.span
        if not span.is_recording():
            return
        self._claim(span.get_span_context().span_id)
        span.set_attributes(
            {
                **(attributes.of_response(ended, measures, self._standard_names) if ticket.own else {}),
                **attributes.of_stream(ended.timeline, measures, ended.concurrency),
                **attributes.of_stalls(ended),
                **attributes.of_slo(verdict),
                **attributes.of_session(standing),
            }
        )
        for stall in ended.stalls[: names.MAX_REPORTED_STALLS]:
            began = ended.timeline.request_unix_ns + round(stall.start * SECOND)
            span.add_event(names.STALL_EVENT, attributes.of_stall(stall), began)
        if self._token_events in {"packed", "each"}:
            self._add_events(span, ended.timeline, event_limit(span))

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
        add_events(span, encode_later(timeline, limit), self._errors)


def _served(request: Request) -> str:
    """The model, told apart from those of the same name elsewhere."""
    return f"{request.provider}/{request.server_address}/{request.model}"


def _standing(turn: Turn[SpanContext] | None, ended: FinishedStream, measures: Measures) -> Standing | None:
    """How the stream's session stands with it."""
    if turn is None:
        return None
    first, last = first_and_last_output(ended.timeline)
    decode = (ended.timeline.arrived[last] - ended.timeline.arrived[first]) / SECOND if first >= 0 else 0.0
    return turn.end(measures.pace, stalls=len(ended.stalls), decode=decode)
