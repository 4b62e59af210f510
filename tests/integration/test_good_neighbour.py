"""What measuring takes from its process: no waiting at a fork, a flush or a collection, little CPU, no memory kept."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

import otel_itl
from otel_itl.recording.evidence import loops
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat

PROMPT: Final = 0.5
"""Seconds that a call may take which waits for nothing, on a machine that is busy; what waited took 1 s and more."""
ASKED: Final[Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}


def observed(chunks: int = 3) -> Iterator[str]:
    """A stream of an application's own, with that number of chunks."""
    return otel_itl.observe(iter(["token"] * chunks), provider="p", model="m")


def run(program: str) -> Any:
    """Run a program, and return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout)


# --- Forks -----------------------------------------------------------------------------------------------------------


@contextmanager
def held_by_another_thread(*locks: Any) -> Iterator[None]:
    """Hold locks in another thread, as a thread of ours does that is busy."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        is_held.set()
        is_over.wait(30)
        for lock in locks:
            lock.release()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(30)
    try:
        yield
    finally:
        is_over.set()
        holder.join()


@pytest.mark.requirement("R69")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_fork_waits_once_for_all_threads_that_are_busy() -> None:
    parts = (runtime.watchdog.thread, runtime.progress.thread, runtime.finalizer.thread, runtime.file)
    with held_by_another_thread(*(part.in_round for part in parts)):
        began = time.monotonic()
        child = os.fork()
        if not child:
            os._exit(0)
        took = time.monotonic() - began
        os.waitpid(child, 0)
    assert took < PROMPT


FORKS: Final = """
import json, os, sys, threading
import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import capture_telemetry

parts = (runtime.watchdog.thread, runtime.progress.thread, runtime.finalizer.thread, runtime.file)
failed = []
sys.unraisablehook = lambda unraisable: failed.append(repr(unraisable.exc_value))
sys.setswitchinterval(1e-5)

def fork():
    for _ in range(40):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

with capture_telemetry() as telemetry:
    otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [part.in_round for part in parts if not part.in_round.acquire(timeout=5)]
    is_inside = runtime.sections.is_inside
    print(json.dumps({"failed": failed, "held for ever": len(held), "is inside": is_inside}))
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.requirement("R69")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_threads_that_fork_at_once_release_their_own_locks() -> None:
    assert run(FORKS) == {"failed": [], "held for ever": 0, "is inside": False}


# --- Processors of the application that block ------------------------------------------------------------------------


class BlockingProcessor(SpanProcessor):
    """Blocks at the first end of a span, until it is opened."""

    def __init__(self) -> None:
        self.is_blocking, self.is_open = threading.Event(), threading.Event()

    def on_end(self, span: ReadableSpan) -> None:
        """Block in the thread that ends the span."""
        if not self.is_blocking.is_set():
            self.is_blocking.set()
            self.is_open.wait(30)


@pytest.fixture
def blocked_finalizer(captured_telemetry: CapturedTelemetry, instrument: Any) -> Iterator[CapturedTelemetry]:
    """The finalizer's thread is in a processor of the application, which blocks."""
    processor = BlockingProcessor()
    captured_telemetry.tracer_provider.add_span_processor(processor)
    instrument()
    stream = observed()
    next(stream)
    del stream
    gc.collect()
    assert processor.is_blocking.wait(30)
    yield captured_telemetry
    processor.is_open.set()


def test_a_flush_waits_for_no_processor_of_the_application(blocked_finalizer: CapturedTelemetry) -> None:
    began = time.monotonic()
    blocked_finalizer.tracer_provider.force_flush()
    assert time.monotonic() - began < PROMPT


def test_a_collection_waits_for_no_processor_of_the_application(blocked_finalizer: CapturedTelemetry) -> None:
    began = time.monotonic()
    outcomes = blocked_finalizer.metrics["itl.client.stream.outcomes"]
    assert (time.monotonic() - began < PROMPT, [point.value for point in outcomes]) == (True, [1])


def test_a_collection_has_the_streams_that_wait_behind_a_processor_that_blocks(
    blocked_finalizer: CapturedTelemetry,
) -> None:
    for _ in range(3):
        stream = observed()
        next(stream)
        del stream
    gc.collect()
    assert [point.value for point in blocked_finalizer.metrics["itl.client.stream.outcomes"]] == [4]


# --- No thread can be started ----------------------------------------------------------------------------------------

NO_THREADS: Final = """
import _thread, json, os, sys
import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import capture_telemetry

def refuse(*_):
    raise RuntimeError("can't start new thread")

with capture_telemetry() as telemetry:
    otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
    _thread.start_new_thread = refuse
    for _ in otel_itl.observe(iter(["a", "b", "c"]), provider="p", model="m"):
        pass
    dropped = otel_itl.observe(iter(["a", "b", "c"]), provider="p", model="m")
    next(dropped)
    del dropped
    telemetry.tracer_provider.force_flush()
    found = [(span.attributes["itl.stream.outcome"], span.attributes["itl.chunk.count"]) for span in telemetry.spans]
    print(json.dumps([found, runtime.errors.counts["thread.start"] > 0]))
    sys.stdout.flush()
    os._exit(0)
"""


def test_where_no_thread_can_be_started_streams_are_recorded_and_that_is_counted() -> None:
    assert run(NO_THREADS) == [[["completed", 3], ["abandoned", 1]], True]


# --- A silent stream -------------------------------------------------------------------------------------------------


class Calls:
    """Counts the calls of a method."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.count = 0
        method = getattr(owner, name)

        def call(*args: Any) -> Any:
            self.count += 1
            return method(*args)

        patch.setattr(owner, name, call)


SILENCE: Final = 3.0


def test_a_silent_stream_wakes_the_watchdog_a_few_times_a_second_and_no_other_thread(
    instrument: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Calls(monkeypatch, runtime.watchdog, "make_round")
    finalized = Calls(monkeypatch, runtime.finalizer, "_make_round")
    instrument()
    stream = observed()
    next(stream)
    rounds.count = finalized.count = 0
    time.sleep(SILENCE)
    assert (rounds.count <= 6 * SILENCE, finalized.count) == (True, 0)
    del stream


def test_the_timer_on_an_event_loop_fires_seldom_in_a_silence(instrument: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sooner = tuple((since // 10, seconds) for since, seconds in loops.SILENT_TIMERS)
    monkeypatch.setattr(loops, "SILENT_TIMERS", sooner)
    instrument()
    is_over = asyncio.Event()

    async def silent() -> AsyncIterator[str]:
        yield "one"
        await is_over.wait()

    async def count_wake_ups() -> int:
        loop = asyncio.get_running_loop()
        reader = asyncio.ensure_future(read())
        await asyncio.sleep(0.5)  # the timer slows down 0.3 s after the last chunk
        woken = 0
        call_later = loop.call_later

        def count(*args: Any, **kwargs: Any) -> Any:
            nonlocal woken
            woken += 1
            return call_later(*args, **kwargs)

        loop.call_later = count  # type: ignore[method-assign]
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, SILENCE)
        is_over.set()
        await reader
        return woken

    async def read() -> None:
        async for _ in otel_itl.observe(silent(), provider="p", model="m"):
            pass

    assert asyncio.run(count_wake_ups()) <= 6 * SILENCE


# --- Memory ----------------------------------------------------------------------------------------------------------


class References(SpanProcessor):
    """Refers to each span that starts, weakly."""

    def __init__(self) -> None:
        self.spans: list[weakref.ref[Span]] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        """Take the reference."""
        self.spans.append(weakref.ref(span))


@pytest.mark.requirement("R26")
def test_a_stream_that_the_application_keeps_keeps_neither_its_span_nor_its_chunks(
    server: ScriptedServer, instrument: Any
) -> None:
    references, provider = References(), TracerProvider()
    provider.add_span_processor(references)
    instrument(tracer_provider=provider, sdks=["openai"])
    server.play(chat.reply(300))
    with openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(**ASKED)
        kept = [chunk for chunk, _ in zip(stream, range(200), strict=False)]
        (recorder,) = runtime.open_streams.recorders()
        stream.close()
        provider.force_flush()
        gc.collect()
        held = (len(recorder.log.asked), len(recorder.log.arrived), len(recorder.log.codes))
        assert (len(kept), [reference() for reference in references.spans], held) == (200, [None], (0, 0, 0))
