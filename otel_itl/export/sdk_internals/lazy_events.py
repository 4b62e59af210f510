"""Token events that build their attributes when they are read: on the exporter's thread, as a rule.

`add_event()` checks and copies every number of the packed arrays while the caller's thread waits. An event of the SDK's
own class that builds its attributes later costs that thread nothing. The SDK has no such event. Before this one is
used, a trial must show that a reader of it sees exactly what `add_event()` gives; else `add_event()` is used.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import Span  # noqa: TC002 - annotations stay resolvable

from otel_itl.core.codec import LazyEvent
from otel_itl.core.conventions import Where
from otel_itl.export.sdk_internals.global_providers import without_own_metrics
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")

MAX_ATTRIBUTES: Final = 32
"""More than a token event ever has: a span with a lower limit has to drop what it would drop."""
MAX_TEXT: Final = 64
"""Longer than any text in a token event."""

_NO_ATTRIBUTES: Final = BoundedAttributes(immutable=True)

_SDK_ADD_EVENT: Final = SdkSpan.add_event


def add_events(span: Span, events: Iterable[LazyEvent], errors: InternalErrors) -> None:
    """Add events to a span; their attributes are built later where the span is the SDK's own.

    Args:
        span: a span that is recording.
        events: each with a function that builds its attributes, called at most once, in any thread: numbers, texts and
            tuples of numbers, in a dictionary that is not used elsewhere. `dict` stands for no attributes.
        errors: receives the failure of such a function; the event then has no attributes.
    """
    if can_add_lazy_events() and _takes_lazy_events(span):
        _add_lazily(span, [_LazySpanEvent(event, errors.report) for event in events])
    else:
        for name, unix_ns, make in events:
            span.add_event(name, make(), unix_ns)


@cache
def can_add_lazy_events() -> bool:
    """Prove, once, that a reader cannot distinguish a lazy event from one that `add_event()` added."""
    try:
        lazy, plain = _trial()
        proven = lazy == plain
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        proven = False
    if not proven:
        logger.info("This OpenTelemetry SDK has no room for lazy events: attributes of token events are built at once.")
    return proven


class _LazySpanEvent(Event):
    """An event of a span that has the attributes that `add_event()` would have given it."""

    def __init__(self, event: LazyEvent, report: Callable[[str, BaseException], None]) -> None:
        # The constructor of `Event` itself would set the attributes.
        self._name, self._timestamp, self._make = event
        self._report = report
        if self._make is dict:
            self._attributes = _NO_ATTRIBUTES

    @cached_property
    def _attributes(self) -> Mapping[str, Any]:  # type: ignore[override]  # the SDK has a variable here
        """Build the attributes, once; none where that fails."""
        bounded = BoundedAttributes(immutable=True)
        try:
            made = self._make()
        except Exception as error:  # noqa: BLE001 - the guard: an exporter reads this, and has other spans to export
            self._report(Where.TOKEN_EVENTS_BUILD, error)
            return bounded
        bounded._dict = made
        return bounded


def _add_lazily(span: Any, events: list[_LazySpanEvent]) -> None:
    """Add events to a span of the SDK, together; none where it has ended."""
    with span._lock:
        if span._end_time is None:
            span._events.extend(events)


def _takes_lazy_events(span: Any) -> bool:
    """Return whether a span is the SDK's own, unaltered, with limits that leave token events as they are."""
    if getattr(getattr(span, "add_event", None), "__func__", None) is not _SDK_ADD_EVENT:
        return False
    attributes, text = span._limits.max_event_attributes, span._limits.max_attribute_length
    return (attributes is None or attributes >= MAX_ATTRIBUTES) and (text is None or text >= MAX_TEXT)


def _trial() -> list[list[tuple[Any, ...]]]:
    """Return what a reader sees of the same event, added lazily and by `add_event()`."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # The arguments keep the `OTEL_*` environment out of the trial.
    limits = SpanLimits(max_event_attributes=MAX_ATTRIBUTES, max_attribute_length=MAX_TEXT)
    provider = without_own_metrics(TracerProvider)(
        ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=limits
    )
    tracer = provider.get_tracer("otel_itl.trial")
    event = LazyEvent("trial", 1, lambda: {"whole": 3, "text": "completed", "numbers": (1, 2, 3), "none": ()})
    empty = LazyEvent("empty", 2, dict)
    ways: tuple[Callable[[Any], object], ...] = (
        lambda span: _add_lazily(span, [_LazySpanEvent(each, _raise) for each in (event, empty)]),
        lambda span: [span.add_event(each.name, each.make_attributes(), each.unix_ns) for each in (event, empty)],
    )
    seen = []
    for add in ways:
        span: Any = tracer.start_span("trial")
        add(span)
        span.end()
        seen.append([_readable(each) for each in span._readable_span().events])
    return seen


def _raise(_: str, error: BaseException) -> None:
    raise error


def _readable(event: Any) -> tuple[Any, ...]:
    """Return all that a reader can see of an event."""
    attributes = event.attributes
    kinds = {name: type(value) for name, value in attributes.items()}
    dropped = getattr(event, "dropped_attributes", None)
    return event.name, event.timestamp, dict(attributes), kinds, type(attributes), dropped
