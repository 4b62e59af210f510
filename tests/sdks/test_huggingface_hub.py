"""What is particular to huggingface_hub: generated text with and without details, its clients, odd lines."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any, Final

import pytest
from clients import play
from faces import END, Face, close, drop, pulled, settled, taken
from measuring import bare, instrument, measured_by, span_of, timeline_of, wait_for_a_span
from odd_chunks import bare_then_measured, shapes_of
from opentelemetry import trace
from surfaces import HUGGING_FACE, PLAIN_CHAT, SURFACES, Surface

from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, chat, faults, text_generation

ROWS: Final = {surface.call: surface for surface in SURFACES if surface.host is HUGGING_FACE}
CHAT: Final = ROWS["chat_completion(stream=True)"]
GENERATION: Final = ROWS["text_generation(stream=True, details=True)"]


async def read(surface: Surface, client: Any) -> list[Any]:
    return await taken(await settled(surface.open(client)))


async def read_text(_: Surface, client: Any) -> list[Any]:
    """Read generated text without details: the texts of the tokens."""
    url = f"{client.origin}/generate_stream"
    return await taken(await settled(client.text_generation("hello", model=url, stream=True)))


def kinds_and_tokens(telemetry: CapturedTelemetry) -> list[tuple[Kind, int]]:
    timeline = timeline_of(span_of(telemetry))
    return list(zip(map(Kind, timeline.kinds), timeline.tokens or [0] * len(timeline.kinds), strict=True))


# --- content ---------------------------------------------------------------------------------------------------------


def test_each_event_of_generated_text_is_a_token_and_the_last_has_the_details(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(text_generation.reply(2))
    play(read, GENERATION, face, server)
    assert kinds_and_tokens(telemetry) == [(Kind.ANSWER, 1), (Kind.ANSWER, 1), (Kind.FINISH | Kind.USAGE, 0)]


def test_plain_text_has_finish_reason_and_usage_of_the_last_line(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(text_generation.reply(["one ", "two"], finish_reason="length"))
    assert play(read_text, GENERATION, face, server) == ["one ", "two", "</s>"]
    names = ("itl.stream.outcome", "gen_ai.response.finish_reasons", "gen_ai.usage.output_tokens")
    attributes = span_of(telemetry).attributes
    assert [attributes[name] for name in names] == ["completed", ("length",), 3]


def test_plain_text_that_ends_early_is_truncated(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(text_generation.reply(3).cut(2))
    play(read_text, GENERATION, face, server)
    assert span_of(telemetry).attributes["itl.stream.outcome"] == "truncated"


def test_text_without_details_is_whole_with_its_whole_text(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(text_generation.reply(3, details=False))
    play(read_text, GENERATION, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.stream.outcome"], "gen_ai.usage.output_tokens" in attributes) == ("completed", False)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_and_tool_calls_are_told_from_the_answer(
    field: Any, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(1, reasoning=1, reasoning_field=field, tools=[("f", ["{}"])], usage=False))

    async def asked(surface: Surface, client: Any) -> None:
        chunks = await read(surface, client)
        if not hasattr(chunks[1].choices[0].delta, field):
            pytest.skip(f"this release of huggingface_hub has no {field}")

    play(asked, CHAT, face, server)
    kinds = [kind for kind, _ in kinds_and_tokens(telemetry)]
    assert kinds == [Kind.ROLE, Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.TOOL, Kind.FINISH]


# --- the request -----------------------------------------------------------------------------------------------------


def test_parameters_of_generated_text_have_the_names_of_the_conventions(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def asked(_: Surface, client: Any) -> None:
        parameters = {"max_new_tokens": 9, "temperature": 0.5, "top_k": 3, "seed": 7, "stop": ["x"]}
        url = f"{client.origin}/generate_stream"
        await taken(client.text_generation("hello", model=url, stream=True, **parameters))

    play(asked, GENERATION, "sync", server)
    names = ("max_tokens", "temperature", "top_k", "seed", "stop_sequences")
    attributes = span_of(telemetry).attributes
    assert [attributes[f"gen_ai.request.{name}"] for name in names] == [9, 0.5, 3, 7, ("x",)]


def test_a_request_that_does_not_stream_is_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script(body=b'{"id": "1", "choices": [], "created": 1, "model": "m", "usage": {}}'))

    async def asked(_: Surface, client: Any) -> None:
        await settled(client.chat_completion(**PLAIN_CHAT))

    play(asked, CHAT, face, server)
    assert telemetry.spans == []


def test_our_span_is_current_in_no_code_of_the_caller(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def asked(surface: Surface, client: Any) -> list[int]:
        stream = await settled(surface.open(client))
        seen = [trace.get_current_span().get_span_context().span_id]
        while await pulled(stream) is not END:
            seen.append(trace.get_current_span().get_span_context().span_id)
        return seen

    assert set(play(asked, CHAT, face, server)) == {0}


def test_an_error_of_the_server_has_the_name_that_the_sdk_gives_it(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(text_generation.reply(2).cut(1) + text_generation.error())

    async def asked(surface: Surface, client: Any) -> None:
        with pytest.raises(Exception, match="overloaded"):
            await read(surface, client)

    play(asked, GENERATION, face, server)
    assert span_of(telemetry).attributes["error.type"] == "OverloadedError"


# --- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brisk_sweeper")
@pytest.mark.parametrize("surface", [CHAT, GENERATION], ids=str)
def test_a_stream_that_is_left_while_the_client_stays_open_is_recorded(
    surface: Surface, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def left(surface: Surface, client: Any) -> int:
        stream = await settled(surface.open(client))
        await pulled(stream)
        await close(stream)
        del stream
        await drop()
        await wait_for_a_span(telemetry)
        return len(telemetry.spans)

    assert play(left, surface, face, server) == 1


def test_a_stream_can_be_aborted(face: Face, server: ScriptedServer) -> None:
    server.play(chat.reply(3).cut(2) + faults.hold())

    async def scenario(surface: Surface, client: Any) -> bool:
        try:
            await read(surface, client)
        except Exception as error:
            return "The stream was aborted after" in str(error)
        return False

    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, stall=StallPolicy(next_token=0.1, first_token=2.0, abort_after=0.2))
        assert play(scenario, CHAT, face, server)
        assert span_of(telemetry).attributes["error.type"] in {"ReadTimeout", "ServerTimeoutError"}


# --- odd lines -------------------------------------------------------------------------------------------------------


def line(data: str) -> Step:
    return faults.raw(f"data: {data}\n\n".encode())


def delta(fields: str) -> Step:
    return line(f'{{"id": "1", "choices": [{{"index": 0, "delta": {fields}, "finish_reason": null}}]}}')


ODD: Final = {
    "an empty object": ("chat", line("{}")),
    "null choices": ("chat", line('{"choices": null}')),
    "choices of another type": ("chat", line('{"choices": "many"}')),
    "an empty choice": ("chat", line('{"choices": [{}]}')),
    "a null delta": ("chat", delta("null")),
    "a delta of another type": ("chat", delta('"x"')),
    "content of another type": ("chat", delta('{"content": 5}')),
    "content in parts": ("chat", delta('{"content": [{"type": "thinking", "thinking": "x"}]}')),
    "tool calls that are null": ("chat", delta('{"tool_calls": null}')),
    "one tool call": ("chat", delta('{"tool_calls": {"function": {"name": "f", "arguments": "{}"}}}')),
    "an unknown field": ("chat", delta('{"content": "x", "new": {"a": 1}}')),
    "odd usage": ("chat", line('{"choices": [], "usage": {"completion_tokens": -1, "prompt_tokens": "3"}}')),
    "a comment": ("chat", faults.raw(b": ping\n\n")),
    "a named event": ("chat", faults.raw(b"event: x\nid: 1\n\n")),
    "no token": ("text_generation", line('{"generated_text": null}')),
    "a null token": ("text_generation", line('{"token": null}')),
    "a token without text": ("text_generation", line('{"token": {"id": 1}}')),
    "text of another type": ("text_generation", line('{"token": {"text": 5}}')),
    "details of another type": ("text_generation", line('{"token": {"text": "x"}, "details": "many"}')),
    "details without counts": ("text_generation", line('{"token": {"text": "x"}, "details": {"finish_reason": 3}}')),
}
"""Name → wire format, and the line."""
REPLIES: Final = {"chat": chat.reply(2), "text_generation": text_generation.reply(2)}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_line_passes_and_the_stream_goes_on(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    wire, odd = ODD[case]
    script = REPLIES[wire].insert(1, odd)
    server.play(script, script)

    expected, seen, outcomes = play(bare_then_measured(shapes), CHAT if wire == "chat" else GENERATION, "sync", server)
    assert (seen, outcomes) == (expected, ["error" if expected[-1].endswith("Error") else "completed"])


async def shapes(surface: Surface, client: Any) -> list[str]:
    return await shapes_of(await settled(surface.open(client)))


# --- hooks that wait for an import -----------------------------------------------------------------------------------

IMPORTED_LATER: Final = """
    import sys
    import otel_itl
    from otel_itl.testing import capture_telemetry

    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        assert "huggingface_hub" not in sys.modules
        from huggingface_hub import InferenceClient
        client = InferenceClient(base_url=f"{sys.argv[1]}/v1", api_key="none")
        messages = [{"role": "user", "content": "hello"}]
        list(client.chat.completions.create(model="m", messages=messages, stream=True))
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


def test_what_is_imported_after_instrument_is_measured(server: ScriptedServer) -> None:
    pytest.importorskip("huggingface_hub")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(IMPORTED_LATER), server.url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["completed"], "")
