"""What the operating system shows of a connection: real sockets, without an SDK."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest

from otel_itl.recording.evidence import connection as module
from otel_itl.recording.evidence.connection import MILLISECOND, RESOLUTION, Connection, Reading, Source, make_source

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows when data came")

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends of a TCP connection: the client's and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        yield client, server


def read(connected: Any) -> Reading:
    reading = Connection(lambda: Source(connected), perf_counter_ns).read()
    assert reading is not None
    return reading


def send(ends: Ends, data: bytes) -> int:
    """Send data and wait until they are there; returns when they were sent (ns)."""
    client, server = ends
    there = len(client.recv(9_999, socket.MSG_PEEK | socket.MSG_DONTWAIT)) if read(client).unread else 0
    sent = perf_counter_ns()
    server.send(data)
    while len(client.recv(9_999, socket.MSG_PEEK)) < there + len(data):
        time.sleep(0.001)
    return sent


def test_bytes_are_unread_until_they_are_read(ends: Ends) -> None:
    send(ends, b"chunk")
    before = read(ends[0]).unread
    ends[0].recv(9)
    assert (before, read(ends[0]).unread) == (5, 0)


def test_bytes_and_segments_are_counted(ends: Ends) -> None:
    before = read(ends[0])
    send(ends, b"one")
    send(ends, b"two, three")
    now = read(ends[0])
    assert before.received is not None
    assert before.segments is not None
    assert (now.received, now.segments) == (before.received + 13, before.segments + 2)


def test_the_last_data_came_when_they_were_sent(ends: Ends) -> None:
    sent = send(ends, b"chunk")
    time.sleep(0.3)
    last = read(ends[0]).last_data
    assert last is not None
    assert sent <= last <= sent + 2 * RESOLUTION + 20 * MILLISECOND


def test_what_has_the_descriptor_alone_is_read_by_it(ends: Ends) -> None:
    class Response:
        def fileno(self) -> int:
            return ends[0].fileno()

    send(ends, b"chunk")
    assert read(Response()).received == 5


def test_a_process_that_is_stopped_while_it_reads_does_not_take_data_for_older(ends: Ends) -> None:
    send(ends, b"chunk")
    moments = iter((0, 3_000 * MILLISECOND))
    reading = Connection(lambda: Source(ends[0]), moments.__next__).read()
    assert reading is not None
    assert reading.last_data is not None
    assert (reading.moment, reading.last_data > 2_000 * MILLISECOND) == (0, True)


def test_a_connection_that_is_closed_shows_nothing(ends: Ends) -> None:
    ends[0].close()
    assert Connection(lambda: Source(ends[0]), perf_counter_ns).read() is None


def test_a_socket_of_another_family_shows_its_unread_bytes_alone() -> None:
    client, server = socket.socketpair()
    with client, server:
        server.send(b"chunk")
        reading = read(client)
        assert (reading.unread, reading.received, reading.last_data) == (5, None, None)


def test_another_system_shows_its_unread_bytes_alone(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    send(ends, b"chunk")
    monkeypatch.setattr(module, "TCP_INFO", None)
    assert read(ends[0]) == Reading(moment=ANY, unread=5)


def test_windows_shows_nothing(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert Connection(lambda: Source(ends[0]), perf_counter_ns).read() is None


def test_a_kernel_that_does_not_count_segments_shows_the_rest(ends: Ends) -> None:
    class Old:
        fileno = ends[0].fileno

        def getsockopt(self, level: int, name: int, _: int) -> bytes:
            return ends[0].getsockopt(level, name, module.OLD_FIELDS.size)

    send(ends, b"chunk")
    reading = read(Old())
    assert (reading.received, reading.segments, reading.last_data is None) == (5, None, False)


def test_the_socket_is_looked_for_once(ends: Ends) -> None:
    searches: list[None] = []
    connection = Connection(lambda: searches.append(None), perf_counter_ns)
    assert (connection.read(), connection.read(), len(searches)) == (None, None, 1)


def test_a_connection_that_its_server_has_closed_is_not_established(ends: Ends) -> None:
    before = read(ends[0]).is_established
    ends[1].close()
    while ends[0].recv(1):
        pass
    assert (before, read(ends[0]).is_established) == (True, False)


@pytest.mark.parametrize(
    ("queue", "ciphertext", "expected"), [([b"read"], 0, True), ([], 9, True), ([], 0, False)], ids=str
)
def test_what_an_event_loop_has_read_makes_its_reader_ready(
    queue: list[bytes], ciphertext: int, expected: bool, ends: Ends
) -> None:
    transport = SimpleNamespace(_protocol=SimpleNamespace(read_queue=queue))
    to_proxy = SimpleNamespace(transport_stream=transport, _read_bio=SimpleNamespace(pending=ciphertext))
    through_it = SimpleNamespace(transport_stream=to_proxy, _read_bio=SimpleNamespace(pending=0))
    source = make_source(SimpleNamespace(_stream=through_it, get_extra_info=lambda _: ends[0]))
    reading = Connection(lambda: source, perf_counter_ns).read()
    assert reading is not None
    assert (reading.is_ready, reading.is_readable) == (expected, expected)
