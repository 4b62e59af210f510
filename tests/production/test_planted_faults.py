"""Whatever of ours fails, the caller's stream goes on as if it were not measured, and the failure is counted and logged.

Which functions are called is found out by watching a measured stream, so that those to come are found as well. Each is
made to fail once it is called, and once it has done its work, every time that the caller takes a step.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from callers import Seen, seen_by_caller
from faces import Face
from measuring import SHARED, bare, instrument
from opentelemetry.trace import INVALID_SPAN, get_current_span
from planting import Place, Planted, watching
from replies import broken, denied, garbled, refused, whole
from surfaces import CREATED, STREAMS, SURFACES, Surface
from wires import Wire

import otel_itl
from otel_itl.fence import failures
from otel_itl.record.open_streams import open_streams

pytestmark = pytest.mark.requirement("R16")

SEAMS: Final[dict[str, str]] = {
}
"""Functions that nothing can be put around: the SDK calls them in place of its own, and they are the fence."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One way in which a stream is read and left."""

    steps: tuple[str, ...]
    wire: Callable[[str], Wire] = whole
    faces: tuple[Face, ...] = ("sync", "async")


ENDINGS: Final[dict[str, Ending]] = {
    "closed": Ending(("look at the attributes", "pull", "pull", "close")),
    "closed unread": Ending(("close",)),
    "closed by its response": Ending(("pull", "close the response")),
    "left by a with block": Ending(("within",)),
    "read in two loops": Ending(("pull", "loop", "iterate again")),
    "dropped": Ending(("pull", "pull")),
    "dropped unread": Ending(()),
    "thrown into": Ending(("pull", "pull", "throw")),
    "cancelled": Ending(("pull", "cancel"), faces=("async",)),
    "broken": Ending(("loop",), broken),
    "garbled": Ending(("loop",), garbled),
    "refused": Ending((), refused),
    "denied": Ending((), denied),
}
READINGS: Final = [(surface, face, "read", Ending(("read",))) for surface in SURFACES for face in ("sync", "async")]
LEAVINGS: Final = [
    (surface, face, name, ending)
    for surface in CREATED
    for name, ending in ENDINGS.items()
    for face in ending.faces
]
CASES: Final = [
    pytest.param(surface, face, ending, id=f"{surface}-{face}-{name}")
    for surface, face, name, ending in (*READINGS, *LEAVINGS)
]


@pytest.fixture(autouse=True)
def _measured() -> Iterator[None]:
    if not otel_itl.ITLInstrumentor().is_instrumented_by_opentelemetry:
        instrument(SHARED)
    yield


@contextmanager
def logged() -> Iterator[list[str]]:
    """What our logger says within the block."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Handler()
    logging.getLogger("otel_itl").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("otel_itl").removeHandler(handler)


def settle() -> None:
    """Nothing of a stream is left over for the next one."""
    open_streams.abandon()
    SHARED.clear()
    failures.clear()


def harm(planted: Planted, surface: Surface, face: Face, ending: Ending, expected: list[Seen]) -> Iterator[str]:
    """What a fault does to others than us."""
    settle()
    with logged() as lines:
        seen = seen_by_caller(
            surface,
            face,
            ending.wire(surface.wire),
            ending.steps,
            before_step=planted.arm,
            after_steps=planted.disarm,
        )
    if not planted.fired:
        return
    if seen != expected:
        differing = [pair for pair in zip(seen, expected) if pair[0] != pair[1]]
        yield f"the caller sees {differing[0][0]} for {differing[0][1]}" if differing else "the caller sees more or less"
    if not failures:
        yield "it is not counted"
    if len(lines) != len(failures):
        yield f"it is logged {len(lines)} times"
    if get_current_span() is not INVALID_SPAN:
        yield "the caller is left with another span"
    settle()
    seen_by_caller(surface, face, whole(surface.wire), ["loop"])
    outcomes = [span.attributes["itl.stream.outcome"] for span in SHARED.spans]
    if outcomes != ["completed"]:
        yield f"the next stream is told as {outcomes}"


@pytest.mark.parametrize(("surface", "face", "ending"), CASES)
def test_a_fault_in_any_function_of_ours_harms_nobody_and_is_counted_and_logged(
    surface: Surface, face: Face, ending: Ending
) -> None:
    holes = {}
    gc.disable()
    try:
        bare()
        expected = seen_by_caller(surface, face, ending.wire(surface.wire), ending.steps)
        instrument(SHARED)
        places: dict[Place, None] = {}
        with watching(places):
            assert seen_by_caller(surface, face, ending.wire(surface.wire), ending.steps) == expected
        for place in places:
            if place.function not in SEAMS:
                found = list(harm(Planted(place), surface, face, ending, expected))
                if found:
                    holes[str(place)] = found
    finally:
        gc.enable()
        settle()
    assert holes == {}
