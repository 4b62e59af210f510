"""Upstreams that send too much, or what none should: the caller sees what there is, and nothing of it piles up."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import pytest
from callers import seen_by_caller
from faces import entered, run
from measuring import SHARED, bare, instrument, measured, spans_within, timeline_of
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from replies import BODIES
from surfaces import CREATED, Surface
from wires import EVENT_STREAM, Line, Wire, client_on

from otel_itl import observe
from otel_itl.recording.chunk_log import MAX_CHUNKS as CHUNK_LIMIT
from otel_itl.runtime import runtime

if TYPE_CHECKING:
    from faces import Face

CHAT: Final = CREATED[0]
MESSAGES: Final = next(surface for surface in CREATED if surface.wire == "messages")
EMPTY: Final = {
    "chunks without choices": (CHAT, b'data: {"id": "c", "choices": []}\n\n'),
    "chunks without text": (CHAT, b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": ""}}]}\n\n'),
    "comments": (CHAT, b": alive\n\n"),
    "pings": (MESSAGES, b'event: ping\ndata: {"type": "ping"}\n\n'),
    "deltas without text": (
        MESSAGES,
        (
            b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
            b'"delta": {"type": "text_delta", "text": ""}}\n\n'
        ),
    ),
}
"""Events without content, which can be sent for ever."""


class Flood:
    """The same event over and over, 500 in a piece; made anew for each reader, and never there as a whole."""

    def __init__(self, event: bytes, pieces: int) -> None:
        self._piece = event * 500
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return (self._piece for _ in range(self._pieces))


def cpu_seconds(surface: Surface, wire: Wire) -> float:
    """What reading a stream to its end costs, the report of it included."""

    async def read() -> float:
        async with entered(client_on(Line(wire), surface, "sync")) as client:
            before = time.thread_time()
            for _ in surface.open(client):
                pass
            return time.thread_time() - before

    return run("sync", read())


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMPTY)
def test_endless_events_that_say_nothing_cost_no_more_as_they_go_on(kind: str) -> None:
    surface, event = EMPTY[kind]
    with measured():
        cpu_seconds(surface, Wire(pieces=Flood(event, 1)))
        # Of three times the least: the garbage collector may come in between.
        few, many = (min(cpu_seconds(surface, Wire(pieces=Flood(event, n))) for _ in range(3)) for n in (4, 40))
    # Ten times as many; what grows with the square of their number would cost a hundred times as much.
    assert many < 30 * few


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.requirement("R54", "R57")
def test_a_stream_of_more_than_a_million_chunks_is_recorded_up_to_the_limit_and_counted_to_its_end() -> None:
    chunks = CHUNK_LIMIT + 1_000
    with measured() as telemetry:
        stream = observe(("x" for _ in range(chunks)), provider="p", model="m")
        for _ in range(chunks):
            next(stream)
        (recorder,) = runtime.open_streams.recorders()
        log = recorder.log
        held = sum(getsizeof(moments) for moments in (log.asked, log.arrived, log.codes))
        assert next(stream, None) is None
        (span,) = spans_within(telemetry, 1, seconds=120)  # a flush would wait for some seconds at most
    timeline = timeline_of(span)
    counted = len(timeline) + sum(timeline.skipped) + timeline.unrecorded
    assert (counted, held < 40 * CHUNK_LIMIT) == (chunks, True)


@pytest.mark.parametrize("surface", CREATED, ids=str)
def test_no_chunk_is_kept_while_its_stream_is_open(surface: Surface) -> None:
    async def read() -> tuple[int, int]:
        async with entered(client_on(Line(Wire(pieces=BODIES[surface.wire])), surface, "sync")) as client:
            if surface.missing(client) is not None:
                pytest.skip(f"no {surface.missing(client)}")
            stream = surface.open(client)
            chunks = [ref(next(stream)) for _ in range(4)]
            next(stream)
            return len(chunks), sum(chunk() is not None for chunk in chunks)

    with measured():
        assert run("sync", read()) == (4, 0)


@pytest.mark.slow
def test_a_chunk_of_fifty_megabytes_is_the_callers_alone(face: Face) -> None:
    text = b"x" * 50 * 2**20
    wire = Wire(pieces=[b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "', text, b'"}}]}\n\n'])
    bare()
    expected = seen_by_caller(CHAT, face, wire, ["pull", "pull"])
    with measured() as telemetry:
        assert seen_by_caller(CHAT, face, wire, ["pull", "pull"]) == expected
        telemetry.tracer_provider.force_flush()
        (span,) = telemetry.spans
        assert len(span.to_json()) < 10_000


@pytest.mark.slow
def test_a_small_body_that_unpacks_to_much_is_unpacked_as_it_is_without(face: Face) -> None:
    packed = gzip.compress(b": " + b"x" * 20 * 2**20 + b"\n\n" + b"".join(BODIES["chat"]))
    wire = Wire(pieces=[packed], headers=(*EVENT_STREAM, ("content-encoding", "gzip")))
    bare()
    expected = seen_by_caller(CHAT, face, wire, ["loop"])
    with measured():
        assert seen_by_caller(CHAT, face, wire, ["loop"]) == expected


# --- names -----------------------------------------------------------------------------------------------------------


def chunk_of(model: str) -> bytes:
    body = '{"id": "c", "model": %s, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}'
    return f"data: {body % model}\n\n".encode()


def read(*bodies: bytes, model: str = "m") -> None:
    for body in bodies:
        line = Line(Wire(pieces=[body]))
        with client_on(line, CHAT, "sync") as client:
            list(client.chat.completions.create(model=model, messages=[], stream=True))


@pytest.mark.requirement("R59")
def test_an_upstream_that_answers_in_ever_new_names_makes_no_more_series_than_the_limit() -> None:
    with measured() as telemetry:
        read(*(chunk_of(f'"model-{number}"') for number in range(130)))
        points = telemetry.metrics["itl.client.stream.outcomes"]
    assert (len(points) <= 101, sum(point.value for point in points)) == (True, 130)


@pytest.mark.requirement("R59")
def test_an_upstream_that_fails_in_ever_new_ways_makes_no_more_series_than_the_limit() -> None:
    def failing() -> Iterator[Any]:
        for number in range(130):
            yield {"type": "error", "code": f"code-{number}"}

    with measured() as telemetry:
        for event in failing():
            list(observe(iter([event]), provider="p", model="m"))
        points = telemetry.metrics["gen_ai.client.operation.duration"]
    assert (len(points) <= 101, sum(point.count for point in points)) == (True, 130)


NAMES: Final = {
    "half of a surrogate pair": '"\\ud800"',
    "a megabyte": f'"{"m" * 2**20}"',
    "control characters": '"m\\r\\nx-injected: 1\\u0000"',
    "a number": "7",
    "an object": '{"name": "m"}',
    "nothing": "null",
}


@pytest.mark.parametrize("name", NAMES)
def test_no_name_that_an_upstream_gives_keeps_a_span_from_being_exported(name: str) -> None:
    with measured() as telemetry:
        read(chunk_of(NAMES[name]))
        (span,) = telemetry.spans
    assert len(encode_spans([span]).SerializeToString()) < 10_000


@pytest.mark.parametrize("model", ["m" * 2**20, "m\r\nx-injected: 1"])
def test_no_name_that_a_caller_gives_makes_a_span_large(model: str) -> None:
    with measured() as telemetry:
        read(chunk_of('"m"'), model=model)
        (span,) = telemetry.spans
    assert len(encode_spans([span]).SerializeToString()) < 10_000


def test_headers_of_a_response_go_nowhere() -> None:
    injected = (("traceparent", "00-" + "f" * 32 + "-" + "f" * 16 + "-01"), ("baggage", "session.id=injected"))
    instrument(SHARED)
    with measured() as telemetry:
        line = Line(Wire(pieces=BODIES["chat"], headers=(*EVENT_STREAM, *injected)))
        with client_on(line, CHAT, "sync") as client:
            list(CHAT.open(client))
        (span,) = telemetry.spans
    assert ("injected" in span.to_json(), "f" * 16 in span.to_json()) == (False, False)
