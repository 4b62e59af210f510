"""When the clock starts, what it is, and what is kept of a stream that did not end well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

import pytest
from clients import keep_what_is_made, play
from faces import Face, close, pulled, settled, taken
from given_time import Timed, given_time, timed
from measuring import span_of
from surfaces import CREATED, Surface

from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, chat, faults, messages, responses

created = pytest.mark.parametrize("surface", CREATED, ids=str)
BUILDERS: Final[dict[str, ModuleType]] = {"chat": chat, "responses": responses, "messages": messages}


TOKENS: Final = 4
PAUSE: Final = 0.06
"""Seconds for which a caller does something else."""


async def read(surface: Surface, client: Any) -> None:
    with suppress(Exception):  # the span is what matters
        await taken(await settled(surface.open(client)))


@pytest.mark.parametrize("step", [-3_600 * 10**9, 3_600 * 10**9], ids=["an hour back", "an hour on"])
@created
@pytest.mark.requirement("R29")
def test_a_step_of_the_wall_clock_changes_no_duration(
    surface: Surface, face: Face, step: int, monkeypatch: pytest.MonkeyPatch
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

    def durations() -> dict[str, Any]:
        (span, _) = timed(scenario, surface, face, BUILDERS[surface.wire].reply(3, first=0.01, gaps=0.01))
        measured = {name: value for name, value in span.attributes.items() if ".latency.m" in name or "time_to" in name}
        return {**measured, "span": span.end_time - span.start_time}

    expected = durations()
    offset = 0
    monkeypatch.setattr(runtime, "_wall_clock", lambda: wall() + offset)
    monkeypatch.setattr(time, "time_ns", lambda: wall() + offset)
    assert durations() == expected


@created
@pytest.mark.requirement("R30")
def test_the_clock_starts_with_the_call(surface: Surface, face: Face) -> None:
    reply = Script(BUILDERS[surface.wire].reply(2, first=0.02), headers_delay=0.05)
    assert timed(read, surface, face, reply).attributes["itl.time_to_first_token"] == pytest.approx(0.07)


def paused(surface: Surface, face: Face, chunks: int) -> dict[str, Any]:
    """The attributes of a stream whose caller paused after `chunks` chunks, until the server had sent everything."""

    async def scenario(surface: Surface, client: Any) -> None:
        stream = await settled(surface.open(client))
        for _ in range(chunks):
            await pulled(stream)
        clock.advance(PAUSE)
        await taken(stream)

    with given_time() as clock:
        return timed(scenario, surface, face, BUILDERS[surface.wire].reply(4, first=0.01, gaps=0.01), clock).attributes


@created
@pytest.mark.requirement("R30", "R35")
def test_a_late_first_pull_is_the_callers_time(surface: Surface, face: Face) -> None:
    attributes = paused(surface, face, chunks=0)
    assert (attributes["itl.consumer.duration"], attributes["itl.consumer.bound"]) == (pytest.approx(PAUSE), True)


@created
@pytest.mark.requirement("R30", "R35")
def test_a_first_token_that_came_before_the_first_pull_may_have_come_throughout_the_pause(
    surface: Surface, face: Face
) -> None:
    attributes = paused(surface, face, chunks=0)
    figures = [attributes[f"itl.time_to_first_token{part}"] for part in ("", ".uncertainty")]
    assert figures == [pytest.approx(PAUSE)] * 2


@created
@pytest.mark.requirement("R34", "R35")
def test_a_callers_pause_is_no_latency_of_the_provider(surface: Surface, face: Face) -> None:
    opening = len(BUILDERS[surface.wire].reply(4).cut(1))
    attributes = paused(surface, face, chunks=opening)
    assert (attributes["itl.consumer.duration"], attributes.get("itl.latency.max", 0.0) < PAUSE) == (
        pytest.approx(PAUSE),
        True,
    )


@pytest.mark.parametrize("face", ["async"])
@created
@pytest.mark.requirement("R30", "R35")
def test_a_first_token_behind_a_blocked_event_loop_may_have_come_while_it_was_blocked(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def block() -> None:
        while not server.exchanges:  # noqa: ASYNC110 - the server is no part of this loop
            await asyncio.sleep(0.005)
        (exchange,) = server.exchanges
        while len(exchange.output_times_ns) < TOKENS:  # the headers and every token come meanwhile
            time.sleep(0.005)  # noqa: ASYNC251 - the point

    async def scenario(surface: Surface, client: Any) -> None:
        other_work = asyncio.create_task(block())
        await taken(await settled(surface.open(client)))
        await other_work

    server.play(Script(BUILDERS[surface.wire].reply(TOKENS, first=0.02, gaps=0.005), headers_delay=0.15))
    play(scenario, surface, face, server)
    attributes, (exchange,) = span_of(telemetry).attributes, server.exchanges
    served = (exchange.output_times_ns[0] - exchange.arrived_ns) / 1e9
    latest = attributes["itl.time_to_first_token"]
    earliest = latest - attributes["itl.time_to_first_token.uncertainty"]
    assert (earliest < served < latest, attributes["itl.consumer.bound"]) == (True, True)


LEFT: Final[dict[str, Callable[[Script], Script]]] = {
    "error": lambda reply: reply.cut(3) + faults.close(),
    "truncated": lambda reply: reply.cut(3),
}


@pytest.mark.parametrize("outcome", LEFT)
@created
@pytest.mark.requirement("R42")
def test_a_stream_that_breaks_keeps_what_was_timed(surface: Surface, face: Face, outcome: str) -> None:
    reply = BUILDERS[surface.wire].reply(5, first=0.02, gaps=0.02)
    assert kept(timed(read, surface, face, LEFT[outcome](reply))) == (outcome, 3, 2, 1)


@created
@pytest.mark.requirement("R42")
def test_a_stream_that_is_closed_keeps_what_was_timed(surface: Surface, face: Face) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        made = keep_what_is_made(client)
        stream = await settled(surface.open(client))
        await taken(stream, lambda: len(made) == len(reply.cut(3)))
        await close(stream)

    reply = BUILDERS[surface.wire].reply(5, first=0.02, gaps=0.02)
    assert kept(timed(scenario, surface, face, reply)) == ("closed", 3, 2, 1)


def kept(recorded: Timed) -> tuple[str, int, int, int]:
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
