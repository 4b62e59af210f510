"""The telemetry of simulated requests, as it is sent: streams with the pace of a model, made without waiting."""

from __future__ import annotations

import random
from array import array
from itertools import accumulate
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
from opentelemetry.trace import SpanKind, set_span_in_context

from bench.inside import attributes_at_end, attributes_at_start, record_metrics
from otel_itl.core.encoding import encode, encode_each
from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind, Timeline

FORMS: Final = ("packed", "each", "log", "none")
REQUESTED_NS: Final = 1_700_000_000_000_000_000
GAP_SECONDS: Final = 0.02

_RESOURCE = Resource.create({"service.name": "shop", "service.namespace": "web", "host.name": "host-0123456789"})


class Batch(NamedTuple):
    """OTLP protobuf that an SDK sends at once, by signal, and the number of its requests."""

    requests: int
    traces: bytes
    logs: bytes

    @property
    def size(self) -> int:
        """Bytes of both signals."""
        return len(self.traces) + len(self.logs)


def timeline(pace: random.Random, tokens: int) -> Timeline:
    """Return a stream with log-normal gaps of 20 ms, read without delay."""
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
    """Return a request to a model."""
    return Request(
        operation="chat", provider="openai", model=model, server_address="api.openai.com", server_port=443,
        parameters={"gen_ai.request.temperature": 0.7, "gen_ai.request.max_tokens": 2_048},
    )  # fmt: skip


def batch(form: str, requests: int, tokens: int, seed: int = 1) -> Batch:
    """Return the spans and log events of requests, in one form of the token events."""
    pace = random.Random(seed)  # noqa: S311 - a pace, not a secret
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    limits = SpanLimits(max_events=2 * tokens + 128)
    tracing = TracerProvider(resource=_RESOURCE, span_limits=limits, shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging = LoggerProvider(resource=_RESOURCE, shutdown_on_exit=False)
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    tracer, logger = tracing.get_tracer("otel_itl", "0.1.0"), logging.get_logger("otel_itl", "0.1.0")
    for _ in range(requests):
        stream, asked = timeline(pace, tokens), request("gpt-4o")
        measures = measure(stream)
        answer = ResponseInfo()
        answer.model, answer.response_id = "gpt-4o-2024-08-06", f"chatcmpl-{pace.getrandbits(128):032x}"
        answer.input_tokens, answer.output_tokens = 1_200, tokens
        span = tracer.start_span(
            "chat gpt-4o",
            kind=SpanKind.CLIENT,
            attributes=attributes_at_start(asked),
            start_time=stream.request_unix_ns,
        )
        span.set_attributes(attributes_at_end(answer, stream, measures))
        events: list[Any] = {"packed": encode(stream), "each": encode_each(stream, 2 * tokens)}.get(form) or []
        for event in events:
            span.add_event(event.name, event.attributes, event.unix_ns)
        span.end(stream.request_unix_ns + stream.end)
        for event in encode(stream) if form == "log" else ():
            logger.emit(
                timestamp=event.unix_ns,
                event_name=event.name,
                attributes=event.attributes,
                context=set_span_in_context(span),
            )
    logged = encode_logs(logs.get_finished_logs()).SerializeToString() if form == "log" else b""
    return Batch(requests, encode_spans(spans.get_finished_spans()).SerializeToString(), logged)


class Series(NamedTuple):
    """Metrics of one process that has used all its models."""

    series: int
    """Series in Prometheus: one for a native histogram, one per bucket and two more for a classic one."""
    export: int
    """Bytes of one export."""


def series(models: int, *, native: bool) -> Series:
    """Return the metrics of a process with 20 completed streams of each model, measured against an objective."""
    aggregations: dict[type, Aggregation] = {
        Histogram: ExponentialBucketHistogramAggregation() if native else DefaultAggregation()
    }
    reader = InMemoryMetricReader(preferred_aggregation=aggregations)
    metering = MeterProvider([reader], resource=_RESOURCE, shutdown_on_exit=False)
    asked = [request(f"model-{model}") for model in range(models)]
    pace = random.Random(1)  # noqa: S311 - a pace, not a secret
    timelines = ((each, timeline(pace, 500)) for each in asked for _ in range(20))
    streams = ((each, stream, measure(stream)) for each, stream in timelines)
    recording = record_metrics(metering.get_meter("otel_itl", "0.1.0"), asked, streams)
    data = reader.get_metrics_data()
    del recording
    assert data is not None
    points = [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    classic = sum(len(point.bucket_counts) + 2 for point in points if hasattr(point, "explicit_bounds"))
    others = sum(not hasattr(point, "explicit_bounds") for point in points)
    return Series(classic + others, len(encode_metrics(data).SerializeToString()))
