"""The pipeline: a stream that ended is measured, judged, and handed to a flat list of sinks; its span always ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from weakref import ref

from opentelemetry._logs import Logger  # noqa: TC002 - part of what is public
from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.trace import NonRecordingSpan, Span, set_span_in_context

from otel_itl.core.conventions import FETCH_OPERATIONS, Where
from otel_itl.core.measures import Measures, measure
from otel_itl.core.request import Request
from otel_itl.core.sessions import Sessions, SessionStatus
from otel_itl.core.slo import Objectives, SLOResult, evaluate
from otel_itl.core.stalls import Cause
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.export.logs import EventLog
from otel_itl.export.measured_stream import MeasuredStream, measured_stream
from otel_itl.export.metrics import StreamMetrics
from otel_itl.export.others_spans import describe_before_end
from otel_itl.export.span import SpanSink, SpanStarter, end_span
from otel_itl.export.stream_log import EndLog, ProgressLog, StallLog
from otel_itl.export.stream_report import SpanHandle, StreamReport
from otel_itl.export.usage_reports import UsageReports
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors

T = TypeVar("T")
Sink = Callable[[StreamReport], None]


class Pipeline:
    """Reports streams: on their spans, in log events, and to the metrics.

    Whatever a stage or a sink raises is counted and logged; the stream's span ends and its outcome is counted all the
    same.

    Args:
        spans: starts the spans.
        span_sink: describes a stream on its span.
        end_log: emits the log events of a stream's end.
        logger: emits the log events of stalls.
        metrics: records the streams that ended.
        objectives: what streams are held against.
        errors: where failures of our own are reported.
        sections: the critical sections of the process.
        more_sinks: get each stream after its span and its log events.
    """

    def __init__(  # noqa: PLR0913 - the signals, and what they share
        self,
        spans: SpanStarter,
        span_sink: SpanSink,
        end_log: EndLog,
        *,
        logger: Logger,
        metrics: StreamMetrics,
        objectives: Objectives,
        errors: InternalErrors,
        sections: CriticalSections,
        more_sinks: Sequence[Sink] = (),
    ) -> None:
        self.metrics = metrics
        self.errors, self.sections = errors, sections
        self._spans = spans
        self._span_sink = span_sink
        self._sinks: Sequence[Sink] = (span_sink, end_log, *more_sinks)
        self._logger = logger
        self._objectives = objectives
        self._usage_reports = UsageReports()

    @property
    def sessions(self) -> Sessions:
        """The sessions of this process."""
        return self._spans.sessions

    def start(self, handle: SpanHandle, request: Request, unix_ns: int, sdk_span: Span | None = None) -> None:
        """Start the span of a request made at `unix_ns`, or join another instrumentation's or that of the SDK."""
        self._spans.start(handle, request, unix_ns, sdk_span)

    def redescribe(self, handle: SpanHandle, request: Request) -> None:
        """Describe a started span as the layer nearer to the wire sees the request."""
        self._spans.redescribe(handle, request)

    def discard(self, handle: SpanHandle, request: Request, unix_ns: int) -> None:
        """Report a request that could not be recorded as abandoned; a span that is not ours is left as it was."""
        timeline = Timeline(request_unix_ns=unix_ns, outcome=Outcome.ABANDONED)
        report = self.finish if handle.is_own else end_span
        report(handle, FinishedStream(request, ResponseInfo(), timeline, ALONE, None))

    def stall_log(self, handle: SpanHandle, request: Request, unix_ns: int) -> StallLog:
        """Make what emits the log events of a stream's stalls. It refers to the span by its ids alone."""
        return StallLog(EventLog(self._logger, _ids_of(handle), request, unix_ns))

    def progress_log(self, handle: SpanHandle, request: Request, unix_ns: int) -> ProgressLog:
        """Make what emits a stream's chunks while it runs. It refers to the span by its ids alone."""
        return ProgressLog(EventLog(self._logger, _ids_of(handle), request, unix_ns))

    def follow_foreign_span(self, handle: SpanHandle, snapshot: Callable[[], FinishedStream | None]) -> None:
        """Describe a stream on another instrumentation's span at the latest when that ends it.

        Args:
            handle: of that span.
            snapshot: returns the stream as if it ended now; None: it is gone. It must not keep the stream alive.
        """
        unfinished, pipeline = snapshot, ref(self)

        def describe() -> None:
            found = pipeline()
            if found is not None:
                with found.sections.current:  # the span is locked while it is described
                    found.describe_unfinished(handle, unfinished)

        describe_before_end(handle, describe)

    def describe_unfinished(self, handle: SpanHandle, snapshot: Callable[[], FinishedStream | None]) -> None:
        """Describe a stream that has not ended on its span."""
        try:
            finished = snapshot()
            if finished is not None:
                measures = measure(finished.timeline)
                self._span_sink(StreamReport(handle, finished, measures, self._evaluate(finished, measures), None))
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.SPAN_ENRICH, error)

    def finish(self, handle: SpanHandle, finished: FinishedStream) -> None:
        """Report a stream that ended. A second report of it does nothing."""
        self.compute(handle, finished)
        self.deliver(handle)

    def compute(self, handle: SpanHandle, finished: FinishedStream) -> None:
        """Compute the report of a stream that ended, and queue its metrics. A second call does nothing.

        No code of the application runs here: a collection may call it.
        """
        if not handle.claim_report():
            return
        metrics, measured = self.metrics, None
        handle.finished = finished
        try:
            handle.report = report = self._derive(handle, finished)
            measured = self._try(partial(_measure_for_metrics, report))
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
        finally:
            # Unless something of ours has failed already, nothing of ours is called here that could.
            if not finished.request.is_test:
                metrics.pending.queue.append((metrics, measured or _without_measures(handle, finished)))

    def deliver(self, handle: SpanHandle) -> None:
        """Deliver the report of a stream in log events and on its span, and end that. A second call does nothing."""
        finished, report, span = handle.finished, handle.report, handle.span
        if finished is None or not handle.claim_delivery():
            return
        try:
            if report is not None:
                for sink in self._sinks:
                    self._try(partial(sink, report))
            self._try(partial(end_span, handle, finished))
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
        finally:
            # As above.
            if handle.is_own and span.is_recording():
                span.end(finished.timeline.request_unix_ns + finished.timeline.end)
            elif handle.noted_ends and vars(span).pop("end", None) is not None:
                span.end(handle.noted_ends[0])
        handle.release()
        self.metrics.pending.hold_bound()

    def _derive(self, handle: SpanHandle, finished: FinishedStream) -> StreamReport:
        """Measure a stream, and hold it against its objective and its session."""
        if finished.response.is_background or finished.request.operation in FETCH_OPERATIONS:
            claim = self._try(partial(self._usage_reports.claim, finished))
            finished = finished._replace(reports_usage=claim)
        measures = self._try(partial(measure, finished.timeline)) or measure(_without_chunks(finished.timeline))
        return StreamReport(
            handle=handle,
            finished=finished,
            measures=measures,
            slo=self._try(partial(self._evaluate, finished, measures)),
            session=self._try(partial(_end_session_request, handle, finished, measures)),
        )

    def _try(self, step: Callable[[], T]) -> T | None:
        """Take a step of a stream's end; where it fails, report that and return None."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the guard: a step that fails keeps no other from being taken
            self.errors.report(Where.STREAM_END, error)
            return None

    def _evaluate(self, finished: FinishedStream, measures: Measures) -> SLOResult | None:
        """Evaluate the stream against the objective for its model; None where there is none. Upstream stalls count."""
        slo = self._objectives.for_model(finished.request.model)
        if slo is None:
            return None
        is_stalled = any(stall.cause is Cause.UPSTREAM for stall in finished.stalls)
        return evaluate(slo, finished.timeline, measures, is_stalled=is_stalled)


def _measure_for_metrics(report: StreamReport) -> MeasuredStream:
    """Take from a report what the metrics need, so that timeline and span can be freed before the next collection."""
    handle = report.handle
    return measured_stream(
        report.finished,
        report.measures,
        report.slo,
        handle.span.get_span_context(),
        records_standard=handle.records_standard,
        recorded_elsewhere=handle.recorded_elsewhere,
    )


def _without_chunks(timeline: Timeline) -> Timeline:
    """Return the timeline with its end and its outcome alone, for when the rest cannot be measured."""
    return Timeline(request_unix_ns=timeline.request_unix_ns, end=timeline.end, outcome=timeline.outcome)


def _without_measures(handle: SpanHandle, finished: FinishedStream) -> MeasuredStream:
    """Return what the metrics record of a stream that could not be measured: its outcome and its duration."""
    return MeasuredStream(
        request=finished.request,
        response_model=finished.response.model,
        outcome=finished.timeline.outcome,
        error_type=finished.error_type,
        duration=finished.timeline.end / SECOND,
        records_standard=handle.records_standard,
        recorded_elsewhere=handle.recorded_elsewhere,
    )


def _end_session_request(handle: SpanHandle, finished: FinishedStream, measures: Measures) -> SessionStatus | None:
    """Add the stream to its session, if it belongs to one."""
    if handle.session_request is None:
        return None
    return handle.session_request.end(
        measures.upstream_samples.nanoseconds,
        uncertainty=measures.pace_uncertainty,
        stall_count=len(finished.stalls),
        decode_duration=finished.timeline.output_duration,
    )


def _ids_of(handle: SpanHandle) -> Context:
    """Return the context of a span, which refers to it by its ids alone: a report that waits keeps no span alive."""
    return set_span_in_context(NonRecordingSpan(handle.span.get_span_context()), handle.context)
