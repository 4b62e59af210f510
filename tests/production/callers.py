"""What callers do with streams, step by step, and all that they can see of it: written down, to be compared."""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import logging
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from clients import keep_what_is_made
from faces import (
    Face,
    close,
    drop,
    enter,
    entered,
    generator_of,
    leave,
    pulled,
    response_of,
    run,
    settled,
    taken,
)
from wires import Line, Wire, client_on

if TYPE_CHECKING:
    from surfaces import Surface

OF_ITS_OWN: Final = "LogDeprecatedInitWarning"
"""OpenTelemetry 1.37 warns of the way in which it makes log records itself."""
ONCE: Final = "Interactions usage is experimental and may change in future versions."
"""google-genai 1 warns of this once in a process: the second of two callers does not hear it."""
Seen = tuple[str, object]
"""A step, and what its caller got: plain data, so that two callers can be compared."""


@dataclass(slots=True)
class Caller:
    """A caller that asks for one stream and does something with it."""

    surface: Surface
    face: Face
    client: Any
    line: Line
    made: list[Any]
    """Every chunk object that the SDK made."""
    before_step: Callable[[], None]
    seen: list[Seen] = field(default_factory=list)
    manager: Any = None
    stream: Any = None

    async def take(self, step: str) -> None:
        """One step; whatever comes of it is written down."""
        self.before_step()
        try:
            result = await STEPS[step](self)
        except BaseException as error:  # a cancellation is a result, too
            self.seen.append((step, described(error)))
        else:
            self.seen.append((step, self._plain(result)))

    def _plain(self, value: Any) -> object:
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        made = next((number for number, chunk in enumerate(self.made) if chunk is value), None)
        return type(value).__qualname__, repr(value), made


def described(error: BaseException | None, *above: BaseException) -> object:
    """What there is to see of an exception: type, text, and what it is said to come from, which may be itself."""
    if error is None:
        return None
    if any(error is each for each in above):
        return "as above"
    return (
        type(error).__qualname__,
        str(error),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
        described(error.__cause__, error, *above),
        described(error.__context__, error, *above),
    )


# --- steps -----------------------------------------------------------------------------------------------------------


async def _open(caller: Caller) -> object:
    made = await settled(caller.surface.open(caller.client))
    inside = made
    if caller.surface.managed:
        caller.manager = made
        inside = await enter(made)
    caller.stream = await caller.surface.reach(inside)
    return type(caller.stream)


async def _read(caller: Caller) -> object:
    return await caller.surface.reading.read(caller.stream)


async def _pull(caller: Caller) -> object:
    return await pulled(caller.stream)


async def _loop(caller: Caller) -> object:
    return await taken(caller.stream)


async def _within(caller: Caller) -> object:
    async with entered(caller.stream) as bound:
        return [bound is caller.stream, await pulled(bound)]


async def _leave(caller: Caller) -> object:
    return await leave(caller.stream if caller.manager is None else caller.manager)


async def _close(caller: Caller) -> object:
    return await close(caller.stream)


async def _close_response(caller: Caller) -> object:
    response = response_of(caller.stream)
    is_awaited = caller.face == "async" and hasattr(response, "aclose")
    return await settled(response.aclose() if is_awaited else response.close())


async def _read_response(caller: Caller) -> object:
    response = response_of(caller.stream)
    is_awaited = caller.face == "async" and hasattr(response, "aread")
    return await settled(response.aread() if is_awaited else response.read())


async def _iterate_again(caller: Caller) -> object:
    stream = caller.stream
    return await pulled(aiter(stream) if hasattr(stream, "__aiter__") else iter(stream))


async def _tee(caller: Caller) -> object:
    if hasattr(caller.stream, "__aiter__"):
        return None
    first, second = itertools.tee(caller.stream)
    return [next(first, None), next(second, None), next(second, None)]


async def _copy(caller: Caller) -> object:
    return await pulled(copy.copy(caller.stream))


async def _in_thread(caller: Caller) -> object:
    if hasattr(caller.stream, "__aiter__"):
        return None
    box: list[Any] = []

    def pull() -> None:
        try:
            box.append(next(caller.stream, None))
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    thread.join()
    (result,) = box
    if isinstance(result, BaseException):
        raise result
    return result


async def _in_task(caller: Caller) -> object:
    if caller.face == "sync":
        return None
    return await asyncio.create_task(pulled(caller.stream))


async def _cancel(caller: Caller) -> object:
    if caller.face == "sync":
        return None
    task = asyncio.create_task(taken(caller.stream))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    return await task


async def _throw(caller: Caller) -> object:
    generator = generator_of(caller.stream)
    error = ZeroDivisionError("thrown in")
    return await settled(generator.athrow(error) if hasattr(generator, "athrow") else generator.throw(error))


async def _attributes(caller: Caller) -> object:
    found = []
    for name in dir(caller.stream):
        if not name.startswith("_"):
            try:
                found.append((name, type(getattr(caller.stream, name)).__qualname__))
            except Exception as error:
                found.append((name, type(error).__qualname__))
    return found


async def _state(caller: Caller) -> object:
    response = response_of(caller.stream)
    return [response.is_closed, response.is_stream_consumed, response.num_bytes_downloaded, caller.line.sent]


async def _drop(caller: Caller) -> object:
    caller.stream = caller.manager = None
    await drop()
    return caller.line.closed


STEPS: Final[dict[str, Callable[[Caller], Awaitable[object]]]] = {
    "open": _open,
    "read": _read,
    "pull": _pull,
    "loop": _loop,
    "within": _within,
    "leave": _leave,
    "close": _close,
    "close the response": _close_response,
    "read the response": _read_response,
    "iterate again": _iterate_again,
    "tee": _tee,
    "copy": _copy,
    "pull in a thread": _in_thread,
    "pull in a task": _in_task,
    "cancel": _cancel,
    "throw": _throw,
    "look at the attributes": _attributes,
    "look at the response": _state,
    "drop": _drop,
}


# --- callers ---------------------------------------------------------------------------------------------------------


def seen_by_caller(
    surface: Surface,
    face: Face,
    wire: Wire,
    steps: Sequence[str],
    *,
    before_step: Callable[[], None] = lambda: None,
    after_steps: Callable[[], None] = lambda: None,
    **options: Any,
) -> list[Seen]:
    """All that a caller sees who takes these steps: results, exceptions, warnings, the request and its response."""

    async def taking(line: Line) -> list[Seen]:
        async with entered(client_on(line, surface, face, **options)) as client:
            caller = Caller(surface, face, client, line, keep_what_is_made(client), before_step)
            for step in ["open", *steps]:
                await caller.take(step)
                if step == "open" and caller.stream is None:
                    break
            await caller.take("drop")
            after_steps()
        return caller.seen

    line = Line(wire)
    gc.collect()
    gc.freeze()  # until the end of the module: what is there by now is not looked at again by each of the others
    with _overheard() as heard:
        seen = run(face, taking(line))
        gc.collect()
    return [*seen, ("requests", line.requests), ("closed", line.closed), ("heard", heard)]


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """What is warned of, logged by asyncio, or lost in finalisers within the block."""
    heard: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(f"asyncio: {record.getMessage()}")

    def unraisable(lost: Any) -> None:
        heard.append(f"lost: {type(lost.exc_value).__qualname__}: {lost.exc_value}")

    handler, logger, before = Handler(), logging.getLogger("asyncio"), sys.unraisablehook
    logger.addHandler(handler)
    sys.unraisablehook = unraisable
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield heard
        categories = [(warning.category.__name__, str(warning.message)) for warning in warned]
        heard += [
            f"{category}: {message}" for category, message in categories if category != OF_ITS_OWN and message != ONCE
        ]
    finally:
        logger.removeHandler(handler)
        sys.unraisablehook = before
