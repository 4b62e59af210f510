"""The registry of open streams: how many are open beside each other, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_itl.core.stream import Concurrency, FinishedStream

if TYPE_CHECKING:
    from conftest import Machinery

    from otel_itl.recording.recorder import StreamRecorder


def concurrency(machinery: Machinery, *script: str) -> dict[str, Concurrency]:
    """What is reported of each stream: `+a` opens stream a, `-a` ends it, a number lets that number of seconds pass."""
    recorders: dict[str, StreamRecorder] = {}
    reported: dict[str, Concurrency] = {}
    for step in script:
        name = step[1:]
        if step[0] == "+":
            recorders[name] = machinery.open(lambda finished, name=name: reported.update({name: finished.concurrency}))
        elif step[0] == "-":
            recorders[name].end_closed()
        else:
            machinery.clock.advance(float(step))
    return reported


def test_a_stream_on_its_own_is_one(machinery: Machinery) -> None:
    reported = concurrency(machinery, "+a", "10", "-a")
    assert reported["a"] == Concurrency(at_start=1, mean=1.0)


def test_the_mean_is_over_the_time_of_the_stream(machinery: Machinery) -> None:
    # a is open from 0 to 20, b from 10 to 40: a has 10 s alone and 10 s of two, (10 + 20) / 20.
    reported = concurrency(machinery, "+a", "10", "+b", "10", "-a", "20", "-b")
    assert reported["a"] == Concurrency(at_start=1, mean=1.5)


def test_a_stream_that_others_left_has_their_share_only(machinery: Machinery) -> None:
    # b has 10 s of two and 20 s alone: (20 + 20) / 30.
    reported = concurrency(machinery, "+a", "10", "+b", "10", "-a", "20", "-b")
    assert reported["b"] == Concurrency(at_start=2, mean=pytest.approx(40 / 30))


def test_the_number_at_the_start_counts_those_in_flight_then(machinery: Machinery) -> None:
    reported = concurrency(machinery, "+a", "1", "+b", "1", "-a", "1", "+c", "1", "-b", "1", "-c")
    assert {name: reported[name].at_start for name in "abc"} == {"a": 1, "b": 2, "c": 2}


def test_streams_before_it_do_not_count(machinery: Machinery) -> None:
    reported = concurrency(machinery, "+a", "+b", "100", "-a", "-b", "5", "+c", "10", "-c")
    assert reported["c"] == Concurrency(at_start=1, mean=1.0)


def test_a_stream_of_no_duration_has_the_number_at_its_start(machinery: Machinery) -> None:
    reported = concurrency(machinery, "+a", "+b", "-b", "1", "-a")
    assert reported["b"] == Concurrency(at_start=2, mean=2.0)


def test_the_length_is_the_number_of_open_streams(machinery: Machinery) -> None:
    recorders = [machinery.open() for _ in range(3)]
    recorders[0].end_closed()
    assert len(machinery.open_streams) == 2


def test_a_stream_that_ended_is_not_among_the_open_ones(machinery: Machinery) -> None:
    recorders = [machinery.open() for _ in range(3)]
    recorders[1].end_closed()
    assert machinery.open_streams.recorders() == [recorders[0], recorders[2]]


def test_keys_ascend_in_the_order_of_registration(machinery: Machinery) -> None:
    recorders = [machinery.open() for _ in range(3)]
    assert ([recorder.key for recorder in recorders], machinery.open_streams.newest_key) == ([0, 1, 2], 2)


def test_a_stream_that_ended_has_no_key_any_more(machinery: Machinery) -> None:
    recorder = machinery.open()
    recorder.end_closed()
    assert machinery.open_streams.get(recorder.key) is None


@pytest.mark.requirement("R26")
def test_being_registered_keeps_nothing_alive(machinery: Machinery) -> None:
    finished: list[FinishedStream] = []
    recorder: Any = machinery.open(finished.append)
    del recorder
    machinery.finalizer.finalize_pending()
    assert (len(finished), len(machinery.open_streams), machinery.open_streams.recorders()) == (1, 0, [])


def test_after_a_fork_no_stream_is_open(machinery: Machinery) -> None:
    recorders = [machinery.open() for _ in range(3)]
    machinery.open_streams.forget_after_fork()
    assert (len(machinery.open_streams), [recorder.is_over for recorder in recorders]) == (0, [True] * 3)
