"""Put many values into the aggregations of one histogram of the SDK at once, by bisecting its bounds into them.

The SDK has no such call. `bulk_recording` proves before the first use that the result is what `record()` gives.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import fsum
from operator import ge
from time import time_ns
from typing import Any, Final

from opentelemetry.context import Context

Contexts = Mapping[float, Context]
"""The context of each value, as it was given: it holds the span that an exemplar refers to."""
MAX_EXEMPLARS: Final = 8
"""How many of the slowest samples are offered as exemplars where buckets do not decide which."""


def record_batch(
    histogram: Any, ordered: Sequence[float], scale: float, attributes: Mapping[str, Any], contexts: Contexts
) -> bool:
    """Record values into every aggregation of a histogram; for the arguments see `record_values`.

    Returns:
        False, with nothing recorded, where the histogram is not one of the SDK's.
    """
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
    batch = _Batch(histogram, ordered, scale, attributes, contexts)
    sampled = exemplar_filter.should_sample(batch.largest, batch.unix_ns, attributes, contexts[ordered[-1]])
    for match in matches:
        batch.aggregate(match, sampled=sampled)
    return True


class _Batch:
    """Ascending values on their way into the aggregations of one instrument."""

    def __init__(
        self, instrument: Any, ordered: Sequence[float], scale: float, attributes: Mapping[str, Any], contexts: Contexts
    ) -> None:
        self._instrument = instrument
        self._ordered = ordered
        self._scale = scale
        self._attributes = attributes
        self._contexts = contexts
        total = sum(ordered)
        self._total = (total if isinstance(total, int) else fsum(ordered)) / scale
        self.unix_ns = time_ns()
        self.largest = ordered[-1] / scale

    def aggregate(self, match: Any, *, sampled: bool) -> None:
        """Aggregate the values where the SDK would aggregate each of them for one reader and view.

        Args:
            match: the SDK's `_ViewInstrumentMatch`.
            sampled: the exemplar filter lets these values become exemplars.
        """
        kept = match._view._attribute_keys
        attributes = {key: value for key, value in self._attributes.items() if kept is None or key in kept}
        with match._lock:
            aggregation = _aggregation_of(match, attributes)
            with aggregation._lock:
                if hasattr(aggregation, "_boundaries"):
                    representatives: Sequence[float] | None = self._into_explicit(aggregation)
                elif hasattr(aggregation, "_mapping"):
                    representatives = self._into_exponential(aggregation)
                else:
                    representatives = None
            if representatives is None:
                for value in self._ordered:
                    aggregation.aggregate(self._measurement(value), sampled)
            else:
                for value in representatives if sampled else ():
                    aggregation._reservoir.offer(
                        value / self._scale, self.unix_ns, self._attributes, self._contexts[value]
                    )

    def _measurement(self, value: float) -> Any:
        from opentelemetry.sdk.metrics._internal.measurement import Measurement

        context = self._contexts[value]
        return Measurement(value / self._scale, self.unix_ns, self._instrument, context, self._attributes)

    def _end(self, bound: float, belongs: Callable[[float], bool], start: int) -> int:
        """Return where the values from `start` on that belong below `bound` end.

        Comparing with the bound finds the place but for the effect of rounding; `belongs` decides about neighbours.
        """
        end = bisect_right(self._ordered, bound * self._scale, lo=start)
        while end > start and not belongs(self._ordered[end - 1] / self._scale):
            end -= 1
        while end < len(self._ordered) and belongs(self._ordered[end] / self._scale):
            end += 1
        return end

    def _into_explicit(self, aggregation: Any) -> list[float]:
        """Count the values into explicit buckets, and return the largest value of each bucket, as it was given."""
        if aggregation._value is None:
            aggregation._value = aggregation._get_empty_bucket_counts()
        bounds = aggregation._boundaries
        representatives, below, count = [], 0, len(self._ordered)
        while below < count:
            bucket = bisect_left(bounds, self._ordered[below] / self._scale)
            # No bound method of the number: an integer's returns NotImplemented for a float, which is truthy.
            reached = self._end(bounds[bucket], partial(ge, bounds[bucket]), below) if bucket < len(bounds) else count
            aggregation._value[bucket] += reached - below
            representatives.append(self._ordered[reached - 1])
            below = reached
        self._add_summary(aggregation)
        return representatives

    def _into_exponential(self, aggregation: Any) -> Sequence[float]:
        """Fit the scale to the extremes, count the values into buckets, and return the largest values, as given."""
        from opentelemetry.sdk.metrics._internal.exponential_histogram.buckets import Buckets

        new_buckets: Any = Buckets
        if aggregation._value_positive is None:
            aggregation._value_positive = new_buckets()
        if aggregation._value_negative is None:
            aggregation._value_negative = new_buckets()
        zeros = bisect_right(self._ordered, 0)
        aggregation._count += len(self._ordered)
        aggregation._zero_count += zeros
        self._add_summary(aggregation)
        if zeros < len(self._ordered):
            self._fit_scale(aggregation, self._ordered[zeros] / self._scale)
            for index, count in self._counts_by_index(aggregation._mapping, zeros):
                _increment(aggregation._value_positive, index, count, aggregation._max_size)
        elif aggregation._count == aggregation._zero_count:
            aggregation._scale = 0
        return self._ordered[max(zeros, len(self._ordered) - MAX_EXEMPLARS) :]

    def _add_summary(self, aggregation: Any) -> None:
        """Add the values to the sum, the minimum and the maximum of an aggregation."""
        aggregation._sum += self._total
        if getattr(aggregation, "_record_min_max", True):
            aggregation._min = min(aggregation._min, self._ordered[0] / self._scale)
            aggregation._max = max(aggregation._max, self.largest)

    def _fit_scale(self, aggregation: Any, smallest: float) -> None:
        """Coarsen an exponential aggregation until its buckets span the values from `smallest` to the largest."""
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

    def _counts_by_index(self, mapping: Any, start: int) -> Iterator[tuple[int, int]]:
        """Yield the index of each exponential bucket with the number of values in it, ascending."""
        index_of = mapping.map_to_index
        highest = index_of(self.largest)
        while start < len(self._ordered):
            index: int = index_of(self._ordered[start] / self._scale)
            end = len(self._ordered)
            # Above the last value there may be no bucket that has a boundary.
            if index < highest:
                bound = mapping.get_lower_boundary(index + 1)
                end = self._end(bound, lambda value, last=index: index_of(value) <= last, start)  # type: ignore[misc]
            yield index, end - start
            start = end


def _aggregation_of(match: Any, attributes: dict[str, Any]) -> Any:
    """Return the SDK's aggregation for values with these attributes; the lock of `match` is held."""
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
    """Add `count` to the bucket at `index` of the SDK's `Buckets`, which grow to reach it."""
    if len(buckets) == 0:
        buckets.index_start = buckets.index_end = buckets.index_base = index
    start, end = min(index, buckets.index_start), max(index, buckets.index_end)
    if end - start >= len(buckets.counts):
        buckets.grow(end - start + 1, max_size)
    buckets.index_start, buckets.index_end = start, end
    position = index - buckets.index_base
    buckets.increment_bucket(position + len(buckets.counts) if position < 0 else position, count)
