"""Every supported surface, with the sync and the async client: what is measured, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, Final

import pytest
from aws import is_known
from clients import client_of, disturbed, skip_what_is_missing
from faces import FACES, Face, entered, run
from measuring import bare, measured, timeline_of
from mistral_clients import release
from opentelemetry.trace import SpanKind, StatusCode
from scripts import OUTPUTS, WIRES
from surfaces import SURFACES, Surface

from otel_itl.core.timeline import OUTPUT
from otel_itl.testing import ScriptedServer
from otel_itl.testing.exchange import Exchange
from tests.pairwise import mark_beyond_pairs

GAP: Final = 0.02
"""Seconds between output events: what a client may be late in a test of timing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a caller saw of a stream, and the server of its request."""

    stream_type: type
    attributes: dict[str, type]
    read: list[Any]
    exchange: Exchange
    sent_ns: list[int]
    """When the server sent each output event."""
    reused: bool
    """The request had the connection of the one before it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One surface read to the end by one client, without and with instrumentation."""

    surface: Surface
    face: Face
    bare: Seen
    seen: Seen
    requested_ns: int
    """Immediately before the call."""
    spans: list[Any]
    metrics: dict[str, list[Any]]

    @property
    def span(self) -> Any:
        (span,) = self.spans
        return span

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.span.attributes)

    @property
    def punctual(self) -> list[bool]:
        """Whether each output chunk was recorded after it was sent, and before the next one was."""
        timeline = timeline_of(self.span)
        arrived = [moment for moment, kind in zip(timeline.arrived, timeline.kinds, strict=True) if kind & OUTPUT]
        sent = [*self.seen.sent_ns, self.seen.sent_ns[-1] + int(GAP * 1e9)]
        # The request began after the call and before the server had it; recorded moments are whole microseconds.
        return [
            sent_ns <= self.seen.exchange.arrived_ns + moment + 1_000 and self.requested_ns + moment < next_ns
            for moment, (sent_ns, next_ns) in zip(arrived, pairwise(sent), strict=False)
        ]

    @property
    def disturbed(self) -> bool:
        """The machine kept the client from reading for longer than a gap."""
        return not self.surface.reading.bytewise and (not all(self.punctual) or disturbed(self.attributes))


def public(stream: Any) -> dict[str, type]:
    """The type of every public attribute: of its exception, where the SDK raises one."""
    types = {}
    for name in dir(stream):
        if not name.startswith("_"):
            try:
                types[name] = type(getattr(stream, name))
            except Exception as error:
                types[name] = type(error)
    return types


async def read_once(surface: Surface, client: Any) -> tuple[type, dict[str, type], list[Any]]:
    async with surface.stream(client) as stream:
        read = await surface.reading.read(stream)
        return type(stream), public(stream), read


async def read_twice(surface: Surface, face: Face, server: ScriptedServer, between: Callable[[], None]) -> Seen:
    """What counts is the second reading: what an SDK does when it is first used, is not part of a test of timing."""
    async with entered(client_of(surface.host, face, server)) as client:
        skip_what_is_missing(surface, client)
        await read_once(surface, client)
        between()
        stream_type, attributes, read = await read_once(surface, client)
    first, second = server.wait_for(2)
    return Seen(stream_type, attributes, read, second, second.output_times_ns, second.connection == first.connection)


def undisturbed(surface: Surface, face: Face, server: ScriptedServer) -> Run:
    """The surface, read again where the machine delayed the reader, at most nine times."""
    asked = run_of(surface, face, server)
    for _ in range(8):
        if not asked.disturbed:
            break
        asked = run_of(surface, face, server)
    return asked


def run_of(surface: Surface, face: Face, server: ScriptedServer) -> Run:
    scripted = WIRES[surface.wire]
    server.clear()
    server.always(scripted.script)
    bare()
    plain = run(face, read_twice(surface, face, server, lambda: None))
    server.clear()
    server.always(scripted.script)
    with measured() as telemetry:
        requested_ns = 0

        def between() -> None:
            nonlocal requested_ns
            telemetry.clear()
            server.play(scripted.script if surface.reading.bytewise else scripted.paced(GAP))
            requested_ns = perf_counter_ns()

        seen = run(face, read_twice(surface, face, server, between))
        return Run(surface, face, plain, seen, requested_ns, telemetry.spans, telemetry.metrics)


@pytest.fixture(scope="module")
def runs() -> dict[tuple[Surface, Face], Run]:
    """Each surface is read once; every test below looks at one thing in that."""
    return {}


def factors(asked: tuple[Surface, Face]) -> tuple[object, ...]:
    """What may make a difference to what is measured."""
    surface, face = asked
    handed_out = surface.managed, surface.parsed, surface.is_generator, surface.is_eager
    return surface.sdk, surface.wire, surface.reading.text, handed_out, face


def is_asked_by_turns(asked: tuple[Surface, Face]) -> bool:
    """Whether it is the turn of this face: each surface is asked by one face at least."""
    surface, face = asked
    return face == FACES[SURFACES.index(surface) % len(FACES)]


ROWS: Final = mark_beyond_pairs(
    [pytest.param((surface, face), id=f"{surface}-{face}") for surface in SURFACES for face in FACES],
    factors,
    is_asked_by_turns,
)


def surfaces(*, bytewise: bool | None = None) -> Any:
    """The rows of the table, by both faces: all, or those that are read as chunks, or as bytes."""
    rows = [param for param in ROWS if bytewise is None or param.values[0][0].reading.bytewise == bytewise]
    return pytest.mark.parametrize("asked", rows, indirect=True)


@pytest.fixture
def asked(request: pytest.FixtureRequest, runs: dict[tuple[Surface, Face], Run], server: ScriptedServer) -> Run:
    surface, face = request.param
    if (surface, face) not in runs:
        runs[surface, face] = undisturbed(surface, face, server)
    return runs[surface, face]


EVERY = surfaces()
CHUNKS = surfaces(bytewise=False)
BYTES = surfaces(bytewise=True)


@pytest.mark.requirement("R7")
@EVERY
def test_one_http_call_is_one_span(asked: Run) -> None:
    assert len(asked.spans) == 1


@EVERY
def test_the_span_is_a_client_span(asked: Run) -> None:
    assert asked.span.kind is SpanKind.CLIENT


@EVERY
def test_the_span_is_named_after_operation_and_model(asked: Run) -> None:
    operation, model = asked.surface.operation, asked.surface.model
    assert asked.span.name == (f"{operation} {model}" if model else operation)


@EVERY
def test_the_span_names_operation_provider_model_and_server(asked: Run) -> None:
    expected = {
        "gen_ai.operation.name": asked.surface.operation,
        "gen_ai.provider.name": asked.surface.host.provider,
        "gen_ai.request.model": asked.surface.model,
        "gen_ai.request.stream": True,
        "server.address": asked.surface.host.name,
    }
    assert {name: asked.attributes.get(name) for name in expected} == expected


@EVERY
def test_the_span_names_the_port_of_the_server(asked: Run) -> None:
    assert asked.attributes["server.port"] == int(asked.seen.exchange.headers["host"].rpartition(":")[2])


@EVERY
def test_the_span_has_the_parameters_of_the_request(asked: Run) -> None:
    expected = None if asked.surface.operation == "fetch_response" else 9
    assert asked.attributes.get("gen_ai.request.max_tokens") == expected


@CHUNKS
def test_the_span_has_id_model_and_finish_reasons_of_the_response(asked: Run) -> None:
    expected = {
        "gen_ai.response.id": WIRES[asked.surface.wire].response_id,
        "gen_ai.response.model": WIRES[asked.surface.wire].model,
        "gen_ai.response.finish_reasons": WIRES[asked.surface.wire].finish_reasons,
    }
    assert {name: asked.attributes.get(name) for name in expected} == expected


@CHUNKS
def test_the_span_has_the_usage_with_reasoning_and_cache(asked: Run) -> None:
    # A response that is fetched again has none: the request that generated it has reported it.
    expected = {} if asked.attributes["gen_ai.operation.name"] == "fetch_response" else WIRES[asked.surface.wire].usage
    if asked.surface.wire == "converse" and not is_known("TokenUsage", "cacheReadInputTokens"):
        expected = {name: count for name, count in expected.items() if ".cache_" not in name}
    if asked.surface.wire == "mistral" and release() < (1, 9):  # which drops what it does not know
        expected = {name: count for name, count in expected.items() if ".cache_" not in name}
    assert {name: value for name, value in asked.attributes.items() if ".usage." in name} == expected


@EVERY
def test_the_span_counts_the_chunks(asked: Run) -> None:
    chunks = 0 if asked.surface.reading.bytewise else WIRES[asked.surface.wire].chunks
    assert asked.attributes["itl.chunk.count"] == chunks


@EVERY
def test_the_span_counts_the_output_chunks(asked: Run) -> None:
    outputs = 0 if asked.surface.reading.bytewise else OUTPUTS
    assert asked.attributes["itl.output_chunk.count"] == outputs


@pytest.mark.requirement("R6")
@EVERY
def test_a_stream_read_to_its_end_is_completed(asked: Run) -> None:
    assert asked.attributes["itl.stream.outcome"] == "completed"


@EVERY
def test_a_completed_stream_is_no_error(asked: Run) -> None:
    assert (asked.span.status.status_code, asked.attributes.get("error.type")) == (StatusCode.UNSET, None)


@pytest.mark.requirement("R8")
@CHUNKS
def test_each_output_chunk_is_recorded_before_the_next_one_is_sent(asked: Run) -> None:
    assert asked.punctual == [True] * OUTPUTS


@CHUNKS
def test_every_gap_is_a_sample_of_the_inter_token_latency(asked: Run) -> None:
    (point,) = asked.metrics["itl.client.inter_token_latency"]
    assert point.count == OUTPUTS - 1


@CHUNKS
def test_a_stream_of_tokens_has_one_time_to_first_token(asked: Run) -> None:
    (point,) = asked.metrics["itl.client.time_to_first_token"]
    assert (point.count, point.value) == (1, pytest.approx(asked.attributes["itl.time_to_first_token"]))


@pytest.mark.requirement("R41")
@BYTES
def test_bytes_have_no_time_to_first_token(asked: Run) -> None:
    assert ("itl.client.time_to_first_token" in asked.metrics, "itl.time_to_first_token" in asked.attributes) == (
        False,
        False,
    )


@EVERY
def test_the_metrics_count_one_completed_stream(asked: Run) -> None:
    (point,) = asked.metrics["itl.client.stream.outcomes"]
    assert (point.value, point.attributes["itl.stream.outcome"]) == (1, "completed")


@pytest.mark.requirement("R10")
@EVERY
def test_the_request_body_is_byte_identical(asked: Run) -> None:
    assert asked.seen.exchange.body == asked.bare.exchange.body


@pytest.mark.requirement("R10")
@EVERY
def test_the_request_goes_to_the_same_path_by_the_same_method_with_the_same_headers(asked: Run) -> None:
    bare, seen = asked.bare.exchange, asked.seen.exchange
    # An SDK that traces itself (anthropic from 2 on) sends the current span to the server.
    headers = sorted(seen.headers.keys() - {"traceparent"})
    assert (seen.method, seen.path, headers) == (bare.method, bare.path, sorted(bare.headers))


@pytest.mark.requirement("R9")
@EVERY
def test_what_is_read_is_equal_in_order_and_count(asked: Run) -> None:
    if asked.surface.reading.text == ".iter_bytes()":  # in the pieces in which they happened to come
        assert b"".join(asked.seen.read) == b"".join(asked.bare.read)
    else:
        shown = repr if asked.surface.sdk == "xai" else lambda read: read  # xai-sdk's objects cannot be compared
        assert shown(asked.seen.read) == shown(asked.bare.read)


@pytest.mark.requirement("R1")
@EVERY
def test_the_stream_is_of_the_same_type(asked: Run) -> None:
    assert asked.seen.stream_type is asked.bare.stream_type


@pytest.mark.requirement("R2", "R4")
@EVERY
def test_the_public_attributes_have_the_same_types(asked: Run) -> None:
    assert asked.seen.attributes == asked.bare.attributes


@pytest.mark.requirement("R4")
@EVERY
def test_the_connection_returns_to_the_pool_as_it_does_without(asked: Run) -> None:
    assert asked.seen.reused == asked.bare.reused
