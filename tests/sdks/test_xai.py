"""What is particular to xai-sdk: calls of gRPC under generators, and the span that the SDK starts itself."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any, Final

import pytest
from clients import client_of, play, sdk_of
from faces import Face, close, drop, entered, pulled, run, settled, taken
from measuring import bare, instrument, measured, measured_by, timeline_of, wait_for_a_span
from opentelemetry import trace
from scripts import pinned
from surfaces import OTHER_STREAMS, XAI, Surface

from otel_itl.core.stalls import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, faults, xai

STREAM: Final = next(surface for surface in OTHER_STREAMS if surface.host is XAI)
CHATS: Final = ("xai_sdk.sync.chat", "xai_sdk.aio.chat")


@pytest.fixture(autouse=True)
def _installed() -> None:
    sdk_of(XAI)


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def only(telemetry: CapturedTelemetry) -> dict[str, Any]:
    """The attributes of the one span that there is."""
    (span,) = telemetry.spans
    return dict(span.attributes)


def kinds_of(telemetry: CapturedTelemetry) -> list[Kind]:
    (span,) = telemetry.spans
    return [Kind(kind) for kind in timeline_of(span).kinds]


def make_chat(client: Any, **settings: Any) -> Any:
    user = import_module("xai_sdk.chat").user
    return client.chat.create(model="m", messages=[user("hello")], **settings)


# --- when the request is sent ----------------------------------------------------------------------------------------


def test_a_request_begins_with_the_first_pull(face: Face, server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    async def scenario(surface: Surface, client: Any) -> int:
        stream = surface.open(client)
        time.sleep(0.05)  # noqa: ASYNC251 - its caller has other work
        assert server.exchanges == []
        pulled_ns = time.time_ns()
        await taken(stream)
        return pulled_ns

    pulled_ns = play(scenario, STREAM, face, server)
    (span,) = telemetry.spans
    assert span.start_time >= pulled_ns - 1_000_000


def test_a_generator_that_is_never_pulled_leaves_no_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        await close(surface.open(client))

    play(scenario, STREAM, face, server)
    assert telemetry.spans == []


def test_a_call_that_grpc_retries_is_one_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script([xai.error()]), xai.reply(2))
    play(read, STREAM, face, server, max_retries=1)
    assert (len(server.exchanges), only(telemetry)["itl.stream.outcome"]) == (2, "completed")


def test_calls_that_do_not_stream_are_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> str:
        try:
            await settled(make_chat(client).sample())
        except Exception as error:
            return error.code().name  # type: ignore[attr-defined,no-any-return]
        return "none"

    assert play(scenario, STREAM, face, server) == "UNIMPLEMENTED"  # the scripted service streams alone
    assert telemetry.spans == []


# --- the request -----------------------------------------------------------------------------------------------------


def test_the_parameters_of_the_request_are_those_that_were_given(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        chat = make_chat(client, temperature=0.7, top_p=0.9, max_tokens=5, seed=3, stop=["END"])
        await taken(chat.stream())

    play(scenario, STREAM, "sync", server)
    prefix = "gen_ai.request."
    given = {name: value for name, value in only(telemetry).items() if name.startswith(prefix)}
    assert given == {
        f"{prefix}model": "m",
        f"{prefix}stream": True,
        f"{prefix}temperature": 0.7,
        f"{prefix}top_p": 0.9,
        f"{prefix}max_tokens": 5,
        f"{prefix}seed": 3,
        f"{prefix}stop_sequences": ("END",),
    }


@pytest.mark.requirement("R12")
def test_a_client_that_was_made_before_is_measured_but_its_host_is_not_known(
    face: Face, server: ScriptedServer
) -> None:
    bare()

    async def scenario() -> dict[str, Any]:
        async with entered(client_of(XAI, face, server)) as client:
            with measured() as telemetry:
                await taken(STREAM.open(client))
                return only(telemetry)

    attributes = run(face, scenario())
    assert (attributes["itl.stream.outcome"], attributes["server.address"]) == ("completed", "api.x.ai")


def test_the_session_may_be_named_by_the_user_of_the_request(server: ScriptedServer) -> None:
    async def scenario(_: Surface, client: Any) -> None:
        await taken(make_chat(client, user="u-1").stream())

    with measured_by() as telemetry:
        bare()
        instrument(telemetry, session_from=lambda body, headers: body.get("user"))
        play(scenario, STREAM, "sync", server)
        assert only(telemetry)["session.id"] == "u-1"


# --- what a message carries ------------------------------------------------------------------------------------------


def test_reasoning_tool_calls_and_results_of_the_services_tools_are_distinguished(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    steps = [xai.reasoning("Hm."), xai.tool_call("search"), xai.tool_result("found"), xai.text("Ray"), xai.finish()]
    server.play(Script(steps))
    play(read, STREAM, face, server)
    assert kinds_of(telemetry) == [Kind.REASONING, Kind.TOOL, Kind.EMPTY, Kind.ANSWER, Kind.FINISH]


def test_tokens_are_counted_chunk_by_chunk_where_every_message_has_the_usage(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    script = xai.reply(3, reasoning=2, continuous_usage=True)
    server.play(script)
    play(read, STREAM, "sync", server)
    (span,) = telemetry.spans
    timeline = timeline_of(span)
    assert (list(timeline.tokens), only(telemetry)["gen_ai.usage.output_tokens"]) == ([1, 1, 1, 1, 1, 0], 5)


ODD: Final = {
    "nothing": xai.chunk("empty"),
    "no role": xai.delta("empty", {"content": "x"}, role="INVALID_ROLE"),
    "an unknown finish reason": xai.chunk("empty", [{"finish_reason": 77, "delta": {"role": "ROLE_ASSISTANT"}}]),
    "two outputs": xai.chunk("answer", [{"index": 0}, {"index": 3, "delta": {"content": "y", "role": 2}}]),
    "an empty usage": xai.chunk("usage", usage={}),
    "a negative usage": xai.chunk("usage", usage={"completion_tokens": -3, "prompt_tokens": -1}),
    "citations alone": xai.chunk("empty", citations=["https://x.ai"]),
    "encrypted content": xai.delta("empty", {"encrypted_content": "c2VjcmV0"}),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_message_passes_and_the_stream_goes_on(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    script = pinned(xai.reply(2).insert(1, ODD[case]))
    server.play(script, script)

    async def bare_then_measured(surface: Surface, client: Any) -> tuple[int, str]:
        bare()
        expected = [repr(chunk) for _, chunk in await read(surface, client)]
        with measured() as telemetry:
            seen = [repr(chunk) for _, chunk in await read(surface, client)]
            assert seen == expected
            return len(seen), only(telemetry)["itl.stream.outcome"]

    assert play(bare_then_measured, STREAM, "sync", server) == (4, "completed")


def test_a_message_that_cannot_be_decoded_fails_as_it_does_without(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(xai.reply(2).cut(1) + xai.damaged())

    async def scenario(surface: Surface, client: Any) -> str:
        with pytest.raises(Exception, match=r"Exception deserializing|has no attribute") as raised:
            await read(surface, client)
        return type(raised.value).__name__

    expected = {"sync": "_MultiThreadedRendezvous", "async": "AttributeError"}
    assert play(scenario, STREAM, face, server) == expected[face]


# --- errors and aborts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (xai.reply(3).cut(1) + xai.error(code=8), "RESOURCE_EXHAUSTED"),
        (Script([xai.error(code=16)]), "UNAUTHENTICATED"),
        (xai.reply(3).cut(1) + faults.reset(after=0.01), "UNAVAILABLE"),
    ],
)
@pytest.mark.requirement("R11")
def test_a_call_that_fails_raises_what_it_raises_without_and_its_status_is_the_type_of_the_error(
    script: Script, status: str, face: Face, server: ScriptedServer
) -> None:
    server.always(script)

    async def scenario(surface: Surface, client: Any) -> tuple[str, str]:
        with pytest.raises(sdk_error()) as raised:
            await read(surface, client)
        return type(raised.value).__name__, raised.value.code().name  # type: ignore[attr-defined]

    bare()
    expected = play(scenario, STREAM, face, server)
    with measured() as telemetry:
        assert play(scenario, STREAM, face, server) == expected
        assert (expected[1], only(telemetry)["error.type"]) == (status, status)


def sdk_error() -> type[Exception]:
    error: type[Exception] = import_module("grpc").RpcError
    return error


def test_an_aborted_stream_raises_an_error_of_grpc_and_the_others_of_its_connection_go_on(
    face: Face, server: ScriptedServer
) -> None:
    server.play(xai.reply(3).cut(1) + faults.hold(), xai.reply(30, gaps=0.02))

    async def scenario(surface: Surface, client: Any) -> tuple[str, bool, int]:
        hanging, going = surface.open(client), surface.open(client)
        await pulled(hanging)
        await pulled(going)
        with pytest.raises(sdk_error()) as raised:
            await taken(hanging)
        error: Any = raised.value
        return error.code().name, "The stream was aborted after" in error.details(), len(await taken(going))

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.05, first_token=2.0, abort_after=0.1))
        assert play(scenario, STREAM, face, server) == ("DEADLINE_EXCEEDED", True, 30)
        spans = [span.attributes for span in telemetry.spans]
        outcomes = sorted((span["itl.stream.outcome"], span.get("error.type")) for span in spans)
        assert outcomes == [("completed", None), ("error", "DEADLINE_EXCEEDED")]


@pytest.mark.skipif(not hasattr(asyncio.Task, "cancelling"), reason="a task counts its cancellations from 3.11 on")
def test_a_task_that_is_cancelled_while_its_stream_is_aborted_stays_cancelled(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(xai.reply(3).cut(1) + faults.hold())

    async def scenario(surface: Surface, client: Any) -> None:
        stream = surface.open(client)
        await pulled(stream)
        waiting = asyncio.create_task(taken(stream))
        await asyncio.sleep(0.01)
        (recorder,) = runtime.open_streams.recorders()
        waiting.cancel()
        assert recorder.abort()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    play(scenario, STREAM, "async", server)
    assert only(telemetry)["itl.stream.outcome"] == "cancelled"


# --- the SDK's own span ----------------------------------------------------------------------------------------------


@pytest.fixture
def traced(telemetry: CapturedTelemetry, monkeypatch: pytest.MonkeyPatch) -> CapturedTelemetry:
    """The telemetry, to which the SDK's own spans go as well, as with a global provider."""
    for chat in CHATS:
        monkeypatch.setattr(import_module(chat), "tracer", telemetry.tracer_provider.get_tracer(chat))
    return telemetry


def test_a_request_has_one_span_with_its_tokens_once(
    face: Face, server: ScriptedServer, traced: CapturedTelemetry
) -> None:
    server.play(xai.reply(4))
    play(read, STREAM, face, server)
    (span,) = traced.spans
    theirs = ("gen_ai.usage.output_tokens", "gen_ai.response.system_fingerprint", "gen_ai.completion.start_time")
    ours = ("itl.time_to_first_token", "itl.chunk.count", "itl.stream.outcome")
    assert (span.name, [name for name in (*theirs, *ours) if name not in span.attributes]) == ("chat.stream m", [])


def test_the_standard_metrics_are_recorded_though_the_span_is_the_sdks(
    server: ScriptedServer, traced: CapturedTelemetry
) -> None:
    server.play(xai.reply(4))
    play(read, STREAM, "sync", server)
    points = traced.metrics["gen_ai.client.token.usage"]
    assert {point.attributes["gen_ai.token.type"]: point.value for point in points} == {"input": 10, "output": 4}


@pytest.mark.usefixtures("brisk_sweeper")
@pytest.mark.parametrize("leave", ["close", "drop"])
def test_a_stream_that_is_left_early_is_described_on_the_sdks_span(
    leave: str, face: Face, server: ScriptedServer, traced: CapturedTelemetry
) -> None:
    server.play(xai.reply(4, gaps=0.05))

    async def scenario(surface: Surface, client: Any) -> None:
        stream = surface.open(client)
        await pulled(stream)
        if leave == "close":
            await close(stream)
        del stream
        await drop()
        if face == "sync":  # the asynchronous client keeps a call that was left until it is closed
            await wait_for_a_span(traced)

    play(scenario, STREAM, face, server)
    (span,) = traced.spans
    assert (span.name, span.attributes["itl.stream.outcome"]) == ("chat.stream m", "abandoned")


def test_a_call_that_fails_is_described_on_the_sdks_span(
    face: Face, server: ScriptedServer, traced: CapturedTelemetry
) -> None:
    server.play(xai.reply(3).cut(1) + xai.error())

    async def scenario(surface: Surface, client: Any) -> None:
        with pytest.raises(sdk_error()):
            await read(surface, client)

    play(scenario, STREAM, face, server)
    assert only(traced)["itl.stream.outcome"] == "error"


def test_where_the_sdk_has_no_span_that_records_ours_is_a_child_of_the_callers(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    tracer = telemetry.tracer_provider.get_tracer("app")

    async def scenario(surface: Surface, client: Any) -> None:
        with tracer.start_as_current_span("work"):
            await read(surface, client)

    play(scenario, STREAM, face, server)
    ours, work = sorted(telemetry.spans, key=lambda span: span.name)
    assert (ours.name, ours.parent.span_id) == ("chat m", work.context.span_id)


def test_the_callers_code_runs_in_no_span_of_ours(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> list[bool]:
        stream = surface.open(client)
        return [trace.get_current_span().is_recording() for _ in await taken(stream, lambda: True)]

    assert play(scenario, STREAM, face, server) == [False]
