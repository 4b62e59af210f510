"""Inspects a program from inside, for `otel-itl doctor`: once its first stream has ended, or at its exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from operator import is_not
from typing import Any, Final

from opentelemetry import _logs, metrics, trace

from otel_itl.export.sdk_internals.outlets import can_find_outlets
from otel_itl.launched import write_note
from otel_itl.recording.internal_errors import locate
from otel_itl.runtime import runtime
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES
from otel_itl.tools.doctor.checks import describe_findings
from otel_itl.tools.doctor.collect import collect_facts
from otel_itl.tools.doctor.scripted_stream import send_scripted_stream

SERVER_VARIABLE: Final = "_OTEL_ITL_SCRIPTED_SERVER"
"""Environment variable: the URL of the scripted server, which runs in the doctor's own process."""
INTERVAL: Final = 0.02
"""Seconds between two looks at the program's streams."""


class Inspector:
    """Writes the findings on this process once: when its first stream has ended, or at its exit."""

    def __init__(self) -> None:
        self._is_written = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread that watches for the first stream, also in processes that are forked later."""
        can_find_outlets()  # imports the OpenTelemetry SDK, which fails at the exit of the interpreter
        atexit.register(self.write)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_in_child)
        self._start_thread()

    def write(self) -> None:
        """Collect the facts, check them, and write the findings for the doctor; nothing where that was done."""
        with self._lock:  # at exit, wait for the thread that is writing them
            if not self._is_written:
                self._is_written = True
                self._collect_and_write()

    def _collect_and_write(self) -> None:
        """Send the scripted stream if the program made one, and write the findings, or why there are none."""
        try:
            streams = runtime.open_streams.newest_key + 1
            sdks = [sdk for sdk in SDK_NAMES if sdk in runtime.installer.installed and _is_imported(sdk)]
            url = os.environ.get(SERVER_VARIABLE, "")
            # A program that made no stream may be at its exit, where the OpenTelemetry SDK can no more be set up.
            stream = send_scripted_stream(url, sdks) if url and streams else None
            write_note({"pid": os.getpid(), **describe_findings(collect_facts(stream, streams))})
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever the doctor comes upon
            write_note({"pid": os.getpid(), "inspection_error": f"{type(error).__name__} at {locate(error)}"})

    def _start_in_child(self) -> None:
        self._lock = threading.Lock()
        self._is_written = False
        self._start_thread()

    def _start_thread(self) -> None:
        threading.Thread(target=self._watch, name="otel_itl doctor", daemon=True).start()

    def _watch(self) -> None:
        """Wait for the end of the first stream.

        What is registered last runs first at exit: so the findings are written before providers that were set in
        between shut down, and before the streams that are open are abandoned.
        """
        known: list[Any] = []
        wait = threading.Event()
        while not (runtime.open_streams.newest_key >= 0 and len(runtime.open_streams) == 0):
            found = _objects_that_end_at_exit()
            if len(found) != len(known) or any(map(is_not, found, known)):
                atexit.register(self.write)  # once more: the first call writes, and none is taken back while exit runs
            known = found
            wait.wait(INTERVAL)
        atexit.register(self.write)
        self.write()


def start() -> None:
    """Inspect this process: called by `otel_itl.launched`, before the program starts."""
    Inspector().start()


def _objects_that_end_at_exit() -> list[Any]:
    """Return what registers functions for the exit when it is made: the providers, and those that the runtime chose."""
    providers = [trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider()]
    return [*providers, runtime.connection.chosen]


def _is_imported(sdk: str) -> bool:
    return REGISTRY[sdk].package in sys.modules
