"""A request's span: started, or joined where another instrumentation has started it, and described at its end."""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry.context import get_current
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

from otel_itl.core import conventions as names
from otel_itl.core.encoding import LazyEvent, encode_each, encode_lazily
from otel_itl.core.measures import Measures
from otel_itl.core.metric_conventions import StandardNames
from otel_itl.core.request import Request
from otel_itl.core.sessions import Sessions
from otel_itl.core.sketch import sketch
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.export import attributes
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.other_instrumentations import is_other_in_charge, metrics_recorded_within, without_suppression
from otel_itl.export.sdk_internals.spans import add_events, event_limit, set_checked_attributes
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")


class SpanStarter:
    """Starts the spans of requests, and links those of a session.

    Args:
        tracer: makes the spans.
        sessions: the sessions of this process.
        measured_spans: takes the ids of spans that no processor is to measure again.
    """

    def __init__(self, tracer: Tracer, sessions: Sessions, measured_spans: MeasuredSpans) -> None:
        self._tracer = tracer
        self.sessions = sessions
        self._measured_spans = measured_spans

    def start(self, handle: SpanHandle, request: Request, unix_ns: int, sdk_span: Span | None = None) -> None:
        """Start the span of a request, or join the one that another instrumentation or the SDK has started for it.

        Args:
            handle: gets the span; where this fails, it has the span if that was started.
            request: what is asked for.
            unix_ns: when, nanoseconds since the epoch.
            sdk_span: the span that the SDK has started itself, if it records.
        """
        context = get_current()
        outer = get_current_span(context)
        links = self._join_session(handle, request)
        if is_other_in_charge(context):
            for link in links:
                outer.add_link(link)
            handle.join_span(outer, context)
            if request.is_test:
                outer.set_attribute(names.TEST, value=True)
        elif sdk_span is not None:
            handle.adopt_span(sdk_span, metrics_recorded_within(outer))
            if request.session_id is not None:
                sdk_span.set_attribute(names.SESSION_ID, request.session_id)
            if request.is_test:
                sdk_span.set_attribute(names.TEST, value=True)
            for link in links:
                sdk_span.add_link(link)
            self._mark_enclosing(outer)
        else:
            handle.recorded_elsewhere = metrics_recorded_within(outer)
            with without_suppression():
                span = self._tracer.start_span(
                    _name_of(request),
                    kind=SpanKind.CLIENT,
                    attributes=attributes.at_start(request),
                    links=[Link(link) for link in links],
                    start_time=unix_ns,
                )
                handle.span, handle.is_own, handle.records_standard = span, True, True
            handle.span_context, handle.context = span.get_span_context(), set_span_in_context(span)
            self._mark_enclosing(outer)
        if handle.session_request is not None:
            handle.session_request.set_link(handle.span_context)

    def redescribe(self, handle: SpanHandle, request: Request) -> None:
        """Describe a span that was started for an outer layer as the layer nearer to the wire sees the request."""
        if handle.is_own:
            handle.span.update_name(_name_of(request))
            handle.span.set_attributes(attributes.at_start(request))

    def _join_session(self, handle: SpanHandle, request: Request) -> list[SpanContext]:
        """Give a request its place in its session, if it has one; returns the spans to link to."""
        if request.session_id is None:
            return []
        handle.session_request = self.sessions.begin_request(request.session_id, _model_key(request))
        previous = handle.session_request.previous_link
        return [previous] if isinstance(previous, SpanContext) else []

    def _mark_enclosing(self, outer: Span) -> None:
        """Keep a span around the request, which may have an event per chunk, from being measured a second time."""
        if outer.get_span_context().is_valid:
            self._measured_spans.mark(outer.get_span_context().span_id)
            parent: Any = getattr(outer, "parent", None)
            if parent is not None:
                self._measured_spans.mark(parent.span_id)


class SpanSink:
    """Puts attributes and token events on the span of a stream that ended, if the span is still open.

    Args:
        measured_spans: takes the ids of spans that no processor is to measure again.
        standard_names: the generation of the standard names.
        token_events: the form of the token events, as the option takes it.
        errors: where failures of our own are reported.
    """

    def __init__(
        self,
        measured_spans: MeasuredSpans,
        standard_names: StandardNames,
        token_events: str,
        errors: InternalErrors,
    ) -> None:
        self._errors = errors
        self._measured_spans = measured_spans
        self._standard_names = standard_names
        self._token_events = token_events
        self._is_fallback_logged = False

    def __call__(self, report: StreamReport) -> None:
        """Describe the stream on its span."""
        handle, finished = report.handle, report.finished
        span = handle.span
        if not span.is_recording():
            return
        self._measured_spans.mark(handle.span_context.span_id)
        described = self._describe(report)
        if handle.is_adopted:  # the SDK describes the response: what it leaves out is added
            left_out = described.keys() - (getattr(span, "attributes", None) or {}).keys()
            described = {name: described[name] for name in left_out - {names.RESPONSE_TIME_TO_FIRST_CHUNK}}
        set_checked_attributes(span, attributes.rounded(described))
        if handle.records_standard and finished.timeline.outcome is Outcome.ERROR:
            # Without the exception's text, which may quote the prompt: viewers show the class where that would be.
            failure = dict.fromkeys((names.EXCEPTION_TYPE, names.EXCEPTION_MESSAGE), finished.error_type or "unknown")
            span.add_event(names.SPAN_EXCEPTION_EVENT, failure, _unix_ns(finished.timeline, finished.timeline.end))
        for stall in finished.stalls[: names.MAX_REPORTED_STALLS]:
            began = _unix_ns(finished.timeline, stall.start * SECOND)
            span.add_event(names.STALL_EVENT, attributes.rounded(attributes.of_stall(stall)), began)
        if self._token_events in {"packed", "each"}:
            self._add_token_events(span, finished.timeline, _milestones(finished.timeline, report.measures))

    def _describe(self, report: StreamReport) -> dict[str, Any]:
        """Build the attributes of a stream that ended."""
        finished, measures = report.finished, report.measures
        described = attributes.of_stream(finished.timeline, measures, finished.concurrency)
        if report.handle.records_standard:  # else another instrumentation has the standard attributes on its span
            described |= attributes.of_response(finished, measures, self._standard_names)
        described |= attributes.of_stalls(finished)
        described |= attributes.of_host(finished, measures)
        if finished.response.server_durations:
            described |= attributes.of_server(finished.response)
        if samples := measures.upstream_samples.nanoseconds:  # none where the pace is not known
            described |= attributes.of_sketch(sketch(samples))
        if report.slo is not None:
            described |= attributes.of_slo(report.slo)
        if report.session is not None:
            described |= attributes.of_session(report.session)
        return described

    def _add_token_events(self, span: Span, timeline: Timeline, milestones: list[LazyEvent]) -> None:
        """Add the token events of a stream to its span: packed, or one for each output chunk.

        Where the span's limit is too low for one each, the stream is packed, with one warning for all streams. The
        milestones are added where there is room for them beside the token events.
        """
        limit = event_limit(span)
        each = encode_each(timeline, limit) if self._token_events == "each" else None
        if each is not None:
            if len(milestones) + len(each) <= limit:
                add_events(span, milestones, self._errors)
            for event in each:
                span.add_event(event.name, event.attributes, event.unix_ns)
            return
        if self._token_events == "each" and not self._is_fallback_logged:
            self._is_fallback_logged = True
            logger.warning(
                "A stream has more output chunks than the %d events that its span may hold: its token events are "
                "packed. Raise OTEL_SPAN_EVENT_COUNT_LIMIT to have one for each.",
                limit,
            )
        packed = encode_lazily(timeline, limit)
        has_room = len(milestones) + len(packed) <= limit
        add_events(span, [*milestones, *packed] if has_room else packed, self._errors)


def _milestones(timeline: Timeline, measures: Measures) -> list[LazyEvent]:
    """Make the events for the first and the last token, so that a waterfall shows them."""
    moments = (
        (names.FIRST_TOKEN_EVENT, measures.time_to_first_token),
        (names.LAST_TOKEN_EVENT, measures.time_to_last_token),
    )
    return [
        LazyEvent(name, _unix_ns(timeline, seconds * SECOND), dict) for name, seconds in moments if seconds is not None
    ]


def _unix_ns(timeline: Timeline, offset_ns: float) -> int:
    """Return the wall-clock time (ns since the epoch) of a moment after the request."""
    return timeline.request_unix_ns + round(offset_ns)


def end_span(report: StreamReport) -> None:
    """End our span of a stream that ended, or give the end of the SDK's or another instrumentation's span back to it.

    A span that the SDK has ended meanwhile ends with the time at which the SDK did so. That of a stream that was
    dropped ends as well: with the stream, what would have ended it is gone.
    """
    handle, timeline = report.handle, report.finished.timeline
    span = handle.span
    if handle.records_standard and timeline.outcome is Outcome.ERROR:
        span.set_status(Status(StatusCode.ERROR, report.finished.error_type))
    if handle.is_own:
        with without_suppression():
            span.end(end_time=timeline.request_unix_ns + timeline.end)
    else:
        is_held = getattr(span, "__dict__", {}).pop("end", None) is not None
        if handle.noted_ends:
            span.end(handle.noted_ends[0])
        elif is_held and handle.is_adopted and timeline.outcome is Outcome.ABANDONED:
            span.end(timeline.request_unix_ns + timeline.end)


def _name_of(request: Request) -> str:
    return f"{request.operation} {request.model}" if request.model else request.operation


def _model_key(request: Request) -> str:
    """Return the key of a request's model, distinct from models of the same name elsewhere."""
    return f"{request.provider}/{request.server_address}/{request.model}"
