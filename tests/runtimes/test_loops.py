"""Event loops and schedulers other than asyncio's own, and threads that read what others asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from processes import needs

if TYPE_CHECKING:
    from processes import Ran

pytestmark = pytest.mark.requirement("R69")

ASYNC = """
from told import ASKED, async_client, instrument, tell, text

async def read(client):
    return text([chunk async for chunk in await client.chat.completions.create(**ASKED)])

async def left(client):
    async with await client.chat.completions.create(**ASKED) as stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                return chunk.choices[0].delta.content
"""
UVLOOP = (
    ASYNC
    + """
import asyncio, uvloop

async def main():
    async with async_client() as client:
        bare = await read(client)
        instrument()
        texts = list(await asyncio.gather(*(read(client) for _ in range(3))))
        first = await left(client)
    tell(bare=bare, texts=texts, first=first, loop=type(asyncio.get_running_loop()).__module__)

uvloop.run(main())
"""
)
TRIO = (
    ASYNC
    + """
import trio

async def main():
    async with async_client() as client:
        bare = await read(client)
        instrument()
        texts = []
        async def one():
            texts.append(await read(client))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        first = await left(client)
    tell(bare=bare, texts=texts, first=first, loop="trio")

trio.run(main)
"""
)
GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
from told import ASKED, client, instrument, tell, text

def read(client):
    return text(list(client.chat.completions.create(**ASKED)))

def left(client):
    with client.chat.completions.create(**ASKED) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                return chunk.choices[0].delta.content

with client() as asking:
    bare = read(asking)
    instrument()
    readers = [gevent.spawn(read, asking) for _ in range(3)]
    gevent.joinall(readers)
    first = left(asking)
tell(bare=bare, texts=[reader.value for reader in readers], first=first, loop="gevent")
"""
THREADS = """
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from told import ASKED, client, instrument, tell, text

def left(stream):
    with stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                return chunk.choices[0].delta.content

with client() as asking, ThreadPoolExecutor(4) as pool:
    bare = text(list(asking.chat.completions.create(**ASKED)))
    instrument()
    streams = [asking.chat.completions.create(**ASKED) for _ in range(3)]
    texts = list(pool.map(lambda stream: text(list(stream)), streams))
    first = pool.submit(left, asking.chat.completions.create(**ASKED)).result()
tell(bare=bare, texts=texts, first=first, loop="threads")
"""
PROGRAMS = {"uvloop": UVLOOP, "trio": TRIO, "gevent": GEVENT, "threads": THREADS}


def case(name: str) -> Any:
    return pytest.param(name, marks=[] if name == "threads" else [needs(name)])


each = pytest.mark.parametrize("name", [case(name) for name in PROGRAMS])
Run = Callable[..., "Ran"]


@each
def test_streams_are_read_as_without_us(name: str, run: Run) -> None:
    (report,) = run(PROGRAMS[name]).reports
    assert (report["bare"], report["texts"], report["first"]) == ("abcde", ["abcde"] * 3, "a")


@each
def test_each_stream_is_recorded_once(name: str, run: Run) -> None:
    (report,) = run(PROGRAMS[name]).reports
    assert (sorted(report["outcomes"]), report["counted"]) == (["closed", *["completed"] * 3], 4)


@each
def test_every_chunk_is_recorded(name: str, run: Run) -> None:
    (report,) = run(PROGRAMS[name]).reports
    assert sorted(report["chunks"]) == [1, 5, 5, 5]


@each
def test_times_are_those_of_the_server(name: str, run: Run) -> None:
    # 40 ms to the first chunk and 30 ms to each next one. On a busy machine it may be more, and where a loop was
    # blocked when the chunk came, nothing is known of it.
    (report,) = run(PROGRAMS[name]).reports
    known = {quantity: [value for value in report[quantity] if value is not None] for quantity in ("ttft", "itl")}
    late_or_early = [ttft for ttft in known["ttft"] if not 0.035 < ttft < 5]
    assert (late_or_early, [itl for itl in known["itl"] if not 0.01 < itl < 5]) == ([], [])


@each
def test_nothing_fails_and_nothing_is_printed(name: str, run: Run) -> None:
    ran = run(PROGRAMS[name])
    assert (ran.reports[0]["failures"], ran.stderr) == ({}, "")


@each
def test_of_ours_one_thread_of_a_kind_runs_on_at_most(name: str, run: Run) -> None:
    (report,) = run(PROGRAMS[name]).reports
    assert len(report["threads"]) == len(set(report["threads"]))


@each
def test_it_was_the_runtime_that_is_meant(name: str, run: Run) -> None:
    (report,) = run(PROGRAMS[name]).reports
    assert name in report["loop"]
