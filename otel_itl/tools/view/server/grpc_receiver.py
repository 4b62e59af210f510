"""The OTLP receiver over gRPC, where grpcio is installed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from otel_itl.tools.view.server.assembler import Assembler
from otel_itl.tools.view.server.protobuf import make_response, read_protobuf
from otel_itl.tools.view.server.safety import MAX_BODY_BYTES, Guard

_THREADS: Final = 4
_SERVICES: Final = {
    "traces": "trace.v1.TraceService",
    "logs": "logs.v1.LogsService",
    "metrics": "metrics.v1.MetricsService",
}


class GrpcReceiver:
    """Receives traces, logs and metrics.

    Args:
        address: host and port to listen on.
        assembler: takes what is received.
        guard: knows the token that is needed beyond loopback.
    """

    def __init__(self, address: str, assembler: Assembler, guard: Guard) -> None:
        self._assembler = assembler
        self._guard = guard
        options = [("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "otel_itl grpc"), options=options)
        for signal, name in _SERVICES.items():
            methods = {"Export": grpc.unary_unary_rpc_method_handler(self._make_export(signal))}
            service = grpc.method_handlers_generic_handler(f"opentelemetry.proto.collector.{name}", methods)
            self._server.add_generic_rpc_handlers((service,))
        self.port: int = self._server.add_insecure_port(address)
        self._server.start()

    def stop(self) -> None:
        """Stop receiving; returns at once."""
        self._server.stop(grace=None)

    def _make_export(self, signal: str) -> Callable[[bytes, Any], bytes]:
        """Return the one method of the service of a signal."""

        def export(body: bytes, context: Any) -> bytes:
            """Take in one request, and return the response."""
            given = next((value for key, value in context.invocation_metadata() if key == "authorization"), "")
            if not self._guard.has_token(given if isinstance(given, str) else ""):
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing: authorization=Bearer TOKEN.")
            refused = self._assembler.add(read_protobuf(signal, body))
            return bytes(make_response(signal, refused).SerializeToString())

        return export
