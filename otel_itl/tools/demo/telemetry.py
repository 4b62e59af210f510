"""Where the telemetry of the demo goes, and how its streams are read back from there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import otel_itl
from otel_itl.core.stalls import Stall, StallPolicy
from otel_itl.tools.command_error import CommandError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams

DEFAULT_OUTPUT = "otel-itl-demo.jsonl"
_PROGRESS_SECONDS = 0.2
_OWNER_ONLY = 0o600
_DESTINATION_VARIABLES = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    *("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"),
    *("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"),
)
"""Environment variables that decide where telemetry goes."""


class Telemetry:
    """Traces, metrics and logs go to one new file of OTLP JSON lines, which the report reads.

    Where `output` is None and an `OTEL_*` variable directs telemetry elsewhere, it goes there, and the file is a
    temporary copy for the report.

    Args:
        output: the file; None: see above, else `otel-itl-demo.jsonl` in the current directory, with a number where it
            exists.
        is_shown: the streams are shown on a page while they run.

    Raises:
        CommandError: `output` exists, or the file cannot be created.
    """

    def __init__(self, output: str | None, *, is_shown: bool = False) -> None:
        self._is_shown = is_shown
        self._clean_up = ExitStack()
        self._variables = [name for name in _DESTINATION_VARIABLES if os.environ.get(name, "").strip()]
        self._is_copy = output is None and bool(self._variables)
        try:
            if self._is_copy:
                folder = self._clean_up.enter_context(TemporaryDirectory(prefix="otel-itl-demo-"))
                self.path = Path(folder, DEFAULT_OUTPUT)
            else:
                self.path = _create(Path(output)) if output else _create_with_free_name(Path(DEFAULT_OUTPUT))
        except FileExistsError as error:
            raise CommandError(f"{output} exists and is left as it is: give --output a new name.") from error
        except OSError as error:
            where = output or "the current directory"
            raise CommandError(f"{where} cannot be written to ({error.strerror}): give --output a place.") from error

    def instrument(self, on_stall: Callable[[Stall], object] | None) -> None:
        """Start measuring; `on_stall` is called for each stall while it lasts."""
        options: dict[str, Any] = {"progress": _PROGRESS_SECONDS} if self._is_shown else {}
        if not self._is_copy:  # providers without an exporter: the file alone gets what they produce
            resource = Resource.create({"service.name": "otel-itl-demo"})
            options["tracer_provider"] = TracerProvider(resource=resource, shutdown_on_exit=False)
            options["meter_provider"] = MeterProvider(resource=resource, shutdown_on_exit=False)
            options["logger_provider"] = LoggerProvider(resource=resource, shutdown_on_exit=False)
        otel_itl.instrument(
            stall=StallPolicy(next_token=0.5),  # a stall of 2 s would make the demo long
            slo={"agent-*": "agent", "*": "chat"},
            on_stall=on_stall,
            file=self.path,
            **options,
        )

    def finish(self, skipped: SkippedInput) -> Iterator[StoredStream]:
        """Stop measuring, and yield the streams as they are in the file. Exporters finish when the process ends."""
        otel_itl.uninstrument()
        with self._clean_up:
            if self.path.exists() and self.path.stat().st_size:
                yield from read_streams([str(self.path)], skipped)

    def close(self) -> None:
        """Remove the file, if nothing was written to it or it is a copy."""
        self._clean_up.close()
        if self.path.exists() and not self.path.stat().st_size:
            self.path.unlink()

    def describe_location(self) -> list[str]:
        """Return lines that name the file and the command that reports on it; or the variables, without their values.

        Those may hold a secret.
        """
        if self._is_copy:
            return [f"telemetry: exported as configured by {', '.join(self._variables)}"]
        return [
            f"telemetry: {self.path} (traces, metrics and logs as OTLP JSON lines)",
            f"the same report again: otel-itl report {quote(str(self.path))}",
        ]


def _create(path: Path) -> Path:
    """Create a file, readable by its owner only; FileExistsError where it exists."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))
    return path


def _create_with_free_name(path: Path) -> Path:
    """Create a file with this name, or with the first number after it that is free."""
    number, candidate = 1, path
    while True:
        try:
            return _create(candidate)
        except FileExistsError:
            number += 1
            candidate = path.with_stem(f"{path.stem}-{number}")
