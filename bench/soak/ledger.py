"""The telemetry of the streams of a soak, and what the process held meanwhile."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import otel_itl
from bench.soak.stalls import POLICY
from otel_itl import Stall

SAMPLE_SECONDS: Final = 0.5
SAMPLES_PER_COLLECTION: Final = 10


class Held(NamedTuple):
    """What the process holds at a moment."""

    memory_mb: float
    """Resident memory."""
    threads: int
    """Threads of the process, those that Python does not list included."""
    files: int


def held() -> Held:
    """Return what this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(
        memory_mb=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        threads=len(list(Path("/proc/self/task").iterdir())),
        files=len(list(Path("/proc/self/fd").iterdir())),
    )


def growth_mb(samples: Sequence[float]) -> float:
    """Return by how much the median of the last quarter of the samples exceeds that of the second quarter.

    The first quarter is left out: caches fill, and the allocator reserves what it keeps.
    """
    quarter = max(len(samples) // 4, 1)
    return median(samples[-quarter:]) - median(samples[quarter : 2 * quarter] or samples)


class Ledger(SpanProcessor):
    """Counts spans by outcome, collects the metrics every 5 s, and samples the memory every 0.5 s."""

    def __init__(self) -> None:
        self.spans: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        """Streams by outcome, as the metrics count them."""
        self.own_errors: Counter[str] = Counter()
        """Failures of the instrumentation itself, by place, as the metrics count them."""
        self.open_streams = 0.0
        self.memory_mb: list[float] = []
        self._reader = InMemoryMetricReader()
        self._tracers = TracerProvider(shutdown_on_exit=False)
        self._tracers.add_span_processor(self)
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self._is_over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="memory sampler")

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span that ended."""
        self.spans[str((span.attributes or {}).get("itl.stream.outcome"))] += 1

    def open(self, on_stall: Callable[[Stall], object]) -> None:
        """Start to measure streams, to collect metrics and to sample the memory."""
        otel_itl.instrument(stall=POLICY, tracer_provider=self._tracers, meter_provider=self._meters, on_stall=on_stall)
        self._sampler.start()

    def close(self) -> None:
        """Flush, collect for the last time, and stop to measure."""
        self._is_over.set()
        self._sampler.join()
        self._tracers.force_flush()
        self._collect()
        otel_itl.uninstrument()

    def _sample(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self.memory_mb.append(held().memory_mb)
            if len(self.memory_mb) % SAMPLES_PER_COLLECTION == 0:
                self._collect()

    def _collect(self) -> None:
        points = _points(self._reader.get_metrics_data())
        self.counted = _by(points, "itl.client.stream.outcomes", "itl.stream.outcome") or self.counted
        self.own_errors = _by(points, "itl.self.errors", "itl.self.where") or self.own_errors
        for name, _, value in points:
            if name == "itl.client.stream.count":
                self.open_streams = value


def _by(points: Sequence[tuple[str, Any, float]], name: str, attribute: str) -> Counter[str]:
    """Return the values of a counter by one of its attributes."""
    found: Counter[str] = Counter()
    for metric, attributes, value in points:
        if metric == name:
            found[str(attributes[attribute])] += int(value)
    return found


def _points(data: Any) -> list[tuple[str, Any, float]]:
    return [
        (metric.name, point.attributes, getattr(point, "value", 0))
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
