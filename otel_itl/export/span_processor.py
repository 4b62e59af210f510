"""The span processor: measures from a finished span's token events, whoever put them there."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from opentelemetry import metrics
from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, SynchronousMultiSpanProcessor
from opentelemetry.trace import NonRecordingSpan, StatusCode, set_span_in_context

from otel_itl import conventions as names
from otel_itl.config import Config, load
from otel_itl.core.codec import MalformedEventsError, decode
from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.slo import evaluate
from otel_itl.core.stall_detector import find_stalls
from otel_itl.core.stalls import StallPolicy
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.export.attributes import ModelNames
from otel_itl.export.metrics import Measured, StreamMetrics
from otel_itl.recording.internal_errors import never_raises

CLAIMS = 4_096
"""Spans that are remembered as measured already: as many as may be between their end and the processors."""

_claimed: dict[int, None] = {}


def claim(span_id: int) -> None:
    """Say that a span's stream is measured already, where it was recorded: no processor is to count it again."""
    _claimed[span_id] = None
    while len(_claimed) > CLAIMS:
        _claimed.pop(next(iter(_claimed)), None)


def prepend_processor(provider: Any, processor: SpanProcessor) -> bool:
    """Add a processor to a provider, ahead of those that are there; False where it came behind them after all.

    What is flushed or shut down first must be what ends spans. The SDK adds behind, so this reaches into it.
    """
    provider.add_span_processor(processor)
    added = getattr(provider, "_active_span_processor", None)
    if type(added) is not SynchronousMultiSpanProcessor:
        return False
    try:
        with added._lock:  # noqa: SLF001 - see above
            others = [other for other in added._span_processors if other is not processor]  # noqa: SLF001
            added._span_processors = (processor, *others)  # noqa: SLF001
    except AttributeError:
        return False
    return True


class ITLSpanProcessor(SpanProcessor):
    """Derives TTFT, ITL percentiles and outcomes from the token events of finished spans, and records them as metrics.

    `instrument()` wires one in: it makes a flush of the tracer provider reach the metrics, and measures spans of
    *another* instrumentation that carry an event per chunk (`chunk_events`). Streams that were recorded in this process
    are measured where they are recorded, also when their span is not sampled; a processor passes over their spans.
    Without `instrument()`, add one to your tracer provider.

    Args:
        chunk_events: names of the span events that stand for one output chunk each.
        meter_provider: where the metrics go; the global provider by default.
        standard_names: the generation of the standard metrics' names, `operation` or `inference`.
        standard_metrics: record the `gen_ai.client.*` metrics as well; off, as the other instrumentation has its own.
        model_limit: how many model names the metrics tell apart.
        stall: from when on a silence in such a span is a stall, as `instrument()` takes it.
        slo: what such spans are held against, likewise.
        stream_metrics: record into these instead of making instruments.
        before_flush: called first when a flush or a shutdown is asked for.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        chunk_events: Iterable[str] = (),
        *,
        meter_provider: metrics.MeterProvider | None = None,
        standard_names: str = "operation",
        standard_metrics: bool = False,
        model_limit: int = 100,
        stall: StallPolicy | str | None = StallPolicy(),  # noqa: B008 - immutable
        slo: Any = None,
        stream_metrics: StreamMetrics | None = None,
        before_flush: Callable[[], None] | None = None,
    ) -> None:
        self._chunk_events = frozenset([chunk_events] if isinstance(chunk_events, str) else chunk_events)
        rules = load({"stall": stall, "slo": slo}, {})
        self._policy, self._objectives = rules.stall, rules.slo
        self._standard = standard_metrics
        self._measuring = True
        self._metrics = stream_metrics or StreamMetrics(
            metrics.get_meter(names.SCOPE, meter_provider=meter_provider),
            names.STANDARD_NAMES[standard_names],
            ModelNames(model_limit),
            objectives=self._objectives,
        )
        self._before_flush = before_flush

    def reconfigure(self, config: Config, stream_metrics: StreamMetrics) -> None:
        """Measure again, or otherwise, from here on: providers keep their processors for good."""
        self._chunk_events, self._metrics, self._measuring = frozenset(config.chunk_events), stream_metrics, True
        self._policy, self._objectives = config.stall, config.slo

    def rest(self) -> None:
        """Measure no more."""
        self._measuring = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing: a stream is measured when it is over."""

    @never_raises("measuring a span", None)
    def on_end(self, span: ReadableSpan) -> None:
        """Measure a finished span that carries token events."""
        context = span.get_span_context()
        if not self._measuring or context is None or context.span_id in _claimed:
            return
        timeline = self._timeline(span)
        if timeline is None:
            return
        attributes = span.attributes or {}
        error_type = attributes.get(names.ERROR_TYPE)
        model = attributes.get(names.RESPONSE_MODEL)
        request, measures = _request(attributes), measure(timeline)
        stalls = () if self._policy is None else find_stalls(timeline, request, self._policy)
        for stall in stalls:
            self._metrics.stalled(stall)
            self._metrics.stall_over(stall)
        slo = self._objectives.for_model(request.model)
        self._metrics.add(
            Measured(
                request=request,
                response_model=None if model is None else str(model),
                timeline=timeline,
                measures=measures,
                error_type=None if error_type is None else str(error_type),
                context=set_span_in_context(NonRecordingSpan(context)),
                standard=self._standard,
                verdict=None if slo is None else evaluate(slo, timeline, measures, is_stalled=bool(stalls)),
            )
        )

    def shutdown(self) -> None:
        """Record what is still to be recorded."""
        self.force_flush()

    @never_raises("flushing", default=False)
    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the processor's interface
        """Record what is still to be recorded."""
        if self._before_flush is not None:
            self._before_flush()
        self._metrics.drain()
        return True

    def _timeline(self, span: ReadableSpan) -> Timeline | None:
        events = [(event.name, event.timestamp, event.attributes or {}) for event in span.events]
        if any(name == names.TOKENS_EVENT for name, _, _ in events):
            try:
                return decode(events)
            except MalformedEventsError:
                return None
        chunks = [unix_ns for name, unix_ns, _ in events if name in self._chunk_events]
        return _from_chunk_events(span, chunks) if chunks else None


def _from_chunk_events(span: ReadableSpan, chunks: list[int]) -> Timeline:
    """Another instrumentation's timestamps: nothing is known of the consumer, who counts as waiting throughout."""
    started = span.start_time or chunks[0]
    arrived = sorted(unix_ns - started for unix_ns in chunks)
    attributes = span.attributes or {}
    tokens = attributes.get(names.USAGE_OUTPUT_TOKENS)
    failed = span.status.status_code is StatusCode.ERROR
    return Timeline(
        request_unix_ns=started,
        asked=array("q", [0, *(before for before, _ in pairwise(arrived))]),
        arrived=array("q", arrived),
        kinds=bytes([Kind.ANSWER]) * len(arrived),
        end=(span.end_time or max(chunks)) - started,
        outcome=Outcome.ERROR if failed else Outcome.COMPLETED,
        output_tokens=tokens if isinstance(tokens, int) else None,
    )


def _request(attributes: Mapping[str, Any]) -> Request:
    def text(name: str) -> str | None:
        value = attributes.get(name)
        return value if isinstance(value, str) else None

    port = attributes.get(names.SERVER_PORT)
    return Request(
        operation=text(names.OPERATION_NAME) or "chat",
        provider=text(names.PROVIDER_NAME) or text("gen_ai.system") or "unknown",
        model=text(names.REQUEST_MODEL),
        server_address=text(names.SERVER_ADDRESS),
        server_port=port if isinstance(port, int) else None,
    )
