"""Stalls on a clock that a test moves: which are reported, when, to what, and once only."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

from otel_itl.core.stalls import Cause, Phase, Stall, StallPolicy
from otel_itl.core.timeline import SECOND, Kind
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.reporters import ReporterThreads
from otel_itl.recording.stall_monitor import StallReporter, StallReporting, StreamStallMonitor
from otel_itl.recording.watchdog import ROUNDS_BETWEEN_CLEANINGS, Watchdog

if TYPE_CHECKING:
    from conftest import Machinery, Recording

POLICY = StallPolicy(first_token=1.0, reasoning=5.0, next_token=2.0, relative=None)
ROUND = 0.1
"""Seconds between rounds."""


class Reports(list[tuple[str, Stall]]):
    """What was reported, in order."""

    def stall_started(self, stall: Stall) -> None:
        self.append(("started", stall))

    def stall_ended(self, stall: Stall) -> None:
        self.append(("ended", stall))

    @property
    def lines(self) -> list[str]:
        return [what if stall.end is None else f"{what}: {stall.end}" for what, stall in self]


class CallingThreads(ReporterThreads):
    """Calls what is submitted at once, in the thread that submits it."""

    def submit(self, task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            self._errors.report(self._where, error)


@dataclass
class Watched:
    """A stream that is recorded and watched, by rounds that are made when a test lets time pass."""

    recording: Recording
    counters: Reports = field(default_factory=Reports)
    reports: Reports = field(default_factory=Reports)
    callbacks: list[Stall] = field(default_factory=list)
    """The calls of `on_stall`."""

    @property
    def dog(self) -> Watchdog:
        return self.recording.machinery.watchdog

    @property
    def recorder(self) -> StreamRecorder:
        return self.recording.recorder

    @property
    def monitor(self) -> StreamStallMonitor:
        assert self.recorder.stall_monitor is not None
        return self.recorder.stall_monitor

    def ask(self) -> None:
        self.recorder.has_reader = True
        self.recorder.log.asked.append(self.recording.clock())

    def arrive(self, kind: int = Kind.ANSWER) -> None:
        self.recorder.log.arrived.append(self.recording.clock())
        self.recorder.log.codes.append(kind)

    def chunk(self, after: float, kind: int = Kind.ANSWER) -> None:
        """Record a chunk that is asked for now and arrives that number of seconds later."""
        self.ask()
        self.wait(after)
        self.arrive(kind)

    def wait(self, seconds: float) -> None:
        """Let time pass, with the rounds that fall into it."""
        for _ in range(round(seconds / ROUND)):
            self.recording.machinery.evidence.begin_nap(ROUND)
            self.recording.clock.advance(ROUND)
            self.dog.make_round(self.recording.clock())

    def pause(self, seconds: float) -> None:
        """Let time pass in which the process does not run; the watchdog waited for its next round."""
        self.recording.machinery.evidence.begin_nap(ROUND)
        self.recording.clock.advance(ROUND + seconds)
        self.dog.make_round(self.recording.clock())


Make = Callable[..., Watched]


def watch(
    watched: Watched,
    policy: StallPolicy = POLICY,
    on_stall: Callable[[Stall], object] | None = None,
    reporter: StallReporter | None = None,
    threads: Callable[..., ReporterThreads] = CallingThreads,
) -> Watched:
    """Have a recorded stream watched."""
    machinery = watched.recording.machinery
    reporting = StallReporting(
        threads("reports", machinery.errors, where="stall.report", max_threads=8, max_waiting=100),
        threads("callbacks", machinery.errors, where="callback.on_stall", max_threads=1, max_waiting=100),
        machinery.errors,
        machinery.sections,
    )
    watched.recorder.record_headers(None)
    watched.recorder.stall_monitor = StreamStallMonitor(
        watched.recorder,
        policy,
        reporting,
        counters=watched.counters,
        make_log=lambda: watched.reports if reporter is None else reporter,
        on_stall=watched.callbacks.append if on_stall is None else on_stall,
    )
    return watched


@pytest.fixture
def watched(record: Callable[..., Recording]) -> Make:
    """Open a stream that is watched: its request is made now, and its headers are there."""

    def made(*args: Any, **options: Any) -> Watched:
        return watch(Watched(record()), *args, **options)

    return made


@pytest.fixture
def dog(machinery: Machinery) -> Watchdog:
    return machinery.watchdog


class FakeAborter:
    """Stands in for a connection that can be shut down."""

    def __init__(self, *, can: bool = True) -> None:
        self.calls = 0
        self._can = can

    def shut_down(self) -> bool:
        self.calls += 1
        return self._can

    def has_interrupted(self, _: BaseException) -> bool:
        return False

    def make_error(self, message: str) -> Exception:
        return TimeoutError(message)


# --- While a stream is silent ----------------------------------------------------------------------------------------


@pytest.mark.requirement("R44")
def test_a_stall_is_reported_in_the_round_that_finds_it_while_the_stream_is_silent(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.1)
    assert (stream.reports.lines, stream.monitor.is_stalled) == (["started"], True)


def test_before_the_threshold_nothing_is_reported(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(0.9)
    assert (stream.reports, stream.monitor.is_stalled) == ([], False)


@pytest.mark.requirement("R44")
def test_a_round_that_comes_at_the_threshold_finds_the_stall(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.0)
    ((_, stall),) = stream.reports
    assert (stall.duration, stall.threshold, stall.start) == (1.0, 1.0, 0.0)


@pytest.mark.requirement("R48")
def test_a_stall_says_what_was_waited_for(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.5, Kind.REASONING)
    stream.ask()
    stream.wait(5.1)
    ((_, stall),) = stream.reports
    assert (stall.phase, stall.threshold, stall.number, stall.start) == (Phase.REASONING, 5.0, 1, 0.5)


@pytest.mark.requirement("R45")
def test_a_consumer_that_holds_a_chunk_is_left_alone(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.5)
    stream.wait(30)
    assert stream.reports == []


def test_a_stall_that_recovers_is_reported_with_its_length(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.5)
    stream.chunk(3)
    stream.ask()
    stream.wait(2)
    assert (stream.reports.lines, stream.reports[1][1].duration) == (["started", "ended: recovered", "started"], 3.0)


def test_a_stream_goes_on_being_watched_after_a_stall(watched: Make) -> None:
    stream = watched()
    for _ in range(3):
        stream.chunk(2.5)
        stream.chunk(0.1)
    stream.ask()
    stream.wait(0.2)
    assert [stall.number for what, stall in stream.reports if what == "ended"] == [1, 2, 3]


@pytest.mark.requirement("R47")
def test_a_ping_marks_a_stall_alive(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(0.5)
    stream.recorder.record_swallowed(Kind.PING)
    stream.wait(0.6)
    assert [stall.is_alive for _, stall in stream.reports] == [True]


@pytest.mark.requirement("R47")
def test_a_stall_that_a_ping_follows_is_alive_when_it_ends(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.1)
    stream.recorder.record_swallowed(Kind.PING)
    stream.arrive()
    stream.ask()
    stream.wait(2)
    assert [stall.is_alive for what, stall in stream.reports if stall.number == 1] == [False, True]


def test_a_stall_is_reported_once_while_it_lasts(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(30)
    assert (len(stream.callbacks), stream.reports.lines) == (1, ["started"])


# --- Between rounds, and at the end ----------------------------------------------------------------------------------


@pytest.mark.requirement("R51")
def test_a_stall_that_began_and_ended_between_two_rounds_counts(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.5)
    stream.ask()
    stream.recording.clock.advance(2.05)
    stream.arrive()
    stream.ask()
    stream.wait(2)
    assert stream.reports.lines[:2] == ["started", "ended: recovered"]


def test_on_stall_is_not_called_for_one_that_is_over(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.recording.clock.advance(1.5)
    stream.arrive()
    stream.recording.clock.advance(0.5)
    stream.recorder.end_closed()
    assert (stream.reports.lines, stream.callbacks) == (["started", "ended: recovered"], [])


@pytest.mark.requirement("R51")
@pytest.mark.parametrize("rounds", [False, True], ids=["never looked at", "looked at"])
def test_a_stall_that_the_stream_ends_with_ends_as_the_stream_did(watched: Make, rounds: bool) -> None:
    stream = watched()
    stream.ask()
    if rounds:
        stream.wait(1.5)
    else:
        stream.recording.clock.advance(1.5)
    stream.recorder.end_failed(ConnectionError())
    ((_, begun), (_, ended)) = stream.reports
    assert (begun.end, ended.end, ended.duration) == (None, "error", 1.5)


def test_after_the_end_no_round_finds_anything(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(0.95)
    stream.recorder.end_failed(ConnectionError())
    stream.wait(30)
    assert stream.reports == []


def test_a_stream_that_was_dropped_is_judged_by_its_end_not_by_when_it_was_swept_up(watched: Make) -> None:
    """Dropped 0.9 s into a silence; the round before the sweep comes at 1.1."""
    stream = watched()
    stream.ask()
    stream.wait(0.9)
    stream.recorder.abandon_from_gc()
    stream.wait(0.2)
    stream.recording.machinery.finalizer.finalize_pending()
    assert (stream.reports, stream.recording.finished[0].stalls) == ([], ())


@pytest.mark.requirement("R51")
def test_the_report_of_a_stream_has_every_stall(watched: Make) -> None:
    stream = watched()
    for _ in range(12):
        stream.chunk(2.5)
    stream.recorder.end_exhausted()
    (ended,) = stream.recording.finished
    assert (len(ended.stalls), sum(stall.duration for stall in ended.stalls)) == (12, pytest.approx(30))


def test_a_stall_that_is_reported_of_a_stream_is_over(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.5)
    stream.arrive()
    stream.chunk(2.5)
    stream.ask()
    stream.wait(2.5)
    stream.recorder.end_failed(ConnectionError())
    (ended,) = stream.recording.finished
    assert [stall.end for stall in ended.stalls] == ["recovered", "recovered", "error"]


def test_two_threads_that_look_at_once_report_once(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.recording.clock.advance(1.5)
    now = stream.recording.clock()
    together = threading.Barrier(8)

    def check() -> None:
        together.wait()
        stream.monitor.check(now)

    threads = [threading.Thread(target=check) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (stream.reports.lines, len(stream.callbacks)) == (["started"], 1)


# --- Whose it is -----------------------------------------------------------------------------------------------------


def test_a_stall_while_everything_ran_is_the_upstreams(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1)
    assert [stall.cause for _, stall in stream.reports] == [Cause.UPSTREAM]


@pytest.mark.requirement("R70")
def test_a_stall_while_the_process_did_not_run_is_the_processs(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.pause(30)
    assert [stall.cause for _, stall in stream.reports] == [Cause.PROCESS]


@pytest.mark.requirement("R70")
def test_a_stream_that_goes_on_before_the_watchdog_wakes_up_knows_of_the_freeze(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.recording.machinery.evidence.begin_nap(ROUND)
    stream.recording.clock.advance(30)
    stream.arrive()
    stream.recorder.end_closed()
    assert [stall.cause for _, stall in stream.reports] == [Cause.PROCESS] * 2


@pytest.mark.requirement("R70")
def test_a_freeze_that_no_round_has_found_yet_is_no_latency(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.1)
    stream.ask()
    stream.recording.machinery.evidence.begin_nap(ROUND)
    stream.recording.clock.advance(30)
    stream.arrive()
    stream.recorder.end_closed()
    # It may have come at any time since it was asked for.
    assert stream.recording.timeline.lateness[1] == 30 * SECOND


def test_a_stall_within_a_long_silence_of_which_the_process_slept_little_is_the_upstreams(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=10))
    stream.ask()
    stream.wait(6)
    stream.pause(4)
    assert [stall.cause for _, stall in stream.reports] == [Cause.UPSTREAM]


# --- Failures --------------------------------------------------------------------------------------------------------


class Failing:
    """A reporter that fails, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def stall_started(self, stall: Stall) -> None:
        self.asked += 1
        raise RuntimeError

    stall_ended = stall_started


@pytest.mark.requirement("R16")
def test_a_reporter_that_fails_is_called_once_all_the_same(watched: Make) -> None:
    reporter = Failing()
    stream = watched(reporter=reporter)
    stream.ask()
    stream.wait(5)
    assert (reporter.asked, stream.recording.machinery.errors.counts) == (1, {"stall.report": 1})


@pytest.mark.requirement("R16")
def test_a_reporter_that_fails_costs_no_report_of_the_stream(watched: Make) -> None:
    stream = watched(reporter=Failing())
    stream.ask()
    stream.wait(1.5)
    stream.recorder.end_failed(ConnectionError())
    assert (len(stream.recording.finished[0].stalls), stream.recording.machinery.errors.counts) == (
        1,
        {"stall.report": 2},
    )


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_fails_is_contained(watched: Make, error: type[BaseException]) -> None:
    def fail(stall: Stall) -> None:
        raise error

    stream = watched(on_stall=fail)
    stream.ask()
    stream.wait(1.5)
    stream.arrive()
    stream.chunk(2.5)
    stream.wait(0.1)
    assert (len(stream.reports), stream.recording.machinery.errors.counts) == (4, {"callback.on_stall": 2})


@pytest.mark.requirement("R16")
def test_a_stream_that_cannot_be_checked_costs_the_others_nothing(record: Any) -> None:
    broken, whole = both_watched(record)
    broken.monitor._start_detecting(broken.recorder)._asked = None  # type: ignore[assignment]
    whole.ask()
    whole.wait(1.5)
    assert (whole.reports.lines, broken.recording.machinery.errors.counts) == (["started"], {"stall.watch": 1})


# --- Breaking off ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R49")
def test_nothing_is_broken_off_unless_asked_for(watched: Make) -> None:
    stream = watched()
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(60)
    assert aborter.calls == 0


@pytest.mark.requirement("R49")
def test_a_stall_can_be_aborted_by_its_callback(watched: Make) -> None:
    stream = watched()
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(1)
    assert (stream.callbacks[0].abort(), aborter.calls) == (True, 1)


@pytest.mark.requirement("R49")
def test_a_stream_is_broken_off_once(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(9)
    assert (aborter.calls, stream.callbacks[0].abort()) == (1, False)


@pytest.mark.requirement("R49")
def test_a_stall_is_broken_off_after_so_long(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(1.8)
    before = aborter.calls
    stream.wait(0.2)
    assert (before, aborter.calls) == (0, 1)


def test_what_cannot_be_broken_off_is_left_alone(watched: Make) -> None:
    stream = watched()
    stream.recorder.enable_abort(FakeAborter(can=False))
    stream.ask()
    stream.wait(1)
    said = stream.callbacks[0].abort()
    # What comes after that is its own error.
    stream.recorder.end_failed(ConnectionError())
    assert (said, stream.recording.outcome) == (False, "error")


def test_before_there_is_a_connection_there_is_nothing_to_break_off(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1)
    assert stream.callbacks[0].abort() is False


def test_a_stream_that_is_over_is_not_broken_off(watched: Make) -> None:
    stream = watched()
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(1)
    stream.recorder.end_failed(ConnectionError())
    assert (stream.callbacks[0].abort(), aborter.calls) == (False, 0)


def test_a_stream_that_is_gone_is_not_broken_off(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1)
    stall = stream.callbacks[0]
    stream.recorder.end_failed(ConnectionError())
    probe = weakref.ref(stream.recorder)
    del stream
    gc.collect()
    assert (probe(), stall.abort()) == (None, False)


def test_a_stall_of_the_process_is_not_broken_off(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.pause(30)
    stream.wait(1)
    assert aborter.calls == 0


def test_a_stream_without_a_waiting_reader_is_not_aborted(watched: Make) -> None:
    """The headers took 3 s; the caller has not asked for a chunk yet, or reads the bytes itself."""
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.recording.clock.advance(3)
    stream.recorder.record_headers(None)
    stream.wait(3)
    stream.recorder.log.is_waiting = True
    stream.wait(3)
    assert aborter.calls == 0


def test_who_waits_for_a_stream_that_was_broken_off_gets_the_breakers_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(FakeAborter())
    stream.ask()
    stream.wait(2)
    error = stream.recorder.end_failed(ConnectionError())
    said = "The stream was aborted after 2.0 s without a token: it had stalled."
    assert (type(error), str(error)) == (TimeoutError, said)


def test_a_stream_that_was_broken_off_ended_in_an_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(FakeAborter())
    stream.ask()
    stream.wait(2)
    assert type(stream.recorder.end_exhausted()) is TimeoutError
    (ended,) = stream.recording.finished
    assert (ended.timeline.outcome.value, ended.error_type, ended.stalls[0].end) == ("error", "TimeoutError", "error")


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_a_caller_that_is_interrupted_while_its_stream_is_broken_off_stays_interrupted(
    watched: Make, error: type[BaseException]
) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(FakeAborter())
    stream.ask()
    stream.wait(2)
    # It raises nothing of its own.
    stream.recorder.end_failed(error())
    assert stream.recording.outcome in {"cancelled", "abandoned"}


def test_a_stream_whose_end_came_before_it_was_broken_off_is_completed(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.recorder.enable_abort(FakeAborter())
    stream.ask()
    stream.wait(2)
    stream.recorder.response.is_terminated = True
    stream.recorder.end_exhausted()
    assert stream.recording.outcome == "completed"


def test_a_stream_that_breaks_behind_its_finish_reason_still_gets_the_breakers_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, next_token=1, abort_after=2))
    stream.recorder.enable_abort(FakeAborter())
    stream.chunk(0.1)
    stream.recorder.response.add_finish_reason("stop")
    stream.ask()
    stream.wait(2)
    assert type(stream.recorder.end_failed(ConnectionError())) is TimeoutError


# --- What blocks delays nothing else ---------------------------------------------------------------------------------


class Blocking(Reports):
    """A log that blocks until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.is_entered = threading.Event()

    def stall_started(self, stall: Stall) -> None:
        self.is_entered.set()
        self.release.wait(10)
        super().stall_started(stall)


def eventually(fact: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it comes true before the time is over."""
    end = monotonic() + seconds
    while not fact():
        if monotonic() > end:
            return False
        sleep(0.002)
    return True


def test_a_log_that_blocks_delays_no_round(watched: Make) -> None:
    log = Blocking()
    stream = watched(reporter=log, threads=ReporterThreads)
    stream.ask()
    stream.wait(1.5)  # returns
    is_entered = log.is_entered.wait(5)
    log.release.set()
    assert (is_entered, stream.monitor.is_stalled) == (True, True)


def test_a_log_that_blocks_does_not_delay_the_end_of_its_stream(watched: Make) -> None:
    log = Blocking()
    stream = watched(reporter=log, threads=ReporterThreads)
    stream.ask()
    stream.wait(1.5)
    log.is_entered.wait(5)
    stream.recorder.end_failed(ConnectionError())
    ended_before = [len(finished.stalls) for finished in stream.recording.finished]
    log.release.set()
    assert (ended_before, eventually(lambda: log.lines == ["started", "ended: error"])) == ([1], True)


def test_a_log_that_blocks_does_not_delay_the_report_of_another_stream(watched: Make) -> None:
    log = Blocking()
    blocked, other = watched(reporter=log, threads=ReporterThreads), watched(threads=ReporterThreads)
    for stream in (blocked, other):
        stream.ask()
        stream.wait(1.5)
    log.is_entered.wait(5)
    is_reported = eventually(lambda: other.reports.lines == ["started"])
    log.release.set()
    assert is_reported


def test_a_log_that_blocks_does_not_delay_an_abort(watched: Make) -> None:
    log = Blocking()
    stream = watched(StallPolicy(first_token=1, abort_after=2), reporter=log, threads=ReporterThreads)
    stream.recorder.enable_abort(aborter := FakeAborter())
    stream.ask()
    stream.wait(2.1)
    calls = aborter.calls
    log.release.set()
    assert calls == 1


def test_a_callback_that_blocks_delays_no_log(watched: Make) -> None:
    release = threading.Event()
    stream = watched(on_stall=lambda _: release.wait(10), threads=ReporterThreads)
    stream.ask()
    stream.wait(1.5)
    is_reported = eventually(lambda: stream.reports.lines == ["started"])
    release.set()
    assert is_reported


def test_no_more_reports_wait_than_a_stream_may_make(watched: Make) -> None:
    log = Blocking()
    stream = watched(reporter=log, threads=ReporterThreads)
    stream.chunk(2.5)
    assert log.is_entered.wait(5)  # else the stream's end would make the reports, in this thread
    for _ in range(14):
        stream.chunk(2.5)
    stream.recorder.end_exhausted()
    counted = stream.counters.lines
    log.release.set()
    eventually(lambda: len(log) >= 20)
    assert (counted.count("started"), log.lines.count("started")) == (15, 10)


def test_stalls_are_counted_whatever_the_log_does(watched: Make) -> None:
    log = Blocking()
    stream = watched(reporter=log, threads=ReporterThreads)
    stream.ask()
    stream.wait(1.5)
    counted = list(stream.counters.lines)
    log.release.set()
    assert counted == ["started"]


# --- The streams of a process ----------------------------------------------------------------------------------------


def both_watched(record: Any) -> tuple[Watched, Watched]:
    """Two streams that one watchdog watches."""
    first, second = many_watched(record, 2)
    return first, second


def many_watched(record: Any, count: int) -> list[Watched]:
    first = record()
    finished: list[Any] = []
    recordings = (
        type(first)(first.machinery, first.machinery.open(finished.append), finished) for _ in range(1, count)
    )
    return [watch(Watched(recording)) for recording in (first, *recordings)]


def test_a_stream_that_is_gone_is_forgotten(watched: Make) -> None:
    stream = watched()
    stream.wait(0.1)
    dog, clock, monitor = stream.dog, stream.recording.clock, weakref.ref(stream.monitor)
    stream.recorder.end_closed()
    del stream
    gc.collect()
    clock.advance(1)
    dog.make_round(clock())
    assert (monitor(), dog._deadlines) == (None, [])


def test_a_stream_that_ended_before_its_first_round_has_no_deadline(watched: Make) -> None:
    stream = watched()
    stream.recorder.end_closed()
    stream.wait(0.1)
    assert stream.dog._deadlines == []


def test_the_watchdog_keeps_no_stream_alive(watched: Make) -> None:
    stream = watched()
    stream.wait(0.1)
    dog, recorder = stream.dog, weakref.ref(stream.recorder)
    machinery = stream.recording.machinery
    del stream
    gc.collect()
    machinery.finalizer.finalize_pending()
    assert (recorder(), len(dog._deadlines)) == (None, 1)


def test_a_stream_that_can_have_no_stall_is_not_checked(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=None, reasoning=None, next_token=None))
    stream.ask()
    stream.wait(1)
    assert stream.dog._deadlines == []


def test_a_stream_that_flows_is_checked_once_in_the_shortest_threshold(
    watched: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []
    check = StreamStallMonitor.check

    def counted(monitor: StreamStallMonitor, now: int) -> bool:
        checks.append(now)
        return check(monitor, now)

    monkeypatch.setattr(StreamStallMonitor, "check", counted)
    stream = watched()
    for _ in range(200):
        stream.chunk(0.1)
    assert 10 <= len(checks) <= 20


def test_after_a_fork_nothing_is_known_of_deadlines(watched: Make) -> None:
    stream = watched()
    stream.wait(1)
    stream.dog.forget_after_fork()
    assert stream.dog._deadlines == []


@pytest.mark.requirement("R46")
def test_one_thread_makes_the_rounds_of_every_stream(machinery: Machinery) -> None:
    machinery.watchdog.thread.interval = 0.01
    threads: set[str] = set()
    make_round = machinery.watchdog.make_round
    machinery.watchdog.make_round = lambda now: (  # type: ignore[method-assign]
        threads.add(threading.current_thread().name),
        make_round(now),
    )[1]
    streams = [machinery.open() for _ in range(50)]
    for _ in streams:
        machinery.watchdog.thread.wake()
    is_made = eventually(lambda: bool(threads))
    for stream in streams:
        stream.end_closed()
    assert (is_made, threads) == (True, {"otel_itl watchdog"})


@pytest.mark.parametrize("held", [2.0, 3.05, 7.3])
def test_a_stream_that_was_held_for_long_is_found_stalled_in_time(watched: Make, held: float) -> None:
    stream = watched()
    stream.chunk(0.1)
    stream.wait(held)
    stream.ask()
    stream.wait(1.9)
    assert stream.reports.lines == []
    stream.wait(0.2)
    assert stream.reports.lines == ["started"]


def test_streams_that_ended_while_nothing_was_due_for_them_are_dropped(record: Any) -> None:
    stalled, held = both_watched(record)
    for stream in (stalled, held):
        stream.chunk(0.1)
    stalled.ask()
    stalled.wait(5)
    dog = stalled.dog
    assert (len(dog._stalled), len(dog._held)) == (1, 1)
    for stream in (stalled, held):
        stream.recorder.end_failed(ConnectionError())
    stalled.wait(ROUNDS_BETWEEN_CLEANINGS * ROUND)
    assert (len(dog._stalled), len(dog._held)) == (0, 0)


# --- What watching costs ---------------------------------------------------------------------------------------------


MAX_CALLS_OF_A_ROUND = 15
"""It is 11; each of the 50 streams that it touched would take 10 and more."""


def executed_in_rounds(dog: Watchdog, rounds: int, start: int) -> int:
    """The calls of Python functions in rounds at a tenth of a second from each other."""
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for turn in range(rounds):
            dog.make_round(start + turn * SECOND // 10)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("is_asked", [True, False], ids=["stalled", "held"])
def test_streams_that_are_silent_are_not_touched_by_a_round(record: Any, is_asked: bool) -> None:
    streams = many_watched(record, 50)
    for stream in streams:
        stream.chunk(0.0)
        if is_asked:
            stream.ask()
    dog, now = streams[0].dog, streams[0].recording.clock()
    assert executed_in_rounds(dog, 60, now) > len(streams)
    assert executed_in_rounds(dog, 30, now + 6 * SECOND) <= 30 * MAX_CALLS_OF_A_ROUND


# --- Streams that are too short to stall ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "threshold"),
    [
        ([], 1.0),
        ([Kind.ROLE], 1.0),
        ([Kind.REASONING, Kind.PING], 5.0),
        ([Kind.REASONING, Kind.ANSWER, Kind.USAGE], 2.0),
    ],
)
def test_a_stream_that_ends_early_has_the_threshold_of_its_phase_without_a_detector(
    watched: Make, kinds: list[int], threshold: float
) -> None:
    stream = watched()
    for kind in kinds:
        stream.chunk(0, kind)
    stream.recorder.ended = stream.recording.clock()
    stalls = stream.monitor.finish(is_over=True)
    found = (stalls, stream.monitor._detector, stream.monitor.threshold)
    stream.monitor._start_detecting(stream.recorder).check(stream.recorder.ended, stream.recorder.headers)
    assert (*found, stream.monitor.threshold) == ((), None, threshold, threshold)
