"""Reads OTLP in protobuf, straight from its messages: arrays of thousands of integers make no detour over JSON."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_itl.core import conventions as names
from otel_itl.tools.report.reading.otlp import TOKEN_EVENTS, Event, OTLPSpan, TokenLogRecord
from otel_itl.tools.view.server.records import EVENTS, NUMBERS, Records, is_kept, keep_attributes

_REQUESTS: Final[Mapping[str, Any]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_SPAN_EVENTS: Final = TOKEN_EVENTS | {names.STALL_EVENT}


def read_protobuf(signal: str, body: bytes) -> Records:
    """Read the body of one OTLP request.

    Args:
        signal: `traces`, `logs` or `metrics`.
        body: the request message.

    Raises:
        ValueError: it is no such message.
    """
    try:
        message = _REQUESTS[signal].FromString(body)
    except DecodeError as error:
        raise ValueError(f"the body is no OTLP request of {signal} in protobuf") from error
    return read_message(message)


def read_message(message: Any) -> Records:
    """Read one OTLP request message of any signal."""
    records = Records([], [], {})
    for resource in getattr(message, "resource_spans", ()):
        for scope in resource.scope_spans:
            records.spans.extend(map(_read_span, scope.spans))
    for resource in getattr(message, "resource_logs", ()):
        for scope in resource.scope_logs:
            records.events.extend(_read_event(record) for record in scope.log_records if _event_name(record) in EVENTS)
    for resource in getattr(message, "resource_metrics", ()):
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name in NUMBERS:
                    total = sum(point.as_int + point.as_double for point in metric.sum.data_points)
                    records.numbers[metric.name] = records.numbers.get(metric.name, 0.0) + total
    return records


def _read_span(span: Any) -> OTLPSpan:
    """Read a span: the attributes that are kept, its token events and its stall events."""
    events: list[Event] = [
        (event.name, event.time_unix_nano, _attributes(event.attributes))
        for event in span.events
        if event.name in _SPAN_EVENTS
    ]
    return OTLPSpan(
        trace_id=_identifier(span.trace_id),
        span_id=_identifier(span.span_id),
        attributes=keep_attributes(_attributes(span.attributes)),
        resource={},
        token_events=[event for event in events if event[0] in TOKEN_EVENTS],
        stall_events=[event for event in events if event[0] == names.STALL_EVENT],
        name=span.name,
        start_unix_ns=span.start_time_unix_nano,
        end_unix_ns=span.end_time_unix_nano,
    )


def _event_name(record: Any) -> str:
    """Return the name of a log event, which was an attribute before log records had one."""
    if record.event_name:
        return str(record.event_name)
    return next((str(item.value.string_value) for item in record.attributes if item.key == "event.name"), "")


def _read_event(record: Any) -> TokenLogRecord:
    event = (_event_name(record), record.time_unix_nano, _attributes(record.attributes))
    return TokenLogRecord(_identifier(record.trace_id), _identifier(record.span_id), event)


def _identifier(raw: bytes) -> str:
    return raw.hex() if any(raw) else ""


def _attributes(items: Iterable[Any]) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in items if is_kept(item.key)}


def _value(value: Any) -> Any:
    """Convert an attribute's value; one of a kind that no attribute of ours has becomes None."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        items = value.array_value.values
        if items and items[0].WhichOneof("value") != "int_value":
            return [_value(item) for item in items]
        return array("q", [item.int_value for item in items])
    return None if kind in {None, "kvlist_value", "bytes_value"} else getattr(value, kind)
