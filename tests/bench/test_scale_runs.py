"""The scale benchmark runs and prints every row; and its exponential histograms are the SDK's."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation

ROOT = Path(__file__).resolve().parents[2]
ROWS = (
    *("| `packed` ", "| `each` ", "| `log` ", "| `none` ", "| `packed`, dropped at the agent "),
    *("| native     | 20 ", "| classic    | 20 "),
    *("| all alike ", "| one in ten is slow "),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_row_is_printed() -> None:
    command = [sys.executable, "-m", "bench.scale", "--quick"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=170, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row for row in ROWS if row not in done.stdout] == []


def test_a_simulated_exponential_histogram_is_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.scale.merging import exponential, scale_of

    pace = random.Random(1)  # noqa: S311 - a pace, not a secret
    samples = [pace.lognormvariate(-4, 0.6) for _ in range(5_000)]
    reader = InMemoryMetricReader(preferred_aggregation={Histogram: ExponentialBucketHistogramAggregation()})
    histogram = MeterProvider([reader], shutdown_on_exit=False).get_meter("test").create_histogram("itl")
    for sample in samples:
        histogram.record(sample)
    data = reader.get_metrics_data()
    assert data is not None
    (point,) = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    counted = {point.positive.offset + index: n for index, n in enumerate(point.positive.bucket_counts) if n}
    scale = scale_of(min(samples), max(samples))
    assert (point.scale, counted) == (scale, exponential(np.array(samples), scale))
