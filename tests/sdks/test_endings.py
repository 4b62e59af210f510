"""Every way in which a stream ends, by every way of asking for it: one span, the right outcome, nothing twice."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest
from clients import keep_what_is_made, play
from faces import (
    FACES,
    Face,
    close,
    drop,
    enter,
    entered,
    generator_of,
    pulled,
    response_of,
    settled,
    taken,
)
from measuring import PATIENCE_SECONDS, wait_for_a_span
from opentelemetry.trace import StatusCode
from surfaces import CREATED, OBSERVED, OTHER_STREAMS, STREAMS, Surface

import otel_itl
from otel_itl.runtime import runtime
from otel_itl.testing import (
    CapturedTelemetry,
    Script,
    ScriptedServer,
    Step,
    bedrock,
    chat,
    cohere,
    conversations,
    faults,
    gemini,
    interactions,
    messages,
    mistral,
    ollama,
    responses,
    text_generation,
    xai,
)
from tests.pairwise import mark_beyond_pairs

BUILDERS: Final[dict[str, ModuleType]] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "converse": bedrock,
    "invoke_model": bedrock,
    "gemini": gemini,
    "interactions": interactions,
    "ollama_chat": ollama,
    "ollama_generate": ollama,
    "cohere": cohere,
    "cohere_v1": cohere,
    "xai": xai,
    "mistral": mistral,
    "conversations": conversations,
    "text_generation": text_generation,
}
OPENING: Final = {
    "chat": 2,
    "responses": 5,
    "messages": 3,
    "converse": 2,
    "invoke_model": 3,
    "gemini": 1,
    "interactions": 3,
    "ollama_chat": 1,
    "ollama_generate": 1,
    "cohere": 3,
    "cohere_v1": 2,
    "xai": 1,
    "mistral": 2,
    "conversations": 2,
    "text_generation": 1,
}
"""Chunks up to and including the first token."""
MAKERS: Final[dict[str, Callable[..., Script]]] = {
    **{wire: builder.reply for wire, builder in BUILDERS.items()},
    "invoke_model": bedrock.anthropic_reply,
    "ollama_generate": ollama.generate_reply,
    "cohere_v1": cohere.v1_reply,
}
REPLIES: Final[dict[str, Script]] = {wire: make(4, first=0.004, gaps=0.002) for wire, make in MAKERS.items()}
ALL: Final = {
    "chat": 7,
    "responses": 12,
    "messages": 9,
    "converse": 8,
    "invoke_model": 9,
    "gemini": 5,
    "interactions": 8,
    "ollama_chat": 5,
    "ollama_generate": 5,
    "cohere": 8,
    "cohere_v1": 6,
    "xai": 5,
    "mistral": 6,
    "conversations": 6,
    "text_generation": 5,
}
"""Chunks of a whole reply."""


YIELDING: Final = {"google-genai", "ollama", "cohere", "observe", "xai", "mistralai", "huggingface-hub"}
"""SDKs whose streams yield all that they make."""
Act = Callable[[Surface, Any], Awaitable["Left"]]
"""Opens a stream with a client and ends it."""


class Left(NamedTuple):
    """What a caller is left with."""

    stream: Any = None
    """None: it was dropped."""
    error: BaseException | None = None
    """What the SDK raised."""


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """The telemetry of a stream that ended."""

    outcomes: list[str]
    """One for each span."""
    counted: dict[str, int]
    """The metric of outcomes."""
    failed: bool
    error_types: list[str | None]
    chunks: list[int]
    first_tokens: int
    """Samples of the time to first token."""
    logs: list[str] = field(default_factory=list)
    """What was logged by OpenTelemetry, by asyncio, or by us."""
    report_error: int = 0
    """Failures of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One way to end a stream, and the telemetry that it must have."""

    outcome: str
    act: Act
    script: Callable[[str], Script] = REPLIES.__getitem__
    """By wire format."""
    chunks: dict[str, int] = field(default_factory=OPENING.copy)
    faces: tuple[Face, ...] = FACES
    """With which clients it can happen."""
    wires: tuple[str, ...] = tuple(BUILDERS)
    options: dict[str, Any] = field(default_factory=dict)
    """Of the client."""
    has_response: bool = False
    """It takes the HTTP response, which a generator does not show."""
    needs_terminator: bool = False
    """It takes `[DONE]`, which `observe()` is not shown."""
    error_chunks: int = 0
    """More chunks where the SDK yields an error of the provider, instead of raising it."""
    everywhere: bool = True
    """Else by `create()` and `.stream()` alone: how the stream was asked for makes no difference to it."""

    def happens_to(self, surface: Surface, face: Face) -> bool:
        """Whether a stream of the surface, asked for by this face, can end so."""
        return (
            face in self.faces
            and surface.wire in self.wires
            and (self.everywhere or "_response." not in surface.call)
            and not (self.has_response and surface.is_generator)
            and not (self.needs_terminator and surface.is_observed)
            # The asynchronous generators under that of huggingface_hub complain then, measured or not.
            and not (self.act in THROWING and surface.is_eager and face == "async")
        )

    def outcomes_of(self, surface: Surface) -> list[str]:
        """The outcome that is recorded; none of a generator that was never pulled, as it has sent no request.

        Closing a generator, dropping it and throwing into it look the same from inside. What is thrown into the stream
        of an interaction, its own generator gets, which closes the one under it. In ollama, what the caller throws into
        is what is recorded.
        """
        if surface.sdk == "ollama" and self.act in THROWING:
            return [self.outcome]
        if surface.wire == "interactions" and self.act is throw_a_cancellation:
            return ["closed"]
        if not surface.is_generator or self.act not in LEAVING:
            return [self.outcome]
        if surface.is_eager and self.act in THROWING:
            return [self.outcome]
        if self.chunks is UNREAD and not surface.is_eager:
            return []
        return [self.outcome if surface.is_observed else "abandoned"]


UNREAD: Final = dict.fromkeys(BUILDERS, 0)


async def opened(surface: Surface, client: Any) -> Any:
    """The stream, which nothing but the caller will close."""
    made = await settled(surface.open(client))
    return await surface.reach(await enter(made) if surface.managed else made)


async def requested(surface: Surface, client: Any) -> None:
    """Send the request, and wait for the response."""
    stream = await opened(surface, client)
    if surface.is_generator and not surface.is_eager:
        await pulled(stream)


@asynccontextmanager
async def within(surface: Surface, client: Any) -> AsyncIterator[Any]:
    """The stream in a `with` block: of its manager, or its own; a generator, of one that closes it."""
    async with surface.stream(client) as stream:
        if surface.managed:
            yield stream
        else:
            async with entered(stream) as bound:
                yield bound


async def first_token(surface: Surface, client: Any, stream: Any) -> None:
    """Read up to the first token, and break out of the loop."""
    if surface.sdk in YIELDING:
        seen = count(1)
        await taken(stream, lambda: next(seen) >= OPENING[surface.wire])
    else:
        await taken(stream, lambda: len(client.made) >= OPENING[surface.wire])


# --- the caller ends it ----------------------------------------------------------------------------------------------


async def exhaust(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await taken(stream)
    return Left(stream)


async def exhaust_and_drop(surface: Surface, client: Any) -> Left:
    await taken(await opened(surface, client))
    return Left()


async def close_it(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    await close(stream)
    return Left(stream)


async def aclose_it(surface: Surface, client: Any) -> Left:
    """Close the stream by `aclose()`, or by `close()` where it has no `aclose()`."""
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    await (stream.aclose() if hasattr(stream, "aclose") else close(stream))
    return Left(stream)


async def close_unread(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await close(stream)
    return Left(stream)


async def leave_the_block(surface: Surface, client: Any) -> Left:
    async with within(surface, client) as stream:
        await first_token(surface, client, stream)
    return Left(stream)


async def leave_the_block_unread(surface: Surface, client: Any) -> Left:
    async with within(surface, client) as stream:
        pass
    return Left(stream)


async def fail_in_the_block(surface: Surface, client: Any) -> Left:
    try:
        async with within(surface, client) as stream:
            await first_token(surface, client, stream)
            raise ZeroDivisionError  # noqa: TRY301 - the caller's own
    except ZeroDivisionError:
        return Left(stream)


async def close_the_response(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    response = response_of(stream)
    is_awaited = hasattr(stream, "__aiter__") and hasattr(response, "aclose")
    await settled(response.aclose() if is_awaited else response.close())
    return Left(stream)


async def throw(stream: Any, error: BaseException) -> None:
    generator = generator_of(stream)
    with pytest.raises(type(error)) as raised:
        await settled(generator.athrow(error) if hasattr(generator, "athrow") else generator.throw(error))
    assert raised.value is error


async def throw_an_exception(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    await throw(stream, ZeroDivisionError())
    return Left(stream)


async def throw_a_cancellation(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    await throw(stream, asyncio.CancelledError())
    return Left(stream)


async def break_and_drop(surface: Surface, client: Any) -> Left:
    await first_token(surface, client, await opened(surface, client))
    return Left()


async def drop_unread(surface: Surface, client: Any) -> Left:
    await opened(surface, client)
    return Left()


async def uninstrument(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    otel_itl.uninstrument()
    rest = await taken(stream)
    read = OPENING[surface.wire] + len(rest) if surface.sdk in YIELDING else len(client.made)
    assert read == ALL[surface.wire], "the stream goes on for its reader"
    return Left(stream)


# --- the wait is interrupted -----------------------------------------------------------------------------------------


async def cancel_the_wait(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    waiting = asyncio.create_task(taken(stream))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    return Left(stream)


async def time_the_wait_out(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(taken(stream), 0.02)
    return Left(stream)


async def cancel_the_request(surface: Surface, client: Any) -> Left:
    waiting = asyncio.create_task(requested(surface, client))
    while not client.server.exchanges:  # noqa: ASYNC110 - a thread of the server adds to them
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    return Left()


@contextmanager
def interrupted(after: float, server: ScriptedServer | None = None) -> Iterator[None]:
    """Interrupt the main thread, as Ctrl-C does, `after` seconds after the block begins, or the server is asked."""
    number = signal.SIGUSR1
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()  # the start of a thread takes its time on a busy machine, and is not what is to be interrupted
        if server is not None:
            until = time.monotonic() + PATIENCE_SECONDS
            while not server.exchanges and time.monotonic() < until:
                time.sleep(0.001)
        time.sleep(after)
        os.kill(os.getpid(), number)

    before = signal.signal(number, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        begun.set()
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        thread.join()
        signal.signal(number, before)


async def interrupt_the_wait(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    await first_token(surface, client, stream)
    with interrupted(0.02):
        await taken(stream)
    return Left(stream)


async def interrupt_the_request(surface: Surface, client: Any) -> Left:
    with interrupted(0.01, client.server):
        await requested(surface, client)
    return Left()


# --- the other side ends it ------------------------------------------------------------------------------------------


async def read_into_an_error(surface: Surface, client: Any) -> Left:
    stream = await opened(surface, client)
    try:
        await taken(stream)
    except Exception as error:
        return Left(stream, error)
    return Left(stream)


async def fail_to_open(surface: Surface, client: Any) -> Left:
    try:
        await requested(surface, client)
    except Exception as error:
        return Left(error=error)
    raise AssertionError("the request was to fail")


def broken_by(*steps: Step) -> Callable[[str], Script]:
    """The first token, then this."""
    return lambda wire: REPLIES[wire].cut(1) + steps


def error_event(wire: str) -> Script:
    error = cohere.v1_error() if wire == "cohere_v1" else BUILDERS[wire].error("the server had an error")
    return REPLIES[wire].cut(1) + error


def invalid_json(wire: str) -> Script:
    """One token, then cut-off JSON; unnamed in the chat format, as together ignores named events.

    botocore takes what is no JSON for an event without content; a damaged one has it raise.
    """
    events = {"chat": faults.raw(b'data: {"choices": [\n\n'), **dict.fromkeys(BINARY, bedrock.damaged())}
    return REPLIES[wire].cut(1) + events.get(wire, faults.invalid_json())


def closed_connection(wire: str) -> Script:
    """One token, then the end of the connection; of gRPC not at once, as grpcio 1.72 may drop the token then."""
    return REPLIES[wire].cut(1) + faults.close(after=0.1 if wire == "xai" else 0.0)


def without(*kinds: str) -> Callable[[str], Script]:
    return lambda wire: Script(step for step in REPLIES[wire] if step.event.kind not in kinds)


def no_answer(_: str) -> Script:
    return faults.never()


BINARY: Final = ("converse", "invoke_model")
"""Wire formats of AWS's event stream, over which each loop is a generator of its own."""
PASSING: Final = (
    *("chat", "responses", "messages", "gemini", "interactions"),
    *("ollama_chat", "ollama_generate", "xai", "mistral", "conversations", "text_generation"),
)
"""Wire formats of the SDKs out of which an exception comes that is thrown in."""
SILENCE: Final = broken_by(faults.hold())
STREAMED: Final = {
    "chat": 5,
    "responses": 8,
    "messages": 6,
    "converse": 5,
    "invoke_model": 6,
    "gemini": 4,
    "interactions": 6,
    "ollama_chat": 4,
    "ollama_generate": 4,
    "cohere": 6,
    "cohere_v1": 5,
    "xai": 4,
    "mistral": 5,
    "conversations": 5,
    "text_generation": 4,
}
"""Chunks up to and including the last token."""
OPENED: Final = {wire: chunks - 1 for wire, chunks in OPENING.items()}
"""Chunks before the first token."""
ASYNC: Final[tuple[Face, ...]] = ("async",)
SYNC: Final[tuple[Face, ...]] = ("sync",) if hasattr(signal, "SIGUSR1") else ()
"""Where a blocking call can be interrupted."""


def some(outcome: str, act: Act, **more: Any) -> Ending:
    """An ending to which it makes no difference how the stream was asked for."""
    return Ending(outcome=outcome, act=act, everywhere=False, **more)


def every(outcome: str, act: Act, **more: Any) -> Ending:
    return Ending(outcome=outcome, act=act, **more)


THROWING: Final[set[Act]] = {throw_an_exception, throw_a_cancellation}
LEAVING: Final[set[Act]] = {
    close_it,
    aclose_it,
    close_unread,
    leave_the_block,
    leave_the_block_unread,
    fail_in_the_block,
    *THROWING,
    break_and_drop,
    drop_unread,
}
"""By these the caller leaves the stream where it has nothing to wait for."""

ENDINGS: Final = {
    "exhausted": every("completed", exhaust, chunks=ALL),
    "exhausted and dropped": some("completed", exhaust_and_drop, chunks=ALL),
    "close": every("closed", close_it),
    "aclose": some("closed", aclose_it, faces=ASYNC),
    "close before the first pull": every("closed", close_unread, chunks=UNREAD),
    "end of the block": every("closed", leave_the_block),
    "end of the block before the first pull": every("closed", leave_the_block_unread, chunks=UNREAD),
    "exception in the block": every("closed", fail_in_the_block),
    "response closed": every("closed", close_the_response, has_response=True),
    "exception thrown in": every("closed", throw_an_exception, wires=PASSING),
    "cancellation thrown in": some("cancelled", throw_a_cancellation, wires=PASSING),
    "break and drop": every("abandoned", break_and_drop),
    "dropped before the first pull": every("abandoned", drop_unread, chunks=UNREAD),
    "uninstrument": every("abandoned", uninstrument),
    "task cancelled": every("cancelled", cancel_the_wait, script=SILENCE, faces=ASYNC),
    "wait_for": some("cancelled", time_the_wait_out, script=SILENCE, faces=ASYNC),
    "task cancelled before the headers": some(
        "cancelled", cancel_the_request, script=no_answer, chunks=UNREAD, faces=ASYNC
    ),
    "KeyboardInterrupt": every("cancelled", interrupt_the_wait, script=SILENCE, faces=SYNC),
    "KeyboardInterrupt before the headers": some(
        "cancelled", interrupt_the_request, script=no_answer, chunks=UNREAD, faces=SYNC
    ),
    "connection closed": every("error", read_into_an_error, script=closed_connection),
    "connection reset": some("error", read_into_an_error, script=broken_by(faults.reset(after=0.02))),
    "read timeout": some("error", read_into_an_error, script=SILENCE, options={"timeout": 0.3}),
    "invalid JSON": some(
        # An interaction has an event of unknown type then.
        "error",
        read_into_an_error,
        script=invalid_json,
        wires=(
            "chat",
            "responses",
            "messages",
            "gemini",
            "ollama_chat",
            "ollama_generate",
            "mistral",
            "text_generation",
        ),
    ),
    "damaged message": some(
        # gRPC's asynchronous client hands out None, on which the SDK fails above the hook.
        "error",
        read_into_an_error,
        script=broken_by(xai.damaged()),
        faces=("sync",),
        wires=("xai",),
    ),
    "error event": every("error", read_into_an_error, script=error_event, error_chunks=1),
    "response.failed": some(
        "error",
        read_into_an_error,
        script=broken_by(responses.failed()),
        chunks={"responses": OPENING["responses"] + 1},
        wires=("responses",),
    ),
    "HTTP status": some("error", fail_to_open, script=lambda _: faults.status(500, "no"), chunks=UNREAD),
    "truncated": every("truncated", exhaust, script=lambda wire: REPLIES[wire].cut(), chunks=STREAMED),
    "truncated before the first token": some(
        "truncated", exhaust, script=lambda wire: REPLIES[wire].cut(0), chunks=OPENED
    ),
    "terminator without finish reason": some(
        "completed",
        exhaust,
        script=without("finish", "usage"),
        needs_terminator=True,
        chunks={"chat": 5, "messages": 8, "invoke_model": 8},
        wires=("chat", "messages", "invoke_model"),
    ),
    "finish reason without terminator": some(
        "completed",
        exhaust,
        script=without("done", "usage"),
        chunks=ALL | {"chat": 6, "messages": 8, "converse": 7, "invoke_model": 8},
        wires=(
            *("chat", "messages", "gemini", "interactions", "cohere", "xai"),
            *("mistral", "conversations", "text_generation", *BINARY),
        ),
    ),
    "response.incomplete": some(
        "completed", exhaust, script=lambda _: responses.reply(4, end="incomplete"), chunks=ALL, wires=("responses",)
    ),
}

ALL_CASES: Final = [
    pytest.param(name, surface, face, id=f"{name}-{surface.sdk}.{surface.call}-{face}")
    for name, ending in ENDINGS.items()
    for surface in (*STREAMS, *OTHER_STREAMS, *OBSERVED)
    for face in FACES
    if ending.happens_to(surface, face)
]
FULL_ROWS: Final = (CREATED[0], *OBSERVED)
"""These end in every way by both clients: a stream object and a generator. Every stream of the others is exhausted."""


def factors(name: str, surface: Surface, face: Face) -> tuple[object, ...]:
    """What may make a difference to the end of a stream: an SDK differs in its wire format and in what it hands out."""
    handed_out = surface.managed, surface.parsed, surface.is_generator, surface.is_eager
    return name, surface.wire, handed_out, face


CASES: Final = mark_beyond_pairs(
    ALL_CASES, factors, lambda name, surface, _: name == "exhausted" or surface in FULL_ROWS
)


@pytest.mark.parametrize(("name", "surface", "face"), CASES)
@pytest.mark.usefixtures("brisk_sweeper")
@pytest.mark.requirement("R19", "R20", "R21", "R22", "R27", "R41", "R42")
def test_a_stream_ends_once_with_the_right_outcome(
    name: str,
    surface: Surface,
    face: Face,
    server: ScriptedServer,
    telemetry: CapturedTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ending = ENDINGS[name]
    server.always(ending.script(surface.wire))
    report_error = sum(runtime.errors.counts.values())
    error: BaseException | None = None

    async def scenario(surface: Surface, client: Any) -> None:
        nonlocal error
        client.made = keep_what_is_made(client)
        client.server = server
        left = await ending.act(surface, client)
        error = left.error
        if left.stream is not None:
            await close(left.stream)
            await close(left.stream)
        del left
        await drop()
        if outcomes and not (ending.act in LEAVING and (surface.sdk, face) in ENDED_BY_CLIENT):
            await wait_for_a_span(telemetry)

    outcomes = ending.outcomes_of(surface)
    play(scenario, surface, face, server, **ending.options)
    telemetry.tracer_provider.force_flush()  # a second report of a stream would be in it
    spans, metrics = telemetry.spans, telemetry.metrics
    assert SpanFacts(
        outcomes=[span.attributes["itl.stream.outcome"] for span in spans],
        counted={
            point.attributes["itl.stream.outcome"]: point.value
            for point in metrics.get("itl.client.stream.outcomes", ())
        },
        failed=any(span.status.status_code is StatusCode.ERROR for span in spans),
        error_types=[span.attributes.get("error.type") for span in spans],
        chunks=[span.attributes["itl.chunk.count"] for span in spans],
        first_tokens=count_first_tokens(metrics),
        logs=[
            record.getMessage()
            for record in caplog.records
            if record.name.split(".")[0] in WATCHED and not is_own_complaint(surface, record.getMessage())
        ],
        report_error=sum(runtime.errors.counts.values()) - report_error,
    ) == SpanFacts(
        outcomes=outcomes,
        counted=dict.fromkeys(outcomes, 1),
        failed=ending.outcome == "error",
        error_types=[error_type(ending, surface, error)] * len(outcomes),
        chunks=[ending.chunks[surface.wire] + ending.error_chunks * surface.yields_errors] * len(outcomes),
        first_tokens=len(outcomes) if ending.chunks[surface.wire] >= OPENING[surface.wire] else 0,
    )


def count_first_tokens(metrics: dict[str, list[Any]]) -> int:
    """Count the streams with a first token: where the machine was slow, it may be uncertain alone and not recorded."""
    recorded = sum(point.count for point in metrics.get("itl.client.time_to_first_token", ()))
    uncertain = metrics.get("itl.client.uncertain_streams", ())
    return max(recorded, sum(one.value for one in uncertain if one.attributes["itl.uncertain.figure"] == "ttft"))


ENDED_BY_CLIENT: Final = {("xai", "async")}
"""Clients that keep a call which was left until they are closed: the span ends then, and not before."""
WATCHED: Final = {"opentelemetry", "otel_itl", "asyncio"}
XAI_DETACHES: Final = ("xai", "Failed to detach context")
"""Logged, with us or without, where a dropped generator is finalized: the SDK keeps its span current across `yield`."""


def is_own_complaint(surface: Surface, message: str) -> bool:
    """Whether a message is the SDK's own, measured or not: of spans of xai-sdk, of generators of huggingface_hub 0."""
    is_of_hugging_face = (
        surface.is_eager and "closing of asynchronous generator <async_generator object _async_" in message
    )
    return is_of_hugging_face or (surface.sdk, message) == XAI_DETACHES


def is_rpc_error(error: Any) -> bool:
    """Whether an exception is one of gRPC's, which the status distinguishes."""
    return any(kind.__name__ == "RpcError" for kind in type(error).__mro__)


def error_type(ending: Ending, surface: Surface, error: BaseException | None) -> str | None:
    """The type of the exception that the SDK raised, or the code in it; where it raised none, the provider's code.

    A stream of an interaction makes an exception of its own of the HTTP client's where it hands out its events.
    """
    if ending.outcome != "error":
        return None
    if ending.act is read_into_an_error and type(error).__module__.startswith("google.genai._gaos."):
        error = error.__cause__
    if surface.is_eager and isinstance(error, TypeError):  # huggingface_hub 0 fails on the body of a refusal
        error = error.__context__
    if error is None:
        if surface.wire == "conversations":
            return "500"
        return "error" if surface.sdk == "cohere" else "server_error"
    if is_rpc_error(error):
        return error.code().name
    service_code = getattr(error, "response", None)  # of botocore's exceptions
    return service_code["Error"]["Code"] if isinstance(service_code, dict) else type(error).__qualname__
