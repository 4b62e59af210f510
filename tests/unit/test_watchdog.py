"""The watchdog on a clock that moves when it is told to: who is told of which stall, when, and once only."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any

import pytest

from otel_itl.core.stalls import NEVER, Cause, Phase, Stall, StallPolicy
from otel_itl.core.timeline import SECOND, Kind
from otel_itl.recording.loop_lag import Lag
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.watchdog import FREEZES_KEPT, FROZEN_NS, StallReporter, StreamStallMonitor, Watchdog

if TYPE_CHECKING:
    from conftest import Recording

POLICY = StallPolicy(first_token=1.0, reasoning=5.0, next_token=2.0)
ROUND = 0.1
"""Seconds between rounds."""


class Reports(list[tuple[str, Stall]]):
    """What was reported, in order."""

    def stall_started(self, stall: Stall) -> None:
        self.append(("started", stall))

    def stall_ended(self, stall: Stall) -> None:
        self.append(("ended", stall))

    @property
    def said(self) -> list[str]:
        return [what if stall.end is None else f"{what}: {stall.end}" for what, stall in self]


@dataclass
class Watched:
    """A stream that is recorded and watched, by rounds that are made when a test lets time pass."""

    recording: Recording
    dog: Watchdog
    reports: Reports
    told: list[Stall] = field(default_factory=list)
    """Of `on_stall`."""

    @property
    def probe(self) -> StreamRecorder:
        return self.recording.probe

    @property
    def watch(self) -> StreamStallMonitor:
        assert self.probe.watch is not None
        return self.probe.watch

    def ask(self) -> None:
        self.probe.pulled = True
        self.probe.asked.append(self.recording.clock())

    def arrive(self, kind: int = Kind.ANSWER) -> None:
        self.probe.arrived.append(self.recording.clock())
        self.probe.codes.append(kind)

    def chunk(self, after: float, kind: int = Kind.ANSWER) -> None:
        """One that is asked for now and comes after so many seconds."""
        self.ask()
        self.wait(after)
        self.arrive(kind)

    def wait(self, seconds: float) -> None:
        """Let time pass, with the rounds that fall into it."""
        for _ in range(round(seconds / ROUND)):
            self.sleep()
            self.recording.clock.advance(ROUND)
            self.dog.round(self.recording.clock())

    def sleep(self) -> None:
        """The watchdog goes to sleep until its next round."""
        self.dog.due = self.recording.clock() + round(ROUND * SECOND)

    def freeze(self, seconds: float) -> None:
        """The process does not run for so long; the watchdog slept."""
        self.sleep()
        self.recording.clock.advance(ROUND + seconds)
        self.dog.round(self.recording.clock())


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> Watchdog:
    """A watchdog of this test's own, whose rounds are made by hand."""
    fresh = Watchdog()
    monkeypatch.setattr("otel_itl.recording.watchdog.watchdog", fresh)
    monkeypatch.setattr("otel_itl.recording.recorder.watchdog", fresh)
    return fresh


Make = Callable[..., Watched]


@pytest.fixture
def watched(record: Callable[..., Recording], dog: Watchdog) -> Make:
    """Open a stream that is watched: its request is made now, and its headers are there."""

    def made(
        policy: StallPolicy = POLICY,
        on_stall: Callable[[Stall], object] | None = None,
        reporter: StallReporter | None = None,
    ) -> Watched:
        recording = record()
        watched = Watched(recording, dog, Reports())
        tell = watched.told.append if on_stall is None else on_stall
        recording.probe.responded(None)
        recording.probe.watched(StreamStallMonitor(recording.probe, policy, reporter or watched.reports, tell))
        return watched

    return made


class Aborter:
    """Stands for a connection that can be broken off."""

    def __init__(self, *, can: bool = True) -> None:
        self.cuts = 0
        self._can = can

    def cut(self) -> bool:
        self.cuts += 1
        return self._can

    def error(self, message: str) -> Exception:
        return TimeoutError(message)


# --- While a stream is silent ----------------------------------------------------------------------------------------


@pytest.mark.requirement("R44")
def test_a_stall_is_reported_in_the_round_that_finds_it_while_the_stream_is_silent(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.1)
    assert (stream.reports.said, stream.watch.stalled) == (["started"], True)


def test_before_the_threshold_nothing_is_reported(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(0.9)
    assert (stream.reports, stream.watch.stalled) == ([], False)


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
    assert (stream.reports.said, stream.reports[1][1].duration) == (["started", "ended: recovered", "started"], 3.0)


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
    stream.probe.arrive(Kind.PING)
    stream.wait(0.6)
    assert [stall.is_alive for _, stall in stream.reports] == [True]


@pytest.mark.requirement("R47")
def test_a_stall_that_a_ping_follows_is_alive_when_it_ends(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.1)
    stream.probe.arrive(Kind.PING)
    stream.arrive()
    stream.ask()
    stream.wait(2)
    assert [stall.is_alive for what, stall in stream.reports if stall.number == 1] == [False, True]


def test_who_is_told_while_it_lasts_is_told_once(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(30)
    assert (len(stream.told), stream.reports.said) == (1, ["started"])


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
    assert stream.reports.said[:2] == ["started", "ended: recovered"]


def test_on_stall_is_not_called_for_one_that_is_over(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.recording.clock.advance(1.5)
    stream.arrive()
    stream.recording.clock.advance(0.5)
    stream.probe.closed()
    assert (stream.reports.said, stream.told) == (["started", "ended: recovered"], [])


@pytest.mark.requirement("R51")
@pytest.mark.parametrize("rounds", [False, True], ids=["never looked at", "looked at"])
def test_a_stall_that_the_stream_ends_with_ends_as_the_stream_did(watched: Make, rounds: bool) -> None:
    stream = watched()
    stream.ask()
    if rounds:
        stream.wait(1.5)
    else:
        stream.recording.clock.advance(1.5)
    stream.probe.failed(ConnectionError())
    ((_, begun), (_, ended)) = stream.reports
    assert (begun.end, ended.end, ended.duration) == (None, "error", 1.5)


def test_after_the_end_no_round_finds_anything(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(0.95)
    stream.probe.failed(ConnectionError())
    stream.wait(30)
    assert stream.reports == []


def test_a_stream_that_was_dropped_is_judged_by_its_end_not_by_when_it_was_swept_up(watched: Make) -> None:
    """Dropped 0.9 s into a silence; the round before the sweep comes at 1.1."""
    stream = watched()
    stream.ask()
    stream.wait(0.9)
    stream.probe.abandon_from_gc()
    stream.wait(0.2)
    stream.recording.registry.sweep()
    assert (stream.reports, stream.recording.ended[0].stalls) == ([], ())


@pytest.mark.requirement("R51")
def test_the_report_of_a_stream_has_every_stall(watched: Make) -> None:
    stream = watched()
    for _ in range(12):
        stream.chunk(2.5)
    stream.probe.exhausted()
    (ended,) = stream.recording.ended
    assert (len(ended.stalls), sum(stall.duration for stall in ended.stalls)) == (12, pytest.approx(30))


def test_a_stall_that_is_reported_of_a_stream_is_over(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1.5)
    stream.arrive()
    stream.chunk(2.5)
    stream.ask()
    stream.wait(2.5)
    stream.probe.failed(ConnectionError())
    (ended,) = stream.recording.ended
    assert [stall.end for stall in ended.stalls] == ["recovered", "recovered", "error"]


def test_two_threads_that_look_at_once_report_once(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.recording.clock.advance(1.5)
    now = stream.recording.clock()
    together = threading.Barrier(8)

    def look() -> None:
        together.wait()
        stream.watch.look(now)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (stream.reports.said, len(stream.told)) == (["started"], 1)


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
    stream.freeze(30)
    assert [stall.cause for _, stall in stream.reports] == [Cause.PROCESS]


@pytest.mark.requirement("R70")
def test_a_stream_that_goes_on_before_the_watchdog_wakes_up_knows_of_the_freeze(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.sleep()
    stream.recording.clock.advance(30)
    stream.arrive()
    stream.probe.closed()
    assert [stall.cause for _, stall in stream.reports] == [Cause.PROCESS] * 2


@pytest.mark.requirement("R70")
def test_a_freeze_that_no_round_has_found_yet_is_no_latency(watched: Make) -> None:
    stream = watched()
    stream.chunk(0.1)
    stream.ask()
    stream.sleep()
    stream.recording.clock.advance(30)
    stream.arrive()
    stream.probe.closed()
    # It was asked for when it came: nobody waited.
    assert stream.recording.timeline.waits[1] == 0


def test_a_stall_within_a_long_silence_of_which_the_process_slept_little_is_the_upstreams(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=10))
    stream.ask()
    stream.wait(6)
    stream.freeze(4)
    assert [stall.cause for _, stall in stream.reports] == [Cause.UPSTREAM]


def test_a_round_that_is_a_little_late_is_no_freeze(dog: Watchdog) -> None:
    dog.due = SECOND
    dog.round(SECOND + FROZEN_NS)
    assert list(dog.freezes) == []


def test_a_round_that_is_late_is_a_freeze_from_when_it_was_due(dog: Watchdog) -> None:
    dog.due = SECOND
    dog.round(5 * SECOND)
    assert list(dog.freezes) == [Lag(SECOND, 5 * SECOND)]


def test_what_the_watchdog_does_itself_is_no_freeze(dog: Watchdog) -> None:
    dog.due = SECOND
    dog.round(SECOND)
    # A callback takes 30 s.
    assert dog.frozen(31 * SECOND) == []


def test_a_freeze_is_found_once(dog: Watchdog) -> None:
    dog.due = SECOND
    dog.round(5 * SECOND)
    assert dog.frozen(6 * SECOND) == [Lag(SECOND, 5 * SECOND)]


def test_freezes_are_forgotten_in_the_end(dog: Watchdog) -> None:
    for turn in range(2 * FREEZES_KEPT):
        dog.due = turn * SECOND
        dog.round((turn + 1) * SECOND)
    assert len(dog.freezes) == FREEZES_KEPT


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
def test_a_reporter_that_fails_is_told_once_all_the_same(watched: Make, failures: dict[str, int]) -> None:
    reporter = Failing()
    stream = watched(reporter=reporter)
    stream.ask()
    stream.wait(5)
    assert (reporter.asked, failures) == (1, {"reporting a stall": 1})


@pytest.mark.requirement("R16")
def test_a_reporter_that_fails_costs_no_report_of_the_stream(watched: Make, failures: dict[str, int]) -> None:
    stream = watched(reporter=Failing())
    stream.ask()
    stream.wait(1.5)
    stream.probe.failed(ConnectionError())
    assert (len(stream.recording.ended[0].stalls), failures) == (1, {"reporting a stall": 2})


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_fails_is_contained(
    watched: Make, error: type[BaseException], failures: dict[str, int]
) -> None:
    def fail(stall: Stall) -> None:
        raise error

    stream = watched(on_stall=fail)
    stream.ask()
    stream.wait(1.5)
    stream.arrive()
    stream.chunk(2.5)
    stream.wait(0.1)
    assert (len(stream.reports), failures) == (4, {"calling on_stall": 2})


@pytest.mark.requirement("R16")
def test_a_stream_that_cannot_be_looked_at_costs_the_others_nothing(watched: Make, failures: dict[str, int]) -> None:
    broken, whole = watched(), watched()
    broken.watch._lookout._asked = None  # type: ignore[assignment]
    whole.ask()
    whole.wait(1.5)
    assert (whole.reports.said, failures) == (["started"], {"watching for stalls": 1})


# --- Breaking off ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R49")
def test_nothing_is_broken_off_unless_asked_for(watched: Make) -> None:
    stream = watched()
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.wait(60)
    assert breaker.cuts == 0


@pytest.mark.requirement("R49")
def test_a_stall_can_be_broken_off_by_who_is_told(watched: Make) -> None:
    stream = watched()
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.wait(1)
    assert (stream.told[0].abort(), breaker.cuts) == (True, 1)


@pytest.mark.requirement("R49")
def test_a_stream_is_broken_off_once(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.wait(9)
    assert (breaker.cuts, stream.told[0].abort()) == (1, False)


@pytest.mark.requirement("R49")
def test_a_stall_is_broken_off_after_so_long(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.wait(1.8)
    before = breaker.cuts
    stream.wait(0.2)
    assert (before, breaker.cuts) == (0, 1)


def test_what_cannot_be_broken_off_is_left_alone(watched: Make) -> None:
    stream = watched()
    stream.probe.breaker = Aborter(can=False)
    stream.ask()
    stream.wait(1)
    said = stream.told[0].abort()
    # What comes after that is its own error.
    stream.probe.failed(ConnectionError())
    assert (said, stream.recording.outcome) == (False, "error")


def test_before_there_is_a_connection_there_is_nothing_to_break_off(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1)
    assert stream.told[0].abort() is False


def test_a_stream_that_is_over_is_not_broken_off(watched: Make) -> None:
    stream = watched()
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.wait(1)
    stream.probe.failed(ConnectionError())
    assert (stream.told[0].abort(), breaker.cuts) == (False, 0)


def test_a_stream_that_is_gone_is_not_broken_off(watched: Make) -> None:
    stream = watched()
    stream.ask()
    stream.wait(1)
    stall = stream.told[0]
    stream.probe.failed(ConnectionError())
    probe = weakref.ref(stream.probe)
    del stream
    gc.collect()
    assert (probe(), stall.abort()) == (None, False)


def test_a_stall_of_the_process_is_not_broken_off(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = breaker = Aborter()
    stream.ask()
    stream.freeze(30)
    stream.wait(1)
    assert breaker.cuts == 0


def test_a_stream_that_nobody_waits_for_is_not_broken_off(watched: Make) -> None:
    """The headers took 3 s; the caller has not asked for a chunk yet, or reads the bytes itself."""
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = breaker = Aborter()
    stream.recording.clock.advance(3)
    stream.probe.responded(None)
    stream.wait(3)
    stream.probe.waiting = True
    stream.wait(3)
    assert breaker.cuts == 0


def test_who_waits_for_a_stream_that_was_broken_off_gets_the_breakers_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = Aborter()
    stream.ask()
    stream.wait(2)
    error = stream.probe.failed(ConnectionError())
    said = "The stream was broken off after 2.0 s without a token: it had stalled."
    assert (type(error), str(error)) == (TimeoutError, said)


def test_a_stream_that_was_broken_off_ended_in_an_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = Aborter()
    stream.ask()
    stream.wait(2)
    assert type(stream.probe.exhausted()) is TimeoutError
    (ended,) = stream.recording.ended
    assert (ended.timeline.outcome.value, ended.error_type, ended.stalls[0].end) == ("error", "TimeoutError", "error")


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_a_caller_that_is_interrupted_while_its_stream_is_broken_off_stays_interrupted(
    watched: Make, error: type[BaseException]
) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = Aborter()
    stream.ask()
    stream.wait(2)
    # It raises nothing of its own.
    stream.probe.failed(error())
    assert stream.recording.outcome in {"cancelled", "abandoned"}


def test_a_stream_whose_end_came_before_it_was_broken_off_is_completed(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, abort_after=2))
    stream.probe.breaker = Aborter()
    stream.ask()
    stream.wait(2)
    stream.probe.answer.is_terminated = True
    stream.probe.exhausted()
    assert stream.recording.outcome == "completed"


def test_a_stream_that_breaks_behind_its_finish_reason_still_gets_the_breakers_error(watched: Make) -> None:
    stream = watched(StallPolicy(first_token=1, next_token=1, abort_after=2))
    stream.probe.breaker = Aborter()
    stream.chunk(0.1)
    stream.probe.answer.add_finish_reason("stop")
    stream.ask()
    stream.wait(2)
    assert type(stream.probe.failed(ConnectionError())) is TimeoutError


# --- The streams of a process ----------------------------------------------------------------------------------------


def test_a_stream_that_is_gone_is_forgotten(watched: Make, dog: Watchdog) -> None:
    stream = watched()
    stream.wait(0.1)
    stream.probe.closed()
    clock = stream.recording.clock
    watch = weakref.ref(stream.watch)
    del stream
    gc.collect()
    clock.advance(1)
    dog.round(clock())
    assert (watch(), dog._deadlines) == (None, [])


def test_a_stream_that_can_have_no_stall_is_not_looked_at(watched: Make, dog: Watchdog) -> None:
    stream = watched(StallPolicy(first_token=None, reasoning=None, next_token=None))
    stream.ask()
    stream.wait(1)
    assert dog._deadlines == []


def test_a_stream_that_flows_is_looked_at_once_in_the_shortest_threshold(
    watched: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    look = StreamStallMonitor.look

    def counted(watch: StreamStallMonitor, now: int) -> bool:
        looks.append(now)
        return look(watch, now)

    monkeypatch.setattr(StreamStallMonitor, "look", counted)
    stream = watched()
    for _ in range(200):
        stream.chunk(0.1)
    assert 10 <= len(looks) <= 20


def test_after_a_reset_nothing_is_known_of_streams_or_freezes(watched: Make, dog: Watchdog) -> None:
    stream = watched()
    stream.freeze(5)
    stream.sleep()
    dog.reset()
    assert (list(dog.freezes), dog.due, dog._deadlines, list(dog._new)) == ([], NEVER, [], [])


@pytest.mark.requirement("R46")
def test_one_thread_watches_every_stream(watched: Make) -> None:
    def watchdogs() -> int:
        return [thread.name for thread in threading.enumerate()].count("otel_itl watchdog")

    first = watched()
    before = watchdogs()
    streams = [first, *(watched() for _ in range(50))]
    registries = {id(stream.recording.registry) for stream in streams}
    assert (len(registries), watchdogs()) == (1, before)


@pytest.mark.requirement("R46")
def test_the_thread_of_a_registry_makes_the_rounds(monkeypatch: pytest.MonkeyPatch, record: Any) -> None:
    monkeypatch.setattr("otel_itl.recording.open_streams.SWEEP_SECONDS", 0.01)
    fresh = OpenStreams()
    monkeypatch.setattr("otel_itl.recording.recorder.open_streams", fresh)
    recording = record()
    probe = StreamRecorder(
        recording.probe.request, recording.probe.classify, lambda _: None, unix_ns=0, requested=perf_counter_ns()
    )
    threads: list[str] = []
    policy = StallPolicy(first_token=0.05)
    probe.watched(
        StreamStallMonitor(probe, policy, Reports(), lambda _: threads.append(threading.current_thread().name))
    )
    deadline = monotonic() + 10
    while not threads and monotonic() < deadline:
        sleep(0.005)
    probe.closed()
    assert threads == ["otel_itl watchdog"]


FORKED = """
import json, os, sys, time
from otel_itl.core.request import Request
from otel_itl.recording.open_streams import open_streams
from otel_itl.recording.recorder import StreamRecorder as Probe
from otel_itl.recording.watchdog import StreamStallMonitor as Watch, watchdog
from otel_itl.core.stalls import StallPolicy

told = []

class Reports:
    def stall_started(self, stall): told.append(stall.request.model)
    def stall_ended(self, stall): pass

def opened(model):
    request = Request(operation="chat", provider="openai", model=model)
    probe = Probe(request, lambda chunk, answer: 0, lambda _: None, unix_ns=0, requested=time.perf_counter_ns())
    probe.watched(Watch(probe, StallPolicy(first_token=0.3), Reports()))
    return probe

def wait_for(model):
    limit = time.monotonic() + 10
    while model not in told and time.monotonic() < limit:
        time.sleep(0.01)

parents = opened("parent's")
reading, writing = os.pipe()
child = os.fork()
if not child:
    own = opened("child's")
    wait_for("child's")
    time.sleep(0.3)
    os.write(writing, json.dumps(told).encode())
    os._exit(0)
wait_for("parent's")
os.waitpid(child, 0)
print(json.dumps([json.loads(os.read(reading, 10_000)), told]))
"""


@pytest.mark.requirement("R46", "R69")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_after_a_fork_each_process_watches_its_own_streams() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], check=True, capture_output=True, text=True, timeout=30
    )
    assert json.loads(done.stdout) == [["child's"], ["parent's"]]
