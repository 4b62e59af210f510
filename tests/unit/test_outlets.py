"""Where a provider's telemetry leaves it: found on the installed SDK, and unknown where an SDK is built differently."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from otel_itl.export.sdk_internals.outlets import can_find_outlets, endpoint_of, find_outlets, is_otlp

GRPC = "http://user:secret@127.0.0.1:4317"
HTTP = "http://user:secret@127.0.0.1:4318/v1/traces?key=secret"


def test_the_proof_holds_on_the_installed_sdk() -> None:
    assert can_find_outlets.__wrapped__() is True


@pytest.fixture
def exporters() -> Any:
    """One exporter of each signal."""
    made = OTLPSpanExporter(HTTP), OTLPMetricExporter(HTTP), OTLPLogExporter(HTTP)
    yield made
    for exporter in made:
        exporter.shutdown()


def test_the_exporters_behind_batches_are_found(exporters: Any) -> None:
    spans, metrics, logs = exporters
    tracing = TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(BatchSpanProcessor(spans))
    measuring = MeterProvider([PeriodicExportingMetricReader(metrics, 60_000)], shutdown_on_exit=False)
    logging = LoggerProvider(shutdown_on_exit=False)
    logging.add_log_record_processor(BatchLogRecordProcessor(logs))
    providers: list[Any] = [tracing, measuring, logging]
    found = [find_outlets(provider) for provider in providers]
    assert found == [[spans], [metrics], [logs]]
    for provider in providers:
        provider.shutdown()


def test_concurrent_processors_are_found(exporters: Any) -> None:
    provider = TracerProvider(active_span_processor=ConcurrentMultiSpanProcessor(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporters[0]))
    assert find_outlets(provider) == [exporters[0]]


def test_an_exporter_that_another_one_guards_is_found(exporters: Any) -> None:
    class Guard:
        def __init__(self, exporter: Any) -> None:
            self._exporter = exporter

    provider = TracerProvider(shutdown_on_exit=False)
    guard: Any = Guard(exporters[0])
    provider.add_span_processor(SimpleSpanProcessor(guard))
    assert find_outlets(provider) == [exporters[0]]


@pytest.mark.parametrize("provider", [object(), None, 5])
def test_the_outlets_of_another_kind_of_provider_are_unknown(provider: object) -> None:
    assert find_outlets(provider) is None


@pytest.mark.parametrize(
    ("kind", "given", "endpoint"),
    [
        *((kind, GRPC, "127.0.0.1:4317") for kind in (GrpcSpanExporter, GrpcMetricExporter, GrpcLogExporter)),
        *((kind, HTTP, "http://127.0.0.1:4318/v1/traces") for kind in (OTLPSpanExporter, OTLPMetricExporter)),
        (OTLPLogExporter, HTTP, "http://127.0.0.1:4318/v1/traces"),
    ],
)
def test_the_endpoint_of_an_exporter_has_no_credentials(kind: Any, given: str, endpoint: str) -> None:
    exporter = kind(endpoint=given)
    assert (endpoint_of(exporter), is_otlp(exporter)) == (endpoint, True)
    exporter.shutdown()


def test_another_exporter_has_no_endpoint() -> None:
    assert (endpoint_of(object()), is_otlp(object())) == (None, False)
