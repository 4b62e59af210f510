"""What is particular to Bedrock: loops that go on, exceptions in the stream, families of models, other services."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import aws
import pytest
from clients import SDKS, play, sdk_of
from faces import FACES, Face, close, drop, entered, run, settled, taken
from measuring import bare, instrument, measured, measured_by, own_spans, spans_within, timeline_of, wait_for_a_span
from opentelemetry.trace import StatusCode
from surfaces import ANTHROPIC, BEDROCK, CONVERSE, MESSAGE, OTHER_STREAMS, Surface

import otel_itl
from otel_itl.core.stalls import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, bedrock, faults, messages

STREAMS: Final = [surface for surface in OTHER_STREAMS if surface.host is BEDROCK]
CONVERSE_STREAM, INVOCATION = STREAMS
WHOLE: Final = bedrock.reply(4)
EXCEPTIONS: Final = [
    (surface, code)
    for surface in STREAMS
    for code in (
        "internalServerException",
        "modelStreamErrorException",
        "modelTimeoutException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    )
    if surface is INVOCATION or code != "modelTimeoutException"
]

streams = pytest.mark.parametrize("surface", STREAMS, ids=lambda surface: surface.wire)


@pytest.fixture(autouse=True)
def _installed() -> None:
    sdk_of(BEDROCK)


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


# --- loops -----------------------------------------------------------------------------------------------------------


@streams
def test_a_second_loop_goes_on_where_the_first_was_left(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(WHOLE if surface is CONVERSE_STREAM else bedrock.nova_reply(4))

    async def scenario(surface: Surface, client: Any) -> list[int]:
        async with surface.stream(client) as stream:
            return [len(await taken(stream, lambda: True)), len(await taken(stream)), len(await taken(stream))]

    assert play(scenario, surface, face, server) == [1, 7, 0]
    assert (only(telemetry)["itl.chunk.count"], only(telemetry)["itl.stream.outcome"]) == (8, "completed")


def test_after_a_failure_a_loop_goes_on_as_it_does_without(face: Face, server: ScriptedServer) -> None:
    """Botocore reads on behind an exception event: what is left in the stream is the caller's to see."""
    server.always(WHOLE.cut(1) + bedrock.error() + bedrock.text("more"))

    async def scenario(surface: Surface, client: Any) -> list[Any]:
        from botocore.exceptions import EventStreamError

        async with surface.stream(client) as stream:
            with pytest.raises(EventStreamError):
                await taken(stream)
            return await taken(stream)

    bare()
    expected = play(scenario, CONVERSE_STREAM, face, server)
    with measured() as telemetry:
        assert play(scenario, CONVERSE_STREAM, face, server) == expected
        assert only(telemetry)["itl.stream.outcome"] == "error"
    assert len(expected) == 1


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@streams
@pytest.mark.usefixtures("brisk_sweeper")
def test_a_dropped_stream_is_reported_before_the_garbage_collector_runs(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    """The SDK's stream object refers to itself."""

    async def scenario(surface: Surface, client: Any) -> None:
        with without_garbage_collection():
            stream = await settled(surface.open(client))
            await taken(stream, lambda: True)
            del stream
            await wait_for_a_span(telemetry)

    play(scenario, surface, face, server)
    assert only(telemetry)["itl.stream.outcome"] == "abandoned"


def test_a_loop_keeps_a_stream_that_nothing_else_refers_to(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(WHOLE)

    async def scenario(surface: Surface, client: Any) -> int:
        opened = settled(surface.open(client))
        return len(await taken(await opened))

    assert play(scenario, CONVERSE_STREAM, face, server) == 8
    assert only(telemetry)["itl.stream.outcome"] == "completed"


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("surface", "code"), EXCEPTIONS, ids=str)
def test_an_exception_event_fails_the_stream_with_its_code(
    surface: Surface, code: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    shape = "ConverseStreamOutput" if surface is CONVERSE_STREAM else "ResponseStream"
    if not aws.is_known(shape, code):
        pytest.skip(f"this botocore does not know {code}, and raises it without a code")
    whole = WHOLE if surface is CONVERSE_STREAM else bedrock.nova_reply(4)
    server.always(whole.cut(2) + bedrock.error("no", kind=code))

    async def scenario(surface: Surface, client: Any) -> None:
        from botocore.exceptions import EventStreamError

        with pytest.raises(EventStreamError):
            await read(surface, client)

    play(scenario, surface, face, server)
    (span,) = telemetry.spans
    attributes = only(telemetry)
    assert (attributes["error.type"], attributes["itl.output_chunk.count"]) == (code, 2)
    assert span.status.status_code is StatusCode.ERROR


def test_a_refused_request_fails_with_the_code_of_the_service(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(bedrock.refusal(429, "ThrottlingException"))

    async def scenario(surface: Surface, client: Any) -> None:
        with pytest.raises(client.exceptions.ThrottlingException):
            await read(surface, client)

    play(scenario, CONVERSE_STREAM, face, server)
    assert only(telemetry)["error.type"] == "ThrottlingException"


def test_an_event_that_the_sdk_does_not_know_is_no_output(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    odd = [bedrock.event("lifecycle", "laterEvent", {"text": "a"}), bedrock.invalid_json(), bedrock.empty()]
    server.always(WHOLE.insert(1, *odd))
    play(read, CONVERSE_STREAM, face, server)
    attributes = only(telemetry)
    assert (attributes["itl.output_chunk.count"], attributes["itl.stream.outcome"]) == (4, "completed")


def test_an_aborted_stream_raises_the_timeout_error_of_the_sdk(face: Face, server: ScriptedServer) -> None:
    server.always(WHOLE.cut(2) + faults.hold())
    seen: list[BaseException] = []

    async def scenario(surface: Surface, client: Any) -> None:
        try:
            await read(surface, client)
        except Exception as error:
            seen.append(error)

    with measured_by() as captured:
        bare()
        instrument(captured, stall=StallPolicy(next_token=0.1, abort_after=0.2))
        play(scenario, CONVERSE_STREAM, face, server)
        from botocore.exceptions import ReadTimeoutError

        (error,) = seen
        assert (isinstance(error, ReadTimeoutError), "The stream was aborted" in str(error)) == (True, True)
        assert only(captured)["error.type"] == type(error).__qualname__


# --- semantics -------------------------------------------------------------------------------------------------------


def knows_reasoning() -> bool:
    return "bedrock" in SDKS and aws.is_known("ContentBlockDelta", "reasoningContent")


reasoning = pytest.mark.skipif(not knows_reasoning(), reason="this botocore does not know reasoning, and drops it")

FAMILIES: Final[dict[str, tuple[Callable[..., Script], str]]] = {
    "anthropic": (bedrock.anthropic_reply, "end_turn"),
    "nova": (bedrock.nova_reply, "end_turn"),
    "llama": (bedrock.llama_reply, "stop"),
    "mistral": (bedrock.mistral_reply, "stop"),
    "titan": (bedrock.titan_reply, "FINISH"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_invocation_of_each_family_is_measured(
    family: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    reply, reason = FAMILIES[family]
    server.always(reply(3, first=0.01, gaps=0.005))
    play(read, INVOCATION, face, server)
    attributes = only(telemetry)
    expected = {
        "itl.output_chunk.count": 3,
        "itl.stream.outcome": "completed",
        "gen_ai.response.finish_reasons": (reason,),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4 if family == "llama" else 3,
    }
    assert {name: attributes.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("surface", "script", "expected"),
    [
        (CONVERSE_STREAM, bedrock.reply(2), {"itl.server.total_duration": 0.1}),
        (
            INVOCATION,
            bedrock.anthropic_reply(2),
            {"itl.server.total_duration": 0.1, "itl.server.first_byte_duration": 0.01},
        ),
    ],
    ids=["converse", "invoke_model"],
)
def test_the_latencies_of_the_service_are_on_the_span_in_seconds(
    surface: Surface,
    script: Script,
    expected: dict[str, float],
    face: Face,
    server: ScriptedServer,
    telemetry: CapturedTelemetry,
) -> None:
    server.always(script)
    play(read, surface, face, server)
    assert {name: value for name, value in only(telemetry).items() if name.startswith("itl.server.")} == expected


def test_the_id_of_the_request_identifies_a_response_that_has_none(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(bedrock.llama_reply(3))
    play(read, INVOCATION, face, server)
    (exchange,) = server.exchanges
    assert only(telemetry)["gen_ai.response.id"] == f"req_{exchange.number}"


@reasoning
def test_reasoning_and_tool_calls_are_distinguished_from_the_answer(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(bedrock.reply(2, reasoning=2, tools=[("weather", ['{"city":', '"Paris"}'])]))
    play(read, CONVERSE_STREAM, face, server)
    output = [kind for kind in kinds_of(telemetry) if kind & (Kind.REASONING | Kind.ANSWER | Kind.TOOL)]
    assert output == [Kind.REASONING] * 2 + [Kind.ANSWER] * 2 + [Kind.TOOL] * 3


@reasoning
def test_the_time_to_the_first_answer_token_is_later_than_that_to_the_first_token(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(bedrock.reply(2, reasoning=2, first=0.02, gaps=0.02))
    play(read, CONVERSE_STREAM, face, server)
    attributes = only(telemetry)
    assert attributes["itl.time_to_first_answer_token"] > attributes["itl.time_to_first_token"] + 0.03


def test_a_retried_request_is_one_record_with_its_attempts(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    import boto3
    from botocore.config import Config

    server.play(bedrock.refusal(503, "ServiceUnavailableException"), WHOLE)
    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=server.bedrock_url,
        config=Config(retries={"total_max_attempts": 2, "mode": "standard"}),
        **aws.KEYS,
    )
    list(client.converse_stream(**CONVERSE)["stream"])
    client.close()
    attributes = only(telemetry)
    assert (attributes["itl.request.attempts"], attributes["itl.stream.outcome"]) == (2, "completed")


# --- beside others ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R7")
def test_bedrock_by_the_anthropic_sdk_is_one_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    anthropic = sdk_of(ANTHROPIC)
    server.always(bedrock.invoked(messages.reply(4)))
    make = anthropic.AsyncAnthropicBedrock if face == "async" else anthropic.AnthropicBedrock
    options = {"aws_access_key": "none", "aws_secret_key": "none", "aws_region": "us-east-1", "max_retries": 0}

    async def scenario() -> int:
        async with entered(make(base_url=server.bedrock_url, **options)) as client:
            return len(await taken(await settled(client.messages.create(**MESSAGE, stream=True))))

    assert run(face, scenario()) == 9
    (exchange,) = server.exchanges
    attributes = only(telemetry)
    assert (exchange.wire, attributes["gen_ai.provider.name"], attributes["itl.output_chunk.count"]) == (
        "invoke_model",
        "aws.bedrock",
        4,
    )


@streams
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
@pytest.mark.usefixtures("brisk_sweeper")
def test_beside_the_official_instrumentation_there_is_one_record_of_ours(
    surface: Surface, is_first: bool, server: ScriptedServer
) -> None:
    """Its span is beside ours; of a stream that is left early it has none."""
    official = pytest.importorskip("opentelemetry.instrumentation.botocore").BotocoreInstrumentor()
    bare()

    async def left_early(surface: Surface, client: Any) -> None:
        await taken(await settled(surface.open(client)), lambda: True)
        await drop()

    with measured_by() as captured:
        if is_first:
            otel_itl.uninstrument()
        official.instrument(tracer_provider=captured.tracer_provider)
        try:
            otel_itl.instrument(tracer_provider=captured.tracer_provider)
            read_whole = play(read, surface, "sync", server)
            play(left_early, surface, "sync", server)
            spans_within(captured, 2)
        finally:
            if is_first:  # its `uninstrument()` takes off the outermost wrapper, whoever put it on
                otel_itl.uninstrument()
            official.uninstrument()
        ours = own_spans(captured)
        outcomes = [(span.attributes["itl.chunk.count"], span.attributes["itl.stream.outcome"]) for span in ours]
        assert outcomes == [(len(read_whole), "completed"), (1, "abandoned")]


def test_calls_that_do_not_stream_are_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    body = {"output": {"message": {"role": "assistant", "content": [{"text": "a"}]}}, "stopReason": "end_turn"}
    server.always(Script(body=json.dumps(body).encode()))

    async def scenario(surface: Surface, client: Any) -> None:
        with pytest.raises(client.exceptions.ClientError):  # the server knows no such path
            await settled(client.converse(**CONVERSE))

    play(scenario, CONVERSE_STREAM, face, server)
    assert telemetry.spans == []


def test_the_event_stream_of_another_service_is_as_it_was(telemetry: CapturedTelemetry) -> None:
    from botocore.eventstream import EventStream

    class Raw:
        def stream(self) -> Iterator[bytes]:
            yield b"".join(step.event.encode() for step in WHOLE)

    class Parser:
        def parse(self, event: dict[str, Any], shape: object) -> dict[str, Any]:
            return event

    assert len(list(EventStream(Raw(), None, Parser(), "SelectObjectContent"))) == 8
    assert telemetry.spans == []


def test_a_response_that_a_stub_made_is_measured(telemetry: CapturedTelemetry) -> None:
    """`Stubber` checks what it returns against the model of the service, which knows no list of events."""
    session = aws._session("sync")
    client = session.create_client("bedrock-runtime", region_name="us-east-1", **aws.KEYS)

    class Response:
        status_code = 200

    events = [{"contentBlockDelta": {"delta": {"text": "a"}}}, {"messageStop": {"stopReason": "end_turn"}}]
    client.meta.events.register("before-call", lambda **_: (Response(), {"stream": iter(events)}))
    assert list(client.converse_stream(**CONVERSE)["stream"]) == events
    client.close()
    assert (only(telemetry)["itl.output_chunk.count"], only(telemetry)["itl.stream.outcome"]) == (1, "completed")


def test_importing_botocore_alone_does_not_load_its_clients() -> None:
    program = """
import sys, otel_itl
otel_itl.instrument()
import botocore.exceptions
print("botocore.client" in sys.modules, "aiobotocore" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("face", FACES)
def test_a_client_that_was_made_before_is_measured(face: Face, server: ScriptedServer) -> None:
    bare()

    async def scenario(surface: Surface, client: Any) -> int:
        with measured() as telemetry:
            await read(surface, client)
            return len(telemetry.spans)

    assert play(scenario, CONVERSE_STREAM, face, server) == 1


# Half a copy of an HTTP response is left, which Python 3.13 cannot finalize: with and without.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_copies_succeed_and_fail_as_they_do_without(face: Face, server: ScriptedServer) -> None:
    import copy
    import pickle

    async def scenario(surface: Surface, client: Any) -> list[type]:
        seen: list[type] = []
        async with surface.stream(client) as stream:
            for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
                try:
                    seen.append(type(duplicate(stream)))
                except Exception as error:
                    seen.append(type(error))
            await close(stream)
        return seen

    bare()
    expected = play(scenario, CONVERSE_STREAM, face, server)
    with measured():
        assert play(scenario, CONVERSE_STREAM, face, server) == expected


def test_other_calls_cost_less_than_two_hundredths_of_their_function_calls() -> None:
    """S3's `get_object` over a transport in memory, with and without: bench/overhead has the times."""
    from io import BytesIO

    from botocore.awsrequest import AWSResponse

    client = aws._session("sync").create_client("s3", region_name="us-east-1", **aws.KEYS)
    raw = type("Raw", (BytesIO,), {"stream": lambda self, **_: iter([self.read()])})

    def answer(request: Any, **_: Any) -> AWSResponse:
        return AWSResponse(request.url, 200, {"content-length": "5"}, raw(b"hello"))

    client.meta.events.register("before-send", answer)

    def call() -> None:
        client.get_object(Bucket="b", Key="k")["Body"].read()

    def count_function_calls() -> int:
        calls = 0

        def see(_: Any, event: str, __: Any) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(see)
        call()
        sys.setprofile(None)
        return calls

    bare()
    call()
    plain = count_function_calls()
    with measured():
        call()
        assert plain < count_function_calls() < 1.02 * plain
    client.close()
