"""Inspects a program from inside, for `otel-itl doctor`: once its first stream has ended, and at its exit."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from opentelemetry import _logs, metrics, trace

from otel_itl.core import conventions
from otel_itl.export.exporters import SIGNALS
from otel_itl.export.providers import Chosen, is_unset
from otel_itl.export.sdk_internals.outlets import can_find_outlets, count_waiting_spans
from otel_itl.launched import write_note
from otel_itl.recording.internal_errors import locate
from otel_itl.runtime import runtime
from otel_itl.sdks.registry import REGISTRY, SDK_NAMES
from otel_itl.tools.doctor.checks import describe_findings
from otel_itl.tools.doctor.collect import collect_facts
from otel_itl.tools.doctor.endings import StreamEndings
from otel_itl.tools.doctor.scripted_stream import send_scripted_stream

SERVER_VARIABLE: Final = "_OTEL_ITL_SCRIPTED_SERVER"
"""Environment variable: the URL of the scripted server, which runs in the doctor's own process."""
INTERVAL: Final = 0.02
"""Seconds between two looks at the program's streams."""


class Inspector:
    """Writes the findings on this process: when its first stream has ended, or at its exit.

    They are written again at exit, and count instead, where the program has set a provider since its first stream.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._endings = StreamEndings()
        self._forget()

    def _forget(self) -> None:
        """Begin anew: nothing is written for this process."""
        self._is_written = self._is_ended = False
        self._first_choice: Chosen | None = None
        self._lock = threading.RLock()
        self._endings.forget()

    def start(self) -> None:
        """Start the thread that watches for the first stream, also in processes that are forked later."""
        can_find_outlets()  # imports the OpenTelemetry SDK, which fails at the exit of the interpreter
        self._stay_first_at_exit()
        self._endings.watch()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_in_child)
        os_exit = os._exit
        os._exit = partial(self._end_without_cleanup, os_exit)
        self._start_thread()

    def _stay_first_at_exit(self) -> None:
        """Have `end` called first at exit: before providers shut down, and before open streams are abandoned.

        What is registered last is called first; so it is registered again with whatever else is.
        """
        register = atexit.register

        def register_both(function: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., Any]:
            register(function, *args, **options)
            register(self.end)
            return function

        atexit.register = register_both  # type: ignore[assignment]  # of any function
        register(self.end)

    def write(self) -> None:
        """Collect the facts, check them, and write the findings for the doctor; nothing where that was done."""
        with self._lock:  # at exit, wait for the thread that is writing them
            if not self._is_written:
                self._is_written = True
                self._first_choice = runtime.connection.chosen
                self._note_endings()
                self._collect_and_write()

    def end(self) -> None:
        """Write what is only known at the exit: how the streams have ended, and providers that came late."""
        with self._lock:
            self.write()
            if self._is_ended:
                return
            self._is_ended = True
            self._note_endings()
            late = self._find_late_signals()
            if late:
                self._collect_and_write(late)

    def _note_endings(self) -> None:
        """Write how the streams of this process have ended so far."""
        if self._endings.total:
            write_note({"pid": os.getpid(), "ended": self._endings.total, "failed": dict(self._endings.failed)})

    def _find_late_signals(self) -> list[str]:
        """Return the signals whose provider the program has set since its first stream."""
        globally = (trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider())
        return [
            name
            for name, first, given, now in zip(
                SIGNALS, self._first_choice or (), runtime.providers, globally, strict=False
            )
            if given is None and first is not now and not is_unset(now)
        ]

    def _collect_and_write(self, late_signals: Sequence[str] = ()) -> None:
        """Send the scripted stream if the program made one, and write the findings, or why there are none."""
        try:
            streams = runtime.open_streams.newest_key + 1
            sdks = [sdk for sdk in SDK_NAMES if sdk in runtime.installer.installed and _is_imported(sdk)]
            url = os.environ.get(SERVER_VARIABLE, "")
            # A program that made no stream may be at its exit, where the OpenTelemetry SDK can no more be set up.
            stream = send_scripted_stream(url, sdks) if url and streams and not late_signals else None
            is_forked = os.getpid() != self._pid
            facts = collect_facts(stream, streams, is_forked=is_forked, late_signals=late_signals)
            write_note({"pid": os.getpid(), **describe_findings(facts)})
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever the doctor comes upon
            write_note({"pid": os.getpid(), "inspection_error": f"{type(error).__name__} at {locate(error)}"})

    def _end_without_cleanup(self, os_exit: Callable[[int], NoReturn], status: int) -> NoReturn:
        """Write the findings where the program calls `os._exit()`, and how many of its spans that loses."""
        try:
            if runtime.open_streams.newest_key >= 0:
                lost = [each for each in runtime.open_streams.recorders() if not each.request.is_test]
                runtime.finalizer.finalize_pending()
                chosen = runtime.connection.chosen
                waiting = 0 if chosen is None else count_waiting_spans(chosen.tracer_provider, conventions.TEST)
                if lost or waiting:
                    write_note({"pid": os.getpid(), "lost": len(lost) + waiting})
            self.end()
        finally:
            os_exit(status)

    def _start_in_child(self) -> None:
        self._forget()
        self._start_thread()

    def _start_thread(self) -> None:
        """Start the watching thread, which takes no signal: a command of ours waits for those in its main thread."""
        every = signal.valid_signals() if hasattr(signal, "pthread_sigmask") else ()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, every) if every else None
        try:
            threading.Thread(target=self._watch, name="otel_itl doctor", daemon=True).start()
        finally:
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _watch(self) -> None:
        """Write the findings when the first stream has ended."""
        wait = threading.Event()
        while runtime.open_streams.newest_key < 0 or len(runtime.open_streams) > 0:
            wait.wait(INTERVAL)
        self.write()


def start() -> None:
    """Inspect this process, unless it is a command of ours: called by `otel_itl.launched`, before the program."""
    if not any(Path(word).stem in {"otel-itl", "otel_itl"} for word in sys.orig_argv[1:3]):
        Inspector().start()


def _is_imported(sdk: str) -> bool:
    return REGISTRY[sdk].package in sys.modules
