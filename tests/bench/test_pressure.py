"""A process under pressure runs for less of the time, and is left as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from bench.truth.pressure import BUSY, prioritize, quota, stops

COMPUTE = """\
import time
print(flush=True)
input()
began, end = time.process_time(), time.monotonic() + 1.0
while time.monotonic() < end: pass
print(time.process_time() - began, flush=True)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux"),
]


@pytest.fixture
def computing() -> Iterator[subprocess.Popen[str]]:
    """A process that computes for a second after a line of input, and prints how much CPU time it got."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", COMPUTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


@pytest.mark.parametrize("limit", [partial(quota, 0.1), partial(stops, 0.01, 0.09)], ids=["quota", "stops"])
def test_a_process_gets_about_its_share(
    limit: Callable[[int], AbstractContextManager[None]], computing: subprocess.Popen[str]
) -> None:
    with limit(computing.pid):
        printed, _ = computing.communicate("\n", timeout=30)
    assert float(printed) < 0.35


def test_a_process_that_was_stopped_goes_on_afterwards(computing: subprocess.Popen[str]) -> None:
    with stops(0.0, 10.0, computing.pid):
        pass
    printed, _ = computing.communicate("\n", timeout=30)
    assert float(printed) > 0


def test_busy_processes_end_with_the_pressure() -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    before = children.read_text()
    with BUSY[0].begin(os.getpid()):
        during = children.read_text()
    assert (len(during.split()) - len(before.split()), children.read_text()) == (1, before)


def test_every_thread_of_a_process_gets_priority() -> None:
    threads = "import threading; threading.Thread(target=input).start(); print(flush=True)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        is_given = prioritize(child.pid)
        tasks = [int(task.name) for task in Path(f"/proc/{child.pid}/task").iterdir()]
        policies = {os.sched_getscheduler(task) for task in tasks}
        child.communicate(b"\n")
    if not is_given:
        pytest.skip("real-time priority is refused here")
    assert (len(tasks), policies) == (2, {os.SCHED_RR})
