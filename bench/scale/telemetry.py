"""The telemetry of requests as it goes over the wire, at a model's pace, without waiting for one."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    Aggregation,
    DefaultAggregation,
    ExponentialBucketHistogramAggregation,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanKind, set_span_in_context

from otel_itl.conventions import STANDARD_NAMES
from otel_itl.core import codec
from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.slo import PROFILES, evaluate
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Kind, Timeline
from otel_itl.export import attributes, scope
from otel_itl.export.measured_stream import measured_stream
from otel_itl.export.metrics import MetricsRegistry

FORMS: Final = ("packed", "each", "log", "none")
REQUESTED_NS: Final = 1_700_000_000_000_000_000
GAP_SECONDS: Final = 0.02

_RESOURCE = Resource.create({"service.name": "shop", "service.namespace": "web", "host.name": "host-0123456789"})


class Batch(NamedTuple):
    """What an SDK sends at once: OTLP protobuf by signal, of so many requests."""

    requests: int
    traces: bytes
    logs: bytes

    @property
    def size(self) -> int:
        """Bytes of both."""
        return len(self.traces) + len(self.logs)


def timeline(pace: random.Random, tokens: int) -> Timeline:
    """A stream of so many tokens, 20 ms apart, log-normal, read at once."""
    gaps = [round(pace.lognormvariate(0.0, 0.4) * GAP_SECONDS * 1e9) for _ in range(tokens - 1)]
    arrived = list(accumulate([round(pace.lognormvariate(0.0, 0.2) * 0.3e9), *gaps]))
    return Timeline(
        request_unix_ns=REQUESTED_NS + pace.randrange(10**9),
        asked=array("q", [0, *(moment + 12_000 for moment in arrived[:-1])]),
        arrived=array("q", arrived),
        kinds=bytes([Kind.ANSWER]) * tokens,
        headers=arrived[0] // 2,
        end=arrived[-1] + 1_000_000,
        input_tokens=1_200,
        output_tokens=tokens,
        attempts=1,
    )


def request(model: str) -> Request:
    """A request to a model."""
    return Request(
        operation="chat", provider="openai", model=model, server_address="api.openai.com", server_port=443,
        parameters={"gen_ai.request.temperature": 0.7, "gen_ai.request.max_tokens": 2_048},
    )  # fmt: skip


def batch(form: str, requests: int, tokens: int, seed: int = 1) -> Batch:
    """Spans of requests, and their log events, in one form of the token events."""
    pace = random.Random(seed)  # noqa: S311 - a pace, not a secret
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    limits = SpanLimits(max_events=2 * tokens + 128)
    tracing = TracerProvider(resource=_RESOURCE, span_limits=limits, shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging = LoggerProvider(resource=_RESOURCE, shutdown_on_exit=False)
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    tracer, logger = scope.get_tracer(tracing, "operation"), scope.get_logger(logging, "operation")
    for _ in range(requests):
        stream, asked = timeline(pace, tokens), request("gpt-4o")
        measures = measure(stream)
        answer = ResponseInfo()
        answer.model, answer.response_id = "gpt-4o-2024-08-06", f"chatcmpl-{pace.getrandbits(128):032x}"
        answer.input_tokens, answer.output_tokens = 1_200, tokens
        span = tracer.start_span(
            "chat gpt-4o",
            kind=SpanKind.CLIENT,
            attributes=attributes.at_start(asked),
            start_time=stream.request_unix_ns,
        )
        finished = FinishedStream(asked, answer, stream, Concurrency(25, 25.0), None)
        span.set_attributes(attributes.of_response(finished, measures, STANDARD_NAMES["operation"]))
        span.set_attributes(attributes.of_stream(stream, measures, finished.concurrency))
        events: list[Any] = {"packed": codec.encode(stream), "each": codec.encode_each(stream, 2 * tokens)}.get(
            form
        ) or []
        for event in events:
            span.add_event(event.name, event.attributes, event.unix_ns)
        span.end(stream.request_unix_ns + stream.end)
        for event in codec.encode(stream) if form == "log" else ():
            logger.emit(
                timestamp=event.unix_ns,
                event_name=event.name,
                attributes=event.attributes,
                context=set_span_in_context(span),
            )
    logged = encode_logs(logs.get_finished_logs()).SerializeToString() if form == "log" else b""
    return Batch(requests, encode_spans(spans.get_finished_spans()).SerializeToString(), logged)


class _Errors:
    """Lets what fails fail."""

    counts: Mapping[str, int] = MappingProxyType({})

    def report(self, where: str, error: BaseException) -> None:
        raise RuntimeError(where) from error


class Series(NamedTuple):
    """What one process has after a while, for so many models."""

    series: int
    """In Prometheus: a native histogram is one, a classic one is a series for each bucket and two more."""
    export: int
    """Bytes of one export."""


def series(models: int, *, native: bool) -> Series:
    """The metrics of a process that has seen streams of so many models, all completed, against an objective."""
    aggregations: dict[type, Aggregation] = {
        Histogram: ExponentialBucketHistogramAggregation() if native else DefaultAggregation()
    }
    reader = InMemoryMetricReader(preferred_aggregation=aggregations)
    metering = MeterProvider([reader], resource=_RESOURCE, shutdown_on_exit=False)
    asked = [request(f"model-{model}") for model in range(models)]
    registry = MetricsRegistry(
        _Errors(),
        open_streams=lambda: [(each, stalled) for each in asked for stalled in (False, True)],
        before_collection=lambda: None,
    )
    recording = registry.create(
        scope.get_meter(metering, "operation"), STANDARD_NAMES["operation"], reports_process=True
    )
    pace = random.Random(1)  # noqa: S311 - a pace, not a secret
    for each in asked:
        for _ in range(20):
            stream = timeline(pace, 500)
            measures = measure(stream)
            slo_result = evaluate(PROFILES["chat"], stream, measures, is_stalled=False)
            response = ResponseInfo()
            response.update_token_counts(input_tokens=stream.input_tokens, output_tokens=stream.output_tokens)
            finished = FinishedStream(each, response, stream, Concurrency(25, 25.0), None)
            recording.add(measured_stream(finished, measures, slo_result, INVALID_SPAN_CONTEXT, records_standard=True))
    data = reader.get_metrics_data()
    assert data is not None
    points = [
        point
        for resource in data.resource_metrics
        for scoped in resource.scope_metrics
        for metric in scoped.metrics
        for point in metric.data.data_points
    ]
    classic = sum(len(point.bucket_counts) + 2 for point in points if hasattr(point, "explicit_bounds"))
    others = sum(not hasattr(point, "explicit_bounds") for point in points)
    return Series(classic + others, len(encode_metrics(data).SerializeToString()))
