"""Scenarios that are written once, for the sync and for the async clients.

A scenario is a coroutine that touches an SDK through these functions only. With an async client it runs in an event
loop. With a sync client nothing in it ever waits for a loop, so that it is run without one, like a plain function.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, closing, suppress
from inspect import isasyncgen, isawaitable, isgenerator
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")
Face = Literal["sync", "async"]
FACES: Final[tuple[Face, ...]] = ("sync", "async")
END: Final = object()
"""What `pulled` returns when there is nothing more."""


def run(face: Face, scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end: in an event loop of its own, or without any."""
    if face == "async":
        return asyncio.run(scenario)
    try:
        scenario.send(None)
    except StopIteration as returned:
        result: T = returned.value
        return result
    scenario.close()
    raise AssertionError("a scenario with a sync client waited for an event loop")


async def settled(value: Any) -> Any:
    """The value that a call gave, at once or to be awaited."""
    return await value if isawaitable(value) else value


async def pulled(iterator: Any) -> Any:
    """The next chunk, or `END`; of an event stream of botocore, which is no iterator, by a loop of its own."""
    if hasattr(iterator, "_event_generator"):
        iterator = aiter(iterator) if hasattr(iterator, "__aiter__") else iter(iterator)
    return await anext(iterator, END) if hasattr(iterator, "__anext__") else next(iterator, END)


async def taken(iterable: Any, enough: Callable[[], bool] = lambda: False) -> list[Any]:
    """The chunks that a loop gets, which is broken out of when it has `enough`."""
    chunks: list[Any] = []
    if hasattr(iterable, "__aiter__"):
        async for chunk in iterable:
            chunks.append(chunk)
            if enough():
                break
    else:
        for chunk in iterable:
            chunks.append(chunk)
            if enough():
                break
    return chunks


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """The block of `with` or `async with`; of one that closes it for what is no context manager.

    The clients of ollama are both kinds of one, whichever they are, or none: their HTTP client is closed.
    """
    if type(manager).__module__ == "ollama._client":
        async with entered(manager._client):
            yield manager
    elif hasattr(manager, "__aenter__"):
        async with manager as inside:
            yield inside
    elif isasyncgen(manager):
        async with aclosing(manager) as inside:
            yield inside
    elif not hasattr(manager, "__enter__"):
        with closing(manager) as inside:
            yield inside
    else:
        with manager as inside:
            yield inside


async def enter(manager: Any) -> Any:
    """The beginning of a `with` block whose end is up to the scenario."""
    return await manager.__aenter__() if hasattr(manager, "__aenter__") else manager.__enter__()


async def leave(manager: Any) -> None:
    """The end of a `with` block."""
    if hasattr(manager, "__aexit__"):
        await manager.__aexit__(None, None, None)
    else:
        manager.__exit__(None, None, None)


async def close(stream: Any) -> None:
    """Close a stream, which every SDK calls `close`, awaited or not; an asynchronous generator, `aclose`."""
    await settled(stream.aclose() if isasyncgen(stream) else stream.close())


def response_of(stream: Any) -> Any:
    """The HTTP response under a stream; OpenAI's helpers and botocore keep it to themselves."""
    if hasattr(stream, "response"):
        return stream.response
    return stream._response if hasattr(stream, "_response") else stream._raw_stream


def generator_of(stream: Any) -> Any:
    """The SDK's own generator that a stream iterates over, under its helper where there is one, or that it is."""
    if isgenerator(stream) or isasyncgen(stream):
        return stream
    for name in ("generator", "_event_generator"):
        if hasattr(stream, name):
            return getattr(stream, name)
    return getattr(stream, "_raw_stream", stream)._iterator


async def drop() -> None:
    """Collect what has no reference left, as the garbage collector and the event loop do sooner or later."""
    gc.collect()
    with suppress(RuntimeError):  # no event loop: a sync scenario
        asyncio.get_running_loop()
        # A finaliser schedules the closing of an async generator, which lets go of the next one, and so on.
        for _ in range(20):
            await asyncio.sleep(0)
    gc.collect()
