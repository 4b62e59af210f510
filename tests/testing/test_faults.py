"""What each fault looks like to the real clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from otel_itl.testing import Script, ScriptedServer, chat, faults

API_ERROR = (openai.APIError, anthropic.APIError)


def chain(error: BaseException | None) -> Iterator[str]:
    """The names of an error and its causes: newer SDKs wrap what older ones let through."""
    while error is not None:
        yield type(error).__name__
        error = error.__cause__


def failure(surface: Any, server: ScriptedServer) -> tuple[int, BaseException]:
    """How many chunks came, and what was raised then."""
    chunks: list[Any] = []
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is what the tests are about
        surface.collect(server, chunks)
    return len(chunks), raised.value


def test_a_reset_is_a_read_error_after_what_was_sent(server: ScriptedServer, surface: Any) -> None:
    script = surface.build.reply(4).cut(2)
    server.play(script + faults.reset(after=0.02))
    count, error = failure(surface, server)
    assert (count, "ReadError" in chain(error)) == (len(script), True)


def test_a_close_is_a_protocol_error_after_what_was_sent(server: ScriptedServer, surface: Any) -> None:
    script = surface.build.reply(4).cut(2)
    server.play(script + faults.close())
    count, error = failure(surface, server)
    assert (count, "RemoteProtocolError" in chain(error)) == (len(script), True)


def test_a_dropped_connection_is_not_the_client_leaving_early(server: ScriptedServer, sync_surface: Any) -> None:
    server.play(sync_surface.build.reply(4).cut(2) + faults.reset(after=0.02))
    failure(sync_surface, server)
    assert not server.exchanges[0].wait_done().closed_early


def test_a_truncated_stream_just_ends(server: ScriptedServer, surface: Any) -> None:
    script = surface.build.reply(4).cut()
    server.play(script)
    assert len(surface.read(server)) == len(script)


@pytest.mark.parametrize("surface", ["chat-sync", "chat-async", "completions-sync", "messages-sync"], indirect=True)
def test_an_error_event_is_raised_as_an_api_error(server: ScriptedServer, surface: Any) -> None:
    server.play(surface.build.reply(4).cut(2) + surface.build.error("too much"))
    _, error = failure(surface, server)
    assert isinstance(error, API_ERROR)
    assert "too much" in str(error)


@pytest.mark.parametrize("sync_surface", ["responses"], indirect=True)
def test_an_error_event_of_a_response_is_an_event(server: ScriptedServer, sync_surface: Any) -> None:
    server.play(sync_surface.build.reply(4).cut(2) + sync_surface.build.error("too much"))
    last = sync_surface.read(server)[-1]
    assert (last.type, last.message) == ("error", "too much")


def test_invalid_json_is_a_decoding_error(server: ScriptedServer, surface: Any) -> None:
    server.play(surface.build.reply(4).cut(2) + faults.invalid_json())
    _, error = failure(surface, server)
    assert isinstance(error, json.JSONDecodeError)


def test_invalid_utf8_is_a_decoding_error(server: ScriptedServer, surface: Any) -> None:
    server.play(surface.build.reply(4).cut(2) + faults.invalid_utf8())
    _, error = failure(surface, server)
    assert isinstance(error, UnicodeDecodeError)


def test_what_is_not_an_event_stream_is_passed_over(server: ScriptedServer, surface: Any) -> None:
    script = surface.build.reply(4).cut(2)
    server.play(script + faults.not_sse())
    assert len(surface.read(server)) == len(script)


def test_a_held_stream_is_a_read_timeout_after_what_was_sent(server: ScriptedServer, impatient: Any) -> None:
    script = impatient.build.reply(4).cut(2)
    server.play(script + faults.hold())
    count, error = failure(impatient, server)
    assert (count, "ReadTimeout" in chain(error)) == (len(script), True)


def test_a_script_that_never_answers_is_a_timeout(server: ScriptedServer, impatient: Any) -> None:
    server.play(faults.never())
    _, error = failure(impatient, server)
    assert isinstance(error, (openai.APITimeoutError, anthropic.APITimeoutError))


def test_a_status_is_the_sdks_exception_for_it(server: ScriptedServer, surface: Any) -> None:
    server.play(faults.status(429, "slow down", headers={"retry-after-ms": "1"}))
    _, error = failure(surface, server)
    assert isinstance(error, (openai.RateLimitError, anthropic.RateLimitError))
    assert "slow down" in str(error)


def test_a_status_is_sent_after_its_delay(server: ScriptedServer, sync_surface: Any) -> None:
    server.play(faults.status(500, after=0.05))
    failure(sync_surface, server)
    exchange = server.exchanges[0]
    assert exchange.headers_ns is not None
    assert exchange.headers_ns - exchange.arrived_ns >= 50_000_000


def test_a_dribbled_stream_is_read_to_its_end(server: ScriptedServer, surface: Any) -> None:
    server.play(faults.dribble(surface.build.reply(3), 20, 0.0005))
    dribbled = len(surface.read(server))
    server.play(surface.build.reply(3))
    assert dribbled == len(surface.read(server))


def test_a_coalesced_stream_is_read_to_its_end(server: ScriptedServer, surface: Any) -> None:
    server.play(faults.coalesce(surface.build.reply(3), 4))
    coalesced = len(surface.read(server))
    server.play(surface.build.reply(3))
    assert coalesced == len(surface.read(server))


def test_steps_sent_together_arrive_in_one_read(server: ScriptedServer, raw: Any) -> None:
    server.play(Script([chat.role(), *faults.together(chat.text("one", after=0.05), chat.text("two", after=9))]))
    raw.ask()
    reads = raw.read_until(b"\r\n0\r\n\r\n")
    assert [b'"two"' in read for read in reads if b'"one"' in read] == [True]


def test_steps_not_sent_together_arrive_one_by_one(server: ScriptedServer, raw: Any) -> None:
    server.play(Script([chat.text("one", after=0.05), chat.text("two", after=0.05)]))
    raw.ask()
    reads = raw.read_until(b"\r\n0\r\n\r\n")
    assert [b'"two"' in read for read in reads if b'"one"' in read] == [False]


def test_a_dribbled_event_arrives_in_pieces(server: ScriptedServer, raw: Any) -> None:
    server.play(faults.dribble(Script([faults.raw(b"x" * 100, after=0.05)]), 40, 0.02))
    raw.ask()
    raw.read_until(b"\r\n\r\n")
    assert [len(read) for read in raw.read_until(b"\r\n0\r\n\r\n")[:2]] == [40, 40]


def test_a_fault_in_a_batch_comes_after_the_events_before_it(server: ScriptedServer, raw: Any) -> None:
    server.play(faults.coalesce(Script([chat.text("one"), faults.close(), chat.text("two")]), 3))
    raw.ask()
    answer = b"".join(raw.read_until(b"never"))
    assert (b'"one"' in answer, b'"two"' in answer) == (True, False)


def test_a_held_stream_is_silent_until_the_client_leaves(server: ScriptedServer, raw: Any) -> None:
    server.play(Script([chat.text("one"), faults.hold(), chat.text("two")]))
    raw.ask()
    raw.read_until(b"}\n\n\r\n")
    raw.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        raw.socket.recv(1)
    raw.socket.close()
    assert server.exchanges[0].wait_done(2).closed_early


def test_a_script_that_never_answers_sends_no_headers(server: ScriptedServer, raw: Any) -> None:
    server.play(faults.never())
    raw.ask()
    raw.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        raw.socket.recv(1)


def test_a_client_that_leaves_unanswered_is_noticed(server: ScriptedServer, raw: Any) -> None:
    server.play(faults.never())
    raw.ask()
    time.sleep(0.02)
    raw.socket.close()
    exchange = server.wait_for(1, 2)[0]
    assert (exchange.closed_early, exchange.status) == (True, None)
