"""When the frames of an HTTP/2 stream were read from a connection that it shares."""

from __future__ import annotations

import sys
from array import array
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from otel_itl.recording.evidence.frames import MAX_UNASKED, FrameLog, date_chunks, follow_frames
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
    connection = connection_of({1: [], 3: ["there"] * before})
    follow_frames(body_of(connection, 1), other, clock)
    log = follow_frames(body_of(connection, 3), HOLDING, clock)
    assert log is not None
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
    placed = date_chunks(log_of(clock, (20, 50)), ms(10), ms(51), headers=0, requested=0)
    assert (placed.asked, placed.arrived) == (ms(10), ms(20))


def test_a_chunk_that_is_handed_out_at_once_came_then(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 20.1)), ms(10), ms(20.3), headers=0, requested=0)
    assert placed.arrived == ms(20.3)


def test_a_chunk_that_was_there_before_it_was_asked_for_counts_as_waited_for(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 20), (40, 90)), ms(10, 80), ms(20, 90), headers=0, requested=0)
    assert (placed.asked, placed.arrived) == (ms(10, 20), ms(20, 40))


def test_a_chunk_that_was_found_after_nothing_had_read_the_connection_was_not_waited_for(clock: FakeClock) -> None:
    log = log_of(clock, (20, 20), (40, 90), other=HOLDING)
    assert date_chunks(log, ms(10, 80), ms(20, 90), headers=0, requested=0).asked == ms(10, 40)


@pytest.mark.parametrize(("waited_ms", "expected"), [(4.9, False), (5, True)])
def test_a_frame_was_awaited_if_a_reader_of_the_connection_had_waited(
    waited_ms: float, expected: bool, clock: FakeClock
) -> None:
    log = log_of(clock, (20, 21), other=Waiting(ms(20 - waited_ms), is_pulling=True))
    assert [frame and frame.is_awaited for frame in log.frames] == [expected]


def test_chunks_of_one_frame_came_together(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 50)), ms(10, 51), ms(51, 52), headers=0, requested=0)
    assert placed.arrived == ms(20, 20)


def test_no_chunk_came_before_the_stream_was_open(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (20, 50)), ms(40), ms(50), headers=30 * MS, requested=30 * MS)
    assert (placed.asked, placed.arrived) == (ms(30), ms(30))


def test_a_frame_that_was_there_before_it_was_followed_came_at_an_unknown_moment(clock: FakeClock) -> None:
    placed = date_chunks(log_of(clock, (0, 50), before=1), ms(40), ms(50), headers=30 * MS, requested=30 * MS)
    assert (placed.since, placed.arrived) == (ms(30), ms(50))


def test_a_chunk_without_a_frame_came_at_an_unknown_moment(clock: FakeClock) -> None:
    assert date_chunks(log_of(clock), ms(10), ms(20), headers=0, requested=0).since == ms(0)


def connection_of(events: Any) -> Any:
    """A connection of httpcore with the events of its streams, by their numbers."""
    return SimpleNamespace(_events=events)


def body_of(connection: Any, number: int = 3) -> Any:
    """The body of a response on a connection, under those of the client and of its transport."""
    stream = SimpleNamespace(_connection=connection, _stream_id=number)
    return SimpleNamespace(_stream=SimpleNamespace(_httpcore_stream=SimpleNamespace(_stream=stream)))


def test_the_events_of_the_stream_are_followed_under_the_bodies_around_it(clock: FakeClock) -> None:
    connection = connection_of({1: ["other"], 3: ["own"]})
    log = follow_frames(body_of(connection), HOLDING, clock)
    assert (connection._events[3] is log, len(connection._events[3])) == (True, 1)


def test_what_was_there_is_handed_out_before_what_came_later(clock: FakeClock) -> None:
    connection = connection_of({3: ["first"]})
    follow_frames(body_of(connection), HOLDING, clock)
    connection._events[3].append("second")
    assert [connection._events[3].pop(0) for _ in range(2)] == ["first", "second"]


def test_a_reader_that_had_its_list_in_hand_when_it_was_replaced_loses_no_event(clock: FakeClock) -> None:
    connection = connection_of({3: []})
    in_hand = connection._events[3]
    follow_frames(body_of(connection), HOLDING, clock)
    in_hand.append("late")
    assert (len(connection._events[3]), connection._events[3].pop(0), len(connection._events[3])) == (1, "late", 0)


def test_the_events_of_the_other_streams_of_the_connection_are_followed_before_they_are_asked_for(
    clock: FakeClock,
) -> None:
    connection = connection_of({1: [], 3: []})
    follow_frames(body_of(connection, 1), HOLDING, clock)
    clock.now_ns = 20 * MS
    connection._events[3].append("early")
    log = follow_frames(body_of(connection, 3), HOLDING, clock)
    connection._events[3].pop(0)
    assert log is not None
    assert [frame and frame.came for frame in log.frames] == [20 * MS]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="threads may run within the statements of httpcore")
def test_a_stream_that_is_opened_later_is_followed_from_its_first_event_on(clock: FakeClock) -> None:
    connection = connection_of({1: []})
    follow_frames(body_of(connection, 1), HOLDING, clock)
    connection._events[3] = []
    clock.now_ns = 20 * MS
    connection._events[3].append("headers")
    connection._events[3].pop(0)
    log = follow_frames(body_of(connection, 3), HOLDING, clock)
    assert log is not None
    assert [frame and frame.came for frame in log.frames] == [20 * MS]


def test_a_stream_that_has_ended_meanwhile_stays_ended(clock: FakeClock) -> None:
    connection = connection_of({1: [], 3: []})
    follow_frames(body_of(connection, 1), HOLDING, clock)
    del connection._events[3]
    follow_frames(body_of(connection, 1), HOLDING, clock)
    assert list(connection._events) == [1]


def test_of_a_download_that_nobody_asks_for_a_few_frames_are_kept(clock: FakeClock) -> None:
    connection = connection_of({1: [], 3: []})
    follow_frames(body_of(connection, 1), HOLDING, clock)
    for _ in range(1_000):
        connection._events[3].append("data")
        connection._events[3].pop(0)
    log = follow_frames(body_of(connection, 3), HOLDING, clock)
    assert log is not None
    assert len(log.frames) <= MAX_UNASKED


@pytest.mark.parametrize("events", [None, {}, {3: ("a", "tuple")}], ids=["no events", "of others", "of another make"])
def test_a_transport_of_another_make_is_left_alone(events: Any, clock: FakeClock) -> None:
    assert follow_frames(body_of(connection_of(events)), HOLDING, clock) is None


def test_the_headers_came_with_their_frame(clock: FakeClock) -> None:
    log = log_of(clock, (20, 120), (20.1, 120.1))
    placed = date_chunks(log, ms(120), ms(120.2), headers=120 * MS, requested=0)
    assert (placed.headers, placed.arrived) == (20 * MS, ms(20.1))


def test_a_chunk_may_have_come_since_the_connection_was_read_before_where_nobody_waited(clock: FakeClock) -> None:
    log = log_of(clock, (20, 20), (40, 90), other=HOLDING)
    assert date_chunks(log, ms(10, 80), ms(20, 90), headers=0, requested=0).since == ms(20, 20)


def test_a_chunk_that_is_waited_for_shows_when_the_connection_was_read_without_it(clock: FakeClock) -> None:
    connection = connection_of({1: [], 3: []})
    log = follow_frames(body_of(connection), HOLDING, clock)
    clock.now_ns = 20 * MS
    connection._events[1].append("of another")
    assert log is not None
    assert log.show(None) == (20 * MS, None)


def test_a_chunk_that_waits_shows_when_it_came(clock: FakeClock) -> None:
    connection = connection_of({1: [], 3: []})
    log = follow_frames(body_of(connection), HOLDING, clock)
    for number, moment in ((1, 20 * MS), (3, 30 * MS)):
        clock.now_ns = moment
        connection._events[number].append("frame")
    assert log is not None
    assert log.show(None) == (20 * MS, 30 * MS)


def test_a_chunk_that_was_handed_out_shows_when_it_came(clock: FakeClock) -> None:
    log = log_of(clock, (20, 21), (40, 90), other=HOLDING)
    assert log.show(90 * MS) == (20 * MS, 40 * MS)
