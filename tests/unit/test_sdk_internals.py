"""Every trick with a private name of OpenTelemetry: it holds on the installed SDK, and does without where it does not.

The proofs hold on every release from 1.37 on. One that fails here, on the newest release above all, is to be mended:
the fallback works, but costs the application time at the end of its streams.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import LogRecord
from opentelemetry.context import attach, detach
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    SpanLimits,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_itl.export.other_instrumentations import without_suppression
from otel_itl.export.sdk_internals import configurator, exporters, processor_order, span_limits
from otel_itl.export.sdk_internals.bulk_recording import can_record_in_bulk
from otel_itl.export.sdk_internals.checked_attributes import can_set_unchecked
from otel_itl.export.sdk_internals.configurator import (
    can_name_exporters,
    configure_sdk,
    describe_exporters,
    has_exporters,
)
from otel_itl.export.sdk_internals.exporters import can_replace_exporters, wrap_otlp_exporters
from otel_itl.export.sdk_internals.lazy_events import can_add_lazy_events
from otel_itl.export.sdk_internals.metric_readers import add_metric_reader, can_insert_metric_readers
from otel_itl.export.sdk_internals.processor_order import can_prepend_processors, prepend_processor
from otel_itl.export.sdk_internals.span_limits import can_read_limits, event_limit

PROOFS: list[Any] = [
    can_record_in_bulk,
    can_add_lazy_events,
    can_set_unchecked,
    can_prepend_processors,
    can_read_limits,
    can_name_exporters,
    can_insert_metric_readers,
    can_replace_exporters,
]


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
def test_the_proof_holds_on_the_installed_sdk(proof: Any) -> None:
    assert proof.__wrapped__() is True


# --- The order of span processors ------------------------------------------------------------------------------------


class Flushed(SpanProcessor):
    """Notes that it was flushed."""

    def __init__(self, name: str, flushed: list[str]) -> None:
        self._name = name
        self._flushed = flushed

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self._flushed.append(self._name)
        return True


def flushed_after_prepending(provider: TracerProvider) -> tuple[bool, list[str]]:
    """Whether a processor became the first, and the order in which a provider flushes its processors then."""
    flushed: list[str] = []
    provider.add_span_processor(Flushed("exporter", flushed))
    is_first = prepend_processor(provider, Flushed("ours", flushed))
    provider.force_flush()
    return is_first, flushed


def test_a_prepended_processor_is_flushed_first() -> None:
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    assert flushed_after_prepending(provider) == (True, ["ours", "exporter"])


def test_where_the_order_cannot_be_changed_a_processor_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_order, "_flush_order", lambda: ["first", "second", "prepended"])
    can_prepend_processors.cache_clear()
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    found = flushed_after_prepending(provider)
    can_prepend_processors.cache_clear()
    assert found == (False, ["exporter", "ours"])


def test_where_processors_run_concurrently_there_is_no_order_to_change() -> None:
    concurrent = ConcurrentMultiSpanProcessor(1)
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False, active_span_processor=concurrent)
    is_first, flushed = flushed_after_prepending(provider)
    concurrent.shutdown()
    assert (is_first, sorted(flushed)) == (False, ["exporter", "ours"])


# --- Metric readers and exporters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_public", [True, False])
def test_a_reader_that_is_added_later_collects_what_is_measured_then(
    is_public: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_public and not hasattr(MeterProvider, "add_metric_reader"):
        pytest.skip("this release of the SDK has no public way to add a reader")
    if not is_public:
        monkeypatch.delattr(MeterProvider, "add_metric_reader", raising=False)
    first, added = InMemoryMetricReader(), InMemoryMetricReader()
    provider = MeterProvider([first], Resource.get_empty(), shutdown_on_exit=False)
    counter = provider.get_meter("test").create_counter("count")
    counter.add(1)
    is_added = add_metric_reader(provider, added)
    counter.add(2)
    assert (is_added, total(first), total(added)) == (True, 3, 2)


def total(reader: InMemoryMetricReader) -> float:
    """The value of the one counter that a reader collects."""
    data: Any = reader.get_metrics_data()
    point: Any = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points[0]
    return float(point.value)


def test_a_provider_that_is_no_sdk_s_takes_no_reader() -> None:
    assert add_metric_reader(object(), InMemoryMetricReader()) is False


class Wrapped:
    """Takes the place of an exporter, and notes what it is asked to export."""

    def __init__(self, exporter: Any, signal: str, exported: list[str]) -> None:
        self._exporter, self._signal, self._exported = exporter, signal, exported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)

    def export(self, *_: Any, **__: Any) -> None:
        self._exported.append(self._signal)


def test_every_otlp_exporter_of_the_providers_is_wrapped_with_its_endpoint() -> None:
    def at(signal: str) -> str:
        return f"http://localhost:9/v1/{signal}"

    resource = Resource.get_empty()
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=at("traces"))))
    tracing.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=at("metrics")), export_interval_millis=60_000)
    metering = MeterProvider([reader], resource, shutdown_on_exit=False)
    logs = LoggerProvider(resource, shutdown_on_exit=False)
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=at("logs"))))
    endpoints: dict[str, str | None] = {}
    exported: list[str] = []

    def wrap(exporter: Any, signal: str, endpoint: str | None) -> Wrapped:
        endpoints[signal] = endpoint
        return Wrapped(exporter, signal, exported)

    count = wrap_otlp_exporters(wrap, tracing, metering, logs)
    tracing.get_tracer("test").start_span("span").end()
    metering.get_meter("test").create_counter("count").add(1)
    logs.get_logger("test").emit(LogRecord(event_name="event"))
    for provider in (tracing, metering, logs):
        provider.force_flush()
        provider.shutdown()
    # The reader collects once more when it is shut down.
    assert (count, set(exported)) == (3, {"traces", "metrics", "logs"})
    assert endpoints == {signal: at(signal) for signal in ("traces", "metrics", "logs")}


def test_where_exporters_cannot_be_replaced_all_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "can_replace_exporters", lambda: False)
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    assert wrap_otlp_exporters(Wrapped, provider, None, None) == 0
    provider.shutdown()


# --- Span limits ---------------------------------------------------------------------------------------------------


def span(limit: int | None = None, events: int = 0) -> Any:
    limits = SpanLimits(max_events=SpanLimits.UNSET if limit is None else limit)
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False, span_limits=limits)
    started = provider.get_tracer("test").start_span("stream")
    for _ in range(events):
        started.add_event("event")
    return started


@pytest.mark.parametrize(("events", "left"), [(0, 9), (4, 5), (9, 0), (12, 0)])
def test_the_events_that_a_span_can_still_take_are_known(events: int, left: int) -> None:
    assert event_limit(span(9, events)) == left


def test_a_span_without_a_limit_takes_any_number() -> None:
    assert event_limit(span()) == span_limits.UNLIMITED


def test_a_span_of_another_sdk_takes_as_many_as_the_default() -> None:
    assert event_limit(object()) == 128


def test_where_limits_cannot_be_read_those_of_the_environment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_limits, "can_read_limits", lambda: False)
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "50")
    assert event_limit(span(9, events=4)) == 46


# --- Suppression ---------------------------------------------------------------------------------------------------


def test_a_suppression_is_lifted_within_the_block_alone() -> None:
    with suppress_instrumentation():
        with without_suppression():
            inside = is_instrumentation_enabled()
        assert (inside, is_instrumentation_enabled()) == (True, False)


def test_what_else_is_in_the_context_stays() -> None:
    token = attach({**trace.set_span_in_context(span()), "mine": 5})  # type: ignore[arg-type]
    with suppress_instrumentation(), without_suppression():
        from opentelemetry.context import get_value

        kept = get_value("mine")
    detach(token)
    assert kept == 5


# --- Setting the SDK up ----------------------------------------------------------------------------------------------


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Set the SDK up in an environment that raises when it is written to; returns what the configurator was given."""
    for variable in list(os.environ):
        if variable.startswith("OTEL_"):
            monkeypatch.delenv(variable)

    def configure(**environ: str) -> dict[str, Any]:
        given: list[dict[str, Any]] = []

        def refuse(*_: Any) -> None:
            raise AssertionError("the environment was written to")

        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
        with monkeypatch.context() as patch:
            patch.setattr(_OTelSDKConfigurator, "configure", lambda self, **arguments: given.append(arguments))
            patch.setattr(os, "putenv", refuse)
            patch.setattr(os, "unsetenv", refuse)
            configure_sdk()
        return given[0]

    return configure


GRPC, HTTP = ["otlp_proto_grpc"], ["otlp_proto_http"]


@pytest.mark.parametrize(
    ("environ", "given"),
    [
        ({}, {"trace_exporter_names": GRPC, "metric_exporter_names": GRPC, "log_exporter_names": GRPC}),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            {"trace_exporter_names": HTTP, "metric_exporter_names": HTTP, "log_exporter_names": HTTP},
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"},
            {"trace_exporter_names": HTTP, "metric_exporter_names": GRPC, "log_exporter_names": HTTP},
        ),
        # A signal whose exporter is named, or is named as none, is left to the configurator.
        (
            {"OTEL_TRACES_EXPORTER": "console", "OTEL_LOGS_EXPORTER": "none"},
            {"metric_exporter_names": GRPC},
        ),
        # A configuration file takes the place of everything else.
        ({"OTEL_CONFIG_FILE": "otel.yaml"}, {}),
    ],
)
def test_a_signal_without_an_exporter_is_exported_by_otlp(
    configured: Callable[..., dict[str, Any]], environ: dict[str, str], given: dict[str, Any]
) -> None:
    assert configured(**environ) == given


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, ()),
        ({"OTEL_SERVICE_NAME": "chat", "OTEL_TRACES_SAMPLER": "always_on"}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector"}, ("logs", "metrics", "traces")),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "key=1"}, ("logs", "metrics", "traces")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector"}, ("traces",)),
        ({"OTEL_METRICS_EXPORTER": "none"}, ()),
        ({"OTEL_LOGS_EXPORTER": "otlp"}, ("logs",)),
    ],
    ids=repr,
)
def test_beside_a_file_a_signal_is_exported_where_a_variable_asks_for_that(
    environ: dict[str, str], asked: tuple[str, ...]
) -> None:
    described = describe_exporters(environ, has_file=True)
    signals = dict(part.split(": ") for part in described.split(", "))
    assert {signal for signal, exporters in signals.items() if exporters != "none"} == set(asked)
    assert has_exporters(environ, has_file=True) is bool(asked)


def test_a_protocol_that_does_not_exist_is_refused(configured: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="Unsupported OTLP protocol 'carrier-pigeon'"):
        configured(OTEL_EXPORTER_OTLP_PROTOCOL="carrier-pigeon")


def test_another_configurator_may_be_named(
    configured: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, str]] = []

    def load(group: str, name: str) -> type:
        loaded.append((group, name))
        return _OTelSDKConfigurator

    monkeypatch.setattr(configurator, "_load", load)
    configured(OTEL_PYTHON_CONFIGURATOR="mine")
    assert loaded == [("opentelemetry_configurator", "mine")]


def test_a_component_that_is_not_installed_is_named() -> None:
    with pytest.raises(LookupError, match="'carrier_pigeon'"):
        configurator._load("opentelemetry_traces_exporter", "carrier_pigeon")


@pytest.mark.parametrize(
    ("environ", "described"),
    [
        (
            {},
            (
                "traces: otlp_proto_grpc http://localhost:4317, metrics: otlp_proto_grpc http://localhost:4317, "
                "logs: otlp_proto_grpc http://localhost:4317"
            ),
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:secret@collector:4318",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://metrics/v1/metrics",
                "OTEL_TRACES_EXPORTER": "otlp,console",
                "OTEL_LOGS_EXPORTER": "none",
            },
            (
                "traces: otlp_proto_http https://collector:4318 and console, "
                "metrics: otlp_proto_http https://metrics/v1/metrics, logs: none"
            ),
        ),
    ],
)
def test_what_was_set_up_is_described_without_credentials(environ: Mapping[str, str], described: str) -> None:
    assert describe_exporters(environ) == described


def test_without_the_configurator_the_providers_are_set_by_the_public_api(
    monkeypatch: pytest.MonkeyPatch, configured: Callable[..., dict[str, Any]]
) -> None:
    class Exporter:
        """Exports nothing."""

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    made: dict[str, Any] = {}
    monkeypatch.setattr(configurator, "can_name_exporters", lambda: False)
    monkeypatch.setattr(configurator, "_load", lambda group, name: made.setdefault(group, name) and Exporter)
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: made.update(traces=provider))
    monkeypatch.setattr(metrics, "set_meter_provider", lambda provider: made.update(metrics=provider))
    monkeypatch.setattr(_logs, "set_logger_provider", lambda provider: made.update(logs=provider))
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    configure_sdk()
    for signal in ("traces", "metrics", "logs"):
        made.pop(signal).shutdown()
    assert made == {
        "opentelemetry_traces_exporter": "otlp_proto_grpc",
        "opentelemetry_logs_exporter": "otlp_proto_grpc",
    }


def test_an_sdk_that_has_changed_inside_fails_every_proof_quietly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(*_: Any, **__: Any) -> Any:
        raise AttributeError

    # What every trial needs.
    monkeypatch.setattr("opentelemetry.sdk.trace.TracerProvider", changed)
    monkeypatch.setattr("opentelemetry.sdk.metrics.MeterProvider", changed)
    monkeypatch.setattr(configurator, "signature", changed)
    monkeypatch.delattr("opentelemetry.sdk._shared_internal.BatchProcessor")
    with caplog.at_level(logging.WARNING):
        found = [proof.__wrapped__() for proof in PROOFS]
    assert (found, caplog.messages) == ([False] * len(PROOFS), [])
