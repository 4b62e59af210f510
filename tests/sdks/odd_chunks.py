"""What a caller sees of a stream with an odd chunk, with us and without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from faces import END, pulled
from measuring import bare, measured
from surfaces import Surface

Shapes = Callable[[Surface, Any], Awaitable[list[str]]]
"""Streams with a client, and returns what is seen of each chunk, and of the exception that ends the stream."""


async def shapes_of(stream: Any, look: Callable[[Any], str] = lambda chunk: type(chunk).__name__) -> list[str]:
    """What is seen of each chunk, and of the exception with which the SDK refuses an odd one."""
    seen = []
    try:
        while (one := await pulled(stream)) is not END:
            seen.append(look(one))
    except Exception as error:
        seen.append(type(error).__name__)
    return seen


async def shapes_within(surface: Surface, client: Any) -> list[str]:
    """The same, of a stream that is read within its block."""
    async with surface.stream(client) as stream:
        return await shapes_of(stream)


def bare_then_measured(shapes: Shapes = shapes_within) -> Callable[[Surface, Any], Awaitable[tuple[list[str], ...]]]:
    """A scenario that streams without us and with us: what is seen of each, and the outcomes that are recorded."""

    async def scenario(surface: Surface, client: Any) -> tuple[list[str], ...]:
        bare()
        expected = await shapes(surface, client)
        with measured() as telemetry:
            seen = await shapes(surface, client)
            return expected, seen, [span.attributes["itl.stream.outcome"] for span in telemetry.spans]

    return scenario
