"""Set attributes on a span that need no check: the SDK looks at every value again, which takes longer than all else.

A stream's end sets some thirty attributes, each of a type that the SDK keeps as it is. Before they are put into the
span directly, a trial must show that a reader sees what `set_attributes()` gives; else that is called.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import Span  # noqa: TC002 - annotations stay resolvable

from otel_itl.export.sdk_internals.global_providers import without_own_metrics

_SDK_SET_ATTRIBUTES: Final = SdkSpan.set_attributes


def set_checked_attributes(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes on a span.

    Args:
        span: any span.
        attributes: names that are not empty, and texts, numbers, bools, or tuples of those.
    """
    if not (can_set_unchecked() and _set_directly(span, attributes)):
        span.set_attributes(attributes)


@cache
def can_set_unchecked() -> bool:
    """Prove, once, that a reader cannot distinguish the attributes from those that `set_attributes()` has set."""
    try:
        direct, plain = _trial()
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False
    return direct == plain


def _set_directly(span: Any, attributes: Mapping[str, Any]) -> bool:
    """Put attributes into a span of the SDK; returns False, with none set, where its limits may touch them."""
    if getattr(getattr(span, "set_attributes", None), "__func__", None) is not _SDK_SET_ATTRIBUTES:
        return False
    bounded = span._attributes
    if type(bounded) is not BoundedAttributes or bounded.max_value_len is not None or bounded._immutable:
        return False
    with span._lock, bounded._lock:
        limit = bounded.maxlen
        has_room = limit is None or len(bounded._dict) + len(attributes) <= limit
        if has_room and span._end_time is None:
            bounded._dict.update(attributes)
            return True
    return False


def _trial() -> list[tuple[Any, ...]]:
    """Return what a reader sees of the same attributes, set directly and by `set_attributes()`."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # The arguments keep the `OTEL_*` environment out of the trial.
    limits = SpanLimits(max_span_attributes=8)
    provider = without_own_metrics(TracerProvider)(
        ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=limits
    )
    tracer = provider.get_tracer("otel_itl.trial")
    first: dict[str, Any] = {"text": "before", "kept": 1}
    second: dict[str, Any] = {
        "text": "after",
        "whole": 3,
        "number": 0.5,
        "is_true": True,
        "reasons": ("stop", "length"),
    }
    seen = []
    for set_second in (_set_directly, SdkSpan.set_attributes):
        span: Any = tracer.start_span("trial", attributes=first)
        if set_second(span, second) is False:
            return [(False,), (True,)]
        span.end()
        read = span._readable_span()
        kinds = {name: type(value) for name, value in read.attributes.items()}
        seen.append((dict(read.attributes), kinds, read.dropped_attributes))
    return seen
