"""The thread behind the watchdog and the finalizer: started when there is work, and again if it has ended."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any

import pytest

from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.periodic_thread import PeriodicThread


def make_thread(is_round_made: threading.Event, errors: InternalErrors | None = None) -> PeriodicThread:
    return PeriodicThread(
        "test",
        0.0,
        make_round=is_round_made.set,  # type: ignore[arg-type]  # returns None: it sleeps after the round
        has_work=lambda: False,
        errors=errors or InternalErrors(),
        sections=CriticalSections(),
    )


def test_a_thread_that_ended_at_once_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    has_failed, is_round_made = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: has_failed.set())
    thread = make_thread(is_round_made)

    def fail(*_: Any) -> None:
        raise ValueError

    with monkeypatch.context() as failing:
        failing.setattr(PeriodicThread, "_run", fail)
        thread.wake()
        assert has_failed.wait(30)
    while thread.is_alive:
        pass
    thread.wake()
    assert is_round_made.wait(30)


def test_a_thread_whose_waking_was_interrupted_is_woken_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    is_round_made = threading.Event()
    thread = make_thread(is_round_made)
    thread.wake()
    assert is_round_made.wait(30)
    while thread.is_awake:
        pass
    is_round_made.clear()

    def interrupt(_: PeriodicThread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupting:
        interrupting.setattr(PeriodicThread, "_ring", interrupt)
        with pytest.raises(KeyboardInterrupt):
            thread.wake()
    while not is_round_made.wait(0.1):
        thread.wake()
    assert thread.is_alive


@pytest.mark.parametrize(
    ("message", "counted"), [("can't start new thread", 1), ("can't create new thread at interpreter shutdown", 0)]
)
def test_a_thread_that_cannot_be_started_is_counted_unless_the_program_is_over(
    message: str, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError(message)

    errors = InternalErrors()
    thread = make_thread(threading.Event(), errors)
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    thread.wake()
    assert (errors.counts["thread.start"], thread.is_alive) == (counted, False)
