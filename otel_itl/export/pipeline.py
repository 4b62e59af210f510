"""The pipeline: a stream that ended is measured, judged, and handed to a flat list of sinks; its span always ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from weakref import ref

from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, get_current_span, set_span_in_context

from otel_itl.core.conventions import FETCH_OPERATIONS, Where
from otel_itl.core.measures import Measures, measure
from otel_itl.core.request import Request
from otel_itl.core.sessions import SessionStatus, TrackedRequest
from otel_itl.core.slo import Objectives, SLOResult, evaluate
from otel_itl.core.stalls import Cause
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import SECOND, Outcome, Timeline
from otel_itl.export.logs import EventLog
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
_WITHOUT_MEASURES: Final = measure(Timeline(request_unix_ns=0))
"""The figures of a stream that could not be measured: none."""


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
        self.spans = spans
        """Starts the spans, and describes them again."""
        self._span_sink = span_sink
        self._sinks: Sequence[Sink] = (span_sink, end_log, *more_sinks)
        self._logger = logger
        self._objectives = objectives
        self._usage_reports = UsageReports()

    def discard(self, handle: SpanHandle, request: Request, unix_ns: int) -> None:
        """Report a request that could not be recorded as abandoned; a span that is not ours is left as it was."""
        timeline = Timeline(request_unix_ns=unix_ns, outcome=Outcome.ABANDONED)
        finished = FinishedStream(request, ResponseInfo(), timeline, ALONE, None)
        if handle.is_own:
            self.compute(handle, finished)
            self.deliver(handle)
        else:
            end_span(StreamReport(handle, finished, _WITHOUT_MEASURES))

    def stall_log(self, handle: SpanHandle, request: Request, unix_ns: int) -> StallLog:
        """Make what emits the log events of a stream's stalls. It refers to the span by its ids alone."""
        return StallLog(EventLog(self._logger, _ids_of(handle), request, unix_ns))

    def progress_log(self, handle: SpanHandle, request: Request, unix_ns: int) -> ProgressLog:
        """Make what emits a stream's chunks while it runs. It refers to the span by its ids alone."""
        return ProgressLog(EventLog(self._logger, _ids_of(handle), request, unix_ns))

    def connection_log(
        self, request: Request, wall_clock: Callable[[], int]
    ) -> Callable[[str, Mapping[str, Any]], None]:
        """Make what emits events about a connection, in the present span, which it refers to by its ids alone."""
        context = set_span_in_context(NonRecordingSpan(get_current_span().get_span_context()), Context())
        log = EventLog(self._logger, context, request, 0)

        def emit(name: str, attributes: Mapping[str, Any]) -> None:
            log.emit_about_request(name, wall_clock(), attributes, SeverityNumber.INFO)

        return emit

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
                self._span_sink(StreamReport(handle, finished, measures, self._evaluate(finished, measures)))
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.SPAN_ENRICH, error)

    def compute(self, handle: SpanHandle, finished: FinishedStream) -> None:
        """Compute the report of a stream that ended, and queue it for its metrics. A second call does nothing.

        No code of the application runs here: a collection may call it.
        """
        if not handle.claim_report():
            return
        report = StreamReport(handle, finished, _WITHOUT_MEASURES)
        try:
            if finished.response.is_background or finished.request.operation in FETCH_OPERATIONS:
                finished = finished._replace(reports_usage=self._try(partial(self._usage_reports.claim, finished)))
                report = StreamReport(handle, finished, _WITHOUT_MEASURES)
            measures = self._try(partial(measure, finished.timeline))
            if measures is None:
                measures = _WITHOUT_MEASURES._replace(duration=finished.timeline.end / SECOND)
            slo = self._try(partial(self._evaluate, finished, measures)) if self._objectives.by_model else None
            request = handle.session_request
            session = None if request is None else self._try(partial(_end_session_request, request, finished, measures))
            report = StreamReport(handle, finished, measures, slo, session)
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
        finally:
            # Unless something of ours has failed already, nothing of ours is called here that could.
            handle.report = report
            if not finished.request.is_test:
                self.metrics.pending.queue.append((self.metrics, report))

    def deliver(self, handle: SpanHandle) -> None:
        """Deliver the report of a stream in log events and on its span, and end that. A second call does nothing."""
        report, span = handle.report, handle.span
        if report is None or not handle.claim_delivery():
            return
        try:
            for sink in (*self._sinks, end_span):
                try:
                    sink(report)
                except Exception as error:  # noqa: BLE001 - the guard: a sink that fails keeps no other from its turn
                    self.errors.report(Where.STREAM_END, error)
        except Exception as error:  # noqa: BLE001 - the guard
            self.errors.report(Where.STREAM_END, error)
        finally:
            # As above.
            timeline = report.finished.timeline
            if handle.is_own and span.is_recording():
                span.end(timeline.request_unix_ns + timeline.end)
            elif handle.noted_ends and vars(span).pop("end", None) is not None:
                span.end(handle.noted_ends[0])
        handle.release()
        self.metrics.pending.hold_bound()

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


def _end_session_request(request: TrackedRequest, finished: FinishedStream, measures: Measures) -> SessionStatus:
    """Add a stream to its session."""
    return request.end(
        measures.upstream_samples.nanoseconds,
        uncertainty=measures.pace_uncertainty,
        stall_count=len(finished.stalls),
        decode_duration=finished.timeline.output_duration,
    )


def _ids_of(handle: SpanHandle) -> Context:
    """Return the context of a span, which refers to it by its ids alone: a report that waits keeps no span alive."""
    return set_span_in_context(NonRecordingSpan(handle.span.get_span_context()), handle.context)
