"""The truth lies within what is emitted, where something keeps a reader of its own thread from running for a moment.

It leaves no trace in the run queue: what waits for the interpreter's lock, or is suspended, sleeps. Each time is
shorter than a pause of the process, and most wakes of the watchdog are in time.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple

import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="usleep and SIGSTOP")

GAP: Final = 0.02
CHUNKS: Final = 150
EVERY: Final = 0.45
"""Seconds from one time in which nothing runs to the next."""
TOLERANCE: Final = 0.005
"""Seconds by which a figure may be off: the machine has other work as well."""
OBJECTS: Final = 600_000
"""On the heap: the collector looks at them for some 0.1 s."""
STOPPER: Final = """
import os, signal, sys, time
while True:
    time.sleep(float(sys.argv[2]))
    os.kill(int(sys.argv[1]), signal.SIGSTOP)
    time.sleep(0.15)
    os.kill(int(sys.argv[1]), signal.SIGCONT)
"""

Disturbance = Callable[[], AbstractContextManager[object]]


@contextmanager
def again_and_again(work: Callable[[], object]) -> Iterator[None]:
    """Do something on another thread, every `EVERY` seconds."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(EVERY):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def held_by_another_thread() -> AbstractContextManager[None]:
    """Hold the interpreter's lock, as a C extension does, and as `json.loads` does on a document of 1 MB."""
    return again_and_again(lambda: ctypes.PyDLL(None).usleep(60_000))


@contextmanager
def garbage_of_another_thread() -> Iterator[None]:
    """Collect garbage on a heap of some size."""
    heap = [[number] for number in range(OBJECTS)]
    with again_and_again(gc.collect):
        yield
    heap.clear()


@contextmanager
def suspended() -> Iterator[None]:
    """Suspend the process for 0.15 s."""
    command = [sys.executable, "-c", STOPPER, str(os.getpid()), str(EVERY)]
    with subprocess.Popen(command) as stopper:
        try:
            yield
        finally:
            stopper.kill()
            os.kill(os.getpid(), signal.SIGCONT)


class Emitted(NamedTuple):
    """The true p99, and between what it is said to be, in seconds."""

    least: float
    true: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether the truth is within."""
        return self.least - TOLERANCE <= self.true <= self.most + TOLERANCE


@pytest.fixture
def telemetry() -> Iterator[CapturedTelemetry]:
    with capture_telemetry() as captured:
        otel_itl.instrument(tracer_provider=captured.tracer_provider, meter_provider=captured.meter_provider)
        yield captured
        otel_itl.uninstrument()


def read_in_this_thread(telemetry: CapturedTelemetry, disturb: Disturbance) -> Emitted:
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    with ScriptedServer(process=True) as server, disturb():
        time.sleep(EVERY / 3)
        server.play(chat.reply(CHUNKS, first=0.1, gaps=GAP))
        client = openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
        for _ in client.chat.completions.create(**asked):
            pass
        (exchange,) = server.wait_for(1)
        sent = exchange.wait_done().output_times_ns
    true = statistics.quantiles([(after - before) / 1e9 for before, after in itertools.pairwise(sent)], n=100)[-1]
    figures: dict[str, Any] = dict(telemetry.spans[-1].attributes)
    p99 = figures["itl.latency.p99"]
    least = p99 - figures.get("itl.latency.p99.uncertainty", 0.0)
    return Emitted(least, true, figures.get("itl.latency.p99.highest", p99))


@pytest.mark.parametrize("disturb", [held_by_another_thread, garbage_of_another_thread, suspended])
def test_the_true_p99_is_within_what_is_emitted(telemetry: CapturedTelemetry, disturb: Disturbance) -> None:
    emitted = read_in_this_thread(telemetry, disturb)
    assert emitted.holds, emitted
