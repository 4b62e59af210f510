"""Send times follow the script. The bounds are wide: they hold on a busy machine, and fail on a wrong schedule."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from otel_itl.testing import Exchange, Script, ScriptedServer, chat, faults, messages

MS = 1_000_000


def play(server: ScriptedServer, raw: Any, script: Script) -> Exchange:
    server.play(script)
    raw.ask()
    raw.read_until(b"\r\n0\r\n\r\n")
    return server.exchanges[-1].wait_done()


def gaps_ms(times: list[int]) -> list[float]:
    return [(after - before) / MS for before, after in pairwise(times)]


def test_a_steady_script_is_sent_steadily(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, chat.reply(300, gaps=0.0014))
    assert median(gaps_ms(exchange.output_times_ns)) == pytest.approx(1.4, abs=0.1)


def test_a_late_event_does_not_make_the_rest_late(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, chat.reply(300, gaps=0.0014))
    first, last = exchange.output_times_ns[0], exchange.output_times_ns[-1]
    assert (last - first) / MS == pytest.approx(299 * 1.4, abs=20)


def test_no_event_is_sent_before_its_time(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, chat.reply(50, first=0.02, gaps=0.002))
    assert [sent.step for sent in exchange.sent if sent.at_ns < sent.due_ns] == []


def test_events_are_due_when_the_script_says_so(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, chat.reply(4, first=0.03, gaps=[0.01, 0.0, 0.02]))
    due = [(sent.due_ns - exchange.arrived_ns) / MS for sent in exchange.sent if sent.output]
    assert due == [30, 40, 40, 60]


def test_the_schedule_counts_from_the_headers(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, Script(chat.reply(1, first=0.02), headers_delay=0.03))
    assert [(sent.due_ns - exchange.arrived_ns) / MS for sent in exchange.sent if sent.output] == [50]


def test_headers_are_sent_after_their_delay(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, Script(chat.reply(1), headers_delay=0.03))
    assert exchange.headers_ns is not None
    assert (exchange.headers_ns - exchange.arrived_ns) / MS == pytest.approx(30, abs=10)


def test_an_inserted_ping_leaves_the_schedule_alone(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, chat.reply(2, gaps=0.04).insert(1, chat.ping(after=0.01)))
    due = [(sent.due_ns - exchange.arrived_ns) / MS for sent in exchange.sent[1:4]]
    assert due == [0, 10, 40]


def test_events_of_one_write_have_one_time(server: ScriptedServer, raw: Any) -> None:
    exchange = play(server, raw, faults.coalesce(chat.reply(4, gaps=0.001), 10))
    assert len({sent.at_ns for sent in exchange.sent}) == 1


def test_a_dribbled_event_counts_from_its_last_byte(server: ScriptedServer, raw: Any) -> None:
    # 107 bytes as a chunk: 11 pieces, the last of them ten delays after the first.
    exchange = play(server, raw, faults.dribble(Script([chat.text("x"), faults.raw(b"x" * 100)]), 10, 0.002)[1:])
    sent = exchange.sent[0]
    assert (sent.complete_ns - sent.at_ns) / MS == pytest.approx(20, abs=10)


def test_what_follows_a_dribbled_event_counts_from_its_last_piece(server: ScriptedServer, raw: Any) -> None:
    dribbled = faults.dribble(Script([faults.raw(b"x" * 100)]), 10, 0.002)
    exchange = play(server, raw, dribbled + chat.text("x", after=0.005))
    assert (exchange.sent[1].due_ns - exchange.sent[0].due_ns) / MS == 25


def test_the_client_has_an_event_right_after_it_was_sent(server: ScriptedServer, raw: Any) -> None:
    server.play(Script([chat.text("x", after=0.02) for _ in range(20)]))
    raw.ask()
    received = []
    while len(received) < 20:
        if raw.socket.recv(65536).startswith(b"b"):  # a chunk of 0xb… bytes
            received.append(time.perf_counter_ns())
    sent = server.exchanges[0].output_times_ns
    assert median(at - sent_at for at, sent_at in zip(received, sent, strict=True)) < 5 * MS


def test_concurrent_streams_keep_their_schedules(server: ScriptedServer, raw: Any) -> None:
    server.always(messages.reply(20, gaps=0.005))

    def ask(_: int) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            while client.recv(65536):
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    medians = [median(gaps_ms(exchange.output_times_ns)) for exchange in server.wait_for(8)]
    assert medians == pytest.approx([5.0] * 8, abs=1.0)
