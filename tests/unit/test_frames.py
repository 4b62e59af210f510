"""When the frames of an HTTP/2 stream were read from a connection that it shares."""

from __future__ import annotations

import socket
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import ref

import pytest

from otel_itl.recording.evidence.frames import MAX_UNASKED, FrameLog, date_chunks, follow_frames
from otel_itl.testing.clock import FakeClock

MS = 1_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ns=0)


class Wire:
    """A connection by a pair of sockets, and its network stream, as httpcore reads it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._sock, self._theirs = socket.socketpair()
        self._sock.setblocking(False)
        self._protocol: Any = None

    def get_extra_info(self, _: str) -> socket.socket:
        return self._sock

    def read(self, _: int = 0) -> bytes:
        try:
            return self._sock.recv(100)
        except BlockingIOError:
            return b""

    def arrive(self, count: int) -> None:
        """Have so many bytes come, of which one read takes 100."""
        self._theirs.send(bytes(count))

    def bring(self, log: Any, came_ms: float, *, began_ms: float | None = None) -> None:
        """Have a frame read: one that was there already or, where the read `began` before, one that it waited for."""
        if began_ms is None:
            self.arrive(1)
        self.clock.now_ns = round((came_ms if began_ms is None else began_ms) * MS)
        self.read()
        self.clock.now_ns = round(came_ms * MS)
        log.append("frame")

    def close(self) -> None:
        self._sock.close()
        self._theirs.close()


@pytest.fixture
def wire(clock: FakeClock) -> Iterator[Wire]:
    with closing(Wire(clock)) as wire:
        yield wire


class Moments(NamedTuple):
    """Of one frame, in milliseconds."""

    began: float | None
    """When the read began that waited for it; None: it was there already."""
    came: float
    taken: float


def log_of(wire: Wire, *frames: tuple[float | None, float, float]) -> FrameLog:
    log = follow_frames(body_of(connection_of(wire, {1: [], 3: []})), wire.clock)
    assert log is not None
    for began, came, taken in map(Moments._make, frames):
        wire.bring(log, came, began_ms=began)
        wire.clock.now_ns = round(taken * MS)
        log.pop(0)
    return log


def ms(*moments: float) -> array[int]:
    return array("q", [round(moment * MS) for moment in moments])


def test_a_chunk_came_when_its_last_frame_was_read(wire: Wire) -> None:
    placed = date_chunks(log_of(wire, (10, 20, 50)), ms(10), ms(51), headers=0, requested=0)
    assert (placed.asked, placed.arrived) == (ms(10), ms(20))


def test_a_chunk_that_is_handed_out_at_once_came_then(wire: Wire) -> None:
    placed = date_chunks(log_of(wire, (10, 20, 20.1)), ms(10), ms(20.3), headers=0, requested=0)
    assert placed.arrived == ms(20.3)


def test_a_chunk_that_was_there_before_it_was_asked_for_counts_as_waited_for(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 20), (30, 40, 90))
    placed = date_chunks(log, ms(10, 80), ms(20, 90), headers=0, requested=0)
    assert (placed.asked, placed.arrived) == (ms(10, 20), ms(20, 40))


def test_a_chunk_that_was_found_after_nothing_had_read_the_connection_was_not_waited_for(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 20), (None, 40, 90))
    assert date_chunks(log, ms(10, 80), ms(20, 90), headers=0, requested=0).asked == ms(10, 40)


@pytest.mark.parametrize(("began", "expected"), [(19.99, True), (None, False)], ids=["nothing there", "there"])
def test_a_frame_was_awaited_if_nothing_was_there_when_the_read_began(
    began: float | None, expected: bool, wire: Wire
) -> None:
    assert [frame and frame.is_awaited for frame in log_of(wire, (began, 20, 21)).frames] == [expected]


def test_what_a_read_leaves_was_there_when_it_began(wire: Wire) -> None:
    log = follow_frames(body_of(connection_of(wire, {3: []})), wire.clock)
    assert log is not None
    wire.bring(log, 20, began_ms=10)
    wire.arrive(200)
    for came in (30, 40, 50):
        wire.bring(log, came, began_ms=came)
        log.pop(0)
    assert [frame and frame.empty_at // MS for frame in log.frames] == [10, 20, 20]


def test_bytes_that_an_event_loop_has_read_were_there(wire: Wire) -> None:
    wire._protocol = SimpleNamespace(read_queue=[b"read"])
    assert [frame and frame.is_awaited for frame in log_of(wire, (10, 20, 21)).frames] == [False]


def test_of_a_network_stream_of_another_make_it_is_not_known_what_was_there(wire: Wire) -> None:
    other = SimpleNamespace(read=wire.read, get_extra_info=wire.get_extra_info)
    log = follow_frames(body_of(connection_of(other, {3: []})), wire.clock)
    assert log is not None
    other.read()
    log.append("frame")
    log.pop(0)
    assert [frame and frame.is_awaited for frame in log.frames] == [False]


def test_chunks_of_one_frame_came_together(wire: Wire) -> None:
    placed = date_chunks(log_of(wire, (10, 20, 50)), ms(10, 51), ms(51, 52), headers=0, requested=0)
    assert placed.arrived == ms(20, 20)


def test_no_chunk_came_before_the_stream_was_open(wire: Wire) -> None:
    placed = date_chunks(log_of(wire, (10, 20, 50)), ms(40), ms(50), headers=30 * MS, requested=30 * MS)
    assert (placed.asked, placed.arrived) == (ms(30), ms(30))


def test_a_frame_that_was_there_before_it_was_followed_came_at_an_unknown_moment(wire: Wire) -> None:
    log = follow_frames(body_of(connection_of(wire, {3: ["there"]})), wire.clock)
    assert log is not None
    wire.clock.now_ns = 50 * MS
    log.pop(0)
    placed = date_chunks(log, ms(40), ms(50), headers=30 * MS, requested=30 * MS)
    assert (placed.since, placed.arrived) == (ms(30), ms(50))


def test_a_chunk_without_a_frame_came_at_an_unknown_moment(wire: Wire) -> None:
    assert date_chunks(log_of(wire), ms(10), ms(20), headers=0, requested=0).since == ms(0)


def test_a_chunk_may_have_come_since_the_connection_was_last_empty(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 20), (None, 40, 90))
    assert date_chunks(log, ms(10, 80), ms(20, 90), headers=0, requested=0).since == ms(20, 20)


def test_a_chunk_that_waited_behind_the_frames_of_others_may_have_come_since_the_connection_was_last_empty(
    wire: Wire,
) -> None:
    log = log_of(wire, (10, 20, 20), (None, 40, 40.1))
    assert date_chunks(log, ms(10, 20), ms(20, 40.1), headers=0, requested=0).since == ms(20, 20)


def test_a_chunk_that_is_handed_out_at_once_after_a_hold_came_no_sooner_than_it_was_asked_for(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 20), (None, 40, 40.1))
    assert date_chunks(log, ms(10, 35), ms(20, 40.1), headers=0, requested=0).since == ms(20, 35)


def test_a_chunk_that_is_asked_for_at_once_may_have_come_before_that(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 39), (None, 40, 40.1))
    assert date_chunks(log, ms(10, 39.2), ms(39, 40.1), headers=0, requested=0).since == ms(20, 20)


def connection_of(wire: Any, events: Any) -> Any:
    """A connection of httpcore with the events of its streams, by their numbers."""
    return SimpleNamespace(_events=events, _network_stream=wire)


def body_of(connection: Any, number: int = 3) -> Any:
    """The body of a response on a connection, under those of the client and of its transport."""
    stream = SimpleNamespace(_connection=connection, _stream_id=number)
    return SimpleNamespace(_stream=SimpleNamespace(_httpcore_stream=SimpleNamespace(_stream=stream)))


def test_the_events_of_the_stream_are_followed_under_the_bodies_around_it(wire: Wire) -> None:
    connection = connection_of(wire, {1: ["other"], 3: ["own"]})
    log = follow_frames(body_of(connection), wire.clock)
    assert (connection._events[3] is log, len(connection._events[3])) == (True, 1)


def test_what_was_there_is_handed_out_before_what_came_later(wire: Wire) -> None:
    connection = connection_of(wire, {3: ["first"]})
    follow_frames(body_of(connection), wire.clock)
    connection._events[3].append("second")
    assert [connection._events[3].pop(0) for _ in range(2)] == ["first", "second"]


def test_a_reader_that_had_its_list_in_hand_when_it_was_replaced_loses_no_event(wire: Wire) -> None:
    connection = connection_of(wire, {3: []})
    in_hand = connection._events[3]
    follow_frames(body_of(connection), wire.clock)
    in_hand.append("late")
    assert (len(connection._events[3]), connection._events[3].pop(0), len(connection._events[3])) == (1, "late", 0)


def test_the_events_of_the_other_streams_of_the_connection_are_followed_before_they_are_asked_for(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    follow_frames(body_of(connection, 1), wire.clock)
    wire.bring(connection._events[3], 20)
    log = follow_frames(body_of(connection, 3), wire.clock)
    connection._events[3].pop(0)
    assert log is not None
    assert [frame and frame.came for frame in log.frames] == [20 * MS]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="threads may run within the statements of httpcore")
def test_a_stream_that_is_opened_later_is_followed_from_its_first_event_on(wire: Wire) -> None:
    connection = connection_of(wire, {1: []})
    follow_frames(body_of(connection, 1), wire.clock)
    connection._events[3] = []
    wire.bring(connection._events[3], 20)
    connection._events[3].pop(0)
    log = follow_frames(body_of(connection, 3), wire.clock)
    assert log is not None
    assert [frame and frame.came for frame in log.frames] == [20 * MS]


def test_a_stream_that_has_ended_meanwhile_stays_ended(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    follow_frames(body_of(connection, 1), wire.clock)
    del connection._events[3]
    follow_frames(body_of(connection, 1), wire.clock)
    assert list(connection._events) == [1]


def test_the_reads_of_a_connection_are_noted_once(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    logs = [follow_frames(body_of(connection, number), wire.clock) for number in (1, 3)]
    assert len({id(log.reads) for log in logs if log is not None}) == 1


def test_a_network_stream_whose_reads_are_noted_is_freed_with_its_last_reference(clock: FakeClock) -> None:
    wire = Wire(clock)
    follow_frames(body_of(connection_of(wire, {3: []})), clock)
    wire.read()
    kept = ref(wire)
    with closing(wire):
        pass
    del wire
    assert kept() is None


def test_of_a_download_that_nobody_asks_for_a_few_frames_are_kept(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    follow_frames(body_of(connection, 1), wire.clock)
    for _ in range(1_000):
        connection._events[3].append("data")
        connection._events[3].pop(0)
    log = follow_frames(body_of(connection, 3), wire.clock)
    assert log is not None
    assert len(log.frames) <= MAX_UNASKED


@pytest.mark.parametrize("events", [None, {}, {3: ("a", "tuple")}], ids=["no events", "of others", "of another make"])
def test_a_transport_of_another_make_is_left_alone(events: Any, wire: Wire) -> None:
    assert follow_frames(body_of(connection_of(wire, events)), wire.clock) is None


def test_the_headers_came_with_their_frame(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 120), (20, 20.1, 120.1))
    placed = date_chunks(log, ms(120), ms(120.2), headers=120 * MS, requested=0)
    assert (placed.headers, placed.arrived) == (20 * MS, ms(20.1))


def test_a_chunk_that_is_waited_for_shows_when_the_connection_was_read_without_it(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    log = follow_frames(body_of(connection), wire.clock)
    wire.bring(connection._events[1], 20)
    assert log is not None
    assert log.find_evidence(None) == (20 * MS, None)


def test_a_chunk_that_waits_shows_when_it_came(wire: Wire) -> None:
    connection = connection_of(wire, {1: [], 3: []})
    log = follow_frames(body_of(connection), wire.clock)
    wire.bring(connection._events[1], 20)
    wire.bring(connection._events[3], 30)
    assert log is not None
    assert log.find_evidence(None) == (20 * MS, 30 * MS)


def test_a_chunk_that_was_handed_out_shows_when_it_came(wire: Wire) -> None:
    log = log_of(wire, (10, 20, 21), (25, 40, 90))
    assert log.find_evidence(90 * MS) == (25 * MS, 40 * MS)
