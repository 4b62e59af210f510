"""What hands the spans, the log events and the metrics of a provider to the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from opentelemetry.context import Context  # noqa: TC002 - part of what is public
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from otel_itl.core.conventions import SCOPE, Where
from otel_itl.recording.internal_errors import InternalErrors, never_raises

FLUSH_MILLISECONDS: Final = 30_000
SHUTDOWN_SECONDS: Final = 2.0
"""How long the shutdown of a provider waits for the file to be written: the process is about to end."""

Add = Callable[[str, Any], None]
"""Adds a piece of telemetry of a signal (`traces`, `metrics`, `logs`) to what is to be written. Returns at once."""
Flush = Callable[[float], bool]
"""Writes what waits, for at most this number of seconds; returns whether that was enough."""


class _FileProcessor:
    """What the processors of spans and of log records have in common."""

    def __init__(self, add: Add, flush: Flush, errors: InternalErrors) -> None:
        self._add, self._flush, self.errors = add, flush, errors

    def shutdown(self) -> None:
        """Write what waits."""
        self._flush(SHUTDOWN_SECONDS)

    def force_flush(self, timeout_millis: int = FLUSH_MILLISECONDS) -> bool:
        """Write what waits; False where that takes longer."""
        return self._flush(timeout_millis / 1_000)


class FileSpanProcessor(_FileProcessor, SpanProcessor):
    """Hands over every sampled span that ends."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing: a span is written when it ends."""

    @never_raises(Where.FILE_WRITE, None)
    def on_end(self, span: ReadableSpan) -> None:
        """Have a span written."""
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled:
            self._add("traces", span)


class FileLogProcessor(_FileProcessor, LogRecordProcessor):
    """Hands over our log events. The log records of others may hold prompts, and are left out."""

    @never_raises(Where.FILE_WRITE, None)
    def on_emit(self, log_record: Any) -> None:
        """Have a log event written, if it is ours."""
        scope = log_record.instrumentation_scope
        if scope is not None and scope.name == SCOPE:
            self._add("logs", log_record)


class FileMetricReader(MetricReader):
    """Hands over all the metrics of a provider when they are collected. It has no thread: the file collects."""

    def __init__(self, add: Add, flush: Flush) -> None:
        super().__init__()
        self._add = add
        self._flush = flush
        self._is_closed = False

    def close(self) -> None:
        """Hand over nothing more: a provider that was shut down, or is another process's, may be collected still."""
        self._is_closed = True

    def _receive_metrics(self, metrics_data: MetricsData, *_: Any, **__: Any) -> None:
        if not self._is_closed:
            self._add("metrics", metrics_data)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Collect, and write what waits; False where that takes longer."""
        self.collect(timeout_millis=timeout_millis)
        return self._flush(timeout_millis / 1_000)

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Collect a last time, and write what waits."""
        self.force_flush(SHUTDOWN_SECONDS * 1_000)
        self.close()
