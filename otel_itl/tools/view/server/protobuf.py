"""Turns OTLP in protobuf into the shape of OTLP's JSON, which one reader takes in."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue

_REQUESTS: Final[Mapping[str, Any]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}

_RESPONSES: Final[Mapping[str, Any]] = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}
_REFUSED: Final = {
    "traces": "rejected_spans",
    "logs": "rejected_log_records",
    "metrics": "rejected_data_points",
}
"""Signal → the field of a response that counts what was refused."""


def read_protobuf(signal: str, body: bytes) -> dict[str, Any]:
    """Return the body of one OTLP request as a document.

    Args:
        signal: `traces`, `logs` or `metrics`.
        body: the request message.

    Raises:
        ValueError: it is no such message.
    """
    try:
        return to_document(_REQUESTS[signal].FromString(body))
    except DecodeError as error:
        raise ValueError(f"the body is no OTLP request of {signal} in protobuf") from error


def make_response(signal: str, refused: int) -> Any:
    """Return the response message to an OTLP request; it names how many of its records were refused, if any were."""
    response = _RESPONSES[signal]()
    if refused:
        success = response.partial_success
        setattr(success, _REFUSED[signal], refused)
        success.error_message = "a field is missing, or has a value of another type than in OTLP"
    return response


def to_document(message: Any) -> dict[str, Any]:
    """Return a message in the shape of OTLP's JSON, without the fields that are not set."""
    if isinstance(message, ArrayValue) and message.values and message.values[0].HasField("int_value"):
        # Thousands of integers make no detour over dictionaries.
        return {"values": array("q", [item.int_value for item in message.values])}
    return {field.json_name: _to_plain(value) for field, value in message.ListFields()}


def _to_plain(value: Any) -> Any:
    """Return a value of a field as OTLP's JSON has it."""
    if isinstance(value, Message):
        return to_document(value)
    if isinstance(value, (str, int, float)):
        return value
    return value.hex() if isinstance(value, bytes) else [_to_plain(item) for item in value]
