"""Spans and log records → OTLP JSON documents that hold timings, names and ids, and no prompts."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, TypeVar

from opentelemetry.sdk.trace import ReadableSpan  # noqa: TC002 - annotations stay resolvable
from opentelemetry.trace import SpanContext  # noqa: TC002 - annotations stay resolvable

from otel_itl.core import conventions as names

T = TypeVar("T")
Document = Mapping[str, Any]
"""One OTLP request of one signal, as JSON has it."""

OWN_PREFIX: Final = "itl."
ATTRIBUTES: Final = frozenset({
    *(names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL, names.REQUEST_STREAM),
    *(names.RESPONSE_ID, names.RESPONSE_MODEL, names.RESPONSE_FINISH_REASONS, names.RESPONSE_TIME_TO_FIRST_CHUNK),
    *(names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS, names.USAGE_REASONING_TOKENS),
    *(names.USAGE_CACHE_READ_TOKENS, names.USAGE_CACHE_CREATION_TOKENS, names.USAGE_CACHE_WRITE_TOKENS),
    *(names.SERVER_ADDRESS, names.SERVER_PORT, names.ERROR_TYPE, names.SESSION_ID, names.CONVERSATION_ID),
    *names.REQUEST_PARAMETERS.values(),
    *("exception.type", "gen_ai.system", "gen_ai.output.type"),
})  # fmt: skip
"""The attributes of measured spans and of log records that are written, besides those that begin with `itl.`. None
holds content: no prompt, no completion, no URL, no message of an exception."""
OTHERS_GENAI_ATTRIBUTES: Final = frozenset({
    *(names.OPERATION_NAME, names.PROVIDER_NAME, "gen_ai.system", names.REQUEST_MODEL, names.RESPONSE_MODEL),
    *(names.ERROR_TYPE, names.SESSION_ID, names.CONVERSATION_ID),
})  # fmt: skip
"""The attributes that are written of another instrumentation's span of a model or an agent: the page draws them."""
OTHERS_HTTP_ATTRIBUTES: Final = frozenset({
    *("http.request.method", "http.method", "http.response.status_code", "http.status_code"),
    names.ERROR_TYPE,
})  # fmt: skip
"""The attributes that are written of any other span of another instrumentation."""
OPERATIONS: Final = frozenset({
    *("chat", "text_completion", "generate_content", "embeddings", "retrieval", "fetch_response"),
    *("create_agent", "invoke_agent", "invoke_workflow", "execute_tool"),
})  # fmt: skip
"""Values of `gen_ai.operation.name`. Any other is of the application's own making, and may hold anything."""
METHODS: Final = frozenset({
    *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY", "_OTHER"),
})  # fmt: skip
"""Values of the attributes of the HTTP method. A server's span has what the client has sent."""
LEFT_OUT_OF_RESOURCES: Final = ("process.command", "process.owner", "process.executable.path")
"""Resource attributes that begin with one of these are left out: a command line may hold a key, and the others name the
person who has started the process."""


def encode_spans(spans: Iterable[ReadableSpan]) -> Document:
    """Encode spans, ours and those of other instrumentations, with what the allow-lists name.

    Of the events only ours are kept, of links only the ids, of the status only the code. The name of a span is made of
    attributes that are written: one that was given by somebody else may hold a person's name.
    """
    return _grouped(
        ((span.resource, span.instrumentation_scope, _span(span)) for span in spans),
        ("resourceSpans", "scopeSpans", "spans"),
    )


def encode_log_records(records: Iterable[Any]) -> Document:
    """Encode log records as the SDK hands them to a processor. Their body is left out: our events have none."""

    def resource_of(record: Any) -> Any:
        # Before OpenTelemetry 1.39 the resource is on the inner record.
        return getattr(record, "resource", None) or getattr(record.log_record, "resource", None)

    return _grouped(
        ((resource_of(record), record.instrumentation_scope, _log_record(record.log_record)) for record in records),
        ("resourceLogs", "scopeLogs", "logRecords"),
    )


def to_line(document: Document) -> bytes:
    """Write a document as one line."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def is_written(attribute: str) -> bool:
    """Return whether the attribute of a measured span or a log record gets into the file."""
    return attribute.startswith(OWN_PREFIX) or attribute in ATTRIBUTES


def _grouped(records: Iterable[tuple[Any, Any, Document]], keys: tuple[str, str, str]) -> Document:
    """Put records together by their resource and their scope."""
    resources_key, scopes_key, records_key = keys
    groups: dict[tuple[int, Any], tuple[Any, list[Document]]] = {}
    for resource, scope, record in records:
        groups.setdefault((id(resource), scope), (resource, []))[1].append(record)
    return {
        resources_key: [
            {"resource": _resource(resource), scopes_key: [{**_scope(scope), records_key: members}]}
            for (_, scope), (resource, members) in groups.items()
        ]
    }


def _resource(resource: Any) -> Document:
    attributes = {} if resource is None else resource.attributes
    return {"attributes": _attributes(attributes, lambda name: not name.startswith(LEFT_OUT_OF_RESOURCES))}


def _scope(scope: Any) -> dict[str, Any]:
    """Encode name, version and schema URL of a scope, as the part of a document that holds its records."""
    if scope is None:
        return {"scope": {}}
    encoded: dict[str, Any] = {"scope": _without_empty({"name": scope.name, "version": scope.version})}
    return encoded | _without_empty({"schemaUrl": scope.schema_url})


def _span(span: ReadableSpan) -> Document:
    """Encode one span."""
    context = span.get_span_context()
    attributes = _choose_attributes(span)
    return {
        **_ids(context),
        **({"parentSpanId": f"{span.parent.span_id:016x}"} if span.parent is not None else {}),
        "name": _make_name(attributes, span.kind.name.lower()),
        "kind": span.kind.value + 1,  # OTLP counts from 1, as its 0 is "unspecified"
        "startTimeUnixNano": str(span.start_time or 0),
        "endTimeUnixNano": str(span.end_time or 0),
        "attributes": _attributes(attributes, lambda _: True),
        "events": [
            {
                "timeUnixNano": str(event.timestamp),
                "name": event.name,
                "attributes": _attributes(event.attributes or {}, is_written),
            }
            for event in span.events
            if event.name.startswith(OWN_PREFIX)
        ],
        "links": [_ids(link.context) for link in span.links],
        "status": {"code": span.status.status_code.value},
    }


def _choose_attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """Return the attributes of a span that are written: more of a measured one than of another."""
    attributes, scope = span.attributes or {}, span.instrumentation_scope
    if (scope is not None and scope.name == names.SCOPE) or any(name.startswith(OWN_PREFIX) for name in attributes):
        return {name: value for name, value in attributes.items() if is_written(name)}
    is_genai = any(name in attributes for name in (names.OPERATION_NAME, names.PROVIDER_NAME, "gen_ai.system"))
    kept = OTHERS_GENAI_ATTRIBUTES if is_genai else OTHERS_HTTP_ATTRIBUTES
    return {name: value for name, value in attributes.items() if name in kept and _is_of_few_values(name, value)}


def _is_of_few_values(name: str, value: object) -> bool:
    """Return whether an attribute of a foreign span has one of its listed values, where these are listed."""
    if name == names.OPERATION_NAME:
        return isinstance(value, str) and value in OPERATIONS
    if name.endswith("method"):
        return isinstance(value, str) and value in METHODS
    return isinstance(value, int) if name.endswith("status_code") else True


def _make_name(attributes: Mapping[str, Any], kind: str) -> str:
    """Return the name of a span with these attributes: operation and model, else the HTTP method, else its kind."""
    operation, model = attributes.get(names.OPERATION_NAME), attributes.get(names.REQUEST_MODEL)
    if operation:
        return f"{operation} {model}" if model else str(operation)
    return str(attributes.get("http.request.method") or attributes.get("http.method") or kind)


def _log_record(record: Any) -> Document:
    """Encode one log record."""
    ids = {"traceId": f"{record.trace_id:032x}", "spanId": f"{record.span_id:016x}"} if record.trace_id else {}
    severity = record.severity_number
    return {
        "timeUnixNano": str(record.timestamp or 0),
        "observedTimeUnixNano": str(record.observed_timestamp or record.timestamp or 0),
        "severityNumber": 0 if severity is None else severity.value,
        "severityText": record.severity_text or "",
        "eventName": getattr(record, "event_name", None) or "",
        "attributes": _attributes(record.attributes or {}, is_written),
        **ids,
    }


def _ids(context: SpanContext | None) -> Document:
    return {} if context is None else {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _attributes(attributes: Mapping[str, Any], is_kept: Callable[[str], bool]) -> list[Document]:
    """Encode the attributes that are kept; one whose value JSON cannot hold is left out."""
    encoded = ((name, _value(value)) for name, value in attributes.items() if is_kept(name))
    return [{"key": name, "value": value} for name, value in encoded if value]


def _value(value: Any) -> Document:
    """Encode an attribute's value; empty where JSON cannot hold it. An integer is text, as protobuf's JSON has it."""
    encoded: Document = {}
    match value:
        case bool():
            encoded = {"boolValue": value}
        case int():
            encoded = {"intValue": str(value)}
        case float() if isfinite(value):
            encoded = {"doubleValue": value}
        case str():
            encoded = {"stringValue": value}
        case bytes():
            encoded = {"bytesValue": b64encode(value).decode()}
        case Mapping():
            encoded = {"kvlistValue": {"values": _attributes(value, lambda _: True)}}
        case Sequence():
            encoded = {"arrayValue": {"values": _values(value)}}
    return encoded


def _values(values: Sequence[Any]) -> list[Document]:
    """Encode the members of a list. The packed timeline is thousands of integers: those take the short way."""
    if all(type(value) is int for value in values):
        return [{"intValue": text} for text in map(str, values)]
    return [_value(value) for value in values]


def _without_empty(fields: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in fields.items() if value}
