"""A caller sees the same whether or not the stream is measured: whatever comes over the wire, and whatever is done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from callers import STEPS, seen_by_caller
from faces import FACES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from measuring import SHARED, bare, instrument
from replies import BODIES, ODD_EVENTS, cut
from surfaces import CREATED, OTHER_STREAMS, STREAMS, SURFACES, Surface
from wires import EVENT_STREAM, Wire

from otel_itl.runtime import runtime

if TYPE_CHECKING:
    from faces import Face

pytestmark = pytest.mark.requirement("R1", "R2", "R4", "R5", "R9", "R10", "R11", "R14", "R15", "R17")

EXAMPLES: Final = int(os.environ.get("ITL_TEST_EXAMPLES", "8"))
"""Callers of each surface that are tried; `ITL_TEST_EXAMPLES=1000 pytest tests/production` looks for longer."""
FAULTS: Final = (None, None, "ReadError", "ReadTimeout", "RemoteProtocolError", "DecodingError")
HEADERS: Final = (
    EVENT_STREAM,
    EVENT_STREAM,
    (("content-type", "application/json"),),
    (("content-type", "text/event-stream; charset=latin-1"),),
    (("content-type", "text/event-stream"), ("content-encoding", "gzip")),
    (("content-type", "text/event-stream"), ("traceparent", "00-garbage"), ("x-stainless-retry-count", "many")),
)
ROWS: Final = (*STREAMS, *OTHER_STREAMS)


def is_slow(surface: Surface, face: Face) -> bool:
    """Whether it is left to one environment: by turns one face or the other is tried in each."""
    in_turn = face == FACES[ROWS.index(surface) % len(FACES)]
    return not in_turn or surface not in (*CREATED, *OTHER_STREAMS)


STREAM_ROWS: Final = [
    pytest.param(surface, face, id=f"{surface}-{face}", marks=pytest.mark.slow if is_slow(surface, face) else ())
    for surface in ROWS
    for face in FACES
]
AROUND: Final = ("open", "drop")
"""Steps that every caller takes."""


@st.composite
def wires(draw: st.DrawFn, wire: str) -> Wire:
    """What may come over the wire: an answer with events left out, repeated, odd or garbled, cut anywhere."""
    events = st.one_of(st.sampled_from(BODIES[wire]), st.sampled_from(ODD_EVENTS[wire]))
    body = b"".join(draw(st.one_of(st.just(BODIES[wire]), st.lists(events, max_size=12))))
    body = draw(st.sampled_from([body, body, body.replace(b"\n", b"\r\n"), body.replace(b"\n", b"\r")]))
    if draw(st.integers(0, 9)) == 0:
        body = draw(st.binary(max_size=40)) + body[: draw(st.integers(0, len(body)))]
    return Wire(
        pieces=cut(body, draw(st.lists(st.integers(0, len(body)), max_size=12))),
        fault=draw(st.sampled_from(FAULTS)),
        status=draw(st.sampled_from([200] * 8 + [400, 429, 500])),
        headers=draw(st.sampled_from(HEADERS)),
        refused=draw(st.sampled_from([None] * 8 + ["ConnectError", "ConnectTimeout"])),
    )


STEP_LISTS: Final = st.lists(st.sampled_from([step for step in STEPS if step not in AROUND]), max_size=7)


def compare(surface: Surface, face: Face, wire: Wire, steps: list[str]) -> None:
    bare()
    expected = seen_by_caller(surface, face, wire, steps)
    instrument(SHARED)
    runtime.errors.counts.clear()
    assert seen_by_caller(surface, face, wire, steps) == expected
    # Recorded by another thread, an exemplar would draw from `random`, which hypothesis does not take from a strategy.
    SHARED.tracer_provider.force_flush()
    assert dict(runtime.errors.counts) == {}


@pytest.mark.parametrize(("surface", "face"), STREAM_ROWS)
def test_what_a_caller_sees_of_any_stream_is_the_same(surface: Surface, face: Face) -> None:
    @given(wire=wires(surface.wire), steps=STEP_LISTS)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="ITL_TEST_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["pull", "copy", "pull", "tee", "loop", "iterate again"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["pull in a thread", "pull in a task", "cancel", "loop"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["pull", "close", "pull", "close", "look at the response"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["pull", "throw", "pull", "look at the attributes"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["close the response", "pull", "leave"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["read the response", "loop", "look at the response"])
    @example(wire=Wire(pieces=BODIES[surface.wire]), steps=["within", "within", "leave"])
    def compared(wire: Wire, steps: list[str]) -> None:
        compare(surface, face, wire, steps)

    compared()


@pytest.mark.slow
@pytest.mark.requirement("R6", "R8")
@pytest.mark.parametrize("surface", [row for row in SURFACES if row not in {*STREAMS, *OTHER_STREAMS}], ids=str)
def test_what_every_way_of_reading_gives_of_any_stream_is_the_same(surface: Surface, face: Face) -> None:
    @given(wire=wires(surface.wire))
    @settings(
        max_examples=max(EXAMPLES // 4, 1),
        deadline=None,
        derandomize="ITL_TEST_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @example(wire=Wire(pieces=BODIES[surface.wire]))
    @example(wire=Wire(pieces=BODIES[surface.wire][:3], fault="ReadError"))
    def compared(wire: Wire) -> None:
        compare(surface, face, wire, ["read"])

    compared()


def test_a_comparison_that_could_not_fail_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the tests above can fail: a chunk more or less is a difference."""
    import openai

    bare()
    wire = Wire(pieces=BODIES["chat"])
    expected = seen_by_caller(STREAMS[0], "sync", wire, ["loop"])
    stream: Any = openai.Stream.__stream__
    monkeypatch.setattr(openai.Stream, "__stream__", lambda self: (chunk for chunk in list(stream(self))[1:]))
    assert seen_by_caller(STREAMS[0], "sync", wire, ["loop"]) != expected
