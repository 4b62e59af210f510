"""A server in a process of its own: the same interface, and times that compare with this process's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from otel_itl.testing import Script, ScriptedServer, chat, faults

ASKED = [{"role": "user", "content": "hello"}]


@pytest.fixture
def remote() -> Iterator[ScriptedServer]:
    with ScriptedServer(process=True) as running:
        yield running


def read(server: ScriptedServer, clients: dict[str, Callable[..., Any]], model: str = "m") -> list[Any]:
    with clients["openai"](server) as client:
        return list(client.chat.completions.create(model=model, messages=ASKED, stream=True))


def test_queued_scripts_are_played(remote: ScriptedServer, clients: Any) -> None:
    remote.play(chat.reply(["a"]), model="m")
    remote.always(chat.reply(["b"]))
    assert [read(remote, clients)[1].choices[0].delta.content for _ in range(2)] == ["a", "b"]


def test_its_times_compare_with_those_of_this_process(remote: ScriptedServer, clients: Any) -> None:
    before = time.perf_counter_ns()
    read(remote, clients)
    after = time.perf_counter_ns()
    exchange = remote.exchanges[0]
    assert before < exchange.arrived_ns <= exchange.output_times_ns[0] <= exchange.output_times_ns[-1] < after


def test_a_steady_script_is_sent_steadily_while_this_process_is_busy(remote: ScriptedServer, clients: Any) -> None:
    remote.play(chat.reply(200, gaps=0.0014))
    read(remote, clients)
    gaps = [after - before for before, after in pairwise(remote.exchanges[0].output_times_ns)]
    assert median(gaps) / 1e6 == pytest.approx(1.4, abs=0.1)


def test_an_exchange_is_followed_while_it_lasts(remote: ScriptedServer) -> None:
    remote.play(Script([chat.text("a"), chat.text("b", after=0.1)]))
    with socket.create_connection(("127.0.0.1", remote.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n\r\n")
        client.recv(65536)
        exchange = remote.exchanges[0]
        open_before = not exchange.done
        exchange.wait_done()
    assert (open_before, len(exchange.sent)) == (True, 2)


def test_waiting_for_requests_that_do_not_come_times_out(remote: ScriptedServer) -> None:
    with pytest.raises(TimeoutError, match="0 requests arrived"):
        remote.wait_for(1, timeout=0.1)


def test_exchanges_stay_readable_after_the_end(clients: Any) -> None:
    with ScriptedServer(process=True) as server:
        read(server, clients)
    assert [sent.kind for sent in server.exchanges[0].sent][:2] == ["role", "answer"]


def test_cleared_exchanges_are_gone(remote: ScriptedServer, clients: Any) -> None:
    read(remote, clients)
    remote.clear()
    assert remote.exchanges == []


def test_a_dead_process_is_reported_in_a_sentence(remote: ScriptedServer) -> None:
    os.kill(remote._engine._child.pid, signal.SIGKILL)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="has died"):
        remote.wait_for(1, timeout=5)


def test_stopping_with_a_held_stream_leaves_no_process(remote: ScriptedServer) -> None:
    child = remote._engine._child  # type: ignore[union-attr]
    remote.always(faults.never())
    with socket.create_connection(("127.0.0.1", remote.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n\r\n")
        remote.stop()
    assert child.poll() == 0


def test_the_process_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, signal; from otel_itl.testing import ScriptedServer\n"
        "server = ScriptedServer(process=True).start()\n"
        "print(server._engine._child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=False)
    deadline = time.monotonic() + 5
    while _runs(int(killed.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(int(killed.stdout))


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
