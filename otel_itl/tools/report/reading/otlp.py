"""Extracts spans and token log records from one OTLP JSON document."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from otel_itl.core import conventions as names

TOKEN_EVENTS = frozenset({names.TOKENS_EVENT, names.TOKEN_EVENT})
SIGNALS = ("resourceSpans", "resourceLogs", "resourceMetrics", "resourceProfiles")
SHAPE_ERRORS = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""What is raised where telemetry is not of OTLP's shape."""

Refused = Callable[[Exception], object]
"""Takes the error of a record that is not of OTLP's shape."""
Event = tuple[str, int, Mapping[str, Any]]
"""Name, Unix time in nanoseconds, and attributes: what `otel_itl.core.decoding.decode` takes."""


class OTLPSpan(NamedTuple):
    """A span with its attributes, those of its resource, its token events and its stall events."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    token_events: Sequence[Event]
    stall_events: Sequence[Event]
    name: str = ""
    start_unix_ns: int = 0
    end_unix_ns: int = 0


class TokenLogRecord(NamedTuple):
    """A log record that is an event of ours, such as a token event, with the ids of its span."""

    trace_id: str
    span_id: str
    event: Event


def is_otlp(document: Any) -> bool:
    """Return whether a document is an OTLP request of any signal."""
    return isinstance(document, dict) and any(signal in document for signal in SIGNALS)


def iterate_spans(document: Mapping[str, Any], refused: Refused | None = None) -> Iterator[OTLPSpan]:
    """Yield the spans of a document.

    Args:
        document: an OTLP request.
        refused: gets the error of each span that is not of OTLP's shape; None: the first one is raised.

    Raises:
        TypeError, ValueError, KeyError, AttributeError, OverflowError: the document is not of OTLP's shape.
    """
    for of_resource in document.get("resourceSpans") or ():
        resource = _attributes(of_resource.get("resource") or {})
        for span in _records(of_resource, "scopeSpans", "spans"):
            try:
                read = _read_span(span, resource)
            except SHAPE_ERRORS as error:
                _refuse(error, refused)
            else:
                yield read


def iterate_token_logs(
    document: Mapping[str, Any], wanted: Container[str] = TOKEN_EVENTS, refused: Refused | None = None
) -> Iterator[TokenLogRecord]:
    """Yield the log records of a document that are token events, or the events of other names that are wanted.

    Raises and refuses as `iterate_spans` does.
    """
    for of_resource in document.get("resourceLogs") or ():
        for record in _records(of_resource, "scopeLogs", "logRecords"):
            try:
                # Before log records had an event name of their own, it was an attribute.
                name = str(record.get("eventName") or _name_from_attributes(record))
                if name not in wanted:
                    continue
                event = (name, int(record.get("timeUnixNano", 0)), _attributes(record))
                read = TokenLogRecord(_identifier(record, "traceId"), _identifier(record, "spanId"), event)
            except SHAPE_ERRORS as error:
                _refuse(error, refused)
            else:
                yield read


def _read_span(span: Mapping[str, Any], resource: Mapping[str, Any]) -> OTLPSpan:
    """Read one span; raises where it is not of OTLP's shape."""
    return OTLPSpan(
        trace_id=_identifier(span, "traceId"),
        span_id=_identifier(span, "spanId"),
        attributes=_attributes(span),
        resource=resource,
        token_events=_events(span, TOKEN_EVENTS),
        stall_events=_events(span, {names.STALL_EVENT}),
        name=str(span.get("name") or ""),
        start_unix_ns=int(span.get("startTimeUnixNano") or 0),
        end_unix_ns=int(span.get("endTimeUnixNano") or 0),
    )


def _refuse(error: Exception, refused: Refused | None) -> None:
    """Hand over the error of a record, or raise it where `refused` is None."""
    if refused is None:
        raise error
    refused(error)


def _records(resource: Mapping[str, Any], scopes: str, records: str) -> Iterator[Mapping[str, Any]]:
    for scope in resource.get(scopes) or ():
        yield from scope.get(records) or ()


def _events(span: Mapping[str, Any], wanted: Container[str]) -> list[Event]:
    """Return name, Unix time (ns) and attributes of those events of a span whose names are wanted."""
    return [
        (event["name"], int(event.get("timeUnixNano", 0)), _attributes(event))
        for event in span.get("events") or ()
        if event.get("name") in wanted
    ]


def _identifier(record: Mapping[str, Any], name: str) -> str:
    """Return a trace or span id in hex; empty where there is none (all zeros)."""
    identifier = str(record.get(name) or "").lower()
    return identifier if identifier.strip("0") else ""


def _name_from_attributes(record: Mapping[str, Any]) -> str:
    """Return the event name that a log record has as an attribute, as older exporters wrote it; empty: it has none."""
    attributes = record.get("attributes") or ()
    values = (attribute["value"].get("stringValue") for attribute in attributes if attribute.get("key") == "event.name")
    return str(next(values, None) or "")


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    return {attribute["key"]: _value(attribute.get("value") or {}) for attribute in record.get("attributes") or ()}


def _value(value: Mapping[str, Any]) -> Any:
    """Convert an attribute's value. A 64-bit integer is a string in protobuf's JSON, and a number in other writers'."""
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
    """Convert a list. Integers are packed: a file may hold millions, and those in logs wait for their spans."""
    if isinstance(values, array):
        return values
    try:
        return array("q", [int(value["intValue"]) for value in values])
    except (KeyError, OverflowError):
        return [_value(value) for value in values]
