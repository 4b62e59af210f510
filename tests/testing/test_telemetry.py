"""Captured telemetry: what was emitted is what can be read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk.metrics import Histogram
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_itl.testing import CapturedTelemetry, capture_telemetry, captured_telemetry

__all__ = ["captured_telemetry"]  # a fixture, used by name


def emit_log(captured: CapturedTelemetry) -> None:
    record = LogRecord(
        timestamp=1,
        observed_timestamp=1,
        severity_text="WARN",
        severity_number=SeverityNumber.WARN,
        body="silent",
        attributes={"phase": "first"},
        event_name="stall",
    )
    captured.logger_provider.get_logger("test").emit(record)


def test_an_ended_span_is_there(captured_telemetry: CapturedTelemetry) -> None:
    with captured_telemetry.tracer_provider.get_tracer("test").start_as_current_span("chat"):
        pass
    assert [span.name for span in captured_telemetry.spans] == ["chat"]


def test_an_open_span_is_not_there(captured_telemetry: CapturedTelemetry) -> None:
    captured_telemetry.tracer_provider.get_tracer("test").start_span("chat")
    assert captured_telemetry.spans == []


def test_the_sampler_is_the_one_given() -> None:
    with capture_telemetry(sampler=ALWAYS_OFF) as captured:
        captured.tracer_provider.get_tracer("test").start_span("chat").end()
        assert captured.spans == []


def test_the_span_limits_are_those_given() -> None:
    with capture_telemetry(span_limits=SpanLimits(max_events=1)) as captured:
        span = captured.tracer_provider.get_tracer("test").start_span("chat")
        span.add_event("one")
        span.add_event("two")
        span.end()
        assert [event.name for event in captured.spans[0].events] == ["two"]


def test_a_counter_is_a_sum(captured_telemetry: CapturedTelemetry) -> None:
    captured_telemetry.meter_provider.get_meter("test").create_counter("n", unit="{x}").add(3, {"a": 1})
    point = captured_telemetry.metrics["n"][0]
    assert (point.kind, point.unit, point.value, point.attributes) == ("sum", "{x}", 3, {"a": 1})


def test_a_histogram_has_its_count_and_sum(captured_telemetry: CapturedTelemetry) -> None:
    histogram = captured_telemetry.meter_provider.get_meter("test").create_histogram("h")
    histogram.record(1.5)
    histogram.record(2.5)
    point = captured_telemetry.metrics["h"][0]
    assert (point.kind, point.count, point.value) == ("histogram", 2, 4.0)


def test_a_gauge_has_its_last_value(captured_telemetry: CapturedTelemetry) -> None:
    gauge = captured_telemetry.meter_provider.get_meter("test").create_gauge("g")
    gauge.set(1)
    gauge.set(2)
    assert [(point.kind, point.value) for point in captured_telemetry.metrics["g"]] == [("gauge", 2)]


def test_each_set_of_attributes_has_a_point(captured_telemetry: CapturedTelemetry) -> None:
    counter = captured_telemetry.meter_provider.get_meter("test").create_counter("n")
    counter.add(1, {"a": 1})
    counter.add(2, {"a": 2})
    assert sorted(point.value for point in captured_telemetry.metrics["n"]) == [1, 2]


def test_a_view_overrides_the_buckets() -> None:
    view = View(instrument_name="h", aggregation=ExplicitBucketHistogramAggregation(boundaries=[1.0, 2.0]))
    with capture_telemetry(views=[view]) as captured:
        captured.meter_provider.get_meter("test").create_histogram("h").record(1.5)
        assert captured.metrics["h"][0].raw.bucket_counts == (0, 1, 0)


def test_the_aggregation_can_be_exponential() -> None:
    with capture_telemetry(aggregation={Histogram: ExponentialBucketHistogramAggregation()}) as captured:
        captured.meter_provider.get_meter("test").create_histogram("h").record(1.5)
        assert captured.metrics["h"][0].kind == "exponential_histogram"


def test_cumulative_points_replace_each_other(captured_telemetry: CapturedTelemetry) -> None:
    counter = captured_telemetry.meter_provider.get_meter("test").create_counter("n")
    counter.add(1)
    _ = captured_telemetry.metrics
    counter.add(2)
    assert [point.value for point in captured_telemetry.metrics["n"]] == [3]


def test_delta_points_are_kept_from_every_collection() -> None:
    with capture_telemetry(temporality="delta") as captured:
        counter = captured.meter_provider.get_meter("test").create_counter("n")
        counter.add(1)
        _ = captured.metrics
        counter.add(2)
        assert [point.value for point in captured.metrics["n"]] == [1, 2]


def test_clearing_forgets_spans_logs_and_delta_points() -> None:
    with capture_telemetry(temporality="delta") as captured:
        captured.tracer_provider.get_tracer("test").start_span("chat").end()
        captured.meter_provider.get_meter("test").create_counter("n").add(1)
        emit_log(captured)
        captured.clear()
        assert (captured.spans, captured.metrics, captured.logs) == ([], {}, [])


def test_an_exemplar_leads_to_its_span(captured_telemetry: CapturedTelemetry) -> None:
    with captured_telemetry.tracer_provider.get_tracer("test").start_as_current_span("chat") as span:
        captured_telemetry.meter_provider.get_meter("test").create_histogram("h").record(1.0)
    exemplar = captured_telemetry.metrics["h"][0].exemplars[0]
    assert exemplar.span_id == span.get_span_context().span_id


def test_a_log_record_is_there(captured_telemetry: CapturedTelemetry) -> None:
    emit_log(captured_telemetry)
    log = captured_telemetry.logs[0]
    assert (log.event_name, log.severity_text, log.severity_number) == ("stall", "WARN", 13)


def test_a_log_record_has_its_body_and_attributes(captured_telemetry: CapturedTelemetry) -> None:
    emit_log(captured_telemetry)
    log = captured_telemetry.logs[0]
    assert (log.body, log.attributes) == ("silent", {"phase": "first"})


def test_a_log_record_knows_its_span(captured_telemetry: CapturedTelemetry) -> None:
    with captured_telemetry.tracer_provider.get_tracer("test").start_as_current_span("chat") as span:
        emit_log(captured_telemetry)
    assert captured_telemetry.logs[0].span_id == span.get_span_context().span_id


def test_what_was_captured_is_readable_after_the_end() -> None:
    with capture_telemetry() as captured:
        captured.tracer_provider.get_tracer("test").start_span("chat").end()
        captured.meter_provider.get_meter("test").create_counter("n").add(1)
        emit_log(captured)
    assert (len(captured.spans), len(captured.metrics["n"]), len(captured.logs)) == (1, 1, 1)


def test_nothing_is_made_global(captured_telemetry: CapturedTelemetry) -> None:
    assert trace.get_tracer_provider() is not captured_telemetry.tracer_provider


@pytest.mark.parametrize("module", ["opentelemetry", "pytest", "openai", "anthropic"])
def test_importing_the_tools_does_not_import(module: Any) -> None:
    code = f"import sys, otel_itl.testing; print({module!r} in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=True)
    assert ran.stdout == b"False\n"


def test_the_tools_work_without_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; from otel_itl.testing import *; print(ScriptedServer.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=True)
    assert ran.stdout == b"ScriptedServer\n"
