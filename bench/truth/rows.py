"""The rows of the table of what is known: how streams are read, under which pressure, and who makes a silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from random import Random
from typing import Final, Literal, NamedTuple

from bench.truth.callers import Block, Caller, Face, PauseOnce
from bench.truth.pressure import BUSY, QUIET, QUOTAS, STOPS, Pressure
from bench.truth.scenarios import MISSING_HTTP2
from bench.truth.tls import MISSING as MISSING_TLS
from otel_itl.testing import Script, chat

SILENCE: Final = (2.2, 5.0)
"""Shortest and longest silence (s) on the wire: above the threshold of a stall, which is 2 s here."""
HELD_SECONDS: Final = 3.0
"""How long a caller that makes a silence itself lets its streams wait."""

_CHUNKS_PER_SECOND: Final = 50
"""Of the streams together that go on while others are silent: nearly what a process can read with 5 % of a core."""
_GOING_SECONDS: Final = 6.0
"""How long they go on: about as long as the others, with their silence."""

Silence = Literal["", "on the wire", "blocked loop", "sleeping reader", "held GIL", "stopped"]
"""Who makes a silence: nothing at all, the server, or the caller by one of these means."""


class Transport(NamedTuple):
    """How the client is connected to the server."""

    name: str
    tls: bool
    http2: bool

    @property
    def missing(self) -> str:
        """Why it cannot be run; '' where it can."""
        return (MISSING_TLS if self.tls else "") or (MISSING_HTTP2 if self.http2 else "")


PLAIN: Final = Transport("plain", tls=False, http2=False)
TRANSPORTS: Final = (
    PLAIN,
    Transport("TLS", tls=True, http2=False),
    Transport("HTTP/2", tls=False, http2=True),
    Transport("TLS, HTTP/2", tls=True, http2=True),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: `waves` times after one another, `streams` streams at a time, under one pressure."""

    pressure: Pressure
    face: Face
    streams: int
    waves: int = 1
    transport: Transport = PLAIN
    silence: Silence = ""
    silent_seconds: tuple[float, float] = SILENCE

    @property
    def name(self) -> str:
        """Name by which it can be run alone."""
        shape = f"{self.streams} on a loop" if self.face == "loop" else f"{self.streams} in threads"
        parts = [self.pressure.name, shape, self.transport.name]
        return ", ".join(parts + ([f"silence: {self.silence}"] if self.silence else []))

    @property
    def is_ordinary(self) -> bool:
        """Whether nothing disturbs its streams: no other work, no silence."""
        return self.pressure is QUIET and not self.silence

    @property
    def is_silenced_by_caller(self) -> bool:
        """Whether the caller makes a silence of each stream itself."""
        return self.silence not in {"", "on the wire"}

    def caller(self, certificate: str) -> Caller:
        """Return what reads the streams; `certificate` is that of the TLS front."""
        caller = Caller(
            face=self.face,
            http2=self.transport.http2,
            certificate=certificate if self.transport.tls else "",
            spread=0.01,
        )
        if self.silence in {"blocked loop", "held GIL"}:
            return replace(caller, block=Block(after=1.0, lasts=HELD_SECONDS))
        if self.silence == "sleeping reader":
            return replace(caller, pause=PauseOnce(at=20, seconds=HELD_SECONDS))
        return caller

    def script(self, number: int, random: Random) -> Script:
        """Return the response to one request, given its number among those at the same time."""
        if self.silence == "on the wire":
            # Every other stream goes on, so that the process is not silent as a whole.
            if number % 2:
                gap = self.streams / 2 / _CHUNKS_PER_SECOND
                return chat.reply(round(_GOING_SECONDS / gap), first=0.3, gaps=gap)
            gaps = [0.15] * 10
            gaps[random.randrange(5, 10)] = random.uniform(*self.silent_seconds)
            return chat.reply(11, first=0.3, gaps=gaps)
        if self.is_silenced_by_caller:
            return chat.reply(85, first=0.1, gaps=0.05)  # until the silence is over
        # A crowd is slower, as one thread decodes some thousand chunks a second.
        gap = max(0.025, self.streams * 0.0015)
        tokens = 10 if self.streams > 100 else 20
        first = random.uniform(0.1, 0.3)
        return chat.reply(tokens, first=first, gaps=[gap * random.uniform(0.7, 1.3) for _ in range(tokens - 1)])

    def shortened(self) -> Row:
        """Return the row with one wave of two streams at most, and the shortest silence."""
        return replace(self, streams=min(self.streams, 2), waves=1, silent_seconds=(SILENCE[0], SILENCE[0]))


_WAVES: Final = {1: 5, 8: 3, 40: 2, 200: 1}


def _quiet() -> Iterator[Row]:
    faces: tuple[Face, ...] = ("loop", "threads")
    for face in faces:
        for streams, waves in _WAVES.items():
            yield Row(pressure=QUIET, face=face, streams=streams, waves=waves)
    for transport in TRANSPORTS[1:]:
        yield Row(pressure=QUIET, face="threads", streams=8, waves=3, transport=transport)
        yield Row(pressure=QUIET, face="loop", streams=40, waves=2, transport=transport)


def _under_pressure() -> Iterator[Row]:
    """Yield the rows of each pressure, with the transports by turns.

    200 streams are not read under a quota that their requests alone would exhaust for half a minute, nor over HTTP/2,
    which carries at most 100 over one connection.
    """
    for turn, pressure in enumerate((*BUSY, *QUOTAS)):
        some = partial(Row, pressure=pressure)
        yield some(face="threads", streams=1, waves=_WAVES[1], transport=TRANSPORTS[turn % 4])
        yield some(face="threads", streams=8, waves=_WAVES[8], transport=TRANSPORTS[(turn + 1) % 4])
        yield some(face="loop", streams=40, waves=_WAVES[40], transport=TRANSPORTS[(turn + 2) % 4])
        if pressure not in QUOTAS[:2]:
            yield some(face="loop", streams=200, transport=TRANSPORTS[turn % 2])
    for pressure in (BUSY[1], QUOTAS[3]):
        some = partial(Row, pressure=pressure)
        yield some(face="loop", streams=1, waves=_WAVES[1])
        yield some(face="threads", streams=40, waves=_WAVES[40])
        yield some(face="threads", streams=200)


def _silences() -> Iterator[Row]:
    """Yield the rows of silences; of few streams under a small quota, where many would still be sending requests."""
    for turn, pressure in enumerate((QUIET, *BUSY, *QUOTAS)):
        some = partial(Row, pressure=pressure, streams=8 if pressure in QUOTAS[:2] else 16, silence="on the wire")
        yield some(face="loop", transport=TRANSPORTS[turn % 4])
        yield some(face="threads", transport=TRANSPORTS[(turn + 1) % 4])
    for pressure in (QUIET, QUOTAS[2]):
        some = partial(Row, pressure=pressure, streams=8)
        yield some(face="loop", silence="blocked loop")
        yield some(face="threads", silence="sleeping reader")
        yield some(face="threads", silence="held GIL")
    yield Row(pressure=STOPS, face="loop", streams=8, silence="stopped")
    yield Row(pressure=STOPS, face="threads", streams=8, silence="stopped")


ROWS: Final = tuple(chain(_quiet(), _under_pressure(), _silences()))
