"""Telemetry of what is streamed within a block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import otel_itl
from otel_itl.codec import decode
from otel_itl.fence import failures
from otel_itl.testing import CapturedTelemetry, capture_telemetry
from otel_itl.timeline import Timeline


@contextmanager
def measured(**options: Any) -> Iterator[CapturedTelemetry]:
    """Streams are measured in the block, and nothing of ours fails in it."""
    contained = dict(failures)
    with capture_telemetry(**options) as captured:
        instrument(captured)
        try:
            yield captured
        finally:
            otel_itl.uninstrument()
    assert failures == contained


def instrument(captured: CapturedTelemetry, **options: Any) -> None:
    otel_itl.instrument(
        tracer_provider=captured.tracer_provider,
        meter_provider=captured.meter_provider,
        logger_provider=captured.logger_provider,
        **options,
    )


def spans_within(captured: CapturedTelemetry, count: int, seconds: float = 2.0) -> list[Any]:
    """The spans, as soon as there are so many, or after so many seconds."""
    deadline = time.perf_counter() + seconds
    while len(captured.spans) < count and time.perf_counter() < deadline:
        time.sleep(0.005)
    return captured.spans


def timeline_of(span: Any) -> Timeline:
    """The stream's facts, from the token events of its span alone."""
    return decode([(event.name, event.timestamp, event.attributes) for event in span.events])
