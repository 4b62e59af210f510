"""The threads that call what a stall sets off: they run side by side, and a full queue drops."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Event, Thread
from time import monotonic, sleep

import pytest

from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.reporters import OrderedReports, ReporterThreads

SECONDS = 10.0


@pytest.fixture
def errors() -> InternalErrors:
    return InternalErrors()


@pytest.fixture
def reporters(errors: InternalErrors) -> ReporterThreads:
    return ReporterThreads("reports", errors, where="stall.report", max_threads=2, max_waiting=2)


@pytest.fixture
def blocked() -> Iterator[Event]:
    """Set at the end of the test, so that no thread stays blocked."""
    event = Event()
    yield event
    event.set()


def test_a_function_is_called_on_another_thread(reporters: ReporterThreads) -> None:
    called = Event()
    reporters.submit(called.set)
    assert called.wait(SECONDS)


def test_functions_that_wait_can_be_dropped(errors: InternalErrors, blocked: Event) -> None:
    reporters = ReporterThreads("callbacks", errors, where="callback.on_stall", max_threads=1, max_waiting=9)
    called: list[str] = []
    running = Event()
    reporters.submit(lambda: (running.set(), blocked.wait(SECONDS), called.append("first")))
    assert running.wait(SECONDS)
    reporters.submit(lambda: called.append("second"))
    reporters.drop_waiting()
    blocked.set()
    assert reporters.wait_until_idle(SECONDS)
    reporters.submit(lambda: called.append("third"))
    assert reporters.wait_until_idle(SECONDS)
    assert called == ["first", "third"]


def test_two_functions_run_at_the_same_time(reporters: ReporterThreads) -> None:
    both = Barrier(2)
    met = [Event(), Event()]
    for event in met:
        reporters.submit(lambda event=event: (both.wait(SECONDS), event.set()))  # type: ignore[misc]
    assert [event.wait(SECONDS) for event in met] == [True, True]


def test_two_functions_that_are_submitted_while_one_thread_is_idle_run_at_the_same_time(
    reporters: ReporterThreads,
) -> None:
    # The idle thread cannot take both: one that blocks would hold up the other.
    reporters.submit(lambda: None)
    assert reporters.wait_until_idle(SECONDS)
    both = Barrier(2)
    met = [Event(), Event()]
    for event in met:
        reporters.submit(lambda event=event: (both.wait(SECONDS), event.set()))  # type: ignore[misc]
    assert [event.wait(SECONDS) for event in met] == [True, True]


def test_what_a_function_raises_is_counted_and_the_thread_goes_on(
    reporters: ReporterThreads, errors: InternalErrors
) -> None:
    def failing() -> None:
        raise RuntimeError

    called = Event()
    reporters.submit(failing)
    reporters.submit(called.set)
    assert (called.wait(SECONDS), reporters.wait_until_idle(SECONDS), errors.counts) == (
        True,
        True,
        {"stall.report": 1},
    )


def test_what_a_full_queue_drops_is_counted(reporters: ReporterThreads, errors: InternalErrors, blocked: Event) -> None:
    running = [Event(), Event()]
    for event in running:
        reporters.submit(lambda event=event: (event.set(), blocked.wait(SECONDS)))  # type: ignore[misc]
    assert [event.wait(SECONDS) for event in running] == [True, True]
    for _ in range(5):
        reporters.submit(lambda: None)
    assert errors.counts == {"queue.reports": 3}


def test_the_reports_of_a_stream_are_called_in_order(errors: InternalErrors) -> None:
    reports, called = OrderedReports(errors), list[int]()
    for number in range(3):
        reports.add(lambda number=number: called.append(number))  # type: ignore[misc]
    reports.deliver()
    assert (called, reports.is_waiting) == ([0, 1, 2], False)


def test_delivery_returns_where_another_thread_delivers(errors: InternalErrors, blocked: Event) -> None:
    reports, begun, called = OrderedReports(errors), Event(), Event()
    reports.add(lambda: (begun.set(), blocked.wait(SECONDS)))
    delivering = Thread(target=reports.deliver)
    delivering.start()
    begun.wait(SECONDS)
    reports.add(called.set)
    reports.deliver()
    before = called.is_set()
    blocked.set()
    delivering.join(SECONDS)
    assert (before, called.is_set()) == (False, True)


def test_no_thread_stays_once_there_is_nothing_to_do(
    reporters: ReporterThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_itl.recording.reporters.IDLE_SECONDS", 0.01)
    before = reporters.threads
    running, over = Event(), Event()
    reporters.submit(lambda: (running.set(), over.wait(SECONDS)))
    assert running.wait(SECONDS)
    meanwhile = reporters.threads
    over.set()
    deadline = monotonic() + SECONDS
    while reporters.threads and monotonic() < deadline:
        sleep(0.001)
    assert (before, meanwhile, reporters.threads) == (0, 1, 0)


def test_a_function_is_submitted_without_waiting_for_the_thread_that_calls_it(
    reporters: ReporterThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where many threads compete for the interpreter, a new one runs only after seconds.
    started: list[tuple[object, tuple[object, ...]]] = []
    monkeypatch.setattr("otel_itl.recording.reporters._thread.start_new_thread", lambda *call: started.append(call))
    reporters.submit(lambda: None)
    assert (len(started), reporters.threads) == (1, 1)
