"""Add a metric reader to a meter provider that exists already; the SDK's own way to do that is newer than its floor."""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from functools import cache
from typing import Any


def add_metric_reader(provider: Any, reader: Any) -> bool:
    """Have a reader collect the metrics of a provider.

    Returns:
        False, with nothing changed, where that cannot be done: the provider is no SDK's, or has changed inside.
    """
    if hasattr(provider, "add_metric_reader"):
        provider.add_metric_reader(reader)
        return True
    return can_insert_metric_readers() and _insert(provider, reader)


@cache
def can_insert_metric_readers() -> bool:
    """Prove, once, on a provider of our own, that a reader that was added later collects what is measured then."""
    try:
        return _is_collected_by_added_reader()
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False


def _insert(provider: Any, reader: Any) -> bool:
    """Give the reader a storage of its own beside those of the provider's other readers."""
    from opentelemetry.sdk.metrics._internal.metric_reader_storage import MetricReaderStorage

    consumer: Any = getattr(provider, "_measurement_consumer", None)
    if not hasattr(consumer, "_reader_storages"):
        return False
    preferences = [reader._instrument_class_temporality, reader._instrument_class_aggregation]
    if hasattr(reader, "_instrument_class_cardinality_limit"):
        preferences.append(reader._instrument_class_cardinality_limit)
    storage = MetricReaderStorage(consumer._sdk_config, *preferences)
    with consumer._lock:
        # A new mapping: a measurement may be going through the old one.
        consumer._reader_storages = {**consumer._reader_storages, reader: storage}
    reader._set_collect_callback(consumer.collect)
    return True


def _is_collected_by_added_reader() -> bool:
    """Add a reader to a trial provider that has an instrument already; return whether it collects what is measured."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource

    provider = MeterProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    counter = provider.get_meter("otel_itl.trial").create_counter("trial")
    reader = InMemoryMetricReader()
    _insert(provider, reader)
    counter.add(1)
    data: Any = reader.get_metrics_data()
    return [
        point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ] == [1]
