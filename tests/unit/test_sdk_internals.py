"""Every trick with a private name of OpenTelemetry: it holds on the installed SDK, and does without where it does not.

The proofs hold on every release from 1.37 on. One that fails here, on the newest release above all, is to be mended:
the fallback works, but costs the application time at the end of its streams.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    SpanLimits,
    SpanProcessor,
    TracerProvider,
)

from otel_itl.export.other_instrumentations import without_suppression
from otel_itl.export.sdk_internals import processor_order, spans
from otel_itl.export.sdk_internals.bulk_recording import can_record_in_bulk
from otel_itl.export.sdk_internals.metric_readers import add_metric_reader, can_insert_metric_readers
from otel_itl.export.sdk_internals.processor_order import can_prepend_processors, prepend_processor
from otel_itl.export.sdk_internals.spans import can_reach_into_spans, event_limit

PROOFS: list[Any] = [
    can_record_in_bulk,
    can_reach_into_spans,
    can_prepend_processors,
    can_insert_metric_readers,
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


# --- Metric readers --------------------------------------------------------------------------------------------------


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
    assert event_limit(span()) == spans.UNLIMITED


def test_a_span_of_another_sdk_takes_as_many_as_the_default() -> None:
    assert event_limit(object()) == 128


def test_where_limits_cannot_be_read_those_of_the_environment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "can_reach_into_spans", lambda: False)
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


# --- An SDK that has changed inside ----------------------------------------------------------------------------------


def test_an_sdk_that_has_changed_inside_fails_every_proof_quietly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(*_: Any, **__: Any) -> Any:
        raise AttributeError

    # What every trial needs.
    monkeypatch.setattr("opentelemetry.sdk.trace.TracerProvider", changed)
    monkeypatch.setattr("opentelemetry.sdk.metrics.MeterProvider", changed)
    with caplog.at_level(logging.WARNING):
        found = [proof.__wrapped__() for proof in PROOFS]
    assert (found, caplog.messages) == ([False] * len(PROOFS), [])
