"""Where the telemetry of the demonstration goes, and how its streams are read back from there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

from opentelemetry import _logs, trace
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
from otel_itl.report.reading.skipped_input import SkippedInput
from otel_itl.report.reading.streams import Stream, read_streams

DEFAULT_OUTPUT = "otel-itl-demo.jsonl"

OnStall = Callable[[Stall], object]

_OPTIONS: Mapping[str, Any] = {
    "stall": StallPolicy(next_token=0.5),  # nobody waits for long in a demonstration
    "slo": {"agent-*": "agent", "*": "chat"},
}
_OWNER_ONLY = 0o600
_DIRECTING = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
)
"""Variables that say where telemetry goes."""


class OneFile:
    """A new file, for its owner's eyes, that three exporters may write lines to, from three threads.

    Raises:
        FileExistsError: it exists; it is left as it is.
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _OWNER_ONLY)
        self._writing = threading.Lock()
        self.closed = False

    def write(self, text: str) -> int:
        """Write a whole line, or several."""
        rest = memoryview(text.encode())
        with self._writing:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        return len(text)

    def flush(self) -> None:
        """Nothing: what was written is written."""

    def close(self) -> None:
        """Close the file; closing it twice is closing it once."""
        with self._writing:
            if not self.closed:
                self.closed = True
                os.close(self._descriptor)


class ToFile:
    """Traces, metrics and logs go to one new file of OTLP JSON lines.

    Args:
        output: the file; by default `otel-itl-demo.jsonl` in the current directory, with a number where it exists.

    Raises:
        OSError: the file cannot be made; a FileExistsError where an `output` exists.
    """

    def __init__(self, output: str | None) -> None:
        self._path, self._file = _made(Path(output)) if output else _made_beside(Path(DEFAULT_OUTPUT))
        resource = Resource.create({"service.name": "otel-itl-demo"})
        self._tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer_provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(stream=_text(self._file))))
        reader = PeriodicExportingMetricReader(FileMetricExporter(stream=_text(self._file)))
        self._meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._logger_provider.add_log_record_processor(
            BatchLogRecordProcessor(FileLogExporter(stream=_text(self._file)))
        )

    def instrument(self, on_stall: OnStall | None) -> None:
        """Measure from here on."""
        otel_itl.instrument(
            **_OPTIONS,
            on_stall=on_stall,
            tracer_provider=self._tracer_provider,
            meter_provider=self._meter_provider,
            logger_provider=self._logger_provider,
        )

    def opened(self) -> None:
        """Nothing: the exporters are in place already."""

    def streams(self, losses: SkippedInput) -> Iterator[Stream]:
        """Measure no more, and read the streams back from the file."""
        otel_itl.uninstrument()
        for provider in (self._tracer_provider, self._meter_provider, self._logger_provider):
            provider.shutdown()
        self._file.close()
        if self._path.stat().st_size:
            yield from read_streams([str(self._path)], losses)
        else:
            self._path.unlink()

    def whereabouts(self) -> list[str]:
        """Where the telemetry is, in words."""
        return [
            f"telemetry: {self._path} (traces, metrics and logs as OTLP JSON lines)",
            f"the same report again: otel-itl report {quote(str(self._path))}",
        ]


class AsEnvironmentSays:
    """Traces, metrics and logs go where the `OTEL_*` variables say, by way of the global providers.

    A copy of spans and logs is kept in a temporary file for the report.
    """

    def __init__(self) -> None:
        self._resources = ExitStack()
        folder = self._resources.enter_context(TemporaryDirectory(prefix="otel-itl-demo-"))
        self._path = Path(folder, DEFAULT_OUTPUT)
        self._file = OneFile(self._path)
        self._resources.callback(self._file.close)
        self._once = threading.Lock()
        self._copies: list[Any] = []

    def instrument(self, on_stall: OnStall | None) -> None:
        """Measure from here on; the providers are set up from the environment when the first stream opens."""
        otel_itl.instrument(**_OPTIONS, on_stall=on_stall)

    def opened(self) -> None:
        """Have copies made from now on: the providers are there, and no stream has ended yet."""
        with self._once:
            if self._copies:
                return
            spans, logs = (
                BatchSpanProcessor(FileSpanExporter(stream=_text(self._file))),
                FileLogExporter(stream=_text(self._file)),
            )
            self._copies = [spans, BatchLogRecordProcessor(logs)]
            tracer_provider, logger_provider = trace.get_tracer_provider(), _logs.get_logger_provider()
            if isinstance(tracer_provider, TracerProvider):
                tracer_provider.add_span_processor(spans)
            if isinstance(logger_provider, LoggerProvider):
                logger_provider.add_log_record_processor(self._copies[1])

    def streams(self, losses: SkippedInput) -> Iterator[Stream]:
        """Measure no more, and read the streams back from the copy. The exporters finish when the process ends."""
        otel_itl.uninstrument()
        for copy in self._copies:
            copy.force_flush()
        with self._resources:
            if self._path.stat().st_size:
                yield from read_streams([str(self._path)], losses)

    def whereabouts(self) -> list[str]:
        """Where the telemetry is, in words; no value, which may hold a secret."""
        return [f"telemetry: where {', '.join(_set())} said"]


def telemetry(output: str | None) -> ToFile | AsEnvironmentSays:
    """The telemetry of one run: to a file if one is named or the environment says nothing, else as that says.

    Raises:
        OSError: see `ToFile`.
    """
    return AsEnvironmentSays() if output is None and _set() else ToFile(output)


def _text(file: OneFile) -> IO[str]:
    """The file as the exporters' annotations want it: they write, flush and ask whether it is closed."""
    return cast("IO[str]", file)


def _set() -> list[str]:
    return [variable for variable in _DIRECTING if os.environ.get(variable, "").strip()]


def _made(path: Path) -> tuple[Path, OneFile]:
    return path, OneFile(path)


def _made_beside(path: Path) -> tuple[Path, OneFile]:
    number, candidate = 1, path
    while True:
        try:
            return _made(candidate)
        except FileExistsError:
            number += 1
            candidate = path.with_stem(f"{path.stem}-{number}")
