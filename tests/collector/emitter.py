"""A process of the fleet, played by this one: the OpenTelemetry SDK, and telemetry that a test makes up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from otel_itl.core import conventions as names
from otel_itl.core import metric_conventions

MODEL = {names.PROVIDER_NAME: "openai", names.REQUEST_MODEL: "scripted"}


class Emitter:
    """Sends spans and counts to a Collector, over OTLP/HTTP.

    Args:
        service: its `service.name`, Prometheus's `job`.
        url: of the Collector.
    """

    def __init__(self, service: str, url: str) -> None:
        resource = Resource.create({"service.name": service})
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._traces.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"), max_queue_size=100_000, schedule_delay_millis=100)
        )
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"), 500)
        self._metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer = self._traces.get_tracer(names.SCOPE)
        outcomes = metric_conventions.STREAM_OUTCOMES
        self._outcomes = self._metrics.get_meter(names.SCOPE).create_counter(*outcomes[:3])
        self.sent: list[int] = []

    def stream(
        self, *, within: trace.Span | None = None, error: bool = False, events: int = 0, **attributes: Any
    ) -> trace.Span:
        """Tell of a stream that ended; the attributes are given with `_` for `.`.

        Args:
            within: a span of the trace that it joins; None: a trace of its own.
            error: whether it failed.
            events: how many token events it has.
            attributes: beside provider, model and outcome.
        """
        context = trace.set_span_in_context(within) if within else None
        span = self._tracer.start_span(
            "chat scripted", context, trace.SpanKind.CLIENT, {**MODEL, **_dotted(attributes)}
        )
        for index in range(events):
            span.add_event(names.TOKEN_EVENT, {names.TOKEN_INDEX: index})
        if error:
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        self._outcomes.add(1, {**MODEL, names.STREAM_OUTCOME: attributes.get("itl_stream_outcome", "completed")})
        self.sent.append(span.get_span_context().span_id)
        return span

    def flush(self) -> None:
        """Send what has not been sent yet."""
        self._traces.force_flush()
        self._metrics.force_flush()

    def close(self) -> None:
        """Send what has not been sent yet, and end."""
        self._traces.shutdown()
        self._metrics.shutdown()

    @property
    def span_ids(self) -> set[bytes]:
        """Of all that was sent."""
        return {span_id.to_bytes(8, "big") for span_id in self.sent}


def _dotted(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in attributes.items()}
