"""Whole answers as bytes, in each wire format, and ways to break them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from scripts import WIRES
from wires import Wire

BODIES: Final[dict[str, list[bytes]]] = {
    wire: [step.event.encode() for step in scripted.script] for wire, scripted in WIRES.items()
}
"""By wire format: the events of an answer, one after the other."""


def whole(wire: str) -> Wire:
    """The answer, an event at a time."""
    return Wire(pieces=BODIES[wire])


def broken(wire: str) -> Wire:
    """The connection is lost after the first half of the events."""
    return Wire(pieces=BODIES[wire][: len(BODIES[wire]) // 2], fault="ReadError")


def garbled(wire: str) -> Wire:
    """An event of the second half is no JSON."""
    half = len(BODIES[wire]) // 2
    return Wire(pieces=[*BODIES[wire][:half], b"data: {garbled\n\n"])


def refused(_: str) -> Wire:
    """There is no connection."""
    return Wire(pieces=(), refused="ConnectError")


def denied(_: str) -> Wire:
    """An answer of HTTP status 400."""
    body = b'{"error": {"message": "no", "type": "invalid_request_error"}}'
    return Wire(pieces=[body], status=400, headers=(("content-type", "application/json"),))


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """The bytes in pieces, cut at these places."""
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in pairwise(edges)]
