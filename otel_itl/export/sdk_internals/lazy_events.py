"""Token events on a span, whose attributes are made when somebody reads them: the exporter's thread, as a rule.

`add_event()` checks and copies every number of the packed arrays, and what is made there is made while the caller's
thread waits. An event of the SDK's own class whose attributes come later costs it nothing. The SDK has no such thing,
so this module alone puts it there, and trusts nothing: before it is used, a span of its own must show the very events
that `add_event()` gives. Where it does not, `add_event()` is what is used.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import Span  # noqa: TC002 - part of what is public

from otel_itl.core.codec import LazyEvent
from otel_itl.recording.internal_errors import report_error

logger = logging.getLogger("otel_itl")

MOST_ATTRIBUTES = 32
"""More than a token event ever has: a span with a lower limit is to drop what it drops."""
LONGEST_TEXT = 64
"""Longer than any text in a token event."""

_add_event = SdkSpan.add_event


def add_events(span: Span, events: Iterable[LazyEvent]) -> None:
    """Add events to a span, their attributes unmade where the span is the SDK's own."""
    if _takes_unmade(span) and can_add_unmade():
        for event in events:
            span._add_event(_Unmade(event))  # type: ignore[attr-defined]  # it is the SDK's
    else:
        for name, unix_ns, make in events:
            span.add_event(name, make(), unix_ns)


@cache
def can_add_unmade() -> bool:
    """Whether an unmade event is to its readers what `add_event()` gives: found out once, and said if not."""
    try:
        unmade, plain = _trial()
        proven = unmade == plain
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        proven = False
    if not proven:
        logger.info("This OpenTelemetry SDK does not allow for events that are made later: they are made at once.")
    return proven


class _Unmade(Event):
    """An event of a span; its attributes are those that `add_event()` would have made of the same."""

    def __init__(self, event: LazyEvent) -> None:
        # Not by way of `Event`, which would set the attributes.
        super(Event, self).__init__(event.name, event.unix_ns)
        self._make = event.make_attributes

    @cached_property
    def _attributes(self) -> Mapping[str, Any]:  # type: ignore[override]  # the SDK has a variable here
        bounded = BoundedAttributes(immutable=True)
        try:
            made = self._make()
        except Exception as error:  # noqa: BLE001 - the fence: an exporter reads this, and has other spans to export
            report_error("making token events", error)
            return bounded
        bounded._dict.update((key, tuple(value) if isinstance(value, list) else value) for key, value in made.items())
        return bounded


def _takes_unmade(span: Any) -> bool:
    """Whether the span is one of the SDK's, which nobody has altered, and whose limits touch no token event."""
    if getattr(getattr(span, "add_event", None), "__func__", None) is not _add_event:
        return False
    most, longest = span._limits.max_event_attributes, span._limits.max_attribute_length
    return (most is None or most >= MOST_ATTRIBUTES) and (longest is None or longest >= LONGEST_TEXT)


_TRIAL = {"whole": 3, "text": "completed", "numbers": [1, 2, 3], "none": []}


def _trial() -> list[list[tuple[Any, ...]]]:
    """What a reader sees of the same event, added unmade and by `add_event()`."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # Given by hand: none of it is to come from the `OTEL_*` environment.
    limits = SpanLimits(max_event_attributes=MOST_ATTRIBUTES, max_attribute_length=LONGEST_TEXT)
    provider = TracerProvider(ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=limits)
    tracer = provider.get_tracer("otel_itl.trial")
    ways: tuple[Callable[[Any], None], ...] = (
        lambda span: span._add_event(_Unmade(LazyEvent("trial", 1, _TRIAL.copy))),
        lambda span: span.add_event("trial", _TRIAL, 1),
    )
    seen = []
    for add in ways:
        span: Any = tracer.start_span("trial")
        add(span)
        span.end()
        seen.append([_seen(event) for event in span._readable_span().events])
    return seen


def _seen(event: Any) -> tuple[Any, ...]:
    attributes = event.attributes
    kinds = {name: type(value) for name, value in attributes.items()}
    dropped = getattr(event, "dropped_attributes", None)
    return event.name, event.timestamp, dict(attributes), kinds, type(attributes), dropped
