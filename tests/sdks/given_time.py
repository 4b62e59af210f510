"""Streams in a time that is given: over a transport in memory, on a clock that only the script and the caller move."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest
from clients import skip_what_is_missing
from faces import entered, run
from measuring import measured, timeline_of
from wires import EVENT_STREAM, Line, Wire, client_on

from otel_itl.runtime import runtime
from otel_itl.testing import FakeClock
from otel_itl.testing.script import CREATED, ID, MODEL, SEQUENCE

if TYPE_CHECKING:
    from faces import Face
    from surfaces import Surface

    from otel_itl.core.timeline import Timeline
    from otel_itl.testing import Script


class Timed(NamedTuple):
    """The telemetry of a stream whose time was given."""

    span: Any
    metrics: dict[str, list[Any]]

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the span."""
        return dict(self.span.attributes)

    @property
    def timeline(self) -> Timeline:
        """From the token events of the span."""
        return timeline_of(self.span)


@contextmanager
def given_time() -> Iterator[FakeClock]:
    """Streams that are opened in the block are timed by the clock that it gets, which nothing else moves.

    What the process does in its own time is no evidence of theirs: they are long past.
    """
    clock = FakeClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "_clock", clock)
        yield clock


def timed(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, object]],
    surface: Surface,
    face: Face,
    script: Script,
    clock: FakeClock | None = None,
) -> Timed:
    """Return the telemetry of a scenario whose stream comes when the script says.

    Args:
        scenario: gets the surface and a client of its own.
        surface: how the stream is asked for and read.
        face: whether the client is synchronous.
        script: what is sent, and when.
        clock: of `given_time`, for a scenario that takes time itself; None: one of its own.
    """
    if clock is None:
        with given_time() as own:
            return timed(scenario, surface, face, script, own)
    with measured() as telemetry:
        play_timed(scenario, surface, face, script, clock)
        (span,) = telemetry.spans
        return Timed(span, telemetry.metrics)


def play_timed(
    scenario: Callable[[Surface, Any], Coroutine[Any, Any, object]],
    surface: Surface,
    face: Face,
    script: Script,
    clock: FakeClock,
) -> None:
    """Run a scenario as `timed` does, for whoever measures it."""
    sender = _Sender(script, clock)
    fault = "ReadError" if script[-1].event.kind == "close" else None
    wire = Wire(pieces=sender.pieces(), fault=fault, headers=(*EVENT_STREAM, *script.headers))
    line = Line(wire, before_response=sender.answer)

    async def played() -> None:
        async with entered(client_on(line, surface, face)) as client:
            skip_what_is_missing(surface, client)
            await scenario(surface, client)

    run(face, played())


class _Sender:
    """Sends a script in the time of a clock: whatever is asked for before it is due, comes when it is."""

    def __init__(self, script: Script, clock: FakeClock) -> None:
        self._script, self._clock = script, clock
        self._answered = 0

    def answer(self) -> None:
        """Let the time pass until the headers are sent."""
        self._clock.advance(self._script.headers_delay)
        self._answered = self._clock()

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of each step."""
        due, numbers = self._answered, count()
        values = {ID: f'"resp_{uuid4().hex}"', MODEL: '"m"', CREATED: "1700000000"}
        for step in self._script:
            due += round(step.delay * 1e9)
            self._clock.advance_ns(max(0, due - self._clock()))
            if not step.event.control:
                yield step.event.encode({**values, SEQUENCE: str(next(numbers))})
