"""Log events about a stream, correlated with its span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context  # noqa: TC002 - annotations stay resolvable

from otel_itl.core.request import Request
from otel_itl.export import attributes


class EventLog:
    """Emits the log events of one stream.

    Args:
        logger: emits them.
        context: holds the stream's span.
        request: the stream's request.
        request_unix_ns: when the request was made, in nanoseconds since the epoch.
    """

    def __init__(self, logger: Logger, context: Context, request: Request, request_unix_ns: int) -> None:
        self._logger = logger
        self._context = context
        self._request = request
        self._request_unix_ns = request_unix_ns

    def emit(
        self,
        name: str,
        unix_ns: int,
        event_attributes: Mapping[str, Any],
        severity: SeverityNumber = SeverityNumber.INFO,
    ) -> None:
        """Emit an event with exactly these attributes; `unix_ns` is its time in nanoseconds since the epoch."""
        self._logger.emit(
            LogRecord(
                timestamp=unix_ns,
                context=self._context,
                severity_number=severity,
                severity_text=severity.name,
                attributes=event_attributes,
                event_name=name,
            )
        )

    def emit_about_request(
        self, name: str, offset_ns: int, event_attributes: Mapping[str, Any], severity: SeverityNumber
    ) -> None:
        """Emit an event that also has the attributes of the request; `offset_ns` is its time after the request."""
        identified = {**attributes.of_request(self._request), **event_attributes}
        self.emit(name, self._request_unix_ns + offset_ns, identified, severity)
