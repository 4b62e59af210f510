"""What was told of the streams of a soak, and what the process held meanwhile."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import otel_itl
from otel_itl.recording.internal_errors import failures


class Held(NamedTuple):
    """What the process holds at a moment."""

    memory_mb: float
    threads: int
    files: int


def held() -> Held:
    """What this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return Held(megabytes, threading.active_count(), len(list(Path("/proc/self/fd").iterdir())))


class Ledger(SpanProcessor):
    """Counts the spans by outcome, has the metrics collected all along, and looks every so often what is held."""

    def __init__(self) -> None:
        self.spans: Counter[str] = Counter()
        self.metered: Counter[str] = Counter()
        self.open_streams = 0.0
        self.samples: list[Held] = []
        self._reader = InMemoryMetricReader()
        self._tracers = TracerProvider(shutdown_on_exit=False)
        self._tracers.add_span_processor(self)
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self._over = threading.Event()

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span."""
        self.spans[str((span.attributes or {}).get("itl.stream.outcome"))] += 1

    def open(self) -> None:
        """Measure, and collect, from here on."""
        otel_itl.instrument(tracer_provider=self._tracers, meter_provider=self._meters)
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    def close(self) -> None:
        """Take in what is still to be told."""
        self._over.set()
        self._watching.join()
        self._tracers.force_flush()
        self._collect()
        otel_itl.uninstrument()

    @property
    def failures(self) -> dict[str, int]:
        """Failures of otel_itl's own."""
        return dict(failures)

    def growth(self) -> Held:
        """How much more is held in the last quarter than in the second: the first is for warming up."""
        quarter = max(len(self.samples) // 4, 1)
        early, late = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        grown = [
            median(now) - median(then)
            for then, now in zip(zip(*early, strict=True), zip(*late, strict=True), strict=True)
        ]
        return Held(grown[0], int(grown[1]), int(grown[2]))

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self._collect()
            self.samples.append(held())

    def _collect(self) -> None:
        metered: Counter[str] = Counter()
        for name, attributes, value in _points(self._reader.get_metrics_data()):
            if name == "itl.client.stream.outcomes":
                metered[str(attributes["itl.stream.outcome"])] += int(value)
            elif name == "itl.client.stream.count":
                self.open_streams = value
        self.metered = metered or self.metered


def _points(data: Any) -> list[tuple[str, Any, float]]:
    return [
        (metric.name, point.attributes, getattr(point, "value", 0))
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
