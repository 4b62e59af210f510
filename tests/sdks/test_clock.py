"""When the clock starts, what it is, and what is kept of a stream that did not end well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

import pytest
from clients import Undisturbed, keep_what_is_made, play, undisturbed
from faces import Face, close, pulled, settled, taken
from measuring import measured, timeline_of
from surfaces import CREATED, Surface

from otel_itl import runtime
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, chat, faults, messages, responses

created = pytest.mark.parametrize("surface", CREATED, ids=str)
BUILDERS: Final[dict[str, ModuleType]] = {"chat": chat, "responses": responses, "messages": messages}


async def read(surface: Surface, client: Any) -> None:
    with suppress(Exception):  # the span is what matters
        await taken(await settled(surface.open(client)))


@pytest.mark.parametrize("step", [-3_600 * 10**9, 3_600 * 10**9], ids=["an hour back", "an hour on"])
@created
@pytest.mark.requirement("R29")
def test_a_step_of_the_wall_clock_changes_no_duration(
    surface: Surface,
    face: Face,
    step: int,
    server: ScriptedServer,
    telemetry: CapturedTelemetry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall = time.time_ns
    offset = 0

    async def scenario(surface: Surface, client: Any) -> None:
        nonlocal offset
        made = keep_what_is_made(client)
        stream = await settled(surface.open(client))
        await taken(stream, lambda: len(made) == 2)
        offset = step
        await taken(stream)

    monkeypatch.setattr(runtime, "time_ns", lambda: wall() + offset)
    monkeypatch.setattr(time, "time_ns", lambda: wall() + offset)
    server.play(BUILDERS[surface.wire].reply(3, first=0.01, gaps=0.01))
    before = time.perf_counter()
    play(scenario, surface, face, server)
    elapsed = time.perf_counter() - before
    (span,) = telemetry.spans
    durations = [
        (span.end_time - span.start_time) / 1e9,
        *(value for name, value in span.attributes.items() if ".latency.m" in name or "time_to" in name),
    ]
    assert [0 < duration < elapsed for duration in durations] == [True] * len(durations)


@created
@pytest.mark.requirement("R30")
def test_the_clock_starts_with_the_call(surface: Surface, face: Face, server: ScriptedServer) -> None:
    reply = Script(BUILDERS[surface.wire].reply(2, first=0.02), headers_delay=0.05)
    recorded = undisturbed(read, surface, face, server, reply)
    served = (recorded.exchange.output_times_ns[0] - recorded.exchange.arrived_ns) / 1e9
    assert recorded.attributes["itl.time_to_first_token"] >= served >= 0.07


def paused(surface: Surface, face: Face, server: ScriptedServer, chunks: int) -> dict[str, Any]:
    """The attributes of a stream whose caller paused after `chunks` chunks, until the server had sent everything."""

    async def scenario(surface: Surface, client: Any) -> None:
        stream = await settled(surface.open(client))
        for _ in range(chunks):
            await pulled(stream)
        time.sleep(0.06)  # noqa: ASYNC251 - the caller's own work
        await taken(stream)

    for _ in range(10):
        server.play(BUILDERS[surface.wire].reply(4, first=0.01, gaps=0.01))
        with measured() as telemetry:
            play(scenario, surface, face, server)
            (span,) = telemetry.spans
        if max(timeline_of(span).waits[chunks:]) < 900_000:
            break  # else the machine kept a pull waiting for what was there
    return dict(span.attributes)


@created
@pytest.mark.requirement("R30", "R35")
def test_a_late_first_pull_is_the_callers_time(surface: Surface, face: Face, server: ScriptedServer) -> None:
    attributes = paused(surface, face, server, chunks=0)
    assert (attributes["itl.consumer.duration"] >= 0.06, attributes["itl.consumer.bound"]) == (True, True)


@created
@pytest.mark.requirement("R30", "R35")
def test_a_first_token_that_came_before_the_first_pull_may_have_come_throughout_the_pause(
    surface: Surface, face: Face, server: ScriptedServer
) -> None:
    # The caller pauses for 60 ms after the headers, and the first token comes 10 ms after these.
    attributes = paused(surface, face, server, chunks=0)
    assert attributes["itl.time_to_first_token"] >= attributes["itl.time_to_first_token.uncertainty"] >= 0.05


@created
@pytest.mark.requirement("R34", "R35")
def test_a_callers_pause_is_no_latency_of_the_provider(surface: Surface, face: Face, server: ScriptedServer) -> None:
    opening = len(BUILDERS[surface.wire].reply(4).cut(1))
    attributes = paused(surface, face, server, chunks=opening)
    assert (attributes["itl.consumer.duration"] >= 0.06, attributes.get("itl.latency.max", 0.0) < 0.06) == (True, True)


@pytest.mark.parametrize("face", ["async"])
@created
@pytest.mark.requirement("R30", "R35")
def test_a_first_token_behind_a_blocked_event_loop_may_have_come_while_it_was_blocked(
    surface: Surface, face: Face, server: ScriptedServer
) -> None:
    async def block() -> None:
        while not server.exchanges:  # noqa: ASYNC110 - the server is no part of this loop
            await asyncio.sleep(0.005)
        time.sleep(0.3)  # noqa: ASYNC251 - the headers and every token come meanwhile

    async def scenario(surface: Surface, client: Any) -> None:
        other_work = asyncio.create_task(block())
        await taken(await settled(surface.open(client)))
        await other_work

    for _ in range(10):
        server.clear()
        server.play(Script(BUILDERS[surface.wire].reply(4, first=0.02, gaps=0.005), headers_delay=0.15))
        with measured() as telemetry:
            play(scenario, surface, face, server)
            (span,) = telemetry.spans
        if max(timeline_of(span).waits) < 900_000:
            break  # else the machine kept a pull waiting for what was there
    # The loop is blocked from about the request on, for 300 ms; the token came after 170.
    latest = span.attributes["itl.time_to_first_token"]
    earliest = latest - span.attributes["itl.time_to_first_token.uncertainty"]
    assert (earliest < 0.17 < latest, span.attributes["itl.consumer.bound"]) == (True, True)


LEFT: Final[dict[str, Callable[[Script], Script]]] = {
    "error": lambda reply: reply.cut(3) + faults.close(),
    "truncated": lambda reply: reply.cut(3),
}


@pytest.mark.parametrize("outcome", LEFT)
@created
@pytest.mark.requirement("R42")
def test_a_stream_that_breaks_keeps_what_was_timed(
    surface: Surface, face: Face, outcome: str, server: ScriptedServer
) -> None:
    reply = BUILDERS[surface.wire].reply(5, first=0.02, gaps=0.02)
    assert kept(undisturbed(read, surface, face, server, LEFT[outcome](reply))) == (outcome, 3, 2, 1)


@created
@pytest.mark.requirement("R42")
def test_a_stream_that_is_closed_keeps_what_was_timed(surface: Surface, face: Face, server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        made = keep_what_is_made(client)
        stream = await settled(surface.open(client))
        await taken(stream, lambda: len(made) == len(reply.cut(3)))
        await close(stream)

    reply = BUILDERS[surface.wire].reply(5, first=0.02, gaps=0.02)
    assert kept(undisturbed(scenario, surface, face, server, reply)) == ("closed", 3, 2, 1)


def kept(recorded: Undisturbed) -> tuple[str, int, int, int]:
    """The outcome; the output chunks, the gaps between them and the first tokens that were timed."""
    (gaps,), (first,) = (
        recorded.metrics[f"itl.client.{name}"] for name in ("inter_token_latency", "time_to_first_token")
    )
    return (
        recorded.attributes["itl.stream.outcome"],
        recorded.attributes["itl.output_chunk.count"],
        gaps.count,
        first.count,
    )
