"""Find the exporters of a provider and their endpoints, and send an empty request by one: for `otel-itl doctor`."""

# ruff: noqa: SLF001, PLC0415 - reaching into the SDK is what this module is for, and only the doctor needs it

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from otel_itl.core.without_secrets import show_address
from otel_itl.export.sdk_internals.global_providers import without_own_metrics

_MESSAGES: Final = {
    "traces": ("trace", "ExportTraceServiceRequest"),
    "metrics": ("metrics", "ExportMetricsServiceRequest"),
    "logs": ("logs", "ExportLogsServiceRequest"),
}
"""Signal → its package in `opentelemetry.proto.collector`, and the request of its service."""


class Answer(NamedTuple):
    """What an endpoint answered to an empty request."""

    status: int | str | None
    """The HTTP status, or the name of gRPC's status code; None: there was no answer."""
    error: BaseException | None = None
    """Why there was no answer, or gRPC's error."""
    is_page: bool = False
    """Whether the answer is a web page, which no OTLP receiver sends."""

    @property
    def is_accepted(self) -> bool:
        """Whether the endpoint takes this signal."""
        is_success = self.status == "OK" or (isinstance(self.status, int) and 200 <= self.status < 300)  # noqa: PLR2004
        return is_success and not self.is_page


def find_outlets(provider: Any) -> list[Any] | None:
    """Find where a provider's telemetry leaves it.

    Returns:
        The exporters; for a processor or a reader that has none, that object itself. None: the provider is no SDK's, or
        has changed inside.
    """
    if not can_find_outlets():
        return None
    try:
        return list(_outlets(provider))
    except Exception:  # noqa: BLE001 - a provider that is built like the SDK's, but is not
        return None


@cache
def can_find_outlets() -> bool:
    """Prove, once, on providers of our own, that the exporters that were added are found."""
    try:
        return _trial()
    except Exception:  # noqa: BLE001 - an SDK that has changed inside may raise anything
        return False


def _trial() -> bool:
    """Return whether the exporters of three providers are found."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    resource = Resource.get_empty()
    spans, reader = ConsoleSpanExporter(), InMemoryMetricReader()
    logs: Any = ConsoleSpanExporter()  # the exporter for logs has no name that all releases share
    tracing = without_own_metrics(TracerProvider)(ALWAYS_ON, resource, shutdown_on_exit=False)
    tracing.add_span_processor(without_own_metrics(SimpleSpanProcessor)(spans))
    logging = without_own_metrics(LoggerProvider)(resource, shutdown_on_exit=False)
    logging.add_log_record_processor(without_own_metrics(SimpleLogRecordProcessor)(logs))
    metrics = MeterProvider([reader], resource, shutdown_on_exit=False)
    found = [outlet for provider in (tracing, metrics, logging) for outlet in _outlets(provider)]
    metrics.shutdown()
    return found == [spans, reader, logs]


def endpoint_of(outlet: Any) -> str | None:
    """Return the endpoint of an OTLP exporter, without what may be a secret; None where it has none."""
    endpoint = getattr(outlet, "_endpoint", None)
    return show_address(endpoint) if isinstance(endpoint, str) else None


def is_otlp(outlet: Any) -> bool:
    """Return whether an outlet is an OTLP exporter, which `send_empty` can use."""
    return _protocol_of(outlet) is not None


def send_empty(outlet: Any, signal: str, seconds: float) -> Answer:
    """Send an empty OTLP request as an exporter would: to its endpoint, with its headers and certificates.

    Args:
        outlet: an OTLP exporter; it may have been shut down.
        signal: `traces`, `metrics` or `logs`.
        seconds: how long to wait for an answer.

    Raises:
        Exception: whatever an exporter raises that has changed inside.
    """
    package, message = _MESSAGES[signal]
    if _protocol_of(outlet) == "grpc":
        module: Any = import_module(f"opentelemetry.proto.collector.{package}.v1.{package}_service_pb2")
        return _send_by_grpc(outlet, getattr(module, message)(), seconds)
    return _send_by_http(outlet, seconds)


def _outlets(provider: Any) -> Iterator[Any]:
    """Yield the outlets of a provider; those of another class than the SDK's raise AttributeError."""
    if hasattr(provider, "_active_span_processor"):
        members = provider._active_span_processor._span_processors
    elif hasattr(provider, "_multi_log_record_processor"):
        members = provider._multi_log_record_processor._log_record_processors
    else:
        members = tuple(provider._measurement_consumer._reader_storages)
    for member in members:
        batch = getattr(member, "_batch_processor", None)
        exporter = getattr(batch, "_exporter", None) or getattr(member, "span_exporter", None)
        outlet = exporter or getattr(member, "_exporter", None) or member
        # An exporter of ours, or of others, may stand before the one that sends.
        while not is_otlp(outlet) and hasattr(outlet, "_exporter"):
            outlet = outlet._exporter
        yield outlet


def count_waiting_spans(provider: Any, but: str) -> int:
    """Return how many spans wait in a provider to be exported, without those that have the attribute `but`; 0: unknown.

    Args:
        provider: a tracer provider.
        but: the name of an attribute.
    """
    try:
        members = provider._active_span_processor._span_processors
        queues = [list(batch._queue) for member in members if (batch := getattr(member, "_batch_processor", None))]
        return max((sum(but not in (span.attributes or {}) for span in queue) for queue in queues), default=0)
    except Exception:  # noqa: BLE001 - a provider of another make, or one that has changed inside
        return 0


def exports_immediately(provider: Any) -> bool:
    """Return whether a tracer provider has a processor that sends each span by OTLP while its program waits."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    try:
        members = provider._active_span_processor._span_processors
        return any(isinstance(member, SimpleSpanProcessor) and is_otlp(member.span_exporter) for member in members)
    except AttributeError:
        return False


def _protocol_of(outlet: Any) -> str | None:
    module = type(outlet).__module__
    if not module.startswith("opentelemetry.exporter.otlp.proto."):
        return None
    return "grpc" if module.startswith("opentelemetry.exporter.otlp.proto.grpc") else "http"


def _send_by_http(exporter: Any, seconds: float) -> Answer:
    """Send an empty body, which is an empty request in protobuf."""
    client = getattr(exporter, "_client", None)
    if client is None:  # before OpenTelemetry 1.42 or so, the exporter is its own client
        try:
            response = exporter._export(b"", seconds)
        except OSError as error:  # of which `requests` makes its exceptions
            return Answer(None, error)
        return Answer(response.status_code, is_page=_is_page(response))
    result = client._transport.request(
        "POST", client._endpoint, headers=client._headers, timeout=seconds, data=client._compress(b"")
    )
    return Answer(result.status_code, result.error, _is_page(getattr(result, "response", None)))


def _is_page(response: Any) -> bool:
    return str(getattr(response, "headers", {}).get("content-type", "")).startswith("text/html")


def _send_by_grpc(exporter: Any, request: Any, seconds: float) -> Answer:
    """Send a request on the exporter's channel, or on a new one where that is closed."""
    import grpc  # type: ignore[import-untyped, unused-ignore]  # no types

    try:
        try:
            exporter._client.Export(request=request, metadata=exporter._headers, timeout=seconds)
        except ValueError:  # its channel is closed: the provider has been shut down
            exporter._initialize_channel_and_stub()
            exporter._client.Export(request=request, metadata=exporter._headers, timeout=seconds)
            exporter._channel.close()
    except grpc.RpcError as error:
        return Answer(error.code().name, error)
    return Answer("OK")
