"""The OTLP receiver over gRPC, where grpcio is installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.protobuf import to_document
from otel_itl.tools.view.server.safety import MAX_BODY_BYTES, Guard

_THREADS: Final = 4


class GrpcReceiver:
    """Receives traces, logs and metrics.

    Args:
        address: host and port to listen on.
        assembler: takes what is received.
        guard: knows the token that is needed beyond loopback.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(self, address: str, assembler: Assembler, guard: Guard) -> None:
        options = [("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "otel_itl grpc"), options=options)
        trace = _Service(assembler, guard, trace_service_pb2.ExportTraceServiceResponse)
        logs = _Service(assembler, guard, logs_service_pb2.ExportLogsServiceResponse)
        metrics = _Service(assembler, guard, metrics_service_pb2.ExportMetricsServiceResponse)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(trace, self._server)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(logs, self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, self._server)
        try:
            self.port: int = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"{address} cannot be listened on") from error
        if not self.port:
            raise OSError(f"{address} cannot be listened on")
        self._server.start()

    def stop(self) -> None:
        """Stop receiving; returns at once."""
        self._server.stop(grace=None)


class _Service:
    """The one method of each of OTLP's three services."""

    def __init__(self, assembler: Assembler, guard: Guard, response: Any) -> None:
        self._assembler = assembler
        self._guard = guard
        self._response = response

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the protocol
        """Take in one request."""
        given = next((value for key, value in context.invocation_metadata() if key == "authorization"), "")
        if not self._guard.check_metadata(given if isinstance(given, str) else ""):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing: authorization=Bearer TOKEN.")
        self._assembler.add(to_document(request))
        return self._response()
