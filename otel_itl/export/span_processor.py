"""Measures finished spans from their token events, or from the chunk events of another instrumentation."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, StatusCode

from otel_itl.core import conventions as names
from otel_itl.core.conventions import Where
from otel_itl.core.decoding import MalformedEventsError, decode
from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.slo import Objectives, evaluate
from otel_itl.core.stall_detector import find_stalls
from otel_itl.core.stalls import StallPolicy
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.export.measured_spans import MeasuredSpans
from otel_itl.export.metrics import StreamMetrics
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.recording.internal_errors import InternalErrors, never_raises


class SpanEventProcessor(SpanProcessor):
    """Derives metrics and stalls from the events of finished spans, and flushes what is pending with the provider.

    A provider keeps its processors for good, so this one can be reconfigured and disabled.

    Args:
        chunk_events: names of the span events of another instrumentation that stand for one output chunk each.
        stall: from when on a silence in such a span is a stall; None: stalls are not looked for.
        objectives: the objectives by model.
        stream_metrics: records the spans.
        measured_spans: spans to pass over, as their streams are measured where they are recorded.
        errors: receives our own failures.
        flush: records what is pending; called when a flush or a shutdown of the provider is asked for, with the
            seconds that it may wait for other threads.
        standard_metrics: record the `gen_ai.client.*` metrics as well.
    """

    def __init__(  # noqa: PLR0913 - the wiring, by keyword
        self,
        *,
        chunk_events: Iterable[str],
        stall: StallPolicy | None,
        objectives: Objectives,
        stream_metrics: StreamMetrics,
        measured_spans: MeasuredSpans,
        errors: InternalErrors,
        flush: Callable[[float], None],
        standard_metrics: bool = False,
    ) -> None:
        self._measured_spans = measured_spans
        self.errors = errors
        self._flush = flush
        self._standard_metrics = standard_metrics
        self.reconfigure(chunk_events=chunk_events, stall=stall, objectives=objectives, stream_metrics=stream_metrics)

    def reconfigure(
        self,
        *,
        chunk_events: Iterable[str],
        stall: StallPolicy | None,
        objectives: Objectives,
        stream_metrics: StreamMetrics,
    ) -> None:
        """Measure spans with these options from now on, also after `disable()`."""
        self._chunk_events = frozenset(chunk_events)
        self._stall, self._objectives, self._stream_metrics = stall, objectives, stream_metrics
        self._enabled = True

    def disable(self) -> None:
        """Measure no more spans; flushes still record what is pending."""
        self._enabled = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing: a span is measured when it ends."""

    @never_raises(Where.SPAN_MEASURE, None)
    def on_end(self, span: ReadableSpan) -> None:
        """Measure a span that carries token or chunk events, unless its stream is measured already."""
        context = span.get_span_context()
        if self._enabled and context is not None and context.span_id not in self._measured_spans:
            self._measure(span, context)

    def shutdown(self) -> None:
        """Record what is pending."""
        self.force_flush()

    @never_raises(Where.PROCESSOR_FLUSH, default=False)
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Record what is pending; False where that failed. Most of the time is left to the exporters behind."""
        self._flush(timeout_millis / 4_000)
        return True

    def _measure(self, span: ReadableSpan, context: SpanContext) -> None:
        """Record the metrics and the stalls of a span; one without token or chunk events has none."""
        timeline = _timeline(span, self._chunk_events)
        if timeline is None:
            return
        finished = _finished_stream(span, timeline, self._stall)
        for stall in finished.stalls:
            self._stream_metrics.stall_started(stall)
            self._stream_metrics.stall_ended(stall)
        measures = measure(timeline)
        slo = self._objectives.for_model(finished.request.model)
        slo_result = None if slo is None else evaluate(slo, timeline, measures, is_stalled=bool(finished.stalls))
        handle = SpanHandle()
        handle.span_context, handle.records_standard = context, self._standard_metrics
        self._stream_metrics.add(StreamReport(handle, finished, measures, slo_result))


def _timeline(span: ReadableSpan, chunk_events: frozenset[str]) -> Timeline | None:
    """Read the timeline of a span from its token events, else from its chunk events; None where it has neither."""
    events = [(event.name, event.timestamp, event.attributes or {}) for event in span.events]
    if any(name == names.TOKENS_EVENT for name, _, _ in events):
        try:
            return decode(events)
        except MalformedEventsError:
            return None
    chunks = [unix_ns for name, unix_ns, _ in events if name in chunk_events]
    return _timeline_of_chunk_events(span, chunks) if chunks else None


def _timeline_of_chunk_events(span: ReadableSpan, chunks: list[int]) -> Timeline:
    """Build a timeline from the timestamps of another instrumentation.

    They do not show how the consumer behaved, which therefore counts as waiting all the time; nor which chunks are
    reasoning, so that the tokens of a stream with reasoning have no pace.
    """
    attributes = span.attributes or {}
    started = span.start_time or chunks[0]
    arrived = sorted(unix_ns - started for unix_ns in chunks)
    failed = span.status.status_code is StatusCode.ERROR
    return Timeline(
        request_unix_ns=started,
        asked=array("q", [0, *(before for before, _ in pairwise(arrived))]),
        arrived=array("q", arrived),
        kinds=bytes([Kind.ANSWER]) * len(arrived),
        end=(span.end_time or max(chunks)) - started,
        outcome=Outcome.ERROR if failed else Outcome.COMPLETED,
        output_tokens=_count(attributes, names.USAGE_OUTPUT_TOKENS),
        is_reasoning_partial=bool(_count(attributes, names.USAGE_REASONING_TOKENS)),
    )


def _finished_stream(span: ReadableSpan, timeline: Timeline, stall: StallPolicy | None) -> FinishedStream:
    """Collect the facts of a span about its request and its response."""
    attributes = span.attributes or {}
    request = Request(
        operation=_text(attributes, names.OPERATION_NAME) or "chat",
        provider=_text(attributes, names.PROVIDER_NAME) or _text(attributes, "gen_ai.system") or "unknown",
        model=_text(attributes, names.REQUEST_MODEL),
        server_address=_text(attributes, names.SERVER_ADDRESS),
        server_port=_count(attributes, names.SERVER_PORT),
    )
    response = ResponseInfo()
    model, error_type = attributes.get(names.RESPONSE_MODEL), attributes.get(names.ERROR_TYPE)
    response.model = None if model is None else str(model)
    response.input_tokens, response.output_tokens = timeline.input_tokens, timeline.output_tokens
    response.reasoning_tokens = timeline.reasoning_tokens
    response.cache_read_tokens = _count(attributes, names.USAGE_CACHE_READ_TOKENS)
    response.cache_creation_tokens = _count(attributes, names.USAGE_CACHE_WRITE_TOKENS)
    if response.cache_creation_tokens is None:
        response.cache_creation_tokens = _count(attributes, names.USAGE_CACHE_CREATION_TOKENS)
    return FinishedStream(
        request,
        response,
        timeline,
        ALONE,  # a span does not hold how many streams were open beside its own; nothing here reports it
        None if error_type is None else str(error_type),
        () if stall is None else tuple(find_stalls(timeline, request, stall)),
    )


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return value if isinstance(value, str) else None


def _count(attributes: Mapping[str, Any], name: str) -> int | None:
    value = attributes.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
