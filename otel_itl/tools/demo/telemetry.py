"""Where the telemetry of the demo goes, and how its streams are read back from there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, cast

from opentelemetry.exporter.otlp.json.file import FileMetricExporter, FileSpanExporter
from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_itl
from otel_itl.core.stalls import Stall, StallPolicy
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams

DEFAULT_OUTPUT = "otel-itl-demo.jsonl"

OnStall = Callable[[Stall], object]

_OPTIONS: Final[Mapping[str, Any]] = {
    "stall": StallPolicy(next_token=0.5),  # a stall of 2 s would make the demo long
    "slo": {"agent-*": "agent", "*": "chat"},
}
_PROGRESS_SECONDS: Final = 0.2
_SHOWN_DELAY_MS: Final = 100
"""How long ended spans and log events wait for others in one batch, where a page shows them."""
_OWNER_ONLY = 0o600
_DESTINATION_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
)
"""Environment variables that decide where telemetry goes."""


class SharedFile:
    """A new file, readable by its owner only, that three exporters write lines to from three threads.

    Raises:
        FileExistsError: it exists; it is left as it is.
        OSError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _OWNER_ONLY)
        self._lock = threading.Lock()
        self.closed = False

    def write(self, text: str) -> int:
        """Write one line or several, without another thread's in between."""
        rest = memoryview(text.encode())
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` does not buffer."""

    def close(self) -> None:
        """Close the file, if it is open."""
        with self._lock:
            if not self.closed:
                self.closed = True
                os.close(self._descriptor)


class FileTelemetry:
    """Traces, metrics and logs go to one new file of OTLP JSON lines.

    Args:
        output: the file; None: `otel-itl-demo.jsonl` in the current directory, with a number where it exists.
        is_shown: the streams are shown on a page while they run: what happens is written at once.

    Raises:
        OSError: the file cannot be created; FileExistsError where `output` exists.
    """

    def __init__(self, output: str | None, *, is_shown: bool = False) -> None:
        path = Path(output or DEFAULT_OUTPUT)
        self._path, self._file = (path, SharedFile(path)) if output else _create_with_free_name(path)
        self._options = _options(is_shown=is_shown)
        delay = _SHOWN_DELAY_MS if is_shown else None
        resource = Resource.create({"service.name": "otel-itl-demo"})
        self._tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer_provider.add_span_processor(
            BatchSpanProcessor(FileSpanExporter(stream=_as_text(self._file)), schedule_delay_millis=delay)
        )
        reader = PeriodicExportingMetricReader(FileMetricExporter(stream=_as_text(self._file)))
        self._meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._logger_provider.add_log_record_processor(
            BatchLogRecordProcessor(FileLogExporter(stream=_as_text(self._file)), schedule_delay_millis=delay)
        )

    @property
    def path(self) -> Path:
        """The file that holds the streams."""
        return self._path

    def instrument(self, on_stall: OnStall | None) -> None:
        """Start measuring; `on_stall` is called for each stall while it lasts."""
        otel_itl.instrument(
            **self._options,
            on_stall=on_stall,
            tracer_provider=self._tracer_provider,
            meter_provider=self._meter_provider,
            logger_provider=self._logger_provider,
        )

    def finish(self, skipped: SkippedInput) -> Iterator[StoredStream]:
        """Stop measuring, and yield the streams as they are in the file."""
        otel_itl.uninstrument()
        for provider in (self._tracer_provider, self._meter_provider, self._logger_provider):
            provider.shutdown()
        self._file.close()
        if self._path.stat().st_size:
            yield from read_streams([str(self._path)], skipped)

    def discard(self) -> None:
        """Remove the file, unless something was written to it."""
        if self._path.exists() and not self._path.stat().st_size:
            self._path.unlink()

    def describe_location(self) -> list[str]:
        """Return lines that name the file and the command that reports on it."""
        return [
            f"telemetry: {self._path} (traces, metrics and logs as OTLP JSON lines)",
            f"the same report again: otel-itl report {quote(str(self._path))}",
        ]


class EnvironmentTelemetry:
    """Traces, metrics and logs go where the `OTEL_*` variables direct them.

    The telemetry file, a temporary one, has a copy for the report.

    Args:
        is_shown: the streams are shown on a page while they run.
    """

    def __init__(self, *, is_shown: bool = False) -> None:
        self._options = _options(is_shown=is_shown)
        self._resources = ExitStack()
        folder = self._resources.enter_context(TemporaryDirectory(prefix="otel-itl-demo-"))
        self._path = Path(folder, DEFAULT_OUTPUT)

    @property
    def path(self) -> Path:
        """The file that holds the copy of the streams; it may not be there yet."""
        return self._path

    def instrument(self, on_stall: OnStall | None) -> None:
        """Start measuring; the environment is read when the first stream opens."""
        otel_itl.instrument(**self._options, on_stall=on_stall, file=self._path)

    def finish(self, skipped: SkippedInput) -> Iterator[StoredStream]:
        """Stop measuring, and yield the streams of the copy. The exporters finish when the process ends."""
        otel_itl.uninstrument()
        with self._resources:
            if self._path.exists():
                yield from read_streams([str(self._path)], skipped)

    def discard(self) -> None:
        """Remove the temporary file."""
        self._resources.close()

    def describe_location(self) -> list[str]:
        """Return a line that names the variables; not their values, which may hold a secret."""
        return [f"telemetry: exported as configured by {', '.join(_set_variables())}"]


def open_telemetry(output: str | None, *, is_shown: bool = False) -> FileTelemetry | EnvironmentTelemetry:
    """Open the telemetry of one run.

    Args:
        output: a new file; None: the environment decides, else a new file with a default name.
        is_shown: the streams are shown on a page while they run.

    Raises:
        OSError: see `FileTelemetry`.
    """
    if output is None and _set_variables():
        return EnvironmentTelemetry(is_shown=is_shown)
    return FileTelemetry(output, is_shown=is_shown)


def _options(*, is_shown: bool) -> dict[str, Any]:
    """Return the options of the measurement; where the streams are shown, with progress events."""
    return {**_OPTIONS, "progress": _PROGRESS_SECONDS} if is_shown else dict(_OPTIONS)


def _as_text(file: SharedFile) -> IO[str]:
    """Return the file in the type of the exporters' annotations: they call `write`, `flush` and `closed` only."""
    return cast("IO[str]", file)


def _set_variables() -> list[str]:
    return [variable for variable in _DESTINATION_VARIABLES if os.environ.get(variable, "").strip()]


def _create_with_free_name(path: Path) -> tuple[Path, SharedFile]:
    """Create a file with this name, or with the first number after it that is free."""
    number, candidate = 1, path
    while True:
        try:
            return candidate, SharedFile(candidate)
        except FileExistsError:
            number += 1
            candidate = path.with_stem(f"{path.stem}-{number}")
