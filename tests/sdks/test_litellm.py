"""litellm: the routes that it asks by HTTP clients of its own, every ending, and one record where an SDK is below."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from clients import disturbed
from faces import FACES, Face, drop, run, settled
from measuring import bare, instrument, nothing_fails, span_of, timeline_of, wait_for_a_span
from routes import ANTHROPIC, AZURE, BEDROCK, DEEPSEEK, GEMINI, OPENAI, ROUTES, LiteLLMClient, Route, client_of, library
from routes import is_newest as is_newest_litellm
from test_endings import interrupted

import otel_itl
from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.runtime import runtime
from otel_itl.sdks.registry import SDK_NAMES
from otel_itl.testing import (
    CapturedTelemetry,
    Script,
    ScriptedServer,
    bedrock,
    capture_telemetry,
    faults,
    gemini,
    messages,
    responses,
)

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("brisk_sweeper")]

Act = Callable[[LiteLLMClient], Awaitable[Any]]
"""Opens a stream and ends it; returns what the caller is left with."""
ASYNC: Final[tuple[Face, ...]] = ("async",)


@pytest.fixture(scope="module", autouse=True)
def _warm(running_server: ScriptedServer) -> Iterator[None]:
    """Litellm is imported, and each route asked once: what it does then is no part of a test."""
    library()
    for route in ROUTES:
        for face in FACES:
            running_server.clear()
            running_server.always(route.script())
            ask(read, route, face, running_server)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@contextmanager
def measuring(**options: Any) -> Iterator[CapturedTelemetry]:
    """Litellm's streams are measured in the block, by litellm alone unless `sdks` says otherwise."""
    bare()
    with nothing_fails(), capture_telemetry() as captured:
        instrument(captured, **{"sdks": ["litellm"], **options})
        try:
            yield captured
        finally:
            bare()


def ask(act: Act, route: Route, face: Face, server: ScriptedServer, **options: Any) -> Any:
    """Have a client of the route act; returns what the act does."""

    async def scenario() -> Any:
        async with client_of(route, face, server, **options) as client:
            return await act(client)

    return run(face, scenario())


async def next_chunk(client: LiteLLMClient, stream: Any) -> Any:
    # The stream object of either function can be read in both ways: the other one is not what is tested.
    return await anext(stream) if client.face == "async" else next(stream)


async def rest_of(client: LiteLLMClient, stream: Any) -> list[Any]:
    return [chunk async for chunk in stream] if client.face == "async" else list(stream)


async def read(client: LiteLLMClient, **options: Any) -> list[Any]:
    return await rest_of(client, await settled(client.completion(**options)))


async def opened(client: LiteLLMClient) -> Any:
    """A stream of which the first chunk was read."""
    stream = await settled(client.completion())
    await next_chunk(client, stream)
    return stream


def kinds_of(span: Any) -> list[Kind]:
    """What the chunks with anything in them carried."""
    return [Kind(kind) for kind in timeline_of(span).kinds if Kind(kind) is not Kind.EMPTY]


# --- one record ------------------------------------------------------------------------------------------------------

every_route = pytest.mark.parametrize("route", ROUTES, ids=str)


@pytest.mark.requirement("R7")
@pytest.mark.parametrize("sdks", [["litellm"], SDK_NAMES], ids=["litellm alone", "every SDK"])
@every_route
def test_one_http_call_is_one_record(route: Route, sdks: Any, face: Face, server: ScriptedServer) -> None:
    server.play(route.script())
    with measuring(sdks=sdks) as telemetry:
        chunks = ask(read, route, face, server)
    assert len("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)) > 0
    attributes = span_of(telemetry).attributes
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": route.provider,
        "gen_ai.request.model": route.asked,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.finish_reasons": ("stop",),
        "server.address": "127.0.0.1",
        "server.port": server.port,
        "itl.output_chunk.count": 4,
        "itl.stream.outcome": "completed",
    }
    assert {name: attributes.get(name) for name in expected} == expected


@pytest.mark.parametrize("route", [OPENAI, AZURE], ids=str)
def test_where_the_openai_sdk_is_measured_it_records_the_stream(
    route: Route, face: Face, server: ScriptedServer
) -> None:
    server.play(route.script())
    with measuring(sdks=["litellm", "openai"]) as telemetry:
        ask(read, route, face, server)
    assert span_of(telemetry).attributes["itl.chunk.count"] == 7


@pytest.mark.parametrize("route", [ANTHROPIC, OPENAI], ids=str)
def test_a_router_asks_once_and_is_recorded_once(route: Route, face: Face, server: ScriptedServer) -> None:
    server.play(route.script())
    litellm = library()

    async def ask_router(client: LiteLLMClient) -> list[Any]:
        options = {**client._options, "max_retries": 0}
        asked = {name: options.pop(name) for name in ("messages", "max_tokens")}
        for name in ("client", "num_retries"):
            options.pop(name, None)
        router = litellm.Router(model_list=[{"model_name": "mine", "litellm_params": options}], num_retries=0)
        call = router.acompletion if face == "async" else router.completion
        return await rest_of(client, await settled(call("mine", stream=True, **asked)))

    with measuring(sdks=SDK_NAMES) as telemetry:
        ask(ask_router, route, face, server)
    assert span_of(telemetry).attributes["gen_ai.request.model"] == "m"


def test_a_function_that_was_imported_before_is_measured(server: ScriptedServer) -> None:
    from litellm import completion

    server.play(ANTHROPIC.script())
    with measuring() as telemetry:
        options = {"model": "anthropic/m", "api_base": server.anthropic_url, "api_key": "none"}
        list(completion(messages=[{"role": "user", "content": "hello"}], stream=True, **options))
    assert span_of(telemetry).name == "chat m"


def test_a_call_that_does_not_stream_leaves_no_record(face: Face, server: ScriptedServer) -> None:
    server.always(faults.status(400, "no"))
    with measuring() as telemetry:

        async def ask_whole(client: LiteLLMClient) -> None:
            with pytest.raises(library().BadRequestError):
                await settled(client.completion(stream=False))

        for route in (ANTHROPIC, OPENAI):
            ask(ask_whole, route, face, server)
    assert telemetry.spans == []


def test_an_answer_that_litellm_makes_up_leaves_no_record(face: Face, server: ScriptedServer) -> None:
    with measuring() as telemetry:
        ask(lambda client: read(client, mock_response="made up"), ANTHROPIC, face, server)
    assert (telemetry.spans, server.exchanges) == ([], [])


def test_text_completions_by_an_unmeasured_sdk_are_recorded(face: Face, server: ScriptedServer) -> None:
    from otel_itl.testing import completions

    litellm = library()

    async def ask_text(client: LiteLLMClient) -> list[Any]:
        call = litellm.atext_completion if face == "async" else litellm.text_completion
        options = {"model": "text-completion-openai/m", "api_base": server.openai_url, "api_key": "none"}
        return await rest_of(client, await settled(call(prompt="hello", stream=True, **options)))

    for sdks in (["litellm"], ["litellm", "openai"]):
        server.play(completions.reply(4))
        with measuring(sdks=sdks) as telemetry:
            ask(ask_text, OPENAI, face, server)
        attributes = span_of(telemetry).attributes
        assert (attributes["gen_ai.operation.name"], attributes["itl.output_chunk.count"]) == ("text_completion", 4)


# --- endings ---------------------------------------------------------------------------------------------------------


async def break_and_drop(client: LiteLLMClient) -> None:
    await next_chunk(client, await opened(client))


async def drop_unread(client: LiteLLMClient) -> None:
    await settled(client.completion())


async def aclose(client: LiteLLMClient) -> Any:
    stream = await opened(client)
    if not hasattr(stream, "aclose"):
        pytest.skip("this release of litellm cannot close a stream")
    await stream.aclose()
    return stream


async def aclose_unread(client: LiteLLMClient) -> Any:
    stream = await settled(client.completion())
    if not hasattr(stream, "aclose"):
        pytest.skip("this release of litellm cannot close a stream")
    await stream.aclose()
    return stream


async def uninstrument(client: LiteLLMClient) -> Any:
    stream = await opened(client)
    otel_itl.uninstrument()
    assert await rest_of(client, stream), "the stream goes on for its reader"
    return stream


async def cancel_the_wait(client: LiteLLMClient) -> Any:
    stream = await opened(client)
    waiting = asyncio.create_task(rest_of(client, stream))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    return stream


async def cancel_the_request(client: LiteLLMClient) -> None:
    waiting = asyncio.create_task(read(client))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def interrupt_the_wait(client: LiteLLMClient) -> Any:
    stream = await opened(client)
    with interrupted(0.02):
        await rest_of(client, stream)
    return stream


async def read_into_an_error(client: LiteLLMClient) -> Any:
    with pytest.raises(Exception):  # noqa: B017, PT011 - each route has its own
        await read(client)


SYNC: Final[tuple[Face, ...]] = ("sync",)


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end a stream, and the outcome that it must have."""

    outcome: str
    act: Act
    script: Callable[[Route], Script] = Route.script
    faces: tuple[Face, ...] = FACES
    timeout: float = 5.0


def silence(route: Route) -> Script:
    return route.script().cut(2) + faults.hold()


ENDINGS: Final = {
    "exhausted": Ending("completed", read),
    "break and drop": Ending("abandoned", break_and_drop),
    "dropped before the first pull": Ending("abandoned", drop_unread),
    "aclose": Ending("closed", aclose, faces=ASYNC),
    "aclose before the first pull": Ending("closed", aclose_unread, faces=ASYNC),
    "uninstrument": Ending("abandoned", uninstrument),
    "task cancelled": Ending("cancelled", cancel_the_wait, silence, ASYNC),
    "task cancelled before the headers": Ending("cancelled", cancel_the_request, lambda _: faults.never(), ASYNC),
    "KeyboardInterrupt": Ending("cancelled", interrupt_the_wait, silence, SYNC),
    "connection closed": Ending("error", read_into_an_error, lambda route: route.script().cut(2) + faults.close()),
    "read timeout": Ending("error", read_into_an_error, silence, timeout=0.15),
    "error event": Ending(
        "error", read_into_an_error, lambda route: route.script().cut(2) + route.wire.error("overloaded")
    ),
    "HTTP status": Ending("error", read_into_an_error, lambda _: faults.status(429, "no")),
    "truncated": Ending("truncated", read, lambda route: route.script().cut()),
}


def outcome_of(name: str, route: Route) -> str:
    """The outcome of an ending of a route."""
    if route is GEMINI and name == "truncated" and is_newest_litellm():
        return "completed"  # litellm gives each chunk of Gemini a finish reason
    return ENDINGS[name].outcome


EVERYWHERE: Final = {"exhausted", "break and drop", "aclose", "connection closed", "truncated"}
"""Endings of every route; the others are those of what is common to all."""
CASES: Final = [
    pytest.param(name, route, face, id=f"{name}-{route}-{face}")
    for name, ending in ENDINGS.items()
    for route in ((ANTHROPIC, GEMINI, BEDROCK, DEEPSEEK, OPENAI) if name in EVERYWHERE else (ANTHROPIC, OPENAI))
    for face in ending.faces
]


@pytest.mark.requirement("R19", "R20", "R21", "R22", "R27")
@pytest.mark.parametrize(("name", "route", "face"), CASES)
def test_a_stream_ends_once_with_the_right_outcome(
    name: str, route: Route, face: Face, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    ending = ENDINGS[name]
    server.always(ending.script(route))
    with measuring() as telemetry:

        async def scenario(client: LiteLLMClient) -> None:
            left = await ending.act(client)
            del left
            library().error_logs.clear()  # holds the last call, until there is another one
            await drop()
            for _ in range(20):
                await wait_for_a_span(telemetry, 0.1)
                if telemetry.spans:
                    break
                await drop()  # a thread of litellm that logs a chunk has held the stream meanwhile

        expected = [outcome_of(name, route)]
        ask(scenario, route, face, server, timeout=ending.timeout)
        telemetry.tracer_provider.force_flush()  # a second report of a stream would be in it
        assert [span.attributes["itl.stream.outcome"] for span in telemetry.spans] == expected
    logged = [record.getMessage() for record in caplog.records if record.name.startswith(("otel_itl", "opentelemetry"))]
    assert logged == []


def undisturbed(act: Act, route: Route, face: Face, server: ScriptedServer, script: Script) -> dict[str, Any]:
    """The attributes of the span of a stream: of another try, four at most, where the reader was delayed."""
    for _ in range(5):
        server.clear()
        server.play(script)
        with measuring() as telemetry:
            ask(act, route, face, server)
        attributes = dict(span_of(telemetry).attributes)
        if not disturbed(attributes):
            break
    return attributes


# --- semantics -------------------------------------------------------------------------------------------------------


def test_the_answer_is_distinguished_from_reasoning_and_tool_calls(face: Face, server: ScriptedServer) -> None:
    server.play(
        Script(
            [
                messages.start(prompt=10),
                messages.thinking_start(),
                messages.thinking("hm"),
                messages.block_stop(),
                messages.text_start(index=1),
                messages.text("a", index=1),
                messages.block_stop(index=1),
                messages.tool_start("weather", index=2),
                messages.tool_arguments("{}", index=2),
                messages.block_stop(index=2),
                messages.finish("tool_use", output=5),
                messages.stop(),
            ]
        )
    )
    with measuring() as telemetry:
        ask(read, ANTHROPIC, face, server)
    span = span_of(telemetry)
    carried = [kind for kind in kinds_of(span) if kind & (Kind.ANSWER | Kind.REASONING | Kind.TOOL)]
    assert carried[:2] == [Kind.REASONING, Kind.ANSWER]
    assert Kind.TOOL in carried
    assert span.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)


@pytest.mark.parametrize("route", [ANTHROPIC, BEDROCK, GEMINI], ids=str)
def test_the_usage_is_the_providers(route: Route, face: Face, server: ScriptedServer) -> None:
    server.play(route.script())
    with measuring() as telemetry:
        ask(read, route, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (10, 4)


def test_an_id_that_litellm_made_up_is_no_response_id(server: ScriptedServer) -> None:
    for route, has_id in ((ANTHROPIC, False), (DEEPSEEK, True)):
        server.play(route.script())
        with measuring() as telemetry:
            ask(read, route, "sync", server)
        assert ("gen_ai.response.id" in span_of(telemetry).attributes) == has_id


def test_a_lazy_route_begins_when_its_request_is_sent(server: ScriptedServer) -> None:
    async def wait_first(client: LiteLLMClient) -> None:
        stream = client.completion()
        assert server.exchanges == []
        time.sleep(0.1)  # noqa: ASYNC251 - no event loop: the synchronous function
        list(stream)

    attributes = undisturbed(wait_first, GEMINI, "sync", server, gemini.reply(3, first=0.01))
    assert 0.01 <= attributes["itl.time_to_first_token"] < 0.1


@pytest.mark.parametrize("route", [ANTHROPIC, DEEPSEEK, OPENAI], ids=str)
def test_the_first_token_is_timed_from_the_request(route: Route, face: Face, server: ScriptedServer) -> None:
    attributes = undisturbed(read, route, face, server, route.wire.reply(4, first=0.05, gaps=0.03))
    # litellm's own time to first token is the duration of the stream, 0.14 s.
    assert 0.05 <= attributes["itl.time_to_first_token"] < 0.12
    assert attributes["itl.latency.mean"] == pytest.approx(0.03, abs=0.01)


def test_the_session_is_found_in_the_metadata_of_the_call(face: Face, server: ScriptedServer) -> None:
    server.play(ANTHROPIC.script())
    with measuring(session_from=lambda body, _: (body.get("metadata") or {}).get("session_id")) as telemetry:
        ask(lambda client: read(client, metadata={"session_id": "s1"}), ANTHROPIC, face, server)
    assert span_of(telemetry).attributes["session.id"] == "s1"


def test_a_refused_request_has_the_name_of_the_exception_that_the_caller_gets(
    face: Face, server: ScriptedServer
) -> None:
    server.always(faults.status(429, "no"))

    async def refused(client: LiteLLMClient) -> str:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - its class is the point
            await read(client)
        return type(raised.value).__name__

    with measuring() as telemetry:
        name = ask(refused, ANTHROPIC, face, server)
    assert (name, span_of(telemetry).attributes["error.type"]) == ("RateLimitError", "RateLimitError")


# --- the caller's stream ---------------------------------------------------------------------------------------------


@every_route
def test_the_callers_stream_and_chunks_are_litellms_own(route: Route, face: Face, server: ScriptedServer) -> None:
    async def look(client: LiteLLMClient) -> Any:
        stream = await settled(client.completion())
        chunks = await rest_of(client, stream)
        shown = [(type(chunk), chunk.choices, chunk.object) for chunk in chunks]
        return type(stream), isinstance(stream, library().CustomStreamWrapper), shown, sorted(vars(stream))

    seen = []
    for is_measured in (False, True):
        server.play(route.script())
        if not is_measured:
            bare()
            seen.append(ask(look, route, face, server))
            continue
        with measuring():
            seen.append(ask(look, route, face, server))
    assert seen[0] == seen[1]


# --- abort and transports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("face", "aiohttp"), [("sync", False), ("async", True), ("async", False)], ids=["httpx", "aiohttp", "async httpx"]
)
def test_a_stalled_stream_is_aborted_over_every_transport(face: Face, aiohttp: bool, server: ScriptedServer) -> None:
    server.play(silence(ANTHROPIC))
    with measuring(stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2)) as telemetry:
        ask(read_into_an_error, ANTHROPIC, face, server, aiohttp=aiohttp)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.stream.outcome"], attributes["error.type"]) == ("error", "ReadTimeout")
    assert attributes["itl.stall.count"] == 1


# --- odd chunks ------------------------------------------------------------------------------------------------------

ODD: Final = (
    {"type": "message_start", "message": {}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "no_such_delta"}},
    {"type": "no_such_event"},
    {"type": "message_delta", "delta": {"stop_reason": 7}, "usage": {"output_tokens": "many"}},
)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: str(odd["type"]))
def test_an_odd_event_is_litellms_to_handle(odd: dict[str, Any], face: Face, server: ScriptedServer) -> None:
    script = ANTHROPIC.script().cut(2) + faults.raw(b"data: " + json.dumps(odd).encode() + b"\n\n")

    async def read_to_its_end(client: LiteLLMClient) -> str:
        try:
            return str(len(await read(client)))
        except Exception as error:
            return type(error).__name__

    server.play(script)
    bare()
    expected = ask(read_to_its_end, ANTHROPIC, face, server)
    server.play(script)
    with measuring() as telemetry:
        assert ask(read_to_its_end, ANTHROPIC, face, server) == expected
    assert len(telemetry.spans) == 1


@pytest.mark.requirement("R16")
@pytest.mark.parametrize(
    "place",
    [
        "litellm._description",
        "litellm_streams._is_stream",
        "litellm_streams.recorder_of",
        "formats.litellm_chunks._classify_chat",
        "formats.litellm_chunks._classify_own",
    ],
)
def test_a_failure_of_ours_is_counted_and_changes_nothing(
    place: str, face: Face, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    server.always(ANTHROPIC.script())
    bare()
    expected = [chunk.choices for chunk in ask(read, ANTHROPIC, face, server)]
    before = sum(runtime.errors.counts.values())
    with capture_telemetry() as captured:
        instrument(captured, sdks=["litellm"])
        monkeypatch.setattr(f"otel_itl.sdks.{place}", fail)
        seen = [chunk.choices for chunk in ask(read, ANTHROPIC, face, server)]
        bare()
    assert seen == expected
    assert sum(runtime.errors.counts.values()) > before


# --- the Responses API -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cut", [False, True], ids=["completed", "truncated"])
def test_the_responses_api_is_recorded(face: Face, is_cut: bool, server: ScriptedServer) -> None:
    pytest.importorskip("mcp", reason="litellm's Responses API needs mcp")
    if not is_newest_litellm():
        pytest.skip("this release of litellm refuses a response without the fields that openai 1 had")
    litellm = library()
    script = responses.reply(4, gaps=0.01)
    server.play(script.cut() if is_cut else script)

    async def ask_response(client: LiteLLMClient) -> None:
        call = litellm.aresponses if face == "async" else litellm.responses
        stream = await settled(
            call(model="openai/gpt-4o", input="hello", stream=True, api_base=server.openai_url, api_key="none")
        )
        try:
            await rest_of(client, stream)
        except litellm.APIConnectionError:
            assert is_cut

    with measuring(sdks=SDK_NAMES) as telemetry:
        ask(ask_response, OPENAI, face, server)
    attributes = span_of(telemetry).attributes
    expected = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "server.port": server.port,
        "itl.output_chunk.count": 4,
        "itl.stream.outcome": "truncated" if is_cut else "completed",
    }
    assert {name: attributes.get(name) for name in expected} == expected


# --- figures ---------------------------------------------------------------------------------------------------------

SUMMARISED: Final = {
    "Claude's thinking": (ANTHROPIC, messages.reply(9, thinking=5, hidden_thinking=3_000, gaps=0.002), 1.0),
    "Claude's thinking, not counted": (
        ANTHROPIC,
        messages.reply(9, thinking=5, hidden_thinking=3_000, details=False, gaps=0.002),
        None,
    ),
    "Gemini's thoughts": (GEMINI, gemini.reply(9, thoughts=5, hidden_thoughts=3_000, gaps=0.002), 1.0),
    "Claude's thinking on Bedrock": (BEDROCK, bedrock.reply(9, reasoning=5, hidden_reasoning=3_000, gaps=0.002), None),
}


@pytest.mark.parametrize("case", SUMMARISED)
def test_tokens_of_reasoning_that_is_not_streamed_are_in_no_chunk(
    case: str, face: Face, server: ScriptedServer
) -> None:
    if not is_newest_litellm():
        pytest.skip("this release of litellm counts no reasoning")
    route, script, expected = SUMMARISED[case]
    server.play(script)
    with measuring() as telemetry:
        ask(read, route, face, server)
    assert span_of(telemetry).attributes.get("itl.tokens_per_chunk") == expected
