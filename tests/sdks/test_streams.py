"""The stream that a caller holds: it is the SDK's own object, and behaves as without instrumentation."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import clients
import pytest
from clients import keep_what_is_made
from faces import END, Face, close, entered, pulled, response_of, settled, taken
from measuring import bare, measured
from scripts import WIRES
from surfaces import CREATED, STREAMS, Surface

import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer

Scenario = Callable[[Surface, Any], Any]
Play = Callable[[Scenario, Surface, Face], Any]
REQUEST_ID: Final = {"x-request-id": "req_1", "request-id": "req_1"}
"""What the two providers call it."""

streams = pytest.mark.parametrize("surface", STREAMS, ids=str)
created = pytest.mark.parametrize("surface", CREATED, ids=str)


@pytest.fixture
def play(server: ScriptedServer) -> Play:
    """Plays a scenario while the server answers every request with a stream of the surface's wire format."""

    def played(scenario: Scenario, surface: Surface, face: Face) -> Any:
        server.always(replace(WIRES[surface.wire].script, headers=REQUEST_ID.items()))
        return clients.play(scenario, surface, face, server)

    return played


@pytest.fixture
def compare(play: Play) -> Play:
    """Plays a scenario with and without instrumentation; what both return is the same, and returned."""

    def played(scenario: Scenario, surface: Surface, face: Face) -> Any:
        bare()
        expected = play(scenario, surface, face)
        with measured():
            assert play(scenario, surface, face) == expected
        return expected

    return played


@streams
@pytest.mark.requirement("R3")
def test_what_a_with_block_binds_is_the_stream_itself(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> bool:
        async with surface.stream(client) as stream, entered(stream) as bound:
            return bound is stream

    assert play(scenario, surface, face)


@streams
@pytest.mark.requirement("R3")
def test_a_stream_read_in_its_own_with_block_is_timed(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream, entered(stream) as bound:
            await taken(bound)

    play(scenario, surface, face)
    assert [span.attributes["itl.chunk.count"] for span in telemetry.spans] == [WIRES[surface.wire].chunks]


@streams
@pytest.mark.requirement("R3")
def test_a_stream_read_by_next_is_timed(surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        async with surface.stream(client) as stream:
            while await pulled(stream) is not END:
                pass

    play(scenario, surface, face)
    assert [span.attributes["itl.chunk.count"] for span in telemetry.spans] == [WIRES[surface.wire].chunks]


@streams
@pytest.mark.requirement("R4")
def test_closing_early_closes_the_response_as_it_does_without(surface: Surface, face: Face, compare: Play) -> None:
    async def scenario(surface: Surface, client: Any) -> tuple[bool, bool]:
        async with surface.stream(client) as stream:
            await pulled(stream)
            response = response_of(stream)
            before = response.is_closed
            await close(stream)
            return before, response.is_closed

    assert compare(scenario, surface, face) == (False, True)


@streams
@pytest.mark.requirement("R4")
def test_closing_early_leaves_no_connection_in_the_pool(surface: Surface, face: Face, compare: Play) -> None:
    async def scenario(surface: Surface, client: Any) -> list[Any]:
        async with surface.stream(client) as stream:
            await pulled(stream)
            await close(stream)
        return list(client._client._transport._pool.connections)

    assert compare(scenario, surface, face) == []


@streams
@pytest.mark.requirement("R5")
def test_a_response_keeps_its_headers_and_request_id(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> set[str]:
        async with surface.stream(client) as stream:
            response = response_of(stream)
            return {response.headers["x-request-id"], response.headers["request-id"]}

    assert play(scenario, surface, face) == {"req_1"}


@pytest.mark.parametrize("surface", [surface for surface in STREAMS if surface.parsed], ids=str)
@pytest.mark.requirement("R5")
def test_parse_is_never_called_for_the_caller(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    async def scenario(surface: Surface, client: Any) -> tuple[int, int]:
        async with replace(surface, parsed=False).stream(client) as raw:
            parse = type(raw).parse
            monkeypatch.setattr(type(raw), "parse", lambda self, **options: (calls.append(self), parse(self))[1])
            async with replace(surface, parsed=False).stream(client) as second:
                before = len(calls)
                await taken(await settled(second.parse()))
            await close(await settled(raw.parse()))
        return before, len(calls)

    assert play(scenario, surface, face) == (0, 2)


@pytest.mark.parametrize("surface", [surface for surface in STREAMS if ".stream()" not in surface.call], ids=str)
@pytest.mark.requirement("R9")
def test_the_chunks_are_the_objects_that_the_sdk_made(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> list[bool]:
        made = keep_what_is_made(client)
        async with surface.stream(client) as stream:
            chunks = await taken(stream)
        return [chunk is original for chunk, original in zip(chunks, made, strict=True)]

    assert set(play(scenario, surface, face)) == {True}


@streams
@pytest.mark.requirement("R11")
def test_nothing_is_read_before_the_first_pull(surface: Surface, face: Face, compare: Play) -> None:
    async def scenario(surface: Surface, client: Any) -> tuple[int, int, int]:
        made = keep_what_is_made(client)
        async with surface.stream(client) as stream:
            downloaded, before = response_of(stream).num_bytes_downloaded, len(made)
            await pulled(stream)
            return downloaded, before, len(made)

    assert compare(scenario, surface, face) == (0, 0, 1)


@streams
@pytest.mark.requirement("R11")
def test_nothing_is_recorded_before_the_first_pull(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> list[tuple[int, int]]:
        async with surface.stream(client):
            return [(len(each.log.asked), len(each.log.arrived)) for each in runtime.open_streams.recorders()]

    assert play(scenario, surface, face) == [(0, 0)]


@created
@pytest.mark.requirement("R12")
def test_a_client_made_before_instrument_is_timed(surface: Surface, face: Face, play: Play) -> None:
    bare()

    async def scenario(surface: Surface, client: Any) -> int:
        with measured() as telemetry:
            async with surface.stream(client) as stream:
                await taken(stream)
            return len(telemetry.spans)

    assert play(scenario, surface, face) == 1


@pytest.mark.requirement("R12")
def test_a_bound_method_taken_before_instrument_is_timed(face: Face, play: Play) -> None:
    bare()

    async def scenario(surface: Surface, client: Any) -> int:
        create = client.chat.completions.create
        with measured() as telemetry:
            await taken(await settled(create(model="m", messages=[], stream=True)))
            return len(telemetry.spans)

    assert play(scenario, STREAMS[0], face) == 1


@created
@pytest.mark.requirement("R66")
def test_after_uninstrument_nothing_is_measured(
    surface: Surface, face: Face, play: Play, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        otel_itl.uninstrument()
        async with surface.stream(client) as stream:
            await taken(stream)

    play(scenario, surface, face)
    assert telemetry.spans == []


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@created
@pytest.mark.requirement("R14")
def test_copies_succeed_and_fail_as_they_do_without(
    surface: Surface, face: Face, compare: Play, duplicate: Callable[..., Any]
) -> None:
    async def scenario(surface: Surface, client: Any) -> type:
        async with surface.stream(client) as stream:
            try:
                return type(duplicate(stream))
            except Exception as error:
                return type(error)
            finally:
                await close(stream)

    compare(scenario, surface, face)
