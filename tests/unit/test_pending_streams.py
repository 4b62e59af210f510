"""The queue between the end of a stream and its metrics: bounded, lossless, and robust against a failing recording."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from threading import Barrier, Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from otel_itl.core.timeline import Outcome
from otel_itl.export.pending_streams import MAX_PENDING, RECORDED_PER_ADD, PendingStreams
from otel_itl.recording.critical_sections import CriticalSections


class Errors:
    """Keeps what failed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def report(self, where: str, error: BaseException) -> None:
        self.counts[where] += 1


class Recorded:
    """Stands for a set of instruments, and for what names it: keeps what is recorded."""

    def __init__(self, record: Callable[[Any], None] = lambda stream: None) -> None:
        self.instruments = self
        self.streams: list[Any] = []
        self.counted: list[Any] = []
        self.outcomes = SimpleNamespace(add=lambda count, labels, _: self.counted.append((count, labels)))
        self._record = record

    def labels_of(self, stream: Any) -> dict[str, str]:
        return {"model": stream.handle.exemplar_context}

    def record(self, batch: Any, labels: dict[str, str]) -> None:
        for stream in batch.streams:
            self._record(stream.handle.exemplar_context)
            self.streams.append(stream.handle.exemplar_context)


def add(pending: PendingStreams, recorded: Recorded, stream: Any) -> None:
    """Add a stream that is known by its context."""
    report: Any = SimpleNamespace(
        handle=SimpleNamespace(exemplar_context=stream),
        finished=SimpleNamespace(timeline=SimpleNamespace(outcome=Outcome.CLOSED)),
        batch_key=(),
    )
    pending.add(recorded, report)


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def pending(errors: Errors) -> Any:
    return PendingStreams(errors, CriticalSections())


def test_streams_wait_in_the_order_of_their_ends(pending: Any) -> None:
    recorded = Recorded()
    for stream in "abc":
        add(pending, recorded, stream)
    waiting = (len(pending), list(recorded.streams))
    pending.record_all()
    assert (waiting, recorded.streams, len(pending)) == ((3, []), ["a", "b", "c"], 0)


def test_some_of_them_may_be_recorded(pending: Any) -> None:
    recorded = Recorded()
    for stream in "abc":
        add(pending, recorded, stream)
    assert (pending.record_some(2), recorded.streams) == (2, ["a", "b"])


def test_no_more_are_recorded_than_there_are(pending: Any) -> None:
    add(pending, Recorded(), "a")
    assert (pending.record_some(5), pending.record_some(5)) == (1, 0)


def test_each_is_recorded_into_its_own_instruments(pending: Any) -> None:
    first, second = Recorded(), Recorded()
    add(pending, first, "a")
    add(pending, second, "b")
    pending.record_all()
    assert (first.streams, second.streams) == (["a"], ["b"])


def test_what_waits_is_recorded_into_the_instruments_that_took_the_place_of_those_before(pending: Any) -> None:
    before, after = Recorded(), Recorded()
    add(pending, before, "a")
    before.instruments = after
    pending.record_all()
    assert (before.streams, after.streams) == ([], ["a"])


# --- The bound -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R26")
def test_beyond_the_bound_an_add_records_a_batch(pending: Any) -> None:
    recorded = Recorded()
    for stream in range(MAX_PENDING + 1):
        add(pending, recorded, stream)
    assert (recorded.streams, len(pending)) == ([*range(RECORDED_PER_ADD)], MAX_PENDING + 1 - RECORDED_PER_ADD)


@pytest.mark.requirement("R26")
def test_the_bound_holds_however_many_are_added(pending: Any) -> None:
    recorded = Recorded()
    longest = 0
    for stream in range(10 * MAX_PENDING):
        add(pending, recorded, stream)
        longest = max(longest, len(pending))
    assert longest == MAX_PENDING


def test_beyond_the_bound_nothing_is_lost(pending: Any) -> None:
    recorded = Recorded()
    for stream in range(3 * MAX_PENDING):
        add(pending, recorded, stream)
    pending.record_all()
    assert recorded.streams == list(range(3 * MAX_PENDING))


def test_how_often_the_bound_was_reached_is_counted(pending: Any) -> None:
    for stream in range(MAX_PENDING + 1):
        add(pending, Recorded(), stream)
    assert pending.recorded_by_add == RECORDED_PER_ADD


def test_the_bound_holds_while_a_collection_hangs(pending: Any) -> None:
    # An add does not depend on another thread, which may get little of the interpreter.
    started, go_on = Event(), Event()

    def record(stream: Any) -> None:
        if stream == "slow":
            started.set()
            go_on.wait(timeout=20)

    recorded = Recorded(record)
    add(pending, recorded, "slow")
    collecting = Thread(target=pending.record_all)
    collecting.start()
    started.wait(timeout=20)
    for stream in range(3 * MAX_PENDING):
        add(pending, recorded, stream)
    waiting = len(pending)
    go_on.set()
    collecting.join(timeout=20)
    assert waiting <= MAX_PENDING


# --- Failures ------------------------------------------------------------------------------------------------------


def failing(stream: Any) -> None:
    if stream == "broken":
        raise IndexError


@pytest.mark.requirement("R16")
def test_a_recording_that_fails_loses_no_other_stream(pending: Any) -> None:
    recorded = Recorded(failing)
    for stream in ("a", "broken", "b"):
        add(pending, recorded, stream)
    pending.record_all()
    assert (recorded.streams, len(pending)) == (["a", "b"], 0)


@pytest.mark.requirement("R16")
def test_a_recording_that_fails_is_reported(pending: Any, errors: Errors) -> None:
    add(pending, Recorded(failing), "broken")
    pending.record_all()
    assert errors.counts == {"metrics.record": 1}


@pytest.mark.requirement("R16")
def test_a_stream_whose_recording_fails_is_counted(pending: Any) -> None:
    recorded = Recorded(failing)
    add(pending, recorded, "broken")
    pending.record_all()
    assert recorded.counted == [(1, {"model": "broken", "itl.stream.outcome": "closed"})]


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("fails", ["labels_of", "outcomes"])
def test_a_stream_whose_labels_fail_is_counted_without_them(pending: Any, fails: str) -> None:
    recorded = Recorded()
    count = recorded.outcomes.add

    def refuse(*arguments: Any) -> None:
        if fails == "labels_of" or "model" in arguments[1]:
            raise TypeError
        count(*arguments)

    setattr(recorded, fails, refuse if fails == "labels_of" else SimpleNamespace(add=refuse))
    add(pending, recorded, "a")
    pending.record_all()
    assert (recorded.counted, recorded.streams) == ([(1, {"itl.stream.outcome": "closed"})], [])


@pytest.mark.requirement("R16")
def test_streams_wait_again_where_a_recording_is_interrupted(pending: Any) -> None:
    def interrupted(stream: Any) -> None:
        if stream == "a":
            raise KeyboardInterrupt

    recorded = Recorded(interrupted)
    for stream in "abc":
        add(pending, recorded, stream)
    with pytest.raises(KeyboardInterrupt):
        pending.record_all()
    pending.record_all()
    assert [(count, labels["model"]) for count, labels in recorded.counted] == [(1, "a"), (1, "b"), (1, "c")]


@pytest.mark.requirement("R16")
def test_streams_with_the_same_attributes_are_counted_together(pending: Any) -> None:
    recorded, labels = Recorded(), {"model": "m"}
    recorded.labels_of = lambda _: labels  # type: ignore[method-assign]
    for stream in "abc":
        add(pending, recorded, stream)
    pending.record_all()
    assert [count for count, _ in recorded.counted] == [1, 2]


# --- Threads and processes -----------------------------------------------------------------------------------------


def test_all_are_recorded_when_another_thread_is_at_one_of_them(pending: Any) -> None:
    started, go_on = Event(), Event()

    def record(stream: Any) -> None:
        started.set()
        go_on.wait(timeout=20)

    recorded = Recorded(record)
    add(pending, recorded, "a")
    other = Thread(target=pending.record_some, args=(1,))
    other.start()
    started.wait(timeout=20)
    Thread(target=go_on.set).start()
    pending.record_all()
    assert recorded.streams == ["a"]
    other.join(timeout=20)


def test_a_recording_that_asks_for_all_to_be_recorded_does_not_wait_for_itself(pending: Any) -> None:
    recorded = Recorded(lambda stream: pending.record_all())
    for stream in "ab":
        add(pending, recorded, stream)
    pending.record_all()
    assert sorted(recorded.streams) == ["a", "b"]


def test_recording_all_ends_while_others_add(pending: Any) -> None:
    # The loop is over what was added before, not over what is added meanwhile.
    recorded = Recorded(lambda stream: add(pending, recorded, stream + 1))
    add(pending, recorded, 0)
    pending.record_all()
    assert (recorded.streams, len(pending)) == ([0], 1)


def test_streams_that_many_threads_add_and_record_are_recorded_once(pending: Any) -> None:
    recorded, together, interval = Recorded(), Barrier(8), sys.getswitchinterval()

    def work(first: int) -> None:
        together.wait()
        for stream in range(first, first + 500):
            add(pending, recorded, stream)

    threads = [Thread(target=work, args=(number * 1_000,)) for number in range(8)]
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    sys.setswitchinterval(interval)
    pending.record_all()
    assert sorted(recorded.streams) == [number * 1_000 + stream for number in range(8) for stream in range(500)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_process_drops_what_its_parent_records(pending: Any) -> None:
    add(pending, Recorded(), "a")
    pending.forget_after_fork()
    assert len(pending) == 0
