"""Telemetry of what is streamed within a block."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import otel_itl
from otel_itl.core.decoding import decode
from otel_itl.core.timeline import Timeline
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, capture_telemetry

SHARED: Final = CapturedTelemetry(temporality="delta")
"""For all tests but those of providers: making some takes longer than most tests."""

PATIENCE_SECONDS: Final = 20.0
"""For a span that is to come: a busy machine may be late with it."""


@contextmanager
def measured() -> Iterator[CapturedTelemetry]:
    """Streams are measured in the block, into telemetry that begins empty, and nothing of ours fails in it.

    They go on being measured after it: who wants none of that, calls `bare()`.
    """
    if len(runtime.open_streams):  # left open by a test before
        bare()
    if not otel_itl.ITLInstrumentor().is_instrumented_by_opentelemetry:
        instrument(SHARED)
    SHARED.tracer_provider.force_flush()
    SHARED.clear()
    with nothing_fails():
        yield SHARED


@contextmanager
def measured_by(**options: Any) -> Iterator[CapturedTelemetry]:
    """As `measured`, by providers made for the block, with these options of `capture_telemetry`."""
    bare()
    with nothing_fails(), capture_telemetry(**options) as captured:
        instrument(captured)
        try:
            yield captured
        finally:
            bare()


def bare() -> None:
    """Have the SDKs as they are without instrumentation."""
    if otel_itl.ITLInstrumentor().is_instrumented_by_opentelemetry:
        otel_itl.uninstrument()


@contextmanager
def nothing_fails() -> Iterator[None]:
    report_error = dict(runtime.errors.counts)
    yield
    assert runtime.errors.counts == report_error


def instrument(captured: CapturedTelemetry, **options: Any) -> None:
    otel_itl.instrument(
        tracer_provider=captured.tracer_provider,
        meter_provider=captured.meter_provider,
        logger_provider=captured.logger_provider,
        **options,
    )


def spans_within(captured: CapturedTelemetry, count: int, seconds: float = PATIENCE_SECONDS) -> list[Any]:
    """Wait until there are `count` spans of ours, for at most `seconds`; return those that there are."""
    deadline = time.perf_counter() + seconds
    while len(spans := own_spans(captured)) < count and time.perf_counter() < deadline:
        time.sleep(0.005)
    return spans


def own_spans(captured: CapturedTelemetry) -> list[Any]:
    """The spans that otel_itl has made."""
    return [span for span in captured.spans if span.instrumentation_scope.name == "otel_itl"]


async def wait_for_a_span(captured: CapturedTelemetry, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until there is a span, for at most `seconds`; an event loop, if there is one, goes on meanwhile."""
    deadline = time.perf_counter() + seconds
    while not captured.spans and time.perf_counter() < deadline:
        with suppress(RuntimeError):  # no event loop: a sync scenario
            asyncio.get_running_loop()
            await asyncio.sleep(0.005)
            continue
        time.sleep(0.005)  # noqa: ASYNC251 - as above


def timeline_of(span: Any) -> Timeline:
    """The stream's facts, from the token events of its span alone."""
    return decode([(event.name, event.timestamp, event.attributes) for event in span.events])


def span_of(telemetry: CapturedTelemetry) -> Any:
    """The only span."""
    (span,) = telemetry.spans
    return span
