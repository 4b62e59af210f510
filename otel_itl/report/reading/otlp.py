"""One OTLP JSON document → the spans and log records in it that tell of streams."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from otel_itl import conventions as names

TOKEN_EVENTS = frozenset({names.TOKENS_EVENT, names.TOKEN_EVENT})
SIGNALS = ("resourceSpans", "resourceLogs", "resourceMetrics", "resourceProfiles")

Event = tuple[str, int, Mapping[str, Any]]
"""Name, Unix time in nanoseconds, and attributes: what `otel_itl.core.codec.decode` takes."""


class Span(NamedTuple):
    """A span: whose it is, its attributes, its token events, and those that tell of stalls."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any]
    events: Sequence[Event]
    stalls: Sequence[Event]


class TokenLog(NamedTuple):
    """A log record that is a token event, with the span that it belongs to."""

    trace_id: str
    span_id: str
    event: Event


def is_otlp(document: Any) -> bool:
    """Whether a document is an OTLP request of any signal."""
    return isinstance(document, dict) and any(signal in document for signal in SIGNALS)


def spans(document: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans of a document.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: it is not shaped as OTLP says.
    """
    for span in _records(document, "resourceSpans", "scopeSpans", "spans"):
        yield Span(
            trace_id=_identifier(span, "traceId"),
            span_id=_identifier(span, "spanId"),
            attributes=_attributes(span),
            events=_events(span, TOKEN_EVENTS),
            stalls=_events(span, {names.STALL_EVENT}),
        )


def token_logs(document: Mapping[str, Any]) -> Iterator[TokenLog]:
    """Yield the log records of a document that are token events.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: it is not shaped as OTLP says.
    """
    for record in _records(document, "resourceLogs", "scopeLogs", "logRecords"):
        # Before log records had an event name of their own, it was an attribute.
        name = record.get("eventName") or _plain_name(record)
        if name in TOKEN_EVENTS:
            event = (name, int(record.get("timeUnixNano", 0)), _attributes(record))
            yield TokenLog(_identifier(record, "traceId"), _identifier(record, "spanId"), event)


def _records(document: Mapping[str, Any], resources: str, scopes: str, records: str) -> Iterator[Mapping[str, Any]]:
    for resource in document.get(resources) or ():
        for scope in resource.get(scopes) or ():
            yield from scope.get(records) or ()


def _events(span: Mapping[str, Any], named: Container[str]) -> list[Event]:
    return [
        (event["name"], int(event.get("timeUnixNano", 0)), _attributes(event))
        for event in span.get("events") or ()
        if event.get("name") in named
    ]


def _identifier(record: Mapping[str, Any], name: str) -> str:
    """A trace or span id in hex; empty where there is none (all zeros)."""
    identifier = str(record.get(name) or "").lower()
    return identifier if identifier.strip("0") else ""


def _plain_name(record: Mapping[str, Any]) -> str | None:
    for attribute in record.get("attributes") or ():
        if attribute.get("key") == "event.name":
            name = attribute["value"].get("stringValue")
            return None if name is None else str(name)
    return None


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    return {attribute["key"]: _value(attribute.get("value") or {}) for attribute in record.get("attributes") or ()}


def _value(value: Mapping[str, Any]) -> Any:
    """An attribute's value. A 64-bit integer may be a string, as protobuf has it, or a number, as some writers do."""
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return _array((value["arrayValue"] or {}).get("values") or ())
    if "kvlistValue" in value:
        return {item["key"]: _value(item.get("value") or {}) for item in value["kvlistValue"].get("values") or ()}
    if "doubleValue" in value:
        return float(value["doubleValue"])
    return next((value[kind] for kind in ("stringValue", "boolValue", "bytesValue") if kind in value), None)


def _array(values: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Integers are packed: a file may hold millions, and those of logs wait for their spans."""
    try:
        return array("q", [int(value["intValue"]) for value in values])
    except (KeyError, OverflowError):
        return [_value(value) for value in values]
