"""Describe a span of the SDK without what takes most of the time: its checks, and attributes that are read later.

A stream's end sets some thirty attributes, each of a type that the SDK keeps as it is, and `set_attributes()` looks at
every value again. `add_event()` checks and copies every number of the packed token events while the caller's thread
waits; an event that builds its attributes when it is read, on the exporter's thread as a rule, costs that thread
nothing. And the SDK drops the oldest of too many events without a word, so that the limit has to be known.

The SDK has public functions for none of these. Before its private names are used, a trial must show that a reader sees
exactly what the public functions give; else those are called.
"""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and it does so when it is first used

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, SpanLimits
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import Span  # noqa: TC002 - annotations stay resolvable

from otel_itl.core.conventions import Where
from otel_itl.core.encoding import LazyEvent
from otel_itl.export.sdk_internals.global_providers import without_own_metrics
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")

MAX_ATTRIBUTES: Final = 32
"""More than a token event ever has: a span with a lower limit has to drop what it would drop."""
MAX_TEXT: Final = 64
"""Longer than any text in a token event."""
DEFAULT_EVENT_LIMIT: Final = 128
"""The limit of a span of another SDK than OpenTelemetry's."""
UNLIMITED: Final = 1 << 31

_NO_ATTRIBUTES: Final = BoundedAttributes(immutable=True)
_SDK_ADD_EVENT: Final = SdkSpan.add_event
_SDK_SET_ATTRIBUTES: Final = SdkSpan.set_attributes


def set_checked_attributes(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set attributes on a span.

    Args:
        span: any span.
        attributes: names that are not empty, and texts, numbers, bools, or tuples of those.
    """
    if not (can_reach_into_spans() and _set_directly(span, attributes)):
        span.set_attributes(attributes)


def add_events(span: Span, events: Iterable[LazyEvent], errors: InternalErrors) -> None:
    """Add events to a span; their attributes are built later where the span is the SDK's own.

    Args:
        span: a span that is recording.
        events: each with a function that builds its attributes, called at most once, in any thread: numbers, texts and
            tuples of numbers, in a dictionary that is not used elsewhere. `dict` stands for no attributes.
        errors: receives the failure of such a function; the event then has no attributes.
    """
    if can_reach_into_spans() and _takes_lazy_events(span):
        _add_lazily(span, [_LazySpanEvent(event, errors.report) for event in events])
    else:
        for name, unix_ns, make in events:
            span.add_event(name, make(), unix_ns)


def event_limit(span: Any) -> int:
    """Return how many more events a span can take, at least 0.

    Where the SDK does not show a span's limits, the limit of the `OTEL_*` environment counts, which is 128 by default.
    """
    if can_reach_into_spans():
        limit = getattr(getattr(span, "_limits", None), "max_events", DEFAULT_EVENT_LIMIT)
    else:
        limit = SpanLimits().max_events
    events = getattr(span, "_events", None) if can_reach_into_spans() else None  # `events` is a copy of it
    taken = len(getattr(span, "events", ()) if events is None else events)
    return max((UNLIMITED if limit is None else limit) - taken, 0)


@cache
def can_reach_into_spans() -> bool:
    """Prove, once, that a reader cannot distinguish a span that was described so from one by the public functions."""
    try:
        direct, plain = _trial()
        proven = bool(direct == plain)
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        proven = False
    if not proven:
        logger.info("This OpenTelemetry SDK has changed inside: its spans are described at once, and by its checks.")
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


def _trial() -> tuple[Any, Any]:
    """Return what a reader sees of a span that is described directly, and of one by the public functions."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # The arguments keep the `OTEL_*` environment out of the trial.
    limits = SpanLimits(max_span_attributes=8, max_events=7, max_event_attributes=MAX_ATTRIBUTES)
    provider = without_own_metrics(TracerProvider)(
        ALWAYS_ON, Resource.get_empty(), shutdown_on_exit=False, span_limits=limits
    )
    tracer = provider.get_tracer("otel_itl.trial")
    before: dict[str, Any] = {"text": "before", "kept": 1}
    after: dict[str, Any] = {"text": "after", "whole": 3, "number": 0.5, "is_true": True, "reasons": ("stop", "length")}
    events = (
        LazyEvent("trial", 1, lambda: {"whole": 3, "text": "completed", "numbers": (1, 2, 3), "none": ()}),
        LazyEvent("empty", 2, dict),
    )
    direct: Any = tracer.start_span("trial", attributes=before)
    is_set, is_taken = _set_directly(direct, after), _takes_lazy_events(direct)
    _add_lazily(direct, [_LazySpanEvent(each, _raise) for each in events])
    plain: Any = tracer.start_span("trial", attributes=before)
    plain.set_attributes(after)
    for each in events:
        plain.add_event(each.name, each.make_attributes(), each.unix_ns)
    limits_seen = direct._limits.max_events, len(direct._events)
    for span in (direct, plain):
        span.end()
    return (is_set, is_taken, limits_seen, _readable(direct)), (True, True, (7, len(events)), _readable(plain))


def _raise(_: str, error: BaseException) -> None:
    raise error


def _readable(span: Any) -> list[Any]:
    """Return all that a reader can see of the attributes and the events of a span that has ended."""
    read = span._readable_span()
    seen: list[Any] = [_with_types(read.attributes), read.dropped_attributes]
    for event in read.events:
        attributes, dropped = event.attributes, getattr(event, "dropped_attributes", None)
        seen.append((event.name, event.timestamp, _with_types(attributes), type(attributes), dropped))
    return seen


def _with_types(attributes: Mapping[str, Any]) -> dict[str, tuple[Any, type]]:
    return {name: (value, type(value)) for name, value in attributes.items()}
