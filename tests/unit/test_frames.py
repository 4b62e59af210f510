"""When the frames of an HTTP/2 stream were read from a connection that it shares."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from otel_itl.recording.evidence.frames import FrameLog, date_chunks, follow_frames
from otel_itl.testing.clock import FakeClock

MS = 1_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ns=0)


class Waiting(NamedTuple):
    """The reader of a stream, which waits for a chunk, or does not."""

    asked: array[int]
    is_pulling: bool


READING, HOLDING = Waiting(array("q", [0]), is_pulling=True), Waiting(array("q", [0]), is_pulling=False)


def log_of(clock: FakeClock, *frames_ms: tuple[float, float], before: int = 0, other: Waiting = READING) -> FrameLog:
    """Frames, each with when it was read and when it was handed out, beside a stream of another reader."""
    events: dict[int, list[Any]] = {1: [], 3: ["there"] * before}
    FrameLog(events, 1, other, clock)
    log = FrameLog(events, 3, HOLDING, clock)
    for came, taken in frames_ms:
        if not before:
            clock.now_ns = round(came * MS)
            log.append("frame")
        before = max(before - 1, 0)
        clock.now_ns = round(taken * MS)
        log.pop(0)
    return log


def ms(*moments: float) -> array[int]:
    return array("q", [round(moment * MS) for moment in moments])


def test_a_chunk_came_when_its_last_frame_was_read(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 50)), ms(10), ms(51), opened=0)
    assert (placed.asked, placed.arrived) == (ms(10), ms(20))


def test_a_chunk_that_is_handed_out_at_once_came_then(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 20.1)), ms(10), ms(20.3), opened=0)
    assert placed.arrived == ms(20.3)


def test_a_chunk_that_was_there_before_it_was_asked_for_counts_as_waited_for(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 20), (40, 90)), ms(10, 80), ms(20, 90), opened=0)
    assert (placed.asked, placed.arrived) == (ms(10, 20), ms(20, 40))


def test_a_chunk_that_was_found_after_nothing_had_read_the_connection_was_not_waited_for(clock: FakeClock) -> None:
    log = log_of(clock, (20, 20), (40, 90), other=HOLDING)
    assert date_chunks(log, ms(10, 80), ms(20, 90), opened=0).asked == ms(10, 40)


@pytest.mark.parametrize(("waited_ms", "expected"), [(4.9, False), (5, True)])
def test_a_frame_was_awaited_if_a_reader_of_the_connection_had_waited(
    waited_ms: float, expected: bool, clock: FakeClock
) -> None:
    log = log_of(clock, (20, 21), other=Waiting(ms(20 - waited_ms), is_pulling=True))
    assert [frame and frame.is_awaited for frame in log.frames] == [expected]


def test_chunks_of_one_frame_came_together(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 50)), ms(10, 51), ms(51, 52), opened=0)
    assert placed.arrived == ms(20, 20)


def test_no_chunk_came_before_the_stream_was_open(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 50)), ms(40), ms(50), opened=30 * MS)
    assert (placed.asked, placed.arrived) == (ms(30), ms(30))


def test_a_frame_that_was_there_before_it_was_followed_came_at_an_unknown_moment(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (0, 50), before=1), ms(40), ms(50), opened=30 * MS)
    assert (placed.unknown, placed.arrived) == (1, ms(50))


def test_a_chunk_without_a_frame_came_at_an_unknown_moment(clock: FakeClock) -> None:
    assert date_chunks(log_of(clock), ms(10), ms(20), opened=0).unknown == 1


def body_of(events: Any, number: int = 3) -> Any:
    connection = SimpleNamespace(_connection=SimpleNamespace(_events=events), _stream_id=number)
    return SimpleNamespace(_stream=SimpleNamespace(_httpcore_stream=SimpleNamespace(_stream=connection)))


def test_the_list_of_the_stream_is_followed_under_the_bodies_around_it(clock: FakeClock) -> None:
    events: dict[int, list[Any]] = {1: ["other"], 3: ["own"]}
    log = follow_frames(body_of(events), HOLDING, clock)
    assert (events[3] is log, list(log or ()), type(events[1])) == (True, ["own"], list)


@pytest.mark.parametrize("events", [None, {}, {3: ("a", "tuple")}], ids=["no events", "of others", "of another make"])
def test_a_transport_of_another_make_is_left_alone(events: Any, clock: FakeClock) -> None:
    assert follow_frames(body_of(events), HOLDING, clock) is None
