"""Histograms of several streams recorded together: the points of recording them apart, and each exemplar its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, ExponentialBucketHistogramAggregation
from opentelemetry.trace import SpanContext, TraceFlags

from otel_itl.core.measures import measure
from otel_itl.core.request import Request
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.export.sdk_internals.bulk_recording import record_values
from otel_itl.export.stream_batch import MAX_MERGED, StreamBatch
from otel_itl.export.stream_report import SpanHandle, StreamReport

SECOND = 1_000_000_000
SAMPLES: list[list[float]] = [
    [SECOND // 50, SECOND // 2],
    [SECOND // 40, 4 * SECOND],
    [],
    [SECOND // 30 + number for number in range(MAX_MERGED + 1)],
]
"""Samples of each stream."""
MODEL = {"model": "a"}
AGGREGATIONS = [ExplicitBucketHistogramAggregation([0.01, 0.1, 1, 10]), ExponentialBucketHistogramAggregation()]


def fail(error: Exception) -> None:
    raise error


def stream(number: int) -> StreamReport:
    """A stream, whose span has this number."""
    span = SpanContext(number, number, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    handle = SpanHandle()
    handle.span_context, handle.records_standard = span, True
    timeline = Timeline(request_unix_ns=0)
    finished = FinishedStream(Request(operation="chat", provider="openai"), ResponseInfo(), timeline, ALONE, None)
    return StreamReport(handle, finished, measure(timeline))


def batch_of(streams: list[StreamReport], report: Callable[[Exception], object] = fail) -> StreamBatch:
    return StreamBatch(SimpleNamespace(instruments=None), None, MODEL, streams, report)


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


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=["explicit", "exponential"])
def test_streams_that_are_recorded_together_give_the_points_of_streams_recorded_apart(aggregation: Any) -> None:
    together, apart = Meter(aggregation), Meter(aggregation)
    batch_of([stream(1) for _ in SAMPLES]).record_samples(together.histogram, SAMPLES, MODEL, SECOND)
    for samples in SAMPLES:
        record_values(apart.histogram, samples, SECOND, MODEL)
    assert together.figures() == apart.figures()


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=["explicit", "exponential"])
def test_values_that_are_recorded_together_give_the_points_of_values_recorded_apart(aggregation: Any) -> None:
    together, apart = Meter(aggregation), Meter(aggregation)
    values = [4.0, None, 0.05, 0.05, None]
    batch_of([stream(1) for _ in values]).record_values(together.histogram, values, MODEL)
    for value in values:
        if value is not None:
            apart.histogram.record(value, MODEL)
    assert together.figures() == apart.figures()


@pytest.mark.requirement("R60")
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=["explicit", "exponential"])
def test_an_exemplar_refers_to_the_span_of_its_own_stream(aggregation: Any) -> None:
    meter = Meter(aggregation)
    batch_of([stream(1), stream(2)]).record_samples(meter.histogram, SAMPLES[:2], MODEL, SECOND)
    exemplars = {exemplar.value: exemplar.span_id for exemplar in meter.points()["a"].exemplars}
    assert {value: exemplars[value] for value in exemplars if value >= 0.5} == {0.5: 1, 4.0: 2}


@pytest.mark.requirement("R60")
def test_an_exemplar_of_one_value_a_stream_refers_to_the_span_of_that_stream() -> None:
    meter = Meter(ExplicitBucketHistogramAggregation([10.0]))
    batch_of([stream(1), stream(2), stream(3)]).record_values(meter.histogram, [3.0, None, 2.0], MODEL)
    assert [(each.value, each.span_id) for each in meter.points()["a"].exemplars] == [(3.0, 1)]


def test_what_streams_add_to_a_counter_is_added_up() -> None:
    added: list[float] = []

    class Counter:
        """Not an instrument of the SDK."""

        def add(self, amount: float, *_: object) -> None:
            added.append(amount)

    batch_of([stream(1), stream(2), stream(3)]).add(Counter(), [3, 0, 4], MODEL)  # type: ignore[arg-type]
    assert added == [4, 3]


def test_a_histogram_that_fails_keeps_no_other_from_being_recorded() -> None:
    class Broken:
        """Not an instrument of the SDK."""

        def record(self, *_: object) -> None:
            raise RuntimeError

    failures: list[Exception] = []
    meter, batch = Meter(AGGREGATIONS[0]), batch_of([stream(1)], failures.append)
    batch.record_values(Broken(), [1], MODEL)  # type: ignore[arg-type]
    batch.record_values(meter.histogram, [1.0], MODEL)
    assert ([type(each) for each in failures], meter.points()["a"].count) == ([RuntimeError], 1)


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("span_context", SpanContext(1, 1, is_remote=False)),
        ("records_standard", False),
        ("recorded_elsewhere", frozenset({"duration"})),
    ],
)
def test_streams_whose_spans_differ_in_what_a_batch_has_in_common_are_recorded_apart(
    changed: str, value: object
) -> None:
    other = stream(1)
    setattr(other.handle, changed, value)
    assert stream(1).batch_key != other.batch_key


@pytest.mark.parametrize(
    "changed",
    [{"error_type": "Timeout"}, {"timeline": Timeline(request_unix_ns=0, outcome=Outcome.ERROR)}],
    ids=["error type", "outcome"],
)
def test_streams_that_ended_in_other_ways_are_recorded_apart(changed: dict[str, Any]) -> None:
    one = stream(1)
    assert one.batch_key != one._replace(finished=one.finished._replace(**changed)).batch_key
