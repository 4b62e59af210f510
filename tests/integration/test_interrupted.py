"""A stream that the garbage collector or the handler of a signal closes, wherever they interrupt us, hangs no process.

Each program interrupts every entry point of ours (opening, a chunk, an end, a session, a flush, a collection of
metrics, a fork) and is killed if it takes too long: then a thread waits for a lock that it holds itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [
    pytest.mark.requirement("R26"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork, and has no interval timers"),
]

TIMEOUT = 120
ENTRY_POINTS = ["open", "chunk", "end", "session", "flush", "collect", "fork"]

START = """
import faulthandler, gc, json, os, signal, sys, threading, time, weakref
import openai
import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import ScriptedServer, capture_telemetry, chat

faulthandler.dump_traceback_later(100, exit=True)

class Upstream:
    def __init__(self):
        self.left = 3
    def __iter__(self):
        return self
    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return "token"
    def close(self):
        self.left = 0

class Node:
    pass

opened = 0

def open_stream(model="m"):
    global opened
    opened += model == "m"
    return otel_itl.observe(Upstream(), provider="p", model=model)

def in_a_cycle(close):
    # What closes the stream when the collector finds the cycle: the stream itself is not part of it.
    node = Node()
    node.itself = node
    weakref.finalize(node, close)

def of_session():
    with otel_itl.session("s"):
        list(open_stream())

def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

def report(telemetry, names):
    gc.enable()
    gc.set_threshold(700)
    gc.collect()
    otel_itl.flush(10)
    outcomes = telemetry.metrics["itl.client.stream.outcomes"]
    counted = sum(point.value for point in outcomes if point.attributes["gen_ai.request.model"] == "m")
    open_streams = len(runtime.open_streams)
    found = {"names": names, "open": open_streams, "uncounted": opened - counted, "errors": runtime.errors.counts}
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)

with capture_telemetry() as telemetry:
    otel_itl.instrument(
        tracer_provider=telemetry.tracer_provider,
        meter_provider=telemetry.meter_provider,
        logger_provider=telemetry.logger_provider,
    )
    reader = open_stream()
    next(reader)
    entry_points = {
        "open": open_stream,
        "chunk": lambda: next(open_stream()),
        "end": lambda: list(open_stream()),
        "session": of_session,
        "flush": lambda: runtime.flusher.flush(5) and telemetry.tracer_provider.force_flush(),
        "collect": lambda: telemetry.metrics,
        "fork": fork,
    }
"""

COLLECTOR = (
    START
    + """
    for name, enter in entry_points.items():
        # The collector runs at the first allocation, at the second, and so on: each may be inside a lock.
        for allocations in range(1, 4 if name == "fork" else 250):
            gc.disable()
            for _ in range(2):
                stream = open_stream()
                next(stream)
                in_a_cycle(stream.close)
            del stream
            gc.set_threshold(allocations)
            gc.enable()
            enter()
        gc.set_threshold(1)
        for _ in range(20):
            stream = open_stream()
            next(stream)
            in_a_cycle(stream.close)
            enter()
    report(telemetry, list(entry_points))
"""
)

SIGNAL = (
    START
    + """
    kept = []

    def close_streams(*_):
        if kept:
            kept.pop().close()
        stream = open_stream("of the handler")  # not measured where it interrupts an exporter
        next(stream)
        stream.close()

    signal.signal(signal.SIGALRM, close_streams)
    for name, enter in entry_points.items():
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            kept.append(stream := open_stream())
            next(stream)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for _ in range(5):
                enter()
            signal.setitimer(signal.ITIMER_REAL, 0)
    while kept:
        kept.pop().close()
    report(telemetry, list(entry_points))
"""
)

SDK = (
    START
    + """
    with ScriptedServer(chat.reply(3), process=True) as server:
        # A client for each, as the connection pool of a client has a lock of its own that the collector may interrupt.
        closing, reading = (openai.OpenAI(base_url=server.openai_url, api_key="x") for _ in range(2))

        def ask(client):
            global opened
            opened += 1
            return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "."}], stream=True)

        for allocations in range(1, 400, 3):
            gc.disable()
            stream = ask(closing)
            next(stream)
            in_a_cycle(stream.close)
            del stream
            gc.set_threshold(allocations)
            gc.enable()
            list(ask(reading))
        report(telemetry, [])
"""
)


FLUSH = (
    START
    + """
    faulthandler.dump_traceback_later(30, exit=True)
    for name, enter in entry_points.items():
        for allocations in range(1, 4 if name == "fork" else 120):
            gc.disable()
            list(open_stream())
            for _ in range(2):
                in_a_cycle(telemetry.tracer_provider.force_flush)
            gc.set_threshold(allocations)
            gc.enable()
            enter()
    report(telemetry, list(entry_points))
"""
)

CTRL_C = (
    START
    + """
    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    heap = [[number] for number in range(300_000)]
    lost = 0
    for _ in range(10):
        began = time.monotonic()
        gc.collect()
        try:
            signal.setitimer(signal.ITIMER_REAL, (time.monotonic() - began) / 2)
            gc.collect()
            time.sleep(1)
            lost += 1
        except KeyboardInterrupt:
            pass
    print(json.dumps(lost))
    sys.stdout.flush()
    os._exit(0)
"""
)

EXCEPTION = (
    START
    + """
    passed = 0

    def interrupt_call(number):
        # As a signal does that has come before the number-th function of ours is called: the interpreter looks there.
        def trace(frame, event, _):
            global passed
            passed += "/otel_itl/" in frame.f_code.co_filename and "/testing/" not in frame.f_code.co_filename
            if passed == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    def settle():
        # What every collection and every fork of another thread waits for.
        runtime.finalizer.count_pending()
        runtime.metrics.pending.record_all()
        for part in parts:
            if part.in_round.acquire(timeout=1):
                part.in_round.release()

    def is_quick():
        # What is waited for takes a second, each time; a busy machine may take as long once.
        began = time.monotonic()
        other = threading.Thread(target=settle)
        other.start()
        other.join()
        return time.monotonic() - began < 0.5

    parts = (runtime.watchdog.thread, runtime.progress.thread, runtime.finalizer.thread, runtime.file)
    sys.unraisablehook = lambda _: None
    waited = []
    for name in ("end", "flush", "collect", "fork"):
        enter = telemetry.tracer_provider.force_flush if name == "flush" else entry_points[name]
        number, passed = 0, 0
        while passed == number and len(waited) < 3:
            number, passed = number + 1, 0
            runtime.finalizer.thread.interval = 60  # the streams wait for what is interrupted
            for _ in range(2):
                stream = open_stream()
                next(stream)
                del stream
            sys.settrace(interrupt_call(number))
            try:
                enter()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            if runtime.sections.is_inside or not any(is_quick() for _ in range(3)):
                waited.append([name, number])
    print(json.dumps(waited))
    sys.stdout.flush()
    os._exit(0)
"""
)


def run(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_collector_closes_streams_at_every_allocation() -> None:
    assert run(COLLECTOR) == {"names": ENTRY_POINTS, "open": 1, "uncounted": 1, "errors": {}}


def test_a_signal_closes_streams_at_every_instruction() -> None:
    assert run(SIGNAL) == {"names": ENTRY_POINTS, "open": 1, "uncounted": 1, "errors": {}}


def test_the_collector_closes_streams_of_an_sdk_while_others_are_opened() -> None:
    assert run(SDK) == {"names": [], "open": 1, "uncounted": 1, "errors": {}}


def test_the_collector_flushes_a_tracer_provider_at_every_allocation() -> None:
    assert run(FLUSH) == {"names": ENTRY_POINTS, "open": 1, "uncounted": 1, "errors": {}}


def test_a_signal_that_comes_during_a_collection_interrupts_the_application() -> None:
    assert run(CTRL_C) == 0


def test_what_a_signal_interrupts_for_good_is_not_waited_for() -> None:
    assert run(EXCEPTION) == []
