"""Bulk recording gives what `record()` gives, whatever a reader or a view asks for."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    DropAggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    LastValueAggregation,
    SumAggregation,
    View,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_itl.export.sdk_internals import bulk_recording as bulk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SECOND = 1_000_000_000
CUMULATIVE, DELTA = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA

SDK = tuple(int(part) for part in version("opentelemetry-sdk").split(".")[:2])

nanoseconds = st.one_of(
    st.just(0),
    st.integers(1, 2_000),
    st.integers(1, 60 * SECOND),
    st.sampled_from([500_000, 1_000_000, 15_000_000, 25_000_000, 100_000_000, SECOND]),
    st.floats(0.001, 1e12),
)
batches = st.lists(
    st.tuples(st.lists(nanoseconds, min_size=1, max_size=60), st.integers(0, 4), st.booleans()), min_size=1, max_size=5
)
aggregations = st.one_of(
    st.just(ExplicitBucketHistogramAggregation()),
    st.builds(
        ExplicitBucketHistogramAggregation,
        boundaries=st.sampled_from([(), (0.015,), (0.0005, 0.001, 0.015, 0.025, 1.0), (1, 2, 30)]),
        record_min_max=st.booleans(),
    ),
    st.builds(
        ExponentialBucketHistogramAggregation, max_size=st.sampled_from([2, 4, 8, 160]), max_scale=st.integers(0, 20)
    ),
)
views: st.SearchStrategy[tuple[View, ...]] = st.sampled_from(
    [
        (),
        (View(instrument_name="itl", attribute_keys={"model"}),),
        (View(instrument_name="itl", attribute_keys=set()),),
        (View(instrument_name="itl", name="renamed"),),
        (View(instrument_name="itl", name="a"), View(instrument_name="itl", name="b", attribute_keys=set())),
    ]
)


def _points(reader: InMemoryMetricReader) -> Iterator[tuple[str, Any]]:
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    yield metric.name, point


def _comparable(name: str, point: Any) -> Any:
    shared = (name, tuple(sorted(point.attributes.items())))
    if hasattr(point, "value"):
        return (*shared, pytest.approx(point.value))
    shared = (*shared, point.count, pytest.approx(point.sum), point.min, point.max)
    if hasattr(point, "explicit_bounds"):
        return (*shared, tuple(point.bucket_counts), tuple(point.explicit_bounds))
    filled = {point.positive.offset + at: count for at, count in enumerate(point.positive.bucket_counts) if count}
    return (*shared, point.scale, point.zero_count, filled, sum(point.negative.bucket_counts))


def _one_by_one(histogram: Any, ordered: Sequence[float], attributes: dict[str, Any]) -> None:
    for value in ordered:
        histogram.record(value / SECOND, attributes)


def _in_bulk(histogram: Any, ordered: Sequence[float], attributes: dict[str, Any]) -> None:
    bulk.record_values(histogram, ordered, SECOND, attributes)


def _played(
    record: Callable[[Any, Sequence[float], dict[str, Any]], None],
    script: list[tuple[list[float], int, bool]],
    *,
    readers: list[dict[str, Any]],
    provider_views: tuple[View, ...] = (),
) -> list[Any]:
    made = [InMemoryMetricReader(**preferences) for preferences in readers]
    provider = MeterProvider(made, views=provider_views, shutdown_on_exit=False)
    histogram = provider.get_meter("test").create_histogram("itl", unit="s")
    seen: list[Any] = []
    for values, model, collect in script:
        record(histogram, sorted(values), {"model": f"m{model}", "server.address": "x"})
        if collect:
            seen.extend(_comparable(*named) for reader in made for named in _points(reader))
    seen.extend(_comparable(*named) for reader in made for named in _points(reader))
    provider.shutdown()
    return seen


@pytest.mark.requirement("R53")
@given(script=batches, aggregation=aggregations, temporality=st.sampled_from([CUMULATIVE, DELTA]), provider_views=views)
@settings(max_examples=150, deadline=None)
def test_bulk_recording_gives_the_data_points_of_single_recording(
    script: Any, aggregation: Any, temporality: Any, provider_views: Any
) -> None:
    readers = [{"preferred_aggregation": {Histogram: aggregation}, "preferred_temporality": {Histogram: temporality}}]
    try:
        expected = _played(_one_by_one, script, readers=readers, provider_views=provider_views)
    except Exception:
        # The SDK cannot merge some tiny histograms with a zero before: there is nothing to be equal to.
        reject()
    assert _played(_in_bulk, script, readers=readers, provider_views=provider_views) == expected


@given(script=batches, first=aggregations, second=aggregations)
@settings(max_examples=40, deadline=None)
def test_bulk_recording_reaches_several_readers(script: Any, first: Any, second: Any) -> None:
    readers = [
        {"preferred_aggregation": {Histogram: first}, "preferred_temporality": {Histogram: CUMULATIVE}},
        {"preferred_aggregation": {Histogram: second}, "preferred_temporality": {Histogram: DELTA}},
    ]
    try:
        expected = _played(_one_by_one, script, readers=readers)
    except Exception:
        reject()
    assert _played(_in_bulk, script, readers=readers) == expected


@pytest.mark.skipif(SDK < (1, 45), reason="the number of aggregations has no limit before OpenTelemetry SDK 1.45")
@given(script=batches)
@settings(max_examples=40, deadline=None)
def test_bulk_recording_overflows_where_single_recording_does(script: Any) -> None:
    overflowing = (View(instrument_name="itl", aggregation_cardinality_limit=2),)
    expected = _played(_one_by_one, script, readers=[{}], provider_views=overflowing)
    assert _played(_in_bulk, script, readers=[{}], provider_views=overflowing) == expected


@pytest.mark.parametrize("aggregation", [SumAggregation(), LastValueAggregation(), DropAggregation()], ids=type)
def test_a_view_may_make_something_else_of_the_histogram(aggregation: Any) -> None:
    script: list[Any] = [([10, 20, 30], 0, False), ([5], 1, True)]
    other = (View(instrument_name="itl", aggregation=aggregation),)
    expected = _played(_one_by_one, script, readers=[{}], provider_views=other)
    assert _played(_in_bulk, script, readers=[{}], provider_views=other) == expected


@pytest.mark.requirement("R60")
@pytest.mark.parametrize(
    "aggregation", [ExplicitBucketHistogramAggregation(), ExponentialBucketHistogramAggregation()], ids=["ex", "exp"]
)
def test_the_slowest_sample_is_an_exemplar_with_the_spans_ids(aggregation: Any) -> None:
    reader = InMemoryMetricReader(preferred_aggregation={Histogram: aggregation})
    provider = MeterProvider([reader], shutdown_on_exit=False)
    histogram = provider.get_meter("test").create_histogram("itl")
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("stream")
    samples = [20_000_000] * 500 + [3 * SECOND]
    bulk.record_values(histogram, samples, SECOND, {}, set_span_in_context(span))
    ((_, point),) = _points(reader)
    slowest = max(point.exemplars, key=lambda exemplar: exemplar.value)
    context = span.get_span_context()
    assert (slowest.value, slowest.trace_id, slowest.span_id) == (3.0, context.trace_id, context.span_id)


def test_an_sdk_that_fails_the_proof_records_one_by_one_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bulk, "_trials", lambda: iter([("bulk", "single")]))
    bulk.can_record_in_bulk.cache_clear()
    script: list[Any] = [([10, 20, 30], 0, False), ([5], 1, True)]
    with caplog.at_level(logging.INFO, logger="otel_itl"):
        seen = _played(_in_bulk, script, readers=[{}])
    logged = [record.getMessage() for record in caplog.records if record.name == "otel_itl"]
    bulk.can_record_in_bulk.cache_clear()
    assert logged == ["This OpenTelemetry SDK does not allow for bulk recording: samples are recorded one by one."]
    assert seen == _played(_one_by_one, script, readers=[{}])


def test_nothing_to_record_records_nothing() -> None:
    assert _played(_in_bulk, [], readers=[{}]) == []
