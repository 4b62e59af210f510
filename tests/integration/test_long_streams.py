"""The end of a long stream: an event loop does not wait for it to be measured, and nobody who flushes misses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_itl
from otel_itl.recording.finalizer import LONG_STREAM
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry

if TYPE_CHECKING:
    from conftest import Instrument

LONG, SHORT = LONG_STREAM, LONG_STREAM - 1


class Threads(SpanProcessor):
    """Takes down which thread ended each span."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.ended = threading.Event()

    def on_end(self, span: ReadableSpan) -> None:
        self.seen.append(threading.current_thread().name)
        self.ended.set()


def chunks(count: int) -> Iterator[str]:
    return iter(["a"] * count)


async def achunks(count: int) -> AsyncIterator[str]:
    for chunk in chunks(count):
        yield chunk


async def read(count: int, failure: Exception | None = None) -> None:
    async def source() -> AsyncIterator[str]:
        async for chunk in achunks(count):
            yield chunk
        if failure is not None:
            raise failure

    try:
        async for _ in otel_itl.observe(source(), provider="x", model="m"):
            pass
    except ConnectionError:
        assert failure is not None


def ended_on(captured_telemetry: CapturedTelemetry) -> Threads:
    threads = Threads()
    captured_telemetry.tracer_provider.add_span_processor(threads)
    return threads


@pytest.mark.requirement("R55")
@pytest.mark.timeout(30)
def test_a_long_stream_on_an_event_loop_is_measured_by_another_thread_at_once(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    threads = ended_on(captured_telemetry)
    asyncio.run(read(LONG))
    assert threads.ended.wait(10)
    assert threads.seen == ["otel_itl finalizer"]


@pytest.mark.parametrize("failure", [None, ConnectionError()], ids=["short", "failed"])
def test_what_is_short_or_has_failed_is_measured_where_it_ends(
    instrument: Instrument, captured_telemetry: CapturedTelemetry, failure: Exception | None
) -> None:
    instrument()
    threads = ended_on(captured_telemetry)
    asyncio.run(read(SHORT if failure is None else LONG, failure))
    assert threads.seen == [threading.current_thread().name]


def test_a_long_stream_off_an_event_loop_is_measured_where_it_ends(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    threads = ended_on(captured_telemetry)
    for _ in otel_itl.observe(chunks(LONG), provider="x", model="m"):
        pass
    assert threads.seen == [threading.current_thread().name]


def test_log_events_do_not_wait_as_no_flush_of_theirs_would_reach_them(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(token_events="log")
    asyncio.run(read(LONG))
    assert len(captured_telemetry.logs) > 0


def test_a_stream_that_waits_is_no_open_one_any_more(
    instrument: Instrument, captured_telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.finalizer.thread, "hurry", lambda: None)
    monkeypatch.setattr(runtime.finalizer.thread, "interval", 3_600.0)
    instrument()
    asyncio.run(read(LONG))
    assert (len(runtime.open_streams), runtime.finalizer.pending) == (0, 1)


def test_metrics_that_are_collected_at_once_have_it(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    asyncio.run(read(LONG))
    (outcomes,) = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert outcomes.value == 1


@pytest.fixture
def batched() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """A provider that exports in batches, of which none is due."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    yield provider, exporter
    otel_itl.uninstrument()
    provider.shutdown()


@pytest.mark.requirement("R70")
@pytest.mark.parametrize("way", ["force_flush", "shutdown"])
def test_a_provider_that_is_flushed_or_shut_down_at_once_exports_it(
    batched: tuple[TracerProvider, InMemorySpanExporter], way: str
) -> None:
    provider, exporter = batched
    otel_itl.instrument(tracer_provider=provider, meter_provider=MeterProvider(shutdown_on_exit=False))
    asyncio.run(read(LONG))
    getattr(provider, way)()
    assert len(exporter.get_finished_spans()) == 1


class Foreign(SpanProcessor):
    """In place of what a provider of the SDK holds its processors in."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def on_end(self, span: ReadableSpan) -> None:
        self._inner.on_end(span)

    def add_span_processor(self, processor: SpanProcessor) -> None:
        self._inner.add_span_processor(processor)


def test_where_a_flush_would_come_too_late_it_is_measured_where_it_ends(
    instrument: Instrument, captured_telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = ended_on(captured_telemetry)
    provider = captured_telemetry.tracer_provider
    monkeypatch.setattr(provider, "_active_span_processor", Foreign(provider._active_span_processor))
    instrument()
    asyncio.run(read(LONG))
    assert threads.seen == [threading.current_thread().name]


def test_another_one_s_span_is_enriched_before_it_ends(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    from opentelemetry import context, trace

    instrument()
    span = captured_telemetry.tracer_provider.get_tracer("other").start_span("chat m")
    token = context.attach(
        context.set_value("opentelemetry.genai.client.inference.context", 1, trace.set_span_in_context(span))
    )
    asyncio.run(read(LONG))
    context.detach(token)
    span.end()
    assert captured_telemetry.spans[0].attributes["itl.chunk.count"] == LONG


def test_measuring_stops_with_nothing_left_to_measure(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    threads = ended_on(captured_telemetry)
    asyncio.run(read(LONG))
    otel_itl.uninstrument()
    assert len(threads.seen) == 1
