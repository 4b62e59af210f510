"""Whether a pull after a hold blocked: real sockets and threads, without an SDK."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from types import FrameType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from otel_itl.recording.chunk_log import ChunkLog
from otel_itl.recording.evidence import pulls as judging
from otel_itl.recording.evidence.connection import Connection, Reading, Source
from otel_itl.recording.evidence.pulls import PullEvidence, ThreadTimes, make_pull_evidence
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.recording.stream_iterators import record_iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such evidence on Windows")


MAX_BYTECODES_OF_A_BACKLOG = 110
"""What a pull on a loop that does not suspend may cost here: it is 75."""


class Stream:
    """A stream whose consumer has just asked for a chunk, and its own evidence."""

    def __init__(self, find_source: Callable[[], Any] = lambda: None) -> None:
        self.log = ChunkLog()
        self.clock: Callable[[], int] = perf_counter_ns
        self.errors = InternalErrors()
        self._connection = Connection(find_source, perf_counter_ns)

    @property
    def evidence(self) -> Stream:
        return self

    def read_connection(self) -> Reading | None:
        return self._connection.read()


def judged(pull: Callable[[], Any], connected: Any = None) -> bool:
    """Whether one pull was judged to have blocked."""
    stream = Stream(lambda: None if connected is None else Source(connected))
    stream.log.asked.append(perf_counter_ns())
    judge = PullEvidence(stream, pull)
    judge.pull()
    return bool(judge.blocked)


def judged_on_loop(pull: Callable[[], Any], connected: Any = None) -> bool:
    stream = Stream(lambda: None if connected is None else Source(connected))
    judge = PullEvidence(stream, pull)

    async def one_pull() -> bool:
        stream.log.asked.append(perf_counter_ns())
        await judge.pull()
        return bool(judge.blocked)

    return asyncio.run(one_pull())


def compute(seconds: float = 0.01) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection: the client's and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        yield client, server


def settle(client: socket.socket, count: int) -> None:
    """Wait until this many bytes are there."""
    while len(client.recv(64, socket.MSG_PEEK)) < count:
        time.sleep(0.001)


def test_bytes_that_were_there_when_a_chunk_was_asked_for_are_no_wait(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, server = connection
    server.send(b"chunk")
    settle(client, 5)

    def pull() -> None:
        client.recv(64)
        compute()

    assert not judged(pull, client)


def test_bytes_that_came_after_a_chunk_was_asked_for_are_a_wait(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, server = connection
    sending = threading.Timer(0.01, server.send, [b"chunk"])

    def pull() -> None:
        sending.start()
        client.recv(64)

    assert judged(pull, client)
    sending.join()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
def test_a_pull_that_reads_nothing_has_not_waited_however_long_it_took(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, _ = connection
    assert not judged(lambda: time.sleep(0.01), client)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
def test_bytes_that_came_and_were_left_alone_are_no_wait(connection: tuple[socket.socket, socket.socket]) -> None:
    client, server = connection

    def pull() -> None:
        server.send(b"the chunk after it")
        settle(client, 18)
        compute()

    assert not judged(pull, client)


def test_without_a_socket_a_thread_that_computes_has_not_waited() -> None:
    # Another process may take the CPU away meanwhile, but not for ever.
    assert not all(judged(compute) for _ in range(20))


def test_without_a_socket_a_thread_that_slept_has_waited() -> None:
    assert judged(lambda: time.sleep(0.01))


def test_on_a_loop_a_pull_that_does_not_suspend_has_not_waited() -> None:
    async def pull() -> None:
        compute()

    assert not judged_on_loop(pull)


def test_on_a_loop_a_pull_that_suspends_has_waited_for_all_that_is_known() -> None:
    assert judged_on_loop(lambda: asyncio.sleep(0.005))


def test_on_a_loop_bytes_that_were_there_are_no_wait_although_the_pull_suspends(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, server = connection
    server.send(b"chunk")
    settle(client, 5)
    assert not judged_on_loop(lambda: asyncio.sleep(0.005), client)


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the thread compute all the time, by the times that the system shows: other threads may stop it really."""
    monkeypatch.setattr(judging, "_read_thread_times", lambda: ThreadTimes(perf_counter_ns(), 0))


@pytest.mark.usefixtures("computing")
def test_a_pull_that_has_not_blocked_counts_as_asked_for_when_its_chunk_came() -> None:
    stream = Stream()
    stream.log.asked.append(perf_counter_ns())
    judge = PullEvidence(stream, compute)
    before = perf_counter_ns()
    judge.pull()
    assert stream.log.asked[-1] - before > 9_000_000


@pytest.mark.usefixtures("computing")
def test_a_socket_that_is_closed_is_no_evidence(connection: tuple[socket.socket, socket.socket]) -> None:
    client, _ = connection
    client.close()
    assert not judged(compute, client)


def test_a_failure_to_find_the_socket_is_contained_and_counted() -> None:
    def fail() -> None:
        raise RuntimeError("no socket")

    stream = Stream(fail)
    stream.log.asked.append(perf_counter_ns())
    assert PullEvidence(stream, lambda: "chunk").pull() == "chunk"
    assert sum(stream.errors.counts.values()) == 1


def test_a_clock_of_another_make_has_no_evidence() -> None:
    stream = Stream()
    stream.clock = lambda: 0
    assert make_pull_evidence(stream, compute) is None


# --- What it costs --------------------------------------------------------------------------------------------------


def executed_bytecodes(chunks: int, *, has_judge: bool) -> int:
    """The bytecodes that reading a stream without holds executes."""
    log = ChunkLog()
    source = iter(range(chunks))
    stream = Stream()
    judge = PullEvidence(stream, source.__next__) if has_judge else None
    ticks = itertools.count(0, 1_000)  # no hold is longer than a microsecond, however busy the machine is
    targets = log.append_targets(lambda *_: 1, source.__next__, ticks.__next__, 0, judge)
    recorder: Any = SimpleNamespace(
        start_reading=lambda *_: None,
        clock=ticks.__next__,
        response=None,
        append_targets=lambda _: targets,
        end_exhausted=lambda: None,
    )
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in record_iterator(source, recorder):
            pass
    finally:
        sys.settrace(before)
    assert len(log.codes) == chunks
    return count


def test_a_stream_that_is_read_without_holds_executes_no_bytecode_for_evidence() -> None:
    per_chunk = [
        executed_bytecodes(300, has_judge=has_judge) - executed_bytecodes(100, has_judge=has_judge)
        for has_judge in (True, False)
    ]
    assert per_chunk[0] == per_chunk[1]


def test_on_a_loop_a_chunk_of_a_backlog_costs_few_bytecodes_and_no_system_call() -> None:
    searches: list[str] = []
    stream = Stream(lambda: searches.append("socket"))
    stream.log.asked.append(perf_counter_ns())

    async def pull() -> str:
        return "chunk"

    judge = PullEvidence(stream, pull)

    async def count(pulls: int) -> int:
        executed = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal executed
            frame.f_trace_opcodes = True
            executed += event == "opcode" and frame.f_code.co_filename == judging.__file__
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for _ in range(pulls):
                await judge.pull()
        finally:
            sys.settrace(before)
        return executed

    first, few, many = (asyncio.run(count(pulls)) for pulls in (1, 10, 20))
    assert first > 0
    assert (many - few) / 10 <= MAX_BYTECODES_OF_A_BACKLOG
    assert searches == ["socket"]


def test_what_is_thrown_into_a_pull_that_waits_reaches_the_stream() -> None:
    stream, seen = Stream(), []
    stream.log.asked.append(perf_counter_ns())

    async def pull() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
        await asyncio.sleep(0)
        return "chunk"

    async def cancel() -> str:
        task = asyncio.ensure_future(PullEvidence(stream, pull).pull())
        await asyncio.sleep(0.001)
        task.cancel()
        return await task

    assert (asyncio.run(cancel()), seen) == ("chunk", ["cancelled"])


def test_a_hold_late_in_a_stream_is_found_without_looking_at_the_chunks_before_it() -> None:
    moments = iter([*range(0, 2_000_000, 1_000), 5_000_000, 5_001_000, 5_002_000])
    log = ChunkLog()
    pulled: list[str] = []

    class Judge:
        blocked: ClassVar[list[None]] = []

        def pull(self) -> str:
            pulled.append("after the hold")
            self.blocked.append(None)
            return "chunk"

    for asked, arrived, carried, _, pull, turns in log.append_targets(
        lambda *_: 1, lambda: "chunk", moments.__next__, 0, Judge()
    ):
        for now, _ in turns:
            asked(now)
            pull()
            arrived(now)
            carried(1)
            if pulled:
                break
        if pulled:
            break
    assert (pulled, log.asked[-1] - log.arrived[-2]) == (["after the hold"], 3_002_000)
