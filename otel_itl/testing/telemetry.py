"""OpenTelemetry signals captured in memory, by SDK providers of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as log_export
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.view import Aggregation, View
    from opentelemetry.sdk.trace.sampling import Sampler

Attributes = Mapping[str, Any]
Temporality = Literal["cumulative", "delta"]
PointKind = Literal["sum", "gauge", "histogram", "exponential_histogram"]
_KINDS: Final[dict[str, PointKind]] = {kind.title().replace("_", ""): kind for kind in get_args(PointKind)}
"""Name of the SDK's class of a metric's data → the kind of its points."""


@dataclass(frozen=True)
class Point:
    """One data point of a metric: one set of attributes."""

    name: str
    unit: str
    description: str
    kind: PointKind
    attributes: Attributes
    value: float
    """The value of a sum or gauge; the sum of a histogram's values."""
    count: int
    """How many values a histogram has; 1 for a sum or gauge."""
    exemplars: Sequence[Any] = field(repr=False)
    """The SDK's exemplars, with `value`, `trace_id` and `span_id`."""
    raw: Any = field(repr=False)
    """The SDK's data point: bucket counts and bounds, scale, minimum and maximum, times."""


@dataclass(frozen=True)
class Log:
    """One log record."""

    event_name: str | None
    body: Any
    attributes: Attributes
    severity_text: str | None
    severity_number: int | None
    trace_id: int | None
    span_id: int | None
    raw: Any = field(repr=False)
    """The SDK's log record."""


class CapturedTelemetry:
    """Providers to instrument with, and everything that was emitted through them.

    Nothing is made global: pass `tracer_provider`, `meter_provider` and `logger_provider` on.
    Needs the OpenTelemetry SDK, 1.37 or later.
    """

    def __init__(
        self,
        *,
        sampler: Sampler | None = None,
        span_limits: SpanLimits | None = None,
        views: Sequence[View] = (),
        aggregation: Mapping[type, Aggregation] | None = None,
        temporality: Temporality | Mapping[type, AggregationTemporality] = "cumulative",
    ) -> None:
        """Make the providers.

        Args:
            sampler: the tracer provider's; by default the SDK's, which samples everything.
            span_limits: the tracer provider's; by default those of the `OTEL_*` environment.
            views: the meter provider's.
            aggregation: preferred aggregations, by the SDK's instrument class.
            temporality: `delta` is the delta preference of OTLP exporters: up-down counters stay cumulative.
                A mapping is by the SDK's instrument class.

        """
        self._points: dict[str, list[Point]] = {}
        self._open = True
        self._span_exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(sampler=sampler, span_limits=span_limits, shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._span_exporter))
        if temporality == "delta":
            temporality = dict.fromkeys((Counter, Histogram, ObservableCounter), AggregationTemporality.DELTA)
        self._reader = InMemoryMetricReader(
            preferred_temporality=dict(temporality) if isinstance(temporality, Mapping) else None,
            preferred_aggregation=dict(aggregation) if aggregation else None,
        )
        self.meter_provider = MeterProvider(metric_readers=[self._reader], views=views, shutdown_on_exit=False)
        # Renamed in the life of 1.x; the old name warns for as long as it stays.
        log_exporter: Any = getattr(log_export, "InMemoryLogRecordExporter", None) or log_export.InMemoryLogExporter
        self._log_exporter = log_exporter()
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(log_export.SimpleLogRecordProcessor(self._log_exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        if self._open:
            self.tracer_provider.force_flush()
        return list(self._span_exporter.get_finished_spans())

    @property
    def metrics(self) -> dict[str, list[Point]]:
        """The data points of each metric, by its name; collected now.

        A cumulative metric has its present points. A delta metric has those of every collection since `clear()`:
        reading twice loses nothing.
        """
        self._collect()
        return {name: list(points) for name, points in self._points.items()}

    @property
    def logs(self) -> list[Log]:
        """The log records, in order."""
        return [_log(captured.log_record) for captured in self._log_exporter.get_finished_logs()]

    def clear(self) -> None:
        """Forget spans, logs and metric points. Cumulative metrics go on counting from where they are."""
        self._span_exporter.clear()
        self._log_exporter.clear()
        self._collect()
        self._points.clear()

    def shutdown(self) -> None:
        """Shut the providers down; what was captured stays readable. Shutting down twice is shutting down once."""
        if self._open:
            self._collect()
            self._open = False
            self.tracer_provider.shutdown()
            self.meter_provider.shutdown()
            self.logger_provider.shutdown()

    def __enter__(self) -> CapturedTelemetry:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Shut the providers down."""
        self.shutdown()

    def _collect(self) -> None:
        """Collect the metrics now: cumulative points replace the earlier ones, delta points are added to them."""
        if not self._open:
            return
        data = self._reader.get_metrics_data()
        resources = data.resource_metrics if data is not None else ()
        metrics = [metric for resource in resources for scope in resource.scope_metrics for metric in scope.metrics]
        for metric in metrics:
            if getattr(metric.data, "aggregation_temporality", None) != AggregationTemporality.DELTA:
                self._points.pop(metric.name, None)
        # Several scopes may have a metric of one name.
        for metric in metrics:
            self._points.setdefault(metric.name, []).extend(_point(metric, point) for point in metric.data.data_points)


capture_telemetry = CapturedTelemetry
"""Makes a `CapturedTelemetry` (see there for the arguments) that is shut down with the `with` block."""


def _point(metric: Any, point: Any) -> Point:
    """Read a data point of the SDK."""
    counted = hasattr(point, "count")
    return Point(
        name=metric.name,
        unit=metric.unit or "",
        description=metric.description or "",
        kind=_KINDS[type(metric.data).__name__],
        attributes=dict(point.attributes or {}),
        value=point.sum if counted else point.value,
        count=point.count if counted else 1,
        exemplars=tuple(point.exemplars),
        raw=point,
    )


def _log(record: Any) -> Log:
    """Read a log record of the SDK."""
    number = record.severity_number
    return Log(
        event_name=getattr(record, "event_name", None),
        body=record.body,
        attributes=dict(record.attributes or {}),
        severity_text=record.severity_text,
        severity_number=None if number is None else number.value,
        trace_id=record.trace_id,
        span_id=record.span_id,
        raw=record,
    )
