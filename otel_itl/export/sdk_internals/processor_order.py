"""Put a span processor ahead of those that a tracer provider has already; the SDK itself only appends.

What is flushed or shut down first has to be what ends spans: a flush of the provider finalizes pending streams before
the exporting processors send what they have.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from functools import cache
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor

from otel_itl.export.sdk_internals.global_providers import without_own_metrics


def prepend_processor(provider: Any, processor: SpanProcessor) -> bool:
    """Add a processor to a provider, in the first place if that can be done.

    Returns:
        Whether it is the first. False: it was appended, by the public API; the provider is no SDK's, or has changed
        inside, or runs its processors concurrently.
    """
    provider.add_span_processor(processor)
    return can_prepend_processors() and _move_to_front(provider, processor)


@cache
def can_prepend_processors() -> bool:
    """Prove, once, on a provider of our own, that a processor that was moved to the front is flushed first."""
    try:
        return _flush_order() == ["prepended", "first", "second"]
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False


def _move_to_front(provider: Any, processor: SpanProcessor) -> bool:
    """Move a processor of the provider to the first place; False where its processors have no order to change."""
    all_processors = getattr(provider, "_active_span_processor", None)
    if type(all_processors) is not SynchronousMultiSpanProcessor:
        return False
    with all_processors._lock:
        others = [other for other in all_processors._span_processors if other is not processor]
        all_processors._span_processors = (processor, *others)
    return True


class _Recording(SpanProcessor):
    """Notes that it was flushed."""

    def __init__(self, name: str, flushed: list[str]) -> None:
        self._name = name
        self._flushed = flushed

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the processor's interface
        self._flushed.append(self._name)
        return True


def _flush_order() -> list[str]:
    """Move the last of three processors of a trial provider to the front, and return the order of a flush."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    flushed: list[str] = []
    # The arguments keep the `OTEL_*` environment out of the trial.
    provider = without_own_metrics(TracerProvider)(ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False)
    for name in ("first", "second"):
        provider.add_span_processor(_Recording(name, flushed))
    prepended = _Recording("prepended", flushed)
    provider.add_span_processor(prepended)
    _move_to_front(provider, prepended)
    provider.force_flush()
    return flushed
