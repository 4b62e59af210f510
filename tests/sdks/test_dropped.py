"""Streams that the garbage collector ends: what it may not do, and what is left over."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import openai
import pytest
from clients import play
from faces import Face, drop, pulled, settled
from measuring import measured, measured_by, spans_within
from scripts import pinned
from surfaces import CREATED, EVERY_CREATED, Surface

from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat

created = pytest.mark.parametrize("surface", EVERY_CREATED, ids=str)
closed_at_once = pytest.mark.parametrize("surface", CREATED, ids=str)
OURS: Final = ("/otel_itl/", "/opentelemetry/")


class RecordingLock:
    """A lock that records which threads acquired it."""

    acquired: Final[list[int]] = []

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, *args: Any, **options: Any) -> bool:
        self.acquired.append(threading.get_ident())
        taken: bool = self._lock.acquire(*args, **options)
        return taken

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


@pytest.fixture
def recorded_locks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that acquired a lock of ours or of OpenTelemetry's; every such lock made from here on is recorded."""

    def made_by(original: Callable[[], Any]) -> Callable[[], Any]:
        def lock() -> Any:
            maker = sys._getframe(1).f_code.co_filename
            return RecordingLock(original()) if any(part in maker for part in OURS) else original()

        return lock

    originals = {name: getattr(threading, name) for name in ("Lock", "RLock")}
    for module in [threading, *sys.modules.values()]:
        name = getattr(module, "__name__", "")
        if module is threading or name.startswith(("otel_itl", "opentelemetry")):
            for attribute, original in originals.items():
                if getattr(module, attribute, None) is original:
                    monkeypatch.setattr(module, attribute, made_by(original))
    monkeypatch.setattr(runtime.open_streams, "_lock", RecordingLock(originals["Lock"]()))
    RecordingLock.acquired.clear()
    return RecordingLock.acquired


@contextmanager
def called_functions() -> Iterator[list[str]]:
    """The Python functions of OpenTelemetry, and those of ours that lead to it, called by this thread in the block."""
    called: list[str] = []

    def watch(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and any(part in code.co_filename for part in ("/opentelemetry/", "/otel_itl/export/")):
            called.append(f"{code.co_filename}:{code.co_name}")

    sys.setprofile(watch)
    try:
        yield called
    finally:
        sys.setprofile(None)


async def leave_in_a_cycle(surface: Surface, client: Any) -> None:
    """A stream with a chunk read, which only the cycle collector can get at."""
    cycle: list[Any] = [await settled(surface.open(client))]
    await pulled(cycle[0])
    cycle.append(cycle)


@created
@pytest.mark.requirement("R25")
def test_the_garbage_collector_calls_no_opentelemetry_and_takes_no_lock(
    surface: Surface, face: Face, server: ScriptedServer, recorded_locks: list[int]
) -> None:
    async def scenario(surface: Surface, client: Any) -> tuple[int, list[str], list[int]]:
        gc.disable()
        in_round = runtime.finalizer.thread.in_round
        in_round.acquire()  # else its thread may report the stream before it is counted here
        try:
            await leave_in_a_cycle(surface, client)
            recorded_locks.clear()
            with called_functions() as called:
                gc.collect()
            locks = [thread for thread in recorded_locks if thread == threading.get_ident()]
            return len(runtime.open_streams), called, locks
        finally:
            in_round.release()
            gc.enable()
            await drop()

    with measured_by() as telemetry:
        assert play(scenario, surface, face, server) == (1, [], [])
        telemetry.tracer_provider.force_flush()
        assert [span.attributes["itl.stream.outcome"] for span in telemetry.spans] == ["abandoned"]


@closed_at_once
@pytest.mark.requirement("R25")
def test_locks_and_calls_of_opentelemetry_would_be_detected(
    surface: Surface, server: ScriptedServer, recorded_locks: list[int]
) -> None:
    """The proof that the test above can fail: a stream that its caller closes does both."""

    async def scenario(surface: Surface, client: Any) -> tuple[bool, bool]:
        stream = await settled(surface.open(client))
        await pulled(stream)
        recorded_locks.clear()
        with called_functions() as called:
            stream.close()
        return bool(called), threading.get_ident() in recorded_locks

    with measured_by():
        assert play(scenario, surface, "sync", server) == (True, True)


@pytest.mark.requirement("R19")
@created
def test_a_dropped_stream_is_reported_by_the_background_sweep(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    """At its own pace, with nothing else going on."""

    async def scenario(surface: Surface, client: Any) -> None:
        await leave_in_a_cycle(surface, client)
        await drop()

    play(scenario, surface, "sync", server)
    within = 4 * runtime.finalizer.thread.interval
    assert [span.attributes["itl.stream.outcome"] for span in spans_within(telemetry, 1, within)] == ["abandoned"]


@pytest.mark.requirement("R26")
def test_two_thousand_abandoned_streams_leave_nothing_behind() -> None:
    """Without sockets, whose making would take most of the time."""
    httpx = sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]
    body = b"".join(step.event.encode() for step in pinned(chat.reply(3)))

    def answer(_: Any) -> Any:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    with measured() as telemetry, httpx.Client(transport=httpx.MockTransport(answer)) as http_client:
        client = openai.OpenAI(api_key="none", http_client=http_client)
        for _ in range(20):
            for _ in range(100):
                next(client.chat.completions.create(model="m", messages=[], stream=True))
            gc.collect()
        telemetry.tracer_provider.force_flush()
        (point,) = telemetry.metrics["itl.client.stream.outcomes"]
        assert (point.value, len(runtime.open_streams), runtime.finalizer.pending) == (2_000, 0, 0)
