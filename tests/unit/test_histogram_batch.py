"""Histograms of several streams recorded together: the points of recording them apart, and each exemplar its own."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, ExponentialBucketHistogramAggregation
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_itl.export.histogram_batch import MAX_MERGED, HistogramBatch
from otel_itl.export.sdk_internals.bulk_recording import record_values

SECOND = 1_000_000_000
STREAMS: list[tuple[list[float], dict[str, Any], int]] = [
    ([SECOND // 50, SECOND // 2], {"model": "a"}, 1),
    ([SECOND // 40, 4 * SECOND], {"model": "a"}, 2),
    ([SECOND], {"model": "b"}, 3),
    ([SECOND // 30 + number for number in range(MAX_MERGED + 1)], {"model": "a"}, 4),
]
"""Samples, labels and the span of each stream."""
AGGREGATIONS = [ExplicitBucketHistogramAggregation([0.01, 0.1, 1, 10]), ExponentialBucketHistogramAggregation()]


def span_of(number: int, *, sampled: bool = True) -> Context:
    """The context of a stream's span."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return set_span_in_context(
        NonRecordingSpan(SpanContext(number, number, is_remote=False, trace_flags=flags)), Context()
    )


class Meter:
    """A histogram of a provider of its own, and what its reader sees."""

    def __init__(self, aggregation: Any) -> None:
        self._reader = InMemoryMetricReader(preferred_aggregation={Histogram: aggregation})
        self._provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.histogram = self._provider.get_meter("test").create_histogram("itl")

    def points(self) -> dict[str, Any]:
        """Every data point by its model."""
        data = self._reader.get_metrics_data()
        assert data is not None
        (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
        return {str((point.attributes or {})["model"]): point for point in metric.data.data_points}

    def figures(self) -> dict[str, tuple[Any, ...]]:
        """What the points hold but for times and exemplars."""
        return {
            model: (point.count, pytest.approx(point.sum), point.min, point.max, getattr(point, "bucket_counts", None))
            for model, point in self.points().items()
        }


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=["explicit", "exponential"])
def test_streams_that_are_recorded_together_give_the_points_of_streams_recorded_apart(aggregation: Any) -> None:
    together, apart = Meter(aggregation), Meter(aggregation)
    batch = HistogramBatch(fail)
    for samples, labels, span in STREAMS:
        batch.add(together.histogram, samples, SECOND, labels, span_of(span))
        record_values(apart.histogram, samples, SECOND, labels, span_of(span))
    batch.record()
    assert together.figures() == apart.figures()


@pytest.mark.requirement("R60")
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=["explicit", "exponential"])
def test_an_exemplar_refers_to_the_span_of_its_own_stream(aggregation: Any) -> None:
    meter = Meter(aggregation)
    batch = HistogramBatch(fail)
    for samples, labels, span in STREAMS[:2]:
        batch.add(meter.histogram, samples, SECOND, labels, span_of(span))
    batch.record()
    exemplars = {exemplar.value: exemplar.span_id for exemplar in meter.points()["a"].exemplars}
    assert {value: exemplars[value] for value in exemplars if value >= 0.5} == {0.5: 1, 4.0: 2}


def test_a_slower_stream_without_a_sampled_span_hides_no_exemplar() -> None:
    meter = Meter(ExplicitBucketHistogramAggregation([10.0]))
    batch = HistogramBatch(fail)
    batch.add(meter.histogram, [SECOND], SECOND, {"model": "a"}, span_of(1))
    batch.add(meter.histogram, [2 * SECOND], SECOND, {"model": "a"}, span_of(2, sampled=False))
    batch.record()
    assert [(each.value, each.span_id) for each in meter.points()["a"].exemplars] == [(1.0, 1)]


def test_a_histogram_that_fails_keeps_no_other_from_being_recorded() -> None:
    class Broken:
        """Not an instrument of the SDK."""

        def record(self, *_: object) -> None:
            raise RuntimeError

    failures: list[Exception] = []
    meter, batch, broken = Meter(AGGREGATIONS[0]), HistogramBatch(failures.append), Broken()
    batch.add(broken, [1], SECOND, {"model": "a"}, span_of(1))  # type: ignore[arg-type]
    batch.add(meter.histogram, [SECOND], SECOND, {"model": "a"}, span_of(1))
    batch.record()
    assert ([type(each) for each in failures], meter.points()["a"].count) == ([RuntimeError], 1)
