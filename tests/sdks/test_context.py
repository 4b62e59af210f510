"""The span of a request is current while the request is sent, and nowhere else."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from clients import play
from faces import END, Face, close, drop, pulled, settled, taken
from measuring import wait_for_a_span
from opentelemetry import context, trace
from surfaces import CREATED, STREAMS, Surface

from otel_itl.testing import CapturedTelemetry, ScriptedServer

created = pytest.mark.parametrize("surface", CREATED, ids=str)
streams = pytest.mark.parametrize("surface", STREAMS, ids=str)


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test here logs a context that could not be detached, or leaves a finalizer that failed."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    yield
    gc.collect()
    logged = [record.getMessage() for record in caplog.records if record.name.startswith(("opentelemetry", "asyncio"))]
    assert (logged, unraisable) == ([], [])


def outcomes(telemetry: CapturedTelemetry) -> list[str]:
    return [span.attributes["itl.stream.outcome"] for span in telemetry.spans]


@streams
@pytest.mark.requirement("R23")
def test_the_current_span_is_the_callers_from_the_call_to_the_end(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    seen = []

    async def scenario(surface: Surface, client: Any) -> None:
        seen.append(trace.get_current_span())
        async with surface.stream(client) as stream:
            seen.append(trace.get_current_span())
            while await pulled(stream) is not END:
                seen.append(trace.get_current_span())
        seen.append(trace.get_current_span())

    own = telemetry.tracer_provider.get_tracer("test").start_span("the caller's")
    with trace.use_span(own):
        play(scenario, surface, face, server)
    assert (len(seen) > 3, set(map(id, seen))) == (True, {id(own)})


@created
@pytest.mark.requirement("R23")
def test_the_context_is_the_very_same_between_chunks(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> list[bool]:
        before = context.get_current()
        async with surface.stream(client) as stream:
            seen = [context.get_current() == before]
            while await pulled(stream) is not END:
                seen.append(context.get_current() == before)
        return seen

    assert set(play(scenario, surface, face, server)) == {True}


@streams
def test_the_span_is_a_child_of_the_callers(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream:
            await taken(stream)

    with telemetry.tracer_provider.get_tracer("test").start_as_current_span("the caller's") as own:
        play(scenario, surface, face, server)
    (child,) = [span for span in telemetry.spans if span.name != "the caller's"]
    assert child.parent.span_id == own.get_span_context().span_id


@streams
@pytest.mark.requirement("R24")
def test_the_span_of_the_http_client_is_a_child_of_the_span_of_the_request(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    tracer = telemetry.tracer_provider.get_tracer("an HTTP client's instrumentation")

    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream:
            await taken(stream)

    play(scenario, surface, face, server, request_hooks=[lambda _: tracer.start_span("POST").end()])
    spans = {span.name: span for span in telemetry.spans}
    assert spans["POST"].parent.span_id == spans[f"{surface.operation} m"].context.span_id


# --- tasks and threads -----------------------------------------------------------------------------------------------


@streams
@pytest.mark.requirement("R22")
def test_each_chunk_may_be_awaited_in_a_task_of_its_own(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream:
            while await asyncio.create_task(pulled(stream)) is not END:
                pass

    play(scenario, surface, "async", server)
    assert outcomes(telemetry) == ["completed"]


@streams
@pytest.mark.requirement("R22", "R69")
def test_a_stream_may_be_opened_in_one_task_and_read_in_another(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done = asyncio.Event()

        async def holder() -> None:
            async with surface.stream(client) as stream:
                opened.set_result(stream)
                await done.wait()

        holding = asyncio.create_task(holder())
        await asyncio.create_task(taken(await opened))
        done.set()
        await holding

    play(scenario, surface, "async", server)
    assert outcomes(telemetry) == ["completed"]


@streams
@pytest.mark.requirement("R22", "R69")
def test_each_chunk_may_be_pulled_in_another_thread(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
            async with surface.stream(client) as stream:
                while all(pool.submit(next, stream, END).result() is not END for pool in (one, other)):
                    pass

    play(scenario, surface, "sync", server)
    assert outcomes(telemetry) == ["completed"]


@created
@pytest.mark.requirement("R22", "R69")
def test_a_stream_may_be_closed_in_another_thread(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream:
            await pulled(stream)
            closing = threading.Thread(target=stream.close)
            closing.start()
            closing.join()

    play(scenario, surface, "sync", server)
    assert outcomes(telemetry) == ["closed"]


# --- the caller's own generators -------------------------------------------------------------------------------------


def relayed(stream: Any) -> Iterator[Any]:
    for chunk in stream:  # noqa: UP028 - as callers write it
        yield chunk


async def arelayed(stream: Any) -> AsyncIterator[Any]:
    async for chunk in stream:
        yield chunk


@streams
@pytest.mark.requirement("R22")
@pytest.mark.usefixtures("brisk_sweeper")
def test_a_callers_generator_that_is_dropped_halfway_abandons_the_stream(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    relay: Callable[[Any], Any] = arelayed if face == "async" else relayed

    async def scenario(surface: Surface, client: Any) -> None:
        generator = relay(await surface.reach(await _opened(surface, client)))
        await pulled(generator)
        del generator
        await drop()
        await wait_for_a_span(telemetry)

    play(scenario, surface, face, server)
    assert outcomes(telemetry) == ["abandoned"]


async def _opened(surface: Surface, client: Any) -> Any:
    made = await settled(surface.open(client))
    if not surface.managed:
        return made
    return await made.__aenter__() if hasattr(made, "__aenter__") else made.__enter__()


@created
@pytest.mark.requirement("R22")
def test_an_event_loop_that_ends_with_an_open_stream_logs_nothing(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    kept: list[Any] = []

    async def scenario(surface: Surface, client: Any) -> None:
        stream = await settled(surface.open(client))
        await pulled(stream)
        kept.append(stream)

    play(scenario, surface, "async", server)
    kept.clear()
    gc.collect()
    telemetry.tracer_provider.force_flush()
    assert len(telemetry.spans) == 1


@created
@pytest.mark.requirement("R22")
def test_concurrent_streams_have_outcomes_of_their_own(
    surface: Surface, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async def one() -> None:
            async with surface.stream(client) as stream:
                await taken(stream)

        async def another() -> None:
            async with surface.stream(client) as stream:
                await pulled(stream)
                await close(stream)

        await asyncio.gather(*(one() for _ in range(5)), *(another() for _ in range(5)))

    play(scenario, surface, "async", server)
    assert sorted(outcomes(telemetry)) == ["closed"] * 5 + ["completed"] * 5
