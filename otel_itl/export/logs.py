"""Log events: what happens to a stream that is worth a line, correlated with its span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context  # noqa: TC002 - part of what is public

from otel_itl import conventions as names
from otel_itl.core.request import Request
from otel_itl.core.stalls import Stall
from otel_itl.core.timeline import SECOND
from otel_itl.export import attributes
from otel_itl.export.metrics import StreamMetrics


class EventLog:
    """Emits the log events of one stream.

    Args:
        logger: emits them.
        context: holds the stream's span.
        request: what the stream was asked for.
        unix_ns: when, in nanoseconds since the epoch.
    """

    def __init__(self, logger: Logger, context: Context, request: Request, unix_ns: int) -> None:
        self._logger = logger
        self._context = context
        self._request = request
        self._unix_ns = unix_ns

    def emit(
        self,
        name: str,
        unix_ns: int,
        said: Mapping[str, Any],
        severity: SeverityNumber = SeverityNumber.INFO,
    ) -> None:
        """Emit an event as it is."""
        self._logger.emit(
            LogRecord(
                timestamp=unix_ns,
                context=self._context,
                severity_number=severity,
                severity_text=severity.name,
                attributes=said,
                event_name=name,
            )
        )

    def tell(self, name: str, after: int, said: Mapping[str, Any], severity: SeverityNumber) -> None:
        """Emit an event of so many nanoseconds after the request, with the names of what was asked of whom."""
        self.emit(name, self._unix_ns + after, {**attributes.of_request(self._request), **said}, severity)


class StallReports:
    """Tells the log and the metrics of one stream's stalls, as they happen."""

    def __init__(self, log: EventLog, stream_metrics: StreamMetrics) -> None:
        self._log = log
        self._metrics = stream_metrics

    def stall_started(self, stall: Stall) -> None:
        """Count it, and say so."""
        self._metrics.stalled(stall)
        self._tell(names.STALL_STARTED_EVENT, stall, SeverityNumber.WARN)

    def stall_ended(self, stall: Stall) -> None:
        """Say how long it was."""
        self._metrics.stall_over(stall)
        self._tell(names.STALL_ENDED_EVENT, stall, SeverityNumber.INFO)

    def _tell(self, name: str, stall: Stall, severity: SeverityNumber) -> None:
        if stall.number <= names.STALLS_TOLD:
            moment = round((stall.start + stall.duration) * SECOND)
            self._log.tell(name, moment, attributes.of_stall(stall), severity)
