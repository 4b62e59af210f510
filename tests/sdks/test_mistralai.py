"""What is particular to mistralai: the spans that it starts itself, its content in parts, conversations, odd events."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import pytest
from clients import play
from faces import END, Face, close, drop, pulled, settled, taken
from measuring import bare, instrument, measured, measured_by, span_of, timeline_of, wait_for_a_span
from mistral_clients import release
from odd_chunks import bare_then_measured, shapes_of
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from scripts import pinned
from surfaces import MISTRAL, PLAIN_CHAT, QUESTION, SURFACES, Surface

from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, chat, conversations, faults, mistral

ROWS: Final = {surface.call: surface for surface in SURFACES if surface.host is MISTRAL}
CHAT: Final = ROWS["chat.stream()"]
CONVERSATION: Final = ROWS["beta.conversations.start_stream()"]
traced = pytest.mark.skipif(release() < (1, 10), reason="mistralai starts spans of its own from 1.10 on")


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def kinds_of(telemetry: CapturedTelemetry) -> list[Kind]:
    return list(map(Kind, timeline_of(span_of(telemetry)).kinds))


# --- the SDK's own span ----------------------------------------------------------------------------------------------


@pytest.fixture
def sdk_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[CapturedTelemetry]:
    """The SDK starts spans of its own, by the global provider, which is the one that we report to."""
    monkeypatch.setenv("MISTRAL_SDK_TELEMETRY", "global")  # asked for from 3.0 on, before that it is the default
    with measured_by() as telemetry:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", telemetry.tracer_provider)
        yield telemetry


@traced
def test_a_request_whose_span_the_sdk_starts_has_one_span_with_the_details_of_both(
    face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer
) -> None:
    play(read, CHAT, face, server)
    attributes = span_of(sdk_traces).attributes
    theirs, ours = ("agent.trace.public", "gen_ai.usage.output_tokens"), ("itl.stream.outcome", "itl.chunk.count")
    assert [name for name in (*theirs, *ours) if name not in attributes] == []


@traced
def test_so_has_one_that_is_refused(face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer) -> None:
    server.always(faults.status(400, "no"))

    async def refused(surface: Surface, client: Any) -> None:
        with pytest.raises(Exception, match="no"):
            await read(surface, client)

    play(refused, CHAT, face, server)
    attributes = span_of(sdk_traces).attributes
    assert (attributes["itl.stream.outcome"], attributes["error.type"]) == ("error", "SDKError")


@traced
@pytest.mark.usefixtures("brisk_sweeper")
def test_so_has_one_that_is_dropped(face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer) -> None:
    async def dropped(surface: Surface, client: Any) -> None:
        await pulled(await settled(surface.open(client)))
        await drop()
        await wait_for_a_span(sdk_traces)

    play(dropped, CHAT, face, server)
    assert span_of(sdk_traces).attributes["itl.stream.outcome"] == "abandoned"


@traced
def test_so_has_one_that_is_closed(face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer) -> None:
    async def closed(surface: Surface, client: Any) -> None:
        stream = await settled(surface.open(client))
        await pulled(stream)
        await close(stream)

    play(closed, CHAT, face, server)
    assert span_of(sdk_traces).attributes["itl.stream.outcome"] == "closed"


@traced
def test_a_stream_that_is_read_after_uninstrument_ends_its_span_itself(
    face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer
) -> None:
    async def uninstrumented(surface: Surface, client: Any) -> list[Any]:
        stream = await settled(surface.open(client))
        await pulled(stream)
        bare()
        ended = list(sdk_traces.spans)
        await taken(stream)
        await close(stream)
        return ended

    assert play(uninstrumented, CHAT, face, server) == []
    assert span_of(sdk_traces).attributes["itl.stream.outcome"] == "abandoned"


@traced
def test_the_span_of_the_last_attempt_is_the_one(
    face: Face, sdk_traces: CapturedTelemetry, server: ScriptedServer
) -> None:
    server.play(faults.status(503, "no"), mistral.reply(2))
    play(read, CHAT, face, server, max_retries=1)
    (attributes,) = [span.attributes for span in sdk_traces.spans if "itl.stream.outcome" in span.attributes]
    assert (attributes["itl.stream.outcome"], attributes["gen_ai.usage.output_tokens"]) == ("completed", 2)


@traced
def test_where_the_sdks_span_does_not_record_ours_is_current_while_the_request_is_sent(
    face: Face, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_SDK_TELEMETRY", "global")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF))
    sent_in: list[int] = []

    def note(_: Any) -> None:
        sent_in.append(trace.get_current_span().get_span_context().span_id)

    async def anote(request: Any) -> None:
        note(request)

    async def asked(surface: Surface, client: Any) -> None:
        client._http_client.event_hooks = {"request": [anote if face == "async" else note]}
        stream = await settled(surface.open(client))
        while await pulled(stream) is not END:
            sent_in.append(trace.get_current_span().get_span_context().span_id)

    with measured() as telemetry:
        play(asked, CHAT, face, server)
        # The newest releases make their span current themselves, recording or not.
        assert (sent_in[0] != 0, set(sent_in[1:])) == (True, {0})
        assert span_of(telemetry).attributes["itl.stream.outcome"] == "completed"


def test_without_a_tracer_of_the_sdks_our_span_is_current_while_the_request_is_sent(
    face: Face, server: ScriptedServer
) -> None:
    sent_in: list[int] = []

    def note(_: Any) -> None:
        sent_in.append(trace.get_current_span().get_span_context().span_id)

    async def anote(request: Any) -> None:
        note(request)

    async def asked(surface: Surface, client: Any) -> None:
        client._http_client.event_hooks = {"request": [anote if face == "async" else note]}
        await read(surface, client)

    with measured() as telemetry:
        play(asked, CHAT, face, server)
        assert sent_in == [span_of(telemetry).context.span_id]


def test_a_client_with_a_provider_of_its_own_has_its_span_there(face: Face, server: ScriptedServer) -> None:
    observability = pytest.importorskip("mistralai.extra.observability")
    if not hasattr(observability, "set_tracer_provider"):
        pytest.skip("this release of mistralai takes the global provider only")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def asked(surface: Surface, client: Any) -> None:
        observability.set_tracer_provider(client._part if face == "async" else client._client, provider)
        await read(surface, client)

    with measured() as telemetry:
        play(asked, CHAT, face, server)
        (span,) = exporter.get_finished_spans()
        assert ((span.attributes or {})["itl.stream.outcome"], telemetry.spans) == ("completed", [])


@traced
def test_a_span_that_the_sdk_exports_to_its_provider_does_not_take_the_place_of_ours(
    face: Face, server: ScriptedServer
) -> None:
    observability = pytest.importorskip("mistralai.extra.observability")
    if not hasattr(observability, "set_tracer_provider"):
        pytest.skip("this release of mistralai exports nothing itself")
    provider = TracerProvider(resource=Resource({"service.name": "mistralai_sdk"}))

    async def asked(surface: Surface, client: Any) -> None:
        observability.set_tracer_provider(client._part if face == "async" else client._client, provider)
        await read(surface, client)

    with measured() as telemetry:
        play(asked, CHAT, face, server)
        assert span_of(telemetry).name == "chat m"


# --- content ---------------------------------------------------------------------------------------------------------


def test_thoughts_and_tool_calls_are_told_from_the_answer(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    answer = [mistral.text_part("part"), chat.text("text")]
    calls = mistral.tool_calls(("f", "{}"), ("g", "{}"))
    last = mistral.finish("tool_calls", usage=mistral.usage_object(5))
    server.play(Script([mistral.role(), mistral.thinking("hm"), *answer, calls, last, mistral.done()]))

    if release() < (1, 10):
        pytest.skip("this release of mistralai has no reasoning")
    play(read, CHAT, face, server)
    assert kinds_of(telemetry) == [
        Kind.ROLE,
        Kind.REASONING,
        Kind.ANSWER,
        Kind.ANSWER,
        Kind.TOOL,
        Kind.FINISH | Kind.USAGE,
    ]
    assert span_of(telemetry).attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)


def test_the_events_of_a_conversation_are_told_apart(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(conversations.reply(1, thinking=1, tools=[("f", ["{", "}"])]))
    play(read, CONVERSATION, face, server)
    assert kinds_of(telemetry) == [
        Kind.LIFECYCLE,
        Kind.REASONING,
        Kind.ANSWER,
        Kind.TOOL,
        Kind.TOOL,
        Kind.FINISH | Kind.USAGE,
    ]


CONVERSATIONS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "start_stream": ({"agent_id": "a", "inputs": "hello"}, "invoke_agent"),
    "append_stream": ({"conversation_id": "c", "inputs": "hello"}, "chat"),
    "restart_stream": ({"conversation_id": "c", "from_entry_id": "e", "inputs": "hello"}, "chat"),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_way_to_continue_a_conversation_is_measured(
    name: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    asked, operation = CONVERSATIONS[name]

    async def continued(_: Surface, client: Any) -> None:
        await taken(await settled(getattr(client.beta.conversations, name)(**asked)))

    play(continued, CONVERSATION, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["gen_ai.operation.name"], attributes["itl.output_chunk.count"]) == (operation, 3)


def test_the_server_of_a_request_with_an_url_of_its_own_is_that_one(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def asked(_: Surface, client: Any) -> None:
        await taken(client.chat.stream(**PLAIN_CHAT, server_url=f"http://localhost:{server.port}"))

    play(asked, CHAT, "sync", server)
    assert span_of(telemetry).attributes["server.address"] == "localhost"


def test_parameters_have_the_names_of_the_conventions(server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    async def asked(_: Surface, client: Any) -> None:
        await taken(client.chat.stream(model="m", messages=QUESTION, random_seed=7, temperature=0.5, stop=["x"], n=1))

    play(asked, CHAT, "sync", server)
    names = ("seed", "temperature", "stop_sequences", "choice.count")
    attributes = span_of(telemetry).attributes
    assert [attributes[f"gen_ai.request.{name}"] for name in names] == [7, 0.5, ("x",), 1]


def test_a_request_that_does_not_stream_is_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    body = b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [],'
    body += b' "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}'
    server.play(Script(body=body))

    async def asked(_: Surface, client: Any) -> None:
        await settled(client.chat.complete(**PLAIN_CHAT))

    play(asked, CHAT, face, server)
    assert telemetry.spans == []


# --- abort -----------------------------------------------------------------------------------------------------------


def test_a_stream_can_be_aborted(face: Face, server: ScriptedServer) -> None:
    server.play(mistral.reply(3).cut(2) + faults.hold())

    async def scenario(surface: Surface, client: Any) -> str:
        try:
            await read(surface, client)
        except Exception as error:
            return type(error).__name__
        return "none"

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2))
        assert play(scenario, CHAT, face, server) == "ReadTimeout"
        assert span_of(telemetry).attributes["error.type"] == "ReadTimeout"


# --- odd events ------------------------------------------------------------------------------------------------------


def event(data: str, name: str = "") -> Step:
    named = f"event: {name}\n" if name else ""
    return faults.raw(f"{named}data: {data}\n\n".encode())


def delta(fields: str) -> Step:
    return event(f'{{"id": "1", "model": "m", "choices": [{{"index": 0, "delta": {fields}, "finish_reason": null}}]}}')


def message(fields: str) -> Step:
    return event(f'{{"type": "message.output.delta", "id": "1", {fields}}}', "message.output.delta")


ODD: Final = {
    "no choices": ("mistral", event('{"id": "1", "model": "m", "choices": []}')),
    "an empty object": ("mistral", event("{}")),
    "null": ("mistral", event("null")),
    "a list": ("mistral", event("[1]")),
    "a comment": ("mistral", faults.raw(b": ping\n\n")),
    "an event without data": ("mistral", faults.raw(b"event: x\n\n")),
    "a null delta": ("mistral", delta("null")),
    "an empty delta": ("mistral", delta("{}")),
    "null content": ("mistral", delta('{"content": null, "tool_calls": null}')),
    "an empty list": ("mistral", delta('{"content": []}')),
    "a part of unknown type": ("mistral", delta('{"content": [{"type": "new", "x": 1}]}')),
    "a part without type": ("mistral", delta('{"content": [{"x": 1}]}')),
    "a null part": ("mistral", delta('{"content": [null]}')),
    "an empty thought": ("mistral", delta('{"content": [{"type": "thinking", "thinking": []}]}')),
    "a number as content": ("mistral", delta('{"content": 5}')),
    "an empty tool call": ("mistral", delta('{"tool_calls": [{}]}')),
    "arguments that are an object": (
        "mistral",
        delta('{"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}'),
    ),
    "odd usage": ("mistral", event('{"id": "1", "model": "m", "choices": [], "usage": {"completion_tokens": -3}}')),
    "usage that is null": ("mistral", event('{"id": "1", "model": "m", "choices": [], "usage": null}')),
    "a huge index": (
        "mistral",
        event(
            '{"id": "1", "model": "m",'
            ' "choices": [{"index": 99999, "delta": {"content": "x"}, "finish_reason": "new"}]}'
        ),
    ),
    "an event of unknown type": ("conversations", event('{"type": "surprise", "x": 1}', "surprise")),
    "an event without type": ("conversations", event('{"x": 1}', "message.output.delta")),
    "a message without content": ("conversations", message('"model": "m"')),
    "a null message": ("conversations", message('"content": null')),
    "a message of unknown content": ("conversations", message('"content": {"type": "new"}')),
    "a tool that runs": (
        "conversations",
        event(
            '{"type": "tool.execution.started", "id": "1", "name": "web_search", "arguments": ""}',
            "tool.execution.started",
        ),
    ),
    "a call without arguments": (
        "conversations",
        event(
            '{"type": "function.call.delta", "id": "1", "name": "", "tool_call_id": "1", "arguments": ""}',
            "function.call.delta",
        ),
    ),
    "null usage": ("conversations", event('{"type": "conversation.response.done"}', "conversation.response.done")),
}
"""Name → wire format, and the event."""
REPLIES: Final = {"mistral": mistral.reply(2), "conversations": conversations.reply(2)}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_event_passes_and_the_stream_goes_on(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    wire, odd = ODD[case]
    script = pinned(REPLIES[wire].insert(1, odd))
    server.play(script, script)

    expected, seen, outcomes = play(
        bare_then_measured(shapes), CHAT if wire == "mistral" else CONVERSATION, "sync", server
    )
    assert (seen, outcomes) == (expected, ["error" if expected[-1].endswith("Error") else "completed"])


async def shapes(surface: Surface, client: Any) -> list[str]:
    async with surface.stream(client) as stream:
        return await shapes_of(stream, repr)


# --- hooks that wait for an import -----------------------------------------------------------------------------------

IMPORTED_LATER: Final = """
    import sys
    import otel_itl
    from otel_itl.testing import capture_telemetry

    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        assert "mistralai" not in sys.modules
        try:
            from mistralai.client import Mistral
        except ImportError:
            from mistralai import Mistral
        client = Mistral(api_key="none", server_url=sys.argv[1])
        list(client.chat.stream(model="m", messages=[{"role": "user", "content": "hello"}]))
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


def test_what_is_imported_after_instrument_is_measured(server: ScriptedServer) -> None:
    pytest.importorskip("mistralai")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(IMPORTED_LATER), server.url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["completed"], "")
