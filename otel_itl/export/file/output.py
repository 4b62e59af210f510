"""Queues the telemetry of the providers that it is attached to, and writes it to the telemetry file on a thread."""

# ruff: noqa: PLC0415 - without a file, none of the SDK is imported for it

from __future__ import annotations

import logging
from _thread import RLock
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from otel_itl.core.conventions import Where
from otel_itl.export.file.encoding import Document, encode_log_records, encode_spans, to_line
from otel_itl.export.file.telemetry_file import TelemetryFile
from otel_itl.export.identity_map import IdentityMap
from otel_itl.export.sdk_internals.metric_readers import add_metric_reader
from otel_itl.recording.batch_queue import BatchQueue
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors

if TYPE_CHECKING:
    from otel_itl.export.file.processors import FileMetricReader

logger = logging.getLogger("otel_itl")

WRITE_SECONDS: Final = 0.2
"""Seconds between two writes while there is something to write."""
COLLECT_SECONDS: Final = 60.0
"""Seconds between two collections of the metrics while spans are written; a last one is made when the process ends."""
MAX_WAITING: Final = 2_048
"""Spans, log events and collections that wait to be written; further ones are dropped and counted."""
MAX_WAIT_FOR_FILE: Final = 2.0
"""Seconds that the end of the process, or `uninstrument()`, waits for the file to be written."""
MAX_BATCH: Final = 64
"""Pieces of telemetry of one write: a long stream's span is half a megabyte."""


class FileOutput:
    """Writes the telemetry of the providers that it is attached to. Each process has one; it is idle until `start()`.

    A provider keeps its processors for good, so this object is attached once to each, and started and stopped.

    Args:
        errors: counts what could not be written.
        sections: the critical sections of the process.
    """

    def __init__(self, errors: InternalErrors, sections: CriticalSections) -> None:
        self._errors = errors
        self._file: TelemetryFile | None = None
        self._attached: IdentityMap[bool] = IdentityMap()
        """Provider → whether it let itself be attached."""
        self._readers: IdentityMap[FileMetricReader] = IdentityMap()
        self._collect_at = 0.0
        self._has_warned = False
        self._queue: BatchQueue[tuple[str, Any]] = BatchQueue(
            "file",
            errors,
            self._write,
            sections,
            where=Where.FILE_WRITE,
            interval=WRITE_SECONDS,
            max_waiting=MAX_WAITING,
            max_batch=MAX_BATCH,
        )

    def start(self, path: str | None) -> None:
        """Write to a file from now on; None: to none."""
        self._file = None if path is None else TelemetryFile(path)
        self._has_warned = False
        self._collect_at = monotonic() + COLLECT_SECONDS

    @property
    def path(self) -> str | None:
        """The file that is written to; None: there is none."""
        return None if self._file is None else self._file.path

    def attach(self, tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> None:
        """Have what these providers produce written; what one of them does not let be attached is logged.

        Does nothing where there is no file.
        """
        if self._file is None:
            return
        refused = []
        for signal, provider, attach in (
            ("spans", tracer_provider, self._attach_spans),
            ("metrics", meter_provider, self._attach_metrics),
            ("log events", logger_provider, self._attach_logs),
        ):
            if provider not in self._attached:
                is_attached = self._attached[provider] = attach(provider)
                refused += [] if is_attached else [signal]
        if refused:
            logger.warning(
                "otel_itl writes no %s to %s: the application's provider of them does not take another exporter.",
                " and no ".join(refused),
                self._file.path,
            )

    def detach(self, meter_provider: Any) -> None:
        """Write no more metrics of a provider."""
        reader = self._readers.pop(meter_provider)
        if reader is not None:
            reader.close()

    def flush(self, seconds: float) -> bool:
        """Write what waits, for at most `seconds`; returns whether that was enough."""
        return self._queue.flush(seconds)

    def finish(self, seconds: float) -> bool:
        """Collect the metrics and write what waits, for at most `seconds`; returns whether that was enough."""
        if self._file is None:
            return True
        self._collect()
        return self.flush(seconds)

    @property
    def in_round(self) -> RLock:
        """Held while the thread writes. A fork waits for it."""
        return self._queue.in_round

    def forget_after_fork(self) -> None:
        """Drop, in a forked child, what is the parent's to write. What is attached to providers stays."""
        self._queue.forget_after_fork()

    def _add(self, signal: str, item: Any) -> None:
        """Queue a piece of telemetry. Called by what is attached to the providers; returns at once."""
        if self._file is not None:
            self._queue.add((signal, item))

    def _attach_spans(self, provider: Any) -> bool:
        """Attach to a tracer provider; False where it takes no processor."""
        if not hasattr(provider, "add_span_processor"):
            return False
        from otel_itl.export.file.processors import FileSpanProcessor

        provider.add_span_processor(FileSpanProcessor(self._add, self.flush, self._errors))
        return True

    def _attach_logs(self, provider: Any) -> bool:
        """Attach to a logger provider; False where it takes no processor."""
        if not hasattr(provider, "add_log_record_processor"):
            return False
        from otel_itl.export.file.processors import FileLogProcessor

        provider.add_log_record_processor(FileLogProcessor(self._add, self.flush, self._errors))
        return True

    def _attach_metrics(self, provider: Any) -> bool:
        """Attach to a meter provider; False where it takes no reader."""
        from otel_itl.export.file.processors import FileMetricReader

        reader = FileMetricReader(self._add, self.flush)
        if not add_metric_reader(provider, reader):
            return False
        self._readers[provider] = reader
        return True

    def _collect(self) -> None:
        """Collect the metrics of every provider; they are written with the next batch."""
        self._collect_at = monotonic() + COLLECT_SECONDS
        for reader in self._readers.values():
            try:
                reader.collect()
            except Exception as error:  # noqa: BLE001 - the guard: a callback of the application may raise anything
                self._errors.report(Where.METRICS_OBSERVE, error)

    def _write(self, batch: Sequence[tuple[str, Any]]) -> None:
        """Encode and write a batch, one line for each signal; collect the metrics when due. Runs on the thread."""
        file = self._file
        if file is None:
            return
        by_signal: defaultdict[str, list[Any]] = defaultdict(list)
        for signal, item in batch:
            by_signal[signal].append(item)
        lines = b"".join(self._encode(signal, items) for signal, items in by_signal.items())
        try:
            if lines:
                file.append(lines)
        except OSError as error:
            self._errors.counts[Where.FILE_WRITE] += len(batch)
            self._warn_once(file.path, error)
        if monotonic() >= self._collect_at:
            self._collect()

    def _encode(self, signal: str, items: list[Any]) -> bytes:
        """Encode pieces of telemetry as one line; where one of them cannot be encoded, as a line each."""
        try:
            document = _encoder_of(signal)(items)
            return to_line(document) if document else b""
        except Exception as error:  # noqa: BLE001 - an attribute of the application may be of any type
            if len(items) > 1:
                return b"".join(self._encode(signal, [item]) for item in items)
            self._errors.report(Where.FILE_ENCODE, error)
            return b""

    def _warn_once(self, path: str, error: OSError) -> None:
        """Log why the file cannot be written, the first time since it was named."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "otel_itl cannot write to %s (%s): telemetry is missing from it until it can. Logged once.",
                path,
                error.strerror or error,
            )


def _encoder_of(signal: str) -> Callable[[list[Any]], Document]:
    """Return what encodes the telemetry of a signal."""
    if signal == "metrics":
        from otel_itl.export.file.metrics import encode_metrics

        return encode_metrics
    return encode_spans if signal == "traces" else encode_log_records
