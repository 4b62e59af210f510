"""The finalizer: what was dropped, what waits, who helps, and the thread that sees to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from otel_itl.core.stream import Concurrency, FinishedStream
from otel_itl.recording import finalizer

if TYPE_CHECKING:
    from conftest import Machinery

    from otel_itl.recording.recorder import StreamRecorder


def opened(
    machinery: Machinery, on_finished: Callable[[FinishedStream], None] = lambda finished: None
) -> StreamRecorder:
    """Open a stream as the runtime does, which wakes the threads."""
    recorder = machinery.open(on_finished)
    machinery.finalizer.thread.wake()
    return recorder


def eventually(fact: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it comes true before the time is over."""
    end = monotonic() + seconds
    while not fact():
        if monotonic() > end:
            return False
        sleep(0.002)
    return True


# --- What was dropped ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R26")
def test_dropped_streams_leave_nothing_behind(machinery: Machinery) -> None:
    for _ in range(2_000):
        machinery.open()
    machinery.finalizer.finalize_pending()
    assert (len(machinery.open_streams), machinery.finalizer.pending) == (0, 0)


def test_a_flush_reports_each_dropped_stream_once(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    for _ in range(3):
        machinery.open(finished.append)
    machinery.finalizer.finalize_pending()
    machinery.finalizer.finalize_pending()
    assert len(finished) == 3


def test_a_report_that_fails_does_not_keep_the_others_from_being_reported(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []

    def fail(stream: FinishedStream) -> None:
        raise IndexError

    machinery.open(fail)
    machinery.open(finished.append)
    machinery.finalizer.finalize_pending()
    assert (len(finished), machinery.errors.counts["stream.end"] > 0) == (1, True)


def test_a_stream_that_ends_finalizes_a_few_that_were_dropped(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    for _ in range(5):
        machinery.open(finished.append)
    machinery.open().end_closed()
    assert len(finished) == finalizer.HELPED_WITH


def test_streams_that_end_keep_up_with_as_many_that_are_dropped(machinery: Machinery) -> None:
    """A thread that gets no CPU is not needed for it."""
    longest = 0
    for _ in range(1_000):
        machinery.open()
        machinery.open().end_closed()
        longest = max(longest, machinery.finalizer.pending)
    assert longest <= 1


@pytest.mark.parametrize("bound", [0, 3])
def test_what_is_dropped_beyond_the_bound_is_lost_and_counted(
    machinery: Machinery, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(finalizer, "MAX_QUEUED", bound)
    for _ in range(10):
        machinery.open()
    assert (machinery.finalizer.pending, machinery.errors.counts) == (bound, {"queue.abandoned": 10 - bound})


def test_what_was_lost_is_not_taken_to_be_open(machinery: Machinery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalizer, "MAX_QUEUED", 0)
    machinery.open()
    machinery.finalizer.finalize_pending()
    assert len(machinery.open_streams) == 0


@pytest.mark.requirement("R28")
def test_abandoning_ends_every_open_stream(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    recorders = [machinery.open(finished.append) for _ in range(3)]
    machinery.finalizer.abandon_all()
    assert ([stream.timeline.outcome.value for stream in finished], len(recorders)) == (["abandoned"] * 3, 3)


def test_abandoning_leaves_a_stream_that_ended_as_it_was(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    recorder = machinery.open(finished.append)
    recorder.end_closed()
    machinery.finalizer.abandon_all()
    assert [stream.timeline.outcome.value for stream in finished] == ["closed"]


@pytest.mark.requirement("R16")
def test_a_round_task_that_fails_does_not_keep_the_others_from_being_done(brisk: Machinery) -> None:
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError

    brisk.finalizer.add_round_task(fail, lambda: not done)
    brisk.finalizer.add_round_task(lambda: done.append(1), lambda: not done)
    opened(brisk)
    assert (eventually(lambda: bool(done)), brisk.errors.counts.total()) == (True, 1)


def test_a_round_does_no_task_that_is_not_due(brisk: Machinery) -> None:
    done: list[int] = []
    finished: list[FinishedStream] = []
    brisk.finalizer.add_round_task(lambda: done.append(1), lambda: False)
    opened(brisk, finished.append)
    assert (eventually(lambda: bool(finished) and not brisk.finalizer.thread.is_awake), done) == (True, [])


def test_after_a_fork_nothing_waits(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    machinery.open(finished.append)
    machinery.finalizer.forget_after_fork()
    machinery.finalizer.finalize_pending()
    assert (machinery.finalizer.pending, finished) == (0, [])


# --- The thread ------------------------------------------------------------------------------------------------------


def test_no_thread_runs_before_the_first_stream(brisk: Machinery) -> None:
    assert brisk.finalizer.thread.is_alive is False


def test_one_thread_serves_all_streams(brisk: Machinery) -> None:
    rounds: list[int] = []
    brisk.finalizer.add_round_task(lambda: rounds.append(threading.get_ident()), lambda: True)
    recorders = [opened(brisk) for _ in range(20)]
    assert (eventually(lambda: len(rounds) > 20), len(set(rounds)), len(recorders)) == (True, 1, 20)


def test_the_thread_does_not_keep_the_process_alive(brisk: Machinery) -> None:
    threads: list[threading.Thread] = []
    brisk.finalizer.add_round_task(lambda: threads.append(threading.current_thread()), lambda: not threads)
    recorder = opened(brisk)
    assert eventually(lambda: bool(threads))
    assert (threads[0].daemon, threads[0].name, recorder.is_over) == (True, "otel_itl finalizer", False)


@pytest.mark.requirement("R25")
def test_a_dropped_stream_is_reported_without_being_asked_for(brisk: Machinery) -> None:
    finished: list[FinishedStream] = []
    opened(brisk, finished.append)
    assert eventually(lambda: len(finished) == 1)


def test_the_thread_sleeps_when_nothing_is_open(brisk: Machinery) -> None:
    opened(brisk).end_closed()
    thread = brisk.finalizer.thread
    assert (eventually(lambda: not thread.is_awake), thread.is_alive) == (True, True)


def test_the_thread_sleeps_while_streams_are_open_and_none_ends(brisk: Machinery) -> None:
    recorder = opened(brisk)
    assert (eventually(lambda: not brisk.finalizer.thread.is_awake), recorder.is_over) == (True, False)


def test_the_thread_makes_rounds_while_a_task_is_due(brisk: Machinery) -> None:
    rounds: list[int] = []
    brisk.finalizer.add_round_task(lambda: rounds.append(1), lambda: len(rounds) < 4)
    recorder = opened(brisk)
    assert (eventually(lambda: len(rounds) == 4), recorder.is_over) == (True, False)


def test_the_thread_wakes_with_the_next_stream(brisk: Machinery) -> None:
    opened(brisk).end_closed()
    eventually(lambda: not brisk.finalizer.thread.is_awake)
    finished: list[FinishedStream] = []
    opened(brisk, finished.append)
    assert eventually(lambda: len(finished) == 1)


@pytest.mark.requirement("R16")
def test_the_thread_survives_a_round_task_that_fails(brisk: Machinery) -> None:
    rounds: list[int] = []

    def fail() -> None:
        rounds.append(1)
        raise RuntimeError

    brisk.finalizer.add_round_task(fail, lambda: len(rounds) < 4)
    recorder = opened(brisk)
    assert (eventually(lambda: len(rounds) > 2, seconds=1.0), recorder.is_over) == (True, False)


def test_streams_that_many_threads_open_and_end_are_all_counted_out(brisk: Machinery) -> None:
    reported: list[Concurrency] = []
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for turn in range(100):
            recorder = opened(brisk, lambda finished: reported.append(finished.concurrency))
            if turn % 3:
                recorder.end_closed()
            del recorder

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert eventually(lambda: len(reported) == 800)
    # A stream that was dropped is counted until it is finalized: more than eight may be in flight.
    wrong = [one for one in reported if not 1 <= one.at_start <= 800 or not 1.0 <= one.mean <= 800]
    assert (len(brisk.open_streams), wrong) == (0, [])
