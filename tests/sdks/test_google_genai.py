"""What is particular to google-genai: its transports, its generators, calls that are several requests, odd chunks."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import pytest
from clients import google_client, play, sdk_of
from faces import END, Face, close, drop, entered, pulled, run, settled, taken
from measuring import bare, instrument, measured, measured_by, span_of, timeline_of, wait_for_a_span
from odd_chunks import bare_then_measured
from opentelemetry import trace
from surfaces import CONTENT, EVERY_CREATED, GEMINI, VERTEX, Surface

from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, faults, gemini, interactions

CREATE: Final = {surface.wire: surface for surface in EVERY_CREATED if surface.host is GEMINI}
CONTENTS: Final = CREATE["gemini"]


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def kinds_and_tokens(span: Any) -> list[tuple[Kind, int]]:
    timeline = timeline_of(span)
    return list(zip(map(Kind, timeline.kinds), timeline.tokens or [0] * len(timeline.kinds), strict=True))


# --- transports ------------------------------------------------------------------------------------------------------

TRANSPORTS: Final[dict[str, tuple[Face, str]]] = {
    "httpx": ("sync", "httpx"),
    "httpx2": ("sync", "httpx2"),
    "aiohttp": ("async", "aiohttp"),
    "async httpx": ("async", "httpx"),
    "async httpx2": ("async", "httpx2"),
}
"""Name → face, and the module of the HTTP client."""
READ_TIMEOUTS: Final = {"httpx": "ReadTimeout", "httpx2": "ReadTimeout", "aiohttp": "ServerTimeoutError"}


@contextmanager
def http_client_of(transport: str) -> Iterator[tuple[Face, Any]]:
    """The face, and the HTTP client whose transport a client of the SDK takes; None: its default, which is aiohttp."""
    face, library = TRANSPORTS[transport]
    sdk_of(GEMINI)
    module: Any = pytest.importorskip(library)
    default = import_module("google.genai._api_client")
    if library == "httpx2" and not hasattr(default, "httpx2"):
        pytest.skip("this release of google-genai has no httpx2")
    if library == "aiohttp":
        yield face, None
    else:
        yield face, (module.AsyncClient if face == "async" else module.Client)(verify=False)


def played_over(transport: str, scenario: Callable[[Any], Any], server: ScriptedServer) -> Any:
    """Run a scenario with a client over this transport."""
    with http_client_of(transport) as (face, http_client):

        async def ran() -> Any:
            options = {"base_url": server.url, "timeout": 5.0, "max_retries": 0, "http_client": http_client}
            async with entered(google_client(sdk_of(GEMINI), face, api_key="none", **options)) as client:
                return await scenario(client)

        return run(face, ran())


async def exhaust(stream: Any) -> None:
    await taken(stream)


async def leave_early(stream: Any) -> None:
    await pulled(stream)
    await close(stream)


async def read_into_an_error(stream: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - each HTTP client has its own
        await taken(stream)


@pytest.mark.usefixtures("brisk_sweeper")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("act", "script", "outcome", "chunks"),
    [
        (exhaust, gemini.reply(3), "completed", 4),
        (leave_early, gemini.reply(3), "abandoned", 1),
        (read_into_an_error, gemini.reply(3).cut(2) + faults.close(), "error", 2),
    ],
)
def test_a_stream_over_every_transport_is_one_record(
    act: Any, script: Script, outcome: str, chunks: int, transport: str, server: ScriptedServer
) -> None:
    server.play(script)

    async def scenario(client: Any) -> None:
        await act(await settled(client.models.generate_content_stream(**CONTENT)))
        await drop()
        await wait_for_a_span(telemetry)

    with measured() as telemetry:
        played_over(transport, scenario, server)
        assert [
            (span.attributes["itl.stream.outcome"], span.attributes["itl.chunk.count"]) for span in telemetry.spans
        ] == [(outcome, chunks)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_stream_over_every_transport_can_be_aborted(transport: str, server: ScriptedServer) -> None:
    server.play(gemini.reply(3).cut(2) + faults.hold())

    async def scenario(client: Any) -> tuple[str, bool]:
        try:
            await taken(await settled(client.models.generate_content_stream(**CONTENT)))
        except Exception as error:
            return type(error).__name__, "The stream was aborted after" in str(error)
        return "none", False

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2))
        seen = played_over(transport, scenario, server)
        timeout = READ_TIMEOUTS[TRANSPORTS[transport][1]]
        assert (seen, span_of(telemetry).attributes["error.type"]) == ((timeout, True), timeout)


def test_the_stream_of_an_interaction_can_be_aborted(face: Face, server: ScriptedServer) -> None:
    server.play(interactions.reply(3).cut(2) + faults.hold())

    async def scenario(surface: Surface, client: Any) -> tuple[str, bool]:
        try:
            await read(surface, client)
        except Exception as error:
            return type(error).__name__, type(error.__cause__).__name__
        return "none", "none"

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2))
        assert play(scenario, CREATE["interactions"], face, server) == ("APITimeoutError", "ReadTimeout")
        assert span_of(telemetry).attributes["error.type"] == "ReadTimeout"


# --- when the request is sent ----------------------------------------------------------------------------------------


def test_a_request_begins_with_the_first_pull(face: Face, server: ScriptedServer) -> None:
    server.play(gemini.reply(2))

    async def scenario(surface: Surface, client: Any) -> float:
        stream = await settled(surface.open(client))
        assert server.exchanges == []
        time.sleep(0.1)  # noqa: ASYNC251 - its caller has other work
        pulled_ns = time.time_ns()
        await taken(stream)
        return pulled_ns

    with measured() as telemetry:
        pulled_ns = play(scenario, CONTENTS, face, server)
        assert span_of(telemetry).start_time >= pulled_ns - 1_000_000
        assert span_of(telemetry).attributes["itl.consumer.duration"] < 0.1


def test_the_span_of_the_request_is_current_while_it_is_sent_and_in_no_code_of_the_caller(
    face: Face, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(gemini.reply(2))
    sdk_of(GEMINI)
    client_class: Any = import_module("google.genai._api_client").BaseApiClient
    build = client_class._build_request
    sent_in = []

    def building(*args: Any, **kwargs: Any) -> Any:
        sent_in.append(trace.get_current_span().get_span_context().span_id)
        return build(*args, **kwargs)

    async def scenario(surface: Surface, client: Any) -> list[int]:
        monkeypatch.setattr(client_class, "_build_request", building)
        stream = await settled(surface.open(client))
        seen = []
        while await pulled(stream) is not END:
            seen.append(trace.get_current_span().get_span_context().span_id)
        return seen

    with measured() as telemetry:
        assert play(scenario, CONTENTS, face, server) == [0, 0, 0]
        assert sent_in == [span_of(telemetry).context.span_id]


@pytest.mark.parametrize(
    ("status", "error_type"), [(400, "ClientError"), (429, "ClientError"), (500, "ServerError"), (503, "ServerError")]
)
def test_a_refused_request_is_one_failed_record(
    face: Face, status: int, error_type: str, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.always(faults.status(status, "no"))

    async def scenario(surface: Surface, client: Any) -> None:
        with pytest.raises(Exception, match=str(status)):
            await read(surface, client)

    play(scenario, CONTENTS, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["error.type"], attributes["itl.stream.outcome"]) == (error_type, "error")


def test_a_retry_that_succeeds_is_one_record_of_two_attempts(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(faults.status(503, "no"), gemini.reply(2))
    play(read, CONTENTS, face, server, max_retries=1)
    assert [exchange.status for exchange in server.exchanges] == [503, 200]
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.request.attempts"], attributes["itl.stream.outcome"]) == (2, "completed")


# --- calls that are several requests ---------------------------------------------------------------------------------


def weather(city: str) -> str:
    """The weather of a city, as the model asks for it."""
    return f"sunny in {city}"


weather.__annotations__ = {"city": str, "return": str}  # older releases cannot resolve their texts


def test_automatic_function_calling_is_one_record_for_each_request(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    call = {"functionCall": {"name": "weather", "args": {"city": "Bonn"}}}
    asked = gemini.parts("tool", call, tokens=1, finish_reason="STOP", usage=gemini.usage_object(1))
    server.play(Script([asked]), gemini.reply(["It is ", "sunny."]))

    async def scenario(surface: Surface, client: Any) -> str:
        request = {**CONTENT, "config": {"tools": [weather]}}
        chunks = await taken(await settled(client.models.generate_content_stream(**request)))
        texts = [part.text for chunk in chunks for part in chunk.candidates[0].content.parts if part.text]
        return "".join(texts)

    assert play(scenario, CONTENTS, face, server) == "It is sunny."
    assert "sunny in Bonn" in json.dumps(server.exchanges[1].json)
    assert [
        (span.attributes["itl.stream.outcome"], kinds_and_tokens(span)[0][0], span.parent) for span in telemetry.spans
    ] == [("completed", Kind.TOOL | Kind.FINISH, None), ("completed", Kind.ANSWER, None)]


def test_an_interaction_that_is_continued_is_one_record_for_each_request(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    interrupted = {**interactions.interaction("requires_continuation"), "continuation_token": "t1"}
    first = interactions.event("finish", "interaction.completed", {"interaction": interrupted})
    opening = [interactions.created(), interactions.step_start({"type": "model_output"}), interactions.text("one ")]
    server.play(Script([*opening, interactions.step_stop(), first, interactions.done()]), interactions.reply(["two"]))

    async def scenario(surface: Surface, client: Any) -> int:
        if not hasattr(import_module("google.genai"), "_interactions_continuation"):
            pytest.skip("this release of google-genai continues no interaction")
        return len(await read(surface, client))

    assert play(scenario, CREATE["interactions"], face, server) == 10
    assert [
        (span.attributes["itl.stream.outcome"], span.attributes["gen_ai.response.finish_reasons"])
        for span in telemetry.spans
    ] == [("completed", ("requires_continuation",)), ("completed", ("completed",))]


# --- content ---------------------------------------------------------------------------------------------------------


def test_thoughts_and_tokens_are_told_from_the_answer_chunk_by_chunk(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(gemini.reply(2, thoughts=1, tools=[("f", ["{}"])], continuous_usage=True))
    play(read, CONTENTS, face, server)
    assert kinds_and_tokens(span_of(telemetry)) == [
        (Kind.REASONING, 0),
        (Kind.ANSWER, 1),
        (Kind.ANSWER, 1),
        (Kind.TOOL, 1),
        (Kind.FINISH | Kind.USAGE, 0),
    ]


def test_the_events_of_an_interaction_are_told_apart(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(interactions.reply(1, thoughts=1, tools=[("f", ["{}"])]))
    play(read, CREATE["interactions"], face, server)
    kinds = [kind for kind, _ in kinds_and_tokens(span_of(telemetry)) if kind & ~Kind.LIFECYCLE]
    assert kinds == [Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.TOOL, Kind.FINISH | Kind.USAGE]


def test_a_prompt_that_is_blocked_is_a_completed_stream_without_output(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script([gemini.blocked("PROHIBITED_CONTENT")]))
    play(read, CONTENTS, face, server)
    attributes = span_of(telemetry).attributes
    names = ("itl.stream.outcome", "gen_ai.response.finish_reasons", "itl.output_chunk.count", "itl.chunk.count")
    assert [attributes[name] for name in names] == ["completed", ("blocked_prohibited_content",), 0, 1]


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("gemini-x", "gemini-x"),
        ("models/gemini-x", "gemini-x"),
        ("publishers/google/models/gemini-x", "gemini-x"),
        ("projects/secret/locations/eu/publishers/google/models/gemini-x", "gemini-x"),
    ],
)
def test_a_model_is_named_without_the_path_of_its_resource(
    model: str, named: str, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        await taken(client.models.generate_content_stream(model=model, contents="hello"))

    vertex = next(surface for surface in surfaces_of(VERTEX))
    play(scenario, vertex if "publishers" in model else CONTENTS, "sync", server)
    assert span_of(telemetry).attributes["gen_ai.request.model"] == named


def surfaces_of(host: Any) -> list[Surface]:
    return [surface for surface in import_module("surfaces").SURFACES if surface.host is host]


def test_the_server_of_a_request_with_a_base_url_of_its_own_is_that_one(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        config = {"http_options": {"base_url": f"http://localhost:{server.port}"}}
        await taken(client.models.generate_content_stream(model="m", contents="hello", config=config))

    play(scenario, CONTENTS, "sync", server)
    assert span_of(telemetry).attributes["server.address"] == "localhost"


def test_the_session_may_be_named_by_a_header_of_the_request(server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        config = {"http_options": {"headers": {"x-session": "s1"}}}
        await taken(client.models.generate_content_stream(model="m", contents="hello", config=config))

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, session_from=lambda body, headers: f"{body['model']}-{headers['x-session']}")
        play(scenario, CONTENTS, "sync", server)
        assert span_of(telemetry).attributes["session.id"] == "m-s1"


# --- odd chunks ------------------------------------------------------------------------------------------------------


def chunk(data: str) -> Step:
    return faults.raw(f"data: {data}\n\n".encode())


def event(data: str) -> Step:
    return faults.raw(f"event: e\ndata: {data}\n\n".encode())


ODD: Final = {
    "an empty object": ("gemini", chunk("{}")),
    "null candidates": ("gemini", chunk('{"candidates": null}')),
    "no candidates": ("gemini", chunk('{"candidates": []}')),
    "an empty candidate": ("gemini", chunk('{"candidates": [{}]}')),
    "null content": ("gemini", chunk('{"candidates": [{"content": null}]}')),
    "content without parts": ("gemini", chunk('{"candidates": [{"content": {"role": "model"}}]}')),
    "null parts": ("gemini", chunk('{"candidates": [{"content": {"parts": null}}]}')),
    "an empty part": ("gemini", chunk('{"candidates": [{"content": {"parts": [{}]}}]}')),
    "a huge index": ("gemini", chunk('{"candidates": [{"index": 99999, "content": {"parts": [{"text": "x"}]}}]}')),
    "a part of code": (
        "gemini",
        chunk('{"candidates": [{"content": {"parts": [{"executableCode": {"code": "1"}}]}}]}'),
    ),
    "an empty call": ("gemini", chunk('{"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}')),
    "usage without counts": ("gemini", chunk('{"usageMetadata": {}}')),
    "negative usage": ("gemini", chunk('{"usageMetadata": {"candidatesTokenCount": -3, "promptTokenCount": -1}}')),
    "usage that shrinks": ("gemini", chunk('{"usageMetadata": {"candidatesTokenCount": 0, "thoughtsTokenCount": 0}}')),
    "feedback without reason": ("gemini", chunk('{"promptFeedback": {}}')),
    "two parts": ("gemini", chunk('{"candidates": [{"content": {"parts": [{"text": "x"}, {"text": "y"}]}}]}')),
    "two candidates": ("gemini", chunk('{"candidates": [{"index": 1}, {"index": 0}]}')),
    "an unknown event": ("interactions", event('{"event_type": "surprise"}')),
    "an event without type": ("interactions", event('{"x": 1}')),
    "no object": ("interactions", event("[1]")),
    "an unknown delta": ("interactions", event('{"event_type": "step.delta", "index": 0, "delta": {"type": "new"}}')),
    "a delta without type": ("interactions", event('{"event_type": "step.delta", "index": 0, "delta": {}}')),
    "a null delta": ("interactions", event('{"event_type": "step.delta", "index": 0, "delta": null}')),
    "a delta that is no text": (
        "interactions",
        event('{"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": {"a": 1}}}'),
    ),
    "a step without type": ("interactions", event('{"event_type": "step.start", "index": 0, "step": {}}')),
    "a null step": ("interactions", event('{"event_type": "step.start", "index": 0, "step": null}')),
    "a start without interaction": ("interactions", event('{"event_type": "interaction.created"}')),
}
"""Name → wire format, and the chunk."""
REPLIES: Final = {"gemini": gemini.reply(2, continuous_usage=True), "interactions": interactions.reply(2)}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_chunk_passes_and_the_stream_goes_on(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    wire, odd = ODD[case]
    script = REPLIES[wire].insert(1, odd)
    server.play(script, script)

    expected, seen, outcomes = play(bare_then_measured(), CREATE[wire], "sync", server)
    # The SDK may choke on it above the hook, and drop the stream then.
    assert (seen, outcomes) == (expected, ["abandoned" if expected[-1].endswith("Error") else "completed"])


# --- hooks that wait for an import -----------------------------------------------------------------------------------

IMPORTED_LATER: Final = """
    import sys
    from importlib.util import find_spec
    import otel_itl
    from otel_itl.testing import capture_telemetry

    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        assert "google.genai" not in sys.modules
        from google import genai
        client = genai.Client(api_key="none", http_options={"base_url": sys.argv[1]})
        list(client.models.generate_content_stream(model="m", contents="hello"))
        if find_spec("google.genai._gaos"):
            list(client.interactions.create(model="m", input="hello", stream=True))
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


def test_what_is_imported_after_instrument_is_measured(server: ScriptedServer) -> None:
    sdk_of(GEMINI)
    streams = 1 + (find_spec("google.genai._gaos") is not None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(IMPORTED_LATER), server.url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["completed"] * streams, "")
