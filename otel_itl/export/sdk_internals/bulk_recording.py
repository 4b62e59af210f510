"""Record all the samples of a stream into a histogram at once, after a proof that the data points are the same.

`Histogram.record()` costs 15 to 45 µs for each sample. The proof compares bulk with single recording on providers of
our own: explicit and exponential buckets, cumulative and delta temporality, with and without a view and an overflow.
Where a single data point differs, values are recorded one by one.
"""

# ruff: noqa: PLC0415 - the SDK is imported when it is first used

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.metrics import Histogram  # noqa: TC002 - annotations stay resolvable

from otel_itl.export.sdk_internals.bulk_batch import record_batch

logger = logging.getLogger("otel_itl")


def record_values(  # noqa: PLR0913 - what `Histogram.record` takes, and the scale
    histogram: Histogram,
    ordered: Sequence[float],
    scale: float,
    attributes: Mapping[str, Any],
    context: Context | None = None,
    *,
    contexts: Mapping[float, Context] | None = None,
) -> None:
    """Record every value of `ordered`, divided by `scale`, into a histogram.

    Args:
        histogram: an instrument of the SDK, or any other.
        ordered: ascending values, none negative.
        scale: units of the values in one unit of the histogram.
        attributes: of every value.
        context: holds the span that exemplars refer to; None: the current context.
        contexts: that of each value, where the values have several: all of them with a sampled span, or none.
    """
    if not ordered:
        return
    if contexts is None:
        contexts = _SameContext(context or get_current())
    if not (can_record_in_bulk() and record_batch(histogram, ordered, scale, attributes, contexts)):
        for value in ordered:
            histogram.record(value / scale, attributes, contexts[value])


class _SameContext(dict[float, Context]):
    """The contexts of values that have one in common."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    def __missing__(self, value: float) -> Context:
        return self._context


@cache
def can_record_in_bulk() -> bool:
    """Prove, once, that bulk recording gives the data points of `record()` on this SDK; log it if not."""
    try:
        proven = all(bulk == single for bulk, single in _trials())
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        proven = False
    if not proven:
        logger.info("This OpenTelemetry SDK does not allow for bulk recording: samples are recorded one by one.")
    return proven


def _trials() -> Iterator[tuple[Any, Any]]:
    """Yield the data points of bulk and of single recording, for every combination that a reader may ask for."""
    from opentelemetry.sdk.metrics import Histogram as SdkHistogram
    from opentelemetry.sdk.metrics.export import AggregationTemporality
    from opentelemetry.sdk.metrics.view import (
        ExplicitBucketHistogramAggregation,
        ExponentialBucketHistogramAggregation,
        View,
    )

    aggregations = (ExplicitBucketHistogramAggregation(), ExponentialBucketHistogramAggregation(max_size=8))
    limited = "aggregation_cardinality_limit" in signature(View).parameters
    limit: dict[str, Any] = {"aggregation_cardinality_limit": 2} if limited else {}
    view = View(instrument_name="trial", attribute_keys={"kept"}, **limit)
    for aggregation in aggregations:
        for temporality in (AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA):
            for views in ((), (view,)):
                preferences = {
                    "preferred_aggregation": {SdkHistogram: aggregation},
                    "preferred_temporality": {SdkHistogram: temporality},
                }
                yield _points(preferences, views, bulk=True), _points(preferences, views, bulk=False)


_TRIAL_BATCHES: Final = ((0, 1, 1, 2, 5), (10, 11, 12, 250, 250, 40_000), (0, 3), (7,))


def _points(preferences: Mapping[str, Any], views: Sequence[Any], *, bulk: bool) -> list[Any]:
    """Record the trial's batches on a provider of our own, and return what two collections give."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource

    reader = InMemoryMetricReader(**preferences)
    provider = MeterProvider([reader], Resource.get_empty(), views=views, shutdown_on_exit=False)
    histogram: Any = provider.get_meter("otel_itl.trial").create_histogram("trial")
    points: list[Any] = []
    for number, values in enumerate(_TRIAL_BATCHES):
        attributes = {"kept": number, "dropped": "x"}
        if bulk:
            if not record_batch(histogram, values, 10, attributes, _SameContext(get_current())):
                return []
        else:
            for value in values:
                histogram.record(value / 10, attributes)
        if number % 2:
            points.extend(_comparable(point) for point in _collected(reader))
    provider.shutdown()
    return points


def _collected(reader: Any) -> Iterator[Any]:
    """Collect, and yield every data point."""
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from metric.data.data_points


def _comparable(point: Any) -> tuple[Any, ...]:
    """Return a data point without its times and its empty buckets: their number follows from the order of values."""
    shared = (dict(point.attributes), point.count, round(point.sum, 9), point.min, point.max)
    if hasattr(point, "bucket_counts"):
        return (*shared, tuple(point.explicit_bounds), tuple(point.bucket_counts))
    counts = {
        point.positive.offset + position: count for position, count in enumerate(point.positive.bucket_counts) if count
    }
    return (*shared, point.scale, point.zero_count, counts)
