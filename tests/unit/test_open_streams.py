"""The registry of open streams: how many run beside each other, what was dropped, and the thread that sees to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import pytest

from otel_itl.core.request import Request
from otel_itl.core.stream import Concurrency, FinishedStream, ResponseInfo
from otel_itl.recording.open_streams import OpenStreams
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.testing import FakeClock

REQUEST = Request(operation="chat", provider="openai")
MODULE = "otel_itl.recording.open_streams"


def nothing(chunk: Any, answer: ResponseInfo) -> int:
    return 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """What the registry and the probes take for the time."""
    fake = FakeClock(start_ns=0)
    monkeypatch.setattr(f"{MODULE}.perf_counter_ns", fake)
    monkeypatch.setattr("otel_itl.recording.recorder.perf_counter_ns", fake)
    return fake


@pytest.fixture
def streams(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> OpenStreams:
    """A registry of this test's own, whose sweeper sleeps."""
    return registered(monkeypatch, 3_600.0)


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> OpenStreams:
    """A registry of this test's own, whose sweeper comes round at once."""
    return registered(monkeypatch, 0.005)


def registered(monkeypatch: pytest.MonkeyPatch, sweep_seconds: float) -> OpenStreams:
    monkeypatch.setattr(f"{MODULE}.SWEEP_SECONDS", sweep_seconds)
    fresh = OpenStreams()
    monkeypatch.setattr("otel_itl.recording.recorder.open_streams", fresh)
    return fresh


def opened(ended: Callable[[FinishedStream], None] = lambda ended: None) -> StreamRecorder:
    return StreamRecorder(REQUEST, nothing, ended, unix_ns=0, requested=0)


def eventually(fact: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it comes true before the time is over."""
    end = monotonic() + seconds
    while not fact():
        if monotonic() > end:
            return False
        sleep(0.002)
    return True


def sweeper_of(streams: OpenStreams) -> threading.Thread:
    assert streams._sweeper is not None
    return streams._sweeper


# --- Concurrency ---------------------------------------------------------------------------------------------------


def concurrency(clock: FakeClock, *script: str) -> dict[str, Concurrency]:
    """What is said of each stream: `+a` opens stream a, `-a` ends it, a number passes so many seconds."""
    probes: dict[str, StreamRecorder] = {}
    said: dict[str, Concurrency] = {}
    for step in script:
        name = step[1:]
        if step[0] == "+":
            probes[name] = opened(lambda ended, name=name: said.update({name: ended.concurrency}))
        elif step[0] == "-":
            probes[name].closed()
        else:
            clock.advance(float(step))
    return said


@pytest.mark.usefixtures("streams")
def test_a_stream_on_its_own_is_one(clock: FakeClock) -> None:
    said = concurrency(clock, "+a", "10", "-a")
    assert said["a"] == Concurrency(at_start=1, mean=1.0)


@pytest.mark.usefixtures("streams")
def test_the_mean_is_over_the_time_of_the_stream(clock: FakeClock) -> None:
    # a runs from 0 to 20, b from 10 to 40: a has 10 s alone and 10 s of two, (10 + 20) / 20.
    said = concurrency(clock, "+a", "10", "+b", "10", "-a", "20", "-b")
    assert said["a"] == Concurrency(at_start=1, mean=1.5)


@pytest.mark.usefixtures("streams")
def test_a_stream_that_others_left_has_their_share_only(clock: FakeClock) -> None:
    # b has 10 s of two and 20 s alone: (20 + 20) / 30.
    said = concurrency(clock, "+a", "10", "+b", "10", "-a", "20", "-b")
    assert said["b"] == Concurrency(at_start=2, mean=pytest.approx(40 / 30))


@pytest.mark.usefixtures("streams")
def test_the_number_at_the_start_counts_those_in_flight_then(clock: FakeClock) -> None:
    said = concurrency(clock, "+a", "1", "+b", "1", "-a", "1", "+c", "1", "-b", "1", "-c")
    assert {name: said[name].at_start for name in "abc"} == {"a": 1, "b": 2, "c": 2}


@pytest.mark.usefixtures("streams")
def test_streams_before_it_do_not_count(clock: FakeClock) -> None:
    said = concurrency(clock, "+a", "+b", "100", "-a", "-b", "5", "+c", "10", "-c")
    assert said["c"] == Concurrency(at_start=1, mean=1.0)


@pytest.mark.usefixtures("streams")
def test_a_stream_of_no_duration_has_the_number_at_its_start(clock: FakeClock) -> None:
    said = concurrency(clock, "+a", "+b", "-b", "1", "-a")
    assert said["b"] == Concurrency(at_start=2, mean=2.0)


def test_the_length_is_the_number_of_open_streams(streams: OpenStreams) -> None:
    probes = [opened() for _ in range(3)]
    probes[0].closed()
    assert len(streams) == 2


def test_a_stream_that_ended_is_not_among_the_open_ones(streams: OpenStreams) -> None:
    probes = [opened() for _ in range(3)]
    probes[1].closed()
    assert streams.probes() == [probes[0], probes[2]]


# --- What was dropped ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R26")
def test_being_registered_keeps_nothing_alive(streams: OpenStreams) -> None:
    ends: list[FinishedStream] = []
    probe = opened(ends.append)
    del probe
    streams.sweep()
    assert (len(ends), len(streams), streams.probes()) == (1, 0, [])


@pytest.mark.requirement("R26")
def test_dropped_streams_leave_nothing_behind(streams: OpenStreams) -> None:
    for _ in range(2_000):
        opened()
    streams.sweep()
    assert (len(streams), len(streams.orphans)) == (0, 0)


def test_a_sweep_reports_each_dropped_stream_once(streams: OpenStreams) -> None:
    ends: list[FinishedStream] = []
    for _ in range(3):
        opened(ends.append)
    streams.sweep()
    streams.sweep()
    assert len(ends) == 3


def test_a_report_that_fails_does_not_keep_the_others_from_being_reported(
    streams: OpenStreams, failures: dict[str, int]
) -> None:
    ends: list[FinishedStream] = []

    def failing(ended: FinishedStream) -> None:
        raise IndexError

    opened(failing)
    opened(ends.append)
    streams.sweep()
    assert (len(ends), failures) == (1, {"ending a stream": 1})


@pytest.mark.requirement("R28")
def test_abandoning_ends_every_open_stream(streams: OpenStreams) -> None:
    ends: list[FinishedStream] = []
    probes = [opened(ends.append) for _ in range(3)]
    streams.abandon()
    assert ([ended.timeline.outcome.value for ended in ends], len(probes)) == (["abandoned"] * 3, 3)


def test_abandoning_leaves_a_stream_that_ended_as_it_was(streams: OpenStreams) -> None:
    ends: list[FinishedStream] = []
    probe = opened(ends.append)
    probe.closed()
    streams.abandon()
    assert [ended.timeline.outcome.value for ended in ends] == ["closed"]


def test_a_sweep_does_the_chores(streams: OpenStreams) -> None:
    done: list[int] = []
    streams.chores.append(lambda: done.append(1))
    streams.sweep()
    assert done == [1]


@pytest.mark.requirement("R16")
def test_a_chore_that_fails_does_not_keep_the_others_from_being_done(
    streams: OpenStreams, failures: dict[str, int]
) -> None:
    done: list[int] = []

    def failing() -> None:
        raise RuntimeError

    streams.chores.extend([failing, lambda: done.append(1)])
    streams.sweep()
    assert (done, sum(failures.values())) == ([1], 1)


# --- The sweeper ---------------------------------------------------------------------------------------------------


def test_no_thread_runs_before_the_first_stream(swept: OpenStreams) -> None:
    assert swept._sweeper is None


@pytest.mark.requirement("R46")
def test_one_thread_serves_all_streams(swept: OpenStreams) -> None:
    first = opened()
    sweeper = sweeper_of(swept)
    more = [opened() for _ in range(20)]
    assert (sweeper_of(swept) is sweeper, first.key, len(more)) == (True, 0, 20)


def test_the_thread_does_not_keep_the_process_alive(swept: OpenStreams) -> None:
    probe = opened()
    assert (sweeper_of(swept).daemon, probe.in_flight) == (True, 1)


@pytest.mark.requirement("R25")
def test_a_dropped_stream_is_reported_without_anybody_asking(swept: OpenStreams) -> None:
    ends: list[FinishedStream] = []
    opened(ends.append)
    assert eventually(lambda: len(ends) == 1)


def test_the_sweeper_sleeps_when_nothing_is_open(swept: OpenStreams) -> None:
    opened().closed()
    assert (eventually(lambda: not swept._wake.is_set()), sweeper_of(swept).is_alive()) == (True, True)


def test_the_sweeper_stays_awake_while_a_stream_is_open(swept: OpenStreams) -> None:
    probe = opened()
    rounds: list[int] = []
    swept.chores.append(lambda: rounds.append(1))
    assert (eventually(lambda: len(rounds) > 3), swept._wake.is_set(), probe.in_flight) == (True, True, 1)


def test_the_sweeper_wakes_with_the_next_stream(swept: OpenStreams) -> None:
    opened().closed()
    eventually(lambda: not swept._wake.is_set())
    ends: list[FinishedStream] = []
    opened(ends.append)
    assert eventually(lambda: len(ends) == 1)


@pytest.mark.requirement("R16")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_sweeper_survives_a_chore_that_fails(swept: OpenStreams, failures: dict[str, int]) -> None:
    rounds: list[int] = []

    def failing() -> None:
        rounds.append(1)
        raise RuntimeError

    swept.chores.append(failing)
    probe = opened()
    assert (eventually(lambda: len(rounds) > 2, seconds=1.0), probe.in_flight) == (True, 1)


def test_streams_that_many_threads_open_and_end_are_all_counted_out(swept: OpenStreams) -> None:
    said: list[Concurrency] = []
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for turn in range(100):
            probe = opened(lambda ended: said.append(ended.concurrency))
            if turn % 3:
                probe.closed()
            del probe

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert eventually(lambda: len(said) == 800)
    # A stream that was dropped is counted until it is concluded: more than eight may be in flight.
    wrong = [one for one in said if not 1 <= one.at_start <= 800 or not 1.0 <= one.mean <= 800]
    assert (len(swept), wrong) == (0, [])


# --- Fork ----------------------------------------------------------------------------------------------------------

FORKED = """
import gc, json, os, sys, time
from otel_itl.core.request import Request
from otel_itl.recording.open_streams import open_streams
from otel_itl.recording.recorder import StreamRecorder as Probe

def opened(ends):
    request = Request(operation="chat", provider="openai")
    return Probe(request, lambda chunk, answer: 0, ends.append, unix_ns=0, requested=0)

ends = []
ended, dropped = opened(ends), opened(ends)
parents_sweeper = open_streams._sweeper
reading, writing = os.pipe()
child = os.fork()
if not child:
    facts = {"open": len(open_streams), "sweeper": open_streams._sweeper is not None}
    ended.closed()
    del dropped
    gc.collect()
    open_streams.sweep()
    facts["reported of the parent's"] = len(ends)
    own = []
    first = opened(own)
    facts["in flight"] = first.in_flight
    facts["a thread of its own"] = open_streams._sweeper is not parents_sweeper and open_streams._sweeper.is_alive()
    del first
    gc.collect()
    limit = time.monotonic() + 10
    while not own and time.monotonic() < limit:
        time.sleep(0.01)
    facts["reported of its own"] = len(own)
    os.write(writing, json.dumps(facts).encode())
    os._exit(0)
os.waitpid(child, 0)
ended.closed()
del dropped
gc.collect()
open_streams.sweep()
print(json.dumps({"child": json.loads(os.read(reading, 10_000)), "parent": len(ends)}))
"""


@pytest.fixture(scope="module")
def forked() -> dict[str, Any]:
    """What a process and its fork find of two streams that were open when it forked."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform does not fork")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], check=True, capture_output=True, text=True, timeout=30
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.requirement("R69")
@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("open", 0),
        ("sweeper", False),
        ("reported of the parent's", 0),
        ("in flight", 1),
        ("a thread of its own", True),
        ("reported of its own", 1),
    ],
)
def test_a_fork_leaves_the_parent_s_streams_and_thread_behind(
    forked: dict[str, Any], fact: str, expected: object
) -> None:
    assert forked["child"][fact] == expected


@pytest.mark.requirement("R69")
def test_a_fork_takes_nothing_from_the_parent(forked: dict[str, Any]) -> None:
    assert forked["parent"] == 2
