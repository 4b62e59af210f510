"""The process under measurement: it reads the streams of a row, and hands over what was emitted about them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import otel_itl
from bench.truth.callers import Caller, Read
from bench.truth.judging import SILENCE_SECONDS, Emitted, Reported
from otel_itl import StallPolicy
from otel_itl.testing import capture_telemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

WARM_UP: Final = "warm-up"
"""Model of the stream that is read first and not measured, as it pays for what happens once."""

_MODEL: Final = "gen_ai.request.model"
_SECOND: Final = 1_000_000_000


class Work(NamedTuple):
    """What the process has to read."""

    caller: Caller
    url: str
    waves: Sequence[Sequence[str]]
    """Models of the streams that are read at the same time."""


def read_row(pipe: Connection, work: Work) -> None:
    """Read the streams between two messages of the other side, and send what was emitted.

    A message of this side says that it is ready, the next one that it has read; each is answered. So the pressure is on
    the reading alone.
    """
    with capture_telemetry() as captured:
        otel_itl.instrument(
            stall=StallPolicy(next_token=SILENCE_SECONDS, relative=None),
            tracer_provider=captured.tracer_provider,
            meter_provider=captured.meter_provider,
            logger_provider=captured.logger_provider,
        )
        try:
            _plain(work.caller).read(work.url, [WARM_UP])
            gc.collect()
            gc.freeze()
            _meet(pipe)
            reads = [read for models in work.waves for read in work.caller.read(work.url, models)]
            _meet(pipe)
        finally:
            otel_itl.uninstrument()
        pipe.send(_emitted(captured.spans, reads))


def _plain(caller: Caller) -> Caller:
    """Return a caller that reads at once over the same transport."""
    return Caller(face=caller.face, http2=caller.http2, certificate=caller.certificate)


def _meet(pipe: Connection) -> None:
    pipe.send(None)
    pipe.recv()


def _emitted(spans: Sequence[ReadableSpan], reads: Sequence[Read]) -> list[Emitted]:
    """Return what the spans of the measured streams hold, their times on the clock that all processes share."""
    to_clock = _find_offset()
    found: dict[str, Any] = {str((span.attributes or {})[_MODEL]): span for span in spans}
    return [_of_span(read, found[read.model], to_clock) for read in reads]


def _find_offset() -> int:
    """Return what makes a wall-clock time (ns) one of the shared clock, of the two reads that were nearest."""
    reads = [(perf_counter_ns(), time_ns(), perf_counter_ns()) for _ in range(100)]
    before, wall, after = min(reads, key=lambda read: read[2] - read[0])
    return (before + after) // 2 - wall


def _of_span(read: Read, span: Any, to_clock: int) -> Emitted:
    requested = span.start_time + to_clock
    stalls = [dict(event.attributes) for event in span.events if event.name == "itl.stall"]
    attributes = {name: value for name, value in span.attributes.items() if name.startswith("itl.")}
    return Emitted(read.model, read.called_ns, requested, attributes, [_reported(one, requested) for one in stalls])


def _reported(stall: dict[str, Any], requested: int) -> Reported:
    begin = requested + round(stall["itl.stall.start"] * _SECOND)
    return Reported(begin, begin + round(stall["itl.stall.duration"] * _SECOND), stall["itl.stall.cause"])
