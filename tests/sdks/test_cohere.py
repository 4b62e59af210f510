"""What is particular to cohere: blocks of its raw clients, both APIs, tool plans, failures as events, odd events."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from clients import make_client, play, run_with_client, sdk_of
from faces import END, Face, close, drop, entered, pulled, run, settled, taken
from measuring import bare, instrument, measured, measured_by, span_of, timeline_of, wait_for_a_span
from odd_chunks import bare_then_measured, shapes_of
from opentelemetry import trace
from surfaces import COHERE, COHERE_CHAT, COHERE_V1, QUESTION, SURFACES, Surface

from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, cohere, faults

SECOND, FIRST, RAW = (surface for surface in SURFACES if surface.sdk == COHERE.sdk)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """The SDK warns of events that it skips."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def kinds_of(telemetry: CapturedTelemetry) -> list[Kind]:
    return [kind for kind in map(Kind, timeline_of(span_of(telemetry)).kinds) if kind & ~Kind.LIFECYCLE]


# --- blocks ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def raw_block(client: Any) -> AsyncIterator[Any]:
    """The block of a raw client, as a caller writes it."""
    async with entered(client.v2.with_raw_response.chat_stream(**COHERE_CHAT)) as response:
        yield response


@pytest.mark.parametrize("pulls", [0, 3])
def test_a_block_that_is_left_early_is_closed(
    pulls: int, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        async with raw_block(client) as response:
            for _ in range(pulls):
                await pulled(response.data)

    run_with_client(scenario, RAW, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.stream.outcome"], attributes["itl.chunk.count"]) == ("closed", pulls)


def test_an_exception_in_a_block_closes_the_stream_and_passes(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def fail_within(client: Any) -> None:
        async with raw_block(client) as response:
            await pulled(response.data)
            raise ZeroDivisionError

    async def scenario(_: Surface, client: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            await fail_within(client)

    run_with_client(scenario, RAW, face, server)
    assert span_of(telemetry).attributes["itl.stream.outcome"] == "closed"


@pytest.mark.usefixtures("brisk_sweeper")
def test_a_block_that_is_never_left_is_abandoned(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        block = client.v2.with_raw_response.chat_stream(**COHERE_CHAT)
        response = await block.__aenter__() if face == "async" else block.__enter__()
        await pulled(response.data)
        del block, response
        gc.collect()
        await drop()
        await wait_for_a_span(telemetry)

    run_with_client(scenario, RAW, face, server)
    assert span_of(telemetry).attributes["itl.stream.outcome"] == "abandoned"


def test_a_block_that_is_never_entered_is_no_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        client.v2.with_raw_response.chat_stream(**COHERE_CHAT)

    run_with_client(scenario, RAW, face, server)
    assert (telemetry.spans, server.exchanges) == ([], [])


def test_the_caller_keeps_the_objects_of_the_sdk(face: Face, server: ScriptedServer) -> None:
    async def types(_: Surface, client: Any) -> list[type]:
        block = client.v2.with_raw_response.chat_stream(**COHERE_CHAT)
        async with entered(block) as response:
            return [type(block), type(response), type(response.data), *map(type, await taken(response.data))]

    bare()
    expected = run_with_client(types, RAW, face, server)
    with measured():
        assert run_with_client(types, RAW, face, server) == expected


# --- when the request is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", [SECOND, FIRST], ids=str)
def test_a_request_begins_with_the_first_pull(surface: Surface, face: Face, server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> int:
        stream = await settled(surface.open(client))
        assert server.exchanges == []
        time.sleep(0.05)  # noqa: ASYNC251 - its caller has other work
        pulled_ns = time.time_ns()
        await taken(stream)
        return pulled_ns

    with measured() as telemetry:
        pulled_ns = play(scenario, surface, face, server)
        assert span_of(telemetry).start_time >= pulled_ns - 1_000_000
        assert span_of(telemetry).attributes["itl.consumer.duration"] < 0.05


def test_the_span_of_the_request_is_current_while_it_is_sent_and_in_no_code_of_the_caller(
    face: Face, server: ScriptedServer
) -> None:
    sent_in = []

    def current() -> int:
        return trace.get_current_span().get_span_context().span_id

    async def scenario(surface: Surface, client: Any) -> set[int]:
        http_client = client._client_wrapper.httpx_client.httpx_client
        send = http_client.send

        def sending(*args: Any, **kwargs: Any) -> Any:
            sent_in.append(current())
            return send(*args, **kwargs)

        http_client.send = sending
        stream = await settled(surface.open(client))
        seen = set()
        while await pulled(stream) is not END:
            seen.add(current())
        return seen

    with measured() as telemetry:
        assert play(scenario, SECOND, face, server) == {0}
        assert sent_in == [span_of(telemetry).context.span_id]


@pytest.mark.parametrize("surface", [SECOND, FIRST, RAW], ids=str)
def test_a_client_that_was_made_before_is_measured(surface: Surface, face: Face, server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> int:
        with measured() as telemetry:
            await read(surface, client)
            return len(telemetry.spans)

    bare()
    assert play(scenario, surface, face, server) == 1


def test_a_refused_request_is_one_failed_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(faults.status(429, "no"))

    async def scenario(surface: Surface, client: Any) -> None:
        with pytest.raises(Exception, match="429"):
            await read(surface, client)

    play(scenario, SECOND, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["error.type"], attributes["itl.stream.outcome"]) == ("TooManyRequestsError", "error")


def test_a_chat_that_does_not_stream_is_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script(body=b'{"id": "c1", "message": {"role": "assistant", "content": []}}'))

    async def scenario(_: Surface, client: Any) -> None:
        await settled(client.chat(model="m", messages=QUESTION))

    play(scenario, SECOND, face, server)
    assert telemetry.spans == []


def test_an_asynchronous_client_of_its_own_making_is_measured(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    """Its HTTP client is one over aiohttp where that is installed."""

    async def scenario() -> None:
        async with sdk_of(COHERE).AsyncClientV2("none", base_url=server.url) as client:
            await taken(client.chat_stream(**COHERE_CHAT))

    run("async", scenario())
    assert span_of(telemetry).attributes["itl.stream.outcome"] == "completed"


# --- what comes back -------------------------------------------------------------------------------------------------


def test_reasoning_plans_and_tools_are_distinguished_from_the_answer(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    if not hasattr(sdk_of(COHERE), "Thinking"):
        pytest.skip("this release of cohere drops reasoning")
    server.play(cohere.reply(1, thinking=1, tool_plan=1, tools=[("f", ["{}"])]))
    play(read, SECOND, face, server)
    assert kinds_of(telemetry) == [
        Kind.ROLE,
        Kind.REASONING,
        Kind.ANSWER,
        Kind.REASONING,
        Kind.TOOL,
        Kind.TOOL,
        Kind.FINISH | Kind.USAGE,
    ]


def test_a_citation_is_no_output(server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    server.play(cohere.reply(2).insert(1, cohere.citation("it")))
    play(read, SECOND, "sync", server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.output_chunk.count"], attributes["itl.chunk.count"]) == (2, 7)


def test_the_first_apis_tools_and_plans_are_distinguished_from_the_answer(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    script = cohere.v1_reply(1, tools=[("f", ["{}"])])
    server.play(script.insert(1, cohere.v1_tool_plan("I will call f.")))
    play(read, FIRST, face, server)
    assert kinds_of(telemetry) == [Kind.ANSWER, Kind.REASONING, Kind.TOOL, Kind.TOOL, Kind.FINISH | Kind.USAGE]


def test_without_counts_of_all_tokens_those_that_are_billed_count(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    usage = {"billed_units": {"input_tokens": 4, "output_tokens": 2}}
    server.play(Script([cohere.start(), cohere.text("x"), cohere.finish(usage=usage)]))
    play(read, SECOND, "sync", server)
    attributes = span_of(telemetry).attributes
    assert [attributes[f"gen_ai.usage.{name}_tokens"] for name in ("input", "output")] == [4, 2]


@pytest.mark.parametrize(
    ("reason", "error_type"), [("ERROR", "error"), ("ERROR_TOXIC", "error_toxic"), ("TIMEOUT", "timeout")]
)
def test_a_finish_reason_that_is_a_failure_fails_the_record(
    reason: str, error_type: str, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script([cohere.start(), cohere.text("x"), cohere.finish(reason)]))
    play(read, SECOND, "sync", server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.stream.outcome"], attributes["error.type"]) == ("error", error_type)


def test_an_aborted_stream_raises_the_timeout_error_of_its_http_client(face: Face, server: ScriptedServer) -> None:
    server.play(cohere.reply(3).cut(2) + faults.hold())

    async def scenario(surface: Surface, client: Any) -> tuple[str, bool]:
        try:
            await read(surface, client)
        except Exception as error:
            return type(error).__name__, "The stream was aborted after" in str(error)
        return "none", False

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2))
        assert play(scenario, SECOND, face, server) == ("ReadTimeout", True)
        assert span_of(telemetry).attributes["error.type"] == "ReadTimeout"


def test_the_session_may_be_named_by_a_header_of_the_request(server: ScriptedServer) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        options = {"additional_headers": {"x-session": "s1"}}
        await taken(client.chat_stream(**COHERE_CHAT, request_options=options))

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, session_from=lambda body, headers: f"{body['model']}-{headers['x-session']}")
        play(scenario, SECOND, "sync", server)
        assert span_of(telemetry).attributes["session.id"] == "m-s1"


def test_a_dropped_client_leaves_its_stream_to_its_reader(server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    stream = make_client(COHERE, "sync", server.url).chat_stream(**COHERE_CHAT)
    gc.collect()
    assert len(list(stream)) == 7
    assert span_of(telemetry).attributes["itl.stream.outcome"] == "completed"


# --- odd events ------------------------------------------------------------------------------------------------------


def event(data: str) -> Step:
    return faults.raw(f"data: {data}\n\n".encode())


def line(data: str) -> Step:
    return faults.raw(f"{data}\n".encode())


ODD: Final = {
    "an empty object": (SECOND, event("{}")),
    "an unknown event": (SECOND, event('{"type": "surprise", "x": 1}')),
    "a type that is no text": (SECOND, event('{"type": ["content-delta"]}')),
    "a null delta": (SECOND, event('{"type": "content-delta", "delta": null}')),
    "a delta without message": (SECOND, event('{"type": "content-delta", "delta": {}}')),
    "null text": (SECOND, event('{"type": "content-delta", "delta": {"message": {"content": {"text": null}}}}')),
    "text that is none": (SECOND, event('{"type": "content-delta", "delta": {"message": {"content": {"text": 5}}}}')),
    "a call without function": (SECOND, event('{"type": "tool-call-delta", "delta": {"message": {"tool_calls": {}}}}')),
    "a plan that is no text": (SECOND, event('{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": 1}}}')),
    "an id that is no text": (SECOND, event('{"type": "message-start", "id": 5}')),
    "odd usage": (
        SECOND,
        event('{"type": "message-end", "delta": {"usage": {"tokens": {"output_tokens": "x", "input_tokens": 1.5}}}}'),
    ),
    "no JSON": (SECOND, event("{garbled")),
    "no object": (SECOND, event("[1]")),
    "a comment": (SECOND, faults.raw(b": still here\n\n")),
    "an unknown line": (FIRST, line('{"event_type": "surprise"}')),
    "a line without type": (FIRST, line('{"x": 1}')),
    "a text that is none": (FIRST, line('{"event_type": "text-generation", "text": 5}')),
    "a chunk without call": (FIRST, line('{"event_type": "tool-calls-chunk"}')),
    "an end without response": (FIRST, line('{"event_type": "stream-end", "finish_reason": "COMPLETE"}')),
    "a line that is no JSON": (FIRST, line("{garbled")),
}
"""Name → how the stream is asked for, and the event."""
REPLIES: Final = {SECOND: cohere.reply(2), FIRST: cohere.v1_reply(2)}


async def shapes(surface: Surface, client: Any) -> list[str]:
    stream = await settled(surface.open(client))
    seen = await shapes_of(stream)
    await close(stream)
    return seen


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_event_passes_or_is_skipped_as_it_is_without(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    surface, odd = ODD[case]
    script = REPLIES[surface].insert(1, odd)
    server.play(script, script)

    expected, seen, outcomes = play(bare_then_measured(shapes), surface, "sync", server)
    assert (seen, outcomes) == (expected, ["error" if expected[-1].endswith("Error") else "completed"])


def test_a_client_of_the_first_api_streams_the_second_one_too(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        await taken(await settled(client.v2.chat_stream(**COHERE_CHAT)))

    run_with_client(scenario, FIRST, face, server)
    assert (FIRST.host, [exchange.path for exchange in server.exchanges]) == (COHERE_V1, ["/v2/chat"])
    assert span_of(telemetry).name == "chat m"
