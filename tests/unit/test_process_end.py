"""Which signals are handled: those that would end the process at once, and no other."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no types
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from otel_itl.process.end import SIGNALS, DefaultHandler, ProcessEnd
from otel_itl.process.flushing import Flusher
from otel_itl.recording.internal_errors import InternalErrors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no signals that ask a process to end")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The dispositions of before, after the test; SIGTERM and SIGHUP begin with the default one."""
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    yield
    for signum, disposition in before.items():
        signal.signal(signum, disposition)


@pytest.fixture
def process_end() -> ProcessEnd:
    """One of a process without streams."""
    return ProcessEnd(Flusher(_nothing, _nothing, list), _nothing, InternalErrors())


def _nothing() -> None:
    """Do nothing."""


def own_handler(*_: Any) -> None:
    """A handler of the application."""


def is_handled(signum: int) -> bool:
    """Whether it is ours that handles a signal."""
    return isinstance(_signal.getsignal(signum), DefaultHandler)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_with_the_default_disposition_is_handled(process_end: ProcessEnd, signum: int) -> None:
    process_end.watch_signals()
    assert is_handled(signum)


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, own_handler])
def test_a_signal_that_the_application_ignores_or_handles_is_left_to_it(
    process_end: ProcessEnd, disposition: Any
) -> None:
    signal.signal(signal.SIGTERM, disposition)
    process_end.watch_signals()
    assert signal.getsignal(signal.SIGTERM) == disposition


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not report handlers of C code")
def test_a_signal_that_c_code_handles_is_left_to_it(process_end: ProcessEnd) -> None:
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGTERM, ctypes.cast(libc.abs, ctypes.c_void_p))
    process_end.watch_signals()
    assert (signal.getsignal(signal.SIGTERM), is_handled(signal.SIGHUP)) == (signal.SIG_DFL, True)


def test_the_application_finds_the_default_disposition_where_ours_handles_a_signal(process_end: ProcessEnd) -> None:
    process_end.watch_signals()
    found = signal.getsignal(signal.SIGTERM)
    replaced = signal.signal(signal.SIGTERM, own_handler)
    assert (found is signal.SIG_DFL, replaced is signal.SIG_DFL) == (True, True)


def test_an_application_that_restores_what_it_found_has_the_default_disposition(process_end: ProcessEnd) -> None:
    process_end.watch_signals()
    signal.signal(signal.SIGTERM, signal.signal(signal.SIGTERM, own_handler))
    assert (is_handled(signal.SIGTERM), process_end.must_watch) == (False, True)
    process_end.watch_signals()
    assert (is_handled(signal.SIGTERM), process_end.must_watch) == (True, False)


def test_a_server_that_takes_sigterm_after_the_first_stream_is_watched_with_the_next(process_end: ProcessEnd) -> None:
    process_end.watch_signals()
    server = uvicorn_server([signal.SIGTERM])
    assert process_end.must_watch
    process_end.watch_signals()
    assert (type(server._captured_signals) is list, process_end.must_watch) == (False, False)


def test_ctrl_c_is_left_to_python(process_end: ProcessEnd) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process_end.watch_signals()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_the_end_of_the_instrumentation_restores_the_default(process_end: ProcessEnd) -> None:
    process_end.watch_signals()
    process_end.leave_signals()
    assert [is_handled(signum) for signum in SIGNALS] == [False] * len(SIGNALS)
    assert (signal.getsignal(signal.SIGTERM), process_end.errors.counts) == (signal.SIG_DFL, {})


def test_the_end_of_the_instrumentation_leaves_a_handler_that_replaced_ours(process_end: ProcessEnd) -> None:
    process_end.watch_signals()
    signal.signal(signal.SIGTERM, own_handler)
    process_end.leave_signals()
    assert signal.getsignal(signal.SIGTERM) == own_handler


def test_another_thread_leaves_the_signals_to_the_main_one(process_end: ProcessEnd) -> None:
    thread = threading.Thread(target=process_end.watch_signals)
    thread.start()
    thread.join()
    assert (is_handled(signal.SIGTERM), process_end.must_watch) == (False, True)
    process_end.watch_signals()
    assert (is_handled(signal.SIGTERM), process_end.must_watch, process_end.errors.counts) == (True, False, {})


def uvicorn_server(captured: list[int]) -> Any:
    """A server that handles SIGTERM as uvicorn does."""
    server = type("Server", (), {"__module__": "uvicorn.server", "handle_exit": own_handler})()
    server._captured_signals = captured
    signal.signal(signal.SIGTERM, server.handle_exit)
    return server


@pytest.mark.parametrize(
    ("restored_to", "expected"),
    [pytest.param(signal.SIG_DFL, ["ended"], id="default"), pytest.param(own_handler, [], id="the application's own")],
)
def test_uvicorn_ends_the_process_only_where_it_restores_the_default(restored_to: Any, expected: list[str]) -> None:
    ended: list[str] = []
    server = uvicorn_server([signal.SIGTERM])
    flusher = Flusher(lambda: ended.append("ended"), _nothing, lambda: [bool])
    ProcessEnd(flusher, _nothing, InternalErrors()).watch_signals()
    signal.signal(signal.SIGTERM, restored_to)
    assert (list(reversed(server._captured_signals)), ended) == ([signal.SIGTERM], expected)


def test_a_server_that_has_changed_inside_is_left_alone(process_end: ProcessEnd) -> None:
    captured = (signal.SIGTERM,)
    server = uvicorn_server(captured)  # type: ignore[arg-type]
    process_end.watch_signals()
    assert (server._captured_signals is captured, process_end.errors.counts) == (True, {})


def test_a_library_that_has_changed_is_a_failure_that_is_counted(
    process_end: ProcessEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "celery.signals", ModuleType("celery.signals"))
    process_end.register()
    assert (process_end.errors.counts, is_handled(signal.SIGTERM)) == ({"process.end": 1}, True)
