"""Put other exporters in the place of those that the SDK's processors and readers have."""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

OTLP_MODULES: Final = "opentelemetry.exporter.otlp.proto."

Wrap = Callable[[Any, str, str | None], Any]
"""Takes an exporter, its signal and its endpoint, and returns what is put in its place. The endpoint is as the exporter
has it: a URL, or host and port; None where it has none."""


def wrap_otlp_exporters(wrap: Wrap, tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> int:
    """Wrap the exporters of some providers that send OTLP over the network, and return how many there are.

    An exporter of another kind stays as it is, and so does every exporter of an SDK that has changed inside.
    """
    if not can_replace_exporters():
        return 0
    count = 0
    for signal, owner in _owners(tracer_provider, meter_provider, logger_provider):
        exporter = owner._exporter
        if type(exporter).__module__.startswith(OTLP_MODULES):
            owner._exporter = wrap(exporter, signal, getattr(exporter, "_endpoint", None))
            count += 1
    return count


@cache
def can_replace_exporters() -> bool:
    """Prove, once, that the SDK reads `_exporter` for each export.

    By its code: a trial would leave threads and fork handlers behind.
    """
    try:
        from opentelemetry.sdk._shared_internal import BatchProcessor
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        functions = (BatchProcessor._export, PeriodicExportingMetricReader._receive_metrics)
        return all({"_exporter", "export"} <= set(function.__code__.co_names) for function in functions)
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False


def _owners(tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> Iterator[tuple[str, Any]]:
    """Yield each object that has an `_exporter` from which it exports, with its signal."""
    spans = getattr(getattr(tracer_provider, "_active_span_processor", None), "_span_processors", ())
    records = getattr(getattr(logger_provider, "_multi_log_record_processor", None), "_log_record_processors", ())
    # Before OpenTelemetry 1.44 the readers are in the configuration.
    readers: Any = getattr(meter_provider, "_metric_readers", None)
    if readers is None:
        readers = getattr(getattr(meter_provider, "_sdk_config", None), "metric_readers", ())
    yield from (("metrics", reader) for reader in readers if hasattr(reader, "_exporter"))
    for signal, processors in (("traces", spans), ("logs", records)):
        for processor in processors:
            if hasattr(getattr(processor, "_batch_processor", None), "_exporter"):
                yield signal, processor._batch_processor
