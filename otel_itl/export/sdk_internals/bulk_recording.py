"""Bulk recording: all the samples of a stream go into a histogram at once, where the SDK would take each on its own.

The SDK has no such call, so this module alone reaches into its aggregations. It trusts nothing: before it is used it
must give, on providers of its own, the very data points that `record()` gives (explicit and exponential buckets,
cumulative and delta, views, overflow). Where it does not, values are recorded one by one.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from inspect import signature
from math import fsum
from operator import ge
from time import time_ns
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.metrics import Histogram  # noqa: TC002 - part of what is public

logger = logging.getLogger("otel_itl")

EXEMPLARS = 8
"""How many of the slowest samples are offered as exemplars where buckets do not say which to offer."""

Attributes = Mapping[str, Any]


def record_all(
    histogram: Histogram, ordered: Sequence[float], scale: float, attributes: Attributes, context: Context | None = None
) -> None:
    """Record every value of `ordered`, divided by `scale`, into a histogram.

    Args:
        histogram: an instrument of the SDK, or any other.
        ordered: ascending values, none negative.
        scale: units of the values in one unit of the histogram.
        attributes: of every value.
        context: where exemplars find their span.
    """
    if not ordered:
        return
    if not (can_record_in_bulk() and _recorded(histogram, ordered, scale, attributes, context or get_current())):
        for value in ordered:
            histogram.record(value / scale, attributes, context)


@cache
def can_record_in_bulk() -> bool:
    """Whether bulk recording gives what `record()` gives on this SDK: found out once, and said if not."""
    try:
        proven = all(bulk == single for bulk, single in _trials())
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        proven = False
    if not proven:
        logger.info("This OpenTelemetry SDK does not allow for bulk recording: samples are recorded one by one.")
    return proven


def _recorded(histogram: Any, ordered: Sequence[float], scale: float, attributes: Attributes, context: Context) -> bool:
    """Whether the instrument is one of the SDK's and took the values."""
    consumer: Any = getattr(histogram, "_measurement_consumer", None)
    storages = getattr(consumer, "_reader_storages", None)
    if storages is None or not getattr(histogram, "_is_enabled", lambda: True)():
        return False
    exemplar_filter = consumer._sdk_config.exemplar_filter
    matches = [
        match for storage in storages.values() for match in storage._get_or_init_view_instrument_match(histogram)
    ]
    if not matches:
        return True
    batch = _Batch(histogram, ordered, scale, attributes, context)
    sampled = exemplar_filter.should_sample(batch.largest, batch.unix_ns, attributes, context)
    for match in matches:
        batch.into(match, sampled=sampled)
    return True


class _Batch:
    """Values on their way into the aggregations of one instrument."""

    def __init__(
        self, instrument: Any, ordered: Sequence[float], scale: float, attributes: Attributes, context: Context
    ) -> None:
        self._instrument = instrument
        self._ordered = ordered
        self._scale = scale
        self._attributes = attributes
        self._context = context
        total = sum(ordered)
        self._total = (total if isinstance(total, int) else fsum(ordered)) / scale
        self.unix_ns = time_ns()
        self.largest = ordered[-1] / scale

    def into(self, match: Any, *, sampled: bool) -> None:
        """Aggregate the batch where the SDK would aggregate each value for this reader and view."""
        kept = match._view._attribute_keys
        attributes = {key: value for key, value in self._attributes.items() if kept is None or key in kept}
        with match._lock:
            aggregation = _aggregation_of(match, attributes)
            with aggregation._lock:
                if hasattr(aggregation, "_boundaries"):
                    representatives = self._into_explicit(aggregation)
                elif hasattr(aggregation, "_mapping"):
                    representatives = self._into_exponential(aggregation)
                else:
                    representatives = None
            if representatives is None:
                for value in self._ordered:
                    aggregation.aggregate(self._measurement(value / self._scale), sampled)
            else:
                for value in representatives if sampled else ():
                    aggregation._reservoir.offer(value, self.unix_ns, self._attributes, self._context)

    def _measurement(self, value: float) -> Any:
        from opentelemetry.sdk.metrics._internal.measurement import Measurement

        return Measurement(value, self.unix_ns, self._instrument, self._context, self._attributes)

    def _end(self, bound: float, belongs: Callable[[float], bool], start: int) -> int:
        """Where the values end that belong below `bound`, which are those from `start` on.

        Comparing with the bound finds the place but for what rounding does to it; `belongs` decides.
        """
        end = bisect_right(self._ordered, bound * self._scale, lo=start)
        while end > start and not belongs(self._ordered[end - 1] / self._scale):
            end -= 1
        while end < len(self._ordered) and belongs(self._ordered[end] / self._scale):
            end += 1
        return end

    def _into_explicit(self, aggregation: Any) -> list[float]:
        """Bisect the bounds into the values; returns the largest value of each bucket."""
        if aggregation._value is None:
            aggregation._value = aggregation._get_empty_bucket_counts()
        bounds = aggregation._boundaries
        representatives, below, count = [], 0, len(self._ordered)
        while below < count:
            bucket = bisect_left(bounds, self._ordered[below] / self._scale)
            # No bound method: an integer's, given a float, says that it is not implemented, which is true.
            reached = self._end(bounds[bucket], partial(ge, bounds[bucket]), below) if bucket < len(bounds) else count
            aggregation._value[bucket] += reached - below
            representatives.append(self._ordered[reached - 1] / self._scale)
            below = reached
        self._summarise(aggregation)
        return representatives

    def _into_exponential(self, aggregation: Any) -> list[float]:
        """Fit the scale to the extremes, then add to each bucket what falls in it; returns the largest values."""
        from opentelemetry.sdk.metrics._internal.exponential_histogram.buckets import Buckets

        new_buckets: Any = Buckets
        if aggregation._value_positive is None:
            aggregation._value_positive = new_buckets()
        if aggregation._value_negative is None:
            aggregation._value_negative = new_buckets()
        zeros = bisect_right(self._ordered, 0)
        aggregation._count += len(self._ordered)
        aggregation._zero_count += zeros
        self._summarise(aggregation)
        if zeros < len(self._ordered):
            self._fit(aggregation, self._ordered[zeros] / self._scale)
            for index, count in self._counted(aggregation._mapping, zeros):
                _increment(aggregation._value_positive, index, count, aggregation._max_size)
        elif aggregation._count == aggregation._zero_count:
            aggregation._scale = 0
        return [value / self._scale for value in self._ordered[max(zeros, len(self._ordered) - EXEMPLARS) :]]

    def _summarise(self, aggregation: Any) -> None:
        aggregation._sum += self._total
        if getattr(aggregation, "_record_min_max", True):
            aggregation._min = min(aggregation._min, self._ordered[0] / self._scale)
            aggregation._max = max(aggregation._max, self.largest)

    def _fit(self, aggregation: Any, smallest: float) -> None:
        buckets = aggregation._value_positive
        low = aggregation._mapping.map_to_index(smallest)
        high = aggregation._mapping.map_to_index(self.largest)
        if len(buckets):
            low, high = min(low, buckets.index_start), max(high, buckets.index_end)
        change = aggregation._get_scale_change(low, high)
        if change:
            aggregation._downscale(change, buckets, aggregation._value_negative)
            aggregation._mapping = aggregation._new_mapping(aggregation._mapping.scale - change)
        aggregation._scale = aggregation._mapping.scale

    def _counted(self, mapping: Any, start: int) -> Iterator[tuple[int, int]]:
        """Each bucket's index with the number of values in it, ascending."""
        index_of = mapping.map_to_index
        highest = index_of(self.largest)
        while start < len(self._ordered):
            index: int = index_of(self._ordered[start] / self._scale)
            end = len(self._ordered)
            # Above the last value there may be no bucket whose boundary could be asked for.
            if index < highest:
                bound = mapping.get_lower_boundary(index + 1)
                end = self._end(bound, lambda value, last=index: index_of(value) <= last, start)  # type: ignore[misc]
            yield index, end - start
            start = end


def _aggregation_of(match: Any, attributes: dict[str, Any]) -> Any:
    """Where the SDK aggregates values with these attributes; called with the lock of `match` held."""
    if hasattr(match, "_get_or_create_aggregation"):
        from opentelemetry.sdk.metrics._internal._view_instrument_match import _hash_attributes

        return match._get_or_create_aggregation(_hash_attributes(attributes), attributes)
    # Until 1.45.1 the SDK had no function for it, and no limit to the number of aggregations.
    from opentelemetry.sdk.metrics.view import DefaultAggregation

    key = frozenset(attributes.items())
    if key not in match._attributes_aggregation:
        asked = match._view._aggregation
        if isinstance(asked, DefaultAggregation):
            asked = match._instrument_class_aggregation[type(match._instrument)]
        match._attributes_aggregation[key] = asked._create_aggregation(
            match._instrument, attributes, match._view._exemplar_reservoir_factory, time_ns()
        )
    return match._attributes_aggregation[key]


def _increment(buckets: Any, index: int, count: int, max_size: int) -> None:
    if len(buckets) == 0:
        buckets.index_start = buckets.index_end = buckets.index_base = index
    start, end = min(index, buckets.index_start), max(index, buckets.index_end)
    if end - start >= len(buckets.counts):
        buckets.grow(end - start + 1, max_size)
    buckets.index_start, buckets.index_end = start, end
    position = index - buckets.index_base
    buckets.increment_bucket(position + len(buckets.counts) if position < 0 else position, count)


def _trials() -> Iterator[tuple[Any, Any]]:
    """Data points by bulk and by single recording, of every combination that a reader may ask for."""
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


_TRIAL_BATCHES = ((0, 1, 1, 2, 5), (10, 11, 12, 250, 250, 40_000), (0, 3), (7,))


def _points(preferences: Mapping[str, Any], views: Sequence[Any], *, bulk: bool) -> list[Any]:
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
            if not _recorded(histogram, values, 10, attributes, get_current()):
                return []
        else:
            for value in values:
                histogram.record(value / 10, attributes)
        if number % 2:
            points.extend(_comparable(point) for point in _collected(reader))
    provider.shutdown()
    return points


def _collected(reader: Any) -> Iterator[Any]:
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from metric.data.data_points


def _comparable(point: Any) -> tuple[Any, ...]:
    """A data point without its times, and without empty buckets: how many there are follows the order of values."""
    shared = (dict(point.attributes), point.count, round(point.sum, 9), point.min, point.max)
    if hasattr(point, "bucket_counts"):
        return (*shared, tuple(point.explicit_bounds), tuple(point.bucket_counts))
    counts = {
        point.positive.offset + position: count for position, count in enumerate(point.positive.bucket_counts) if count
    }
    return (*shared, point.scale, point.zero_count, counts)
