"""What is particular to ollama: its generators, the server's own figures, reasoning, tools, images, odd lines."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from clients import play, sdk_of
from faces import END, Face, close, pulled, settled, taken
from measuring import bare, instrument, measured, measured_by, span_of, timeline_of
from odd_chunks import bare_then_measured
from opentelemetry import trace
from surfaces import OLLAMA, QUESTION, SURFACES, Surface

from otel_itl import StallPolicy
from otel_itl.core.timeline import Kind
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, Step, faults, ollama

CHAT, GENERATE = (surface for surface in SURFACES if surface.host is OLLAMA)


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def kinds_of(telemetry: CapturedTelemetry) -> list[Kind]:
    return list(map(Kind, timeline_of(span_of(telemetry)).kinds))


# --- when the request is sent ----------------------------------------------------------------------------------------


def test_a_request_begins_with_the_first_pull(face: Face, server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> int:
        stream = await settled(surface.open(client))
        assert server.exchanges == []
        time.sleep(0.05)  # noqa: ASYNC251 - its caller has other work
        pulled_ns = time.time_ns()
        await taken(stream)
        return pulled_ns

    with measured() as telemetry:
        pulled_ns = play(scenario, CHAT, face, server)
        assert span_of(telemetry).start_time >= pulled_ns - 1_000_000
        assert span_of(telemetry).attributes["itl.consumer.duration"] < 0.05


def test_a_generator_that_is_never_pulled_is_no_record(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        await close(await settled(surface.open(client)))

    play(scenario, CHAT, face, server)
    assert (telemetry.spans, server.exchanges) == ([], [])


def test_the_span_of_the_request_is_current_while_it_is_sent_and_in_no_code_of_the_caller(
    face: Face, server: ScriptedServer
) -> None:
    sent_in = []

    def current() -> int:
        return trace.get_current_span().get_span_context().span_id

    async def scenario(surface: Surface, client: Any) -> list[int]:
        send = client._client.send

        def sending(*args: Any, **kwargs: Any) -> Any:
            sent_in.append(current())
            return send(*args, **kwargs)

        client._client.send = sending
        stream = await settled(surface.open(client))
        seen = []
        while await pulled(stream) is not END:
            seen.append(current())
        return seen

    with measured() as telemetry:
        assert play(scenario, CHAT, face, server) == [0] * 4
        assert sent_in == [span_of(telemetry).context.span_id]


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_the_options_are_the_parameters_of_the_request(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        options = sdk_of(OLLAMA).Options(num_predict=7, temperature=0.5, top_k=3, seed=2, stop=["x"])
        await taken(await settled(client.chat(model="m", messages=QUESTION, options=options, stream=True)))

    play(scenario, CHAT, face, server)
    attributes = span_of(telemetry).attributes
    names = ("max_tokens", "temperature", "top_k", "seed", "stop_sequences")
    assert [attributes[f"gen_ai.request.{name}"] for name in names] == [7, 0.5, 3, 2, ("x",)]


def test_the_session_may_be_named_by_the_headers_of_the_client(server: ScriptedServer) -> None:
    bare()
    with measured_by() as telemetry:
        bare()
        instrument(telemetry, session_from=lambda body, headers: f"{body['model']}-{headers['x-session']}")
        play(read, CHAT, "sync", server, headers={"x-session": "s1"})
        assert span_of(telemetry).attributes["session.id"] == "m-s1"


def test_a_client_that_was_made_before_is_measured(face: Face, server: ScriptedServer) -> None:
    async def scenario(surface: Surface, client: Any) -> int:
        with measured() as telemetry:
            await read(surface, client)
            return len(telemetry.spans)

    bare()
    assert play(scenario, CHAT, face, server) == 1


def test_calls_that_do_not_stream_tokens_are_not_recorded(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    body = b'{"model": "m", "message": {"role": "assistant", "content": "x"}, "done": true}'
    server.play(Script(body=body), Script(status=404, body=b'{"error": "no"}'))

    async def scenario(surface: Surface, client: Any) -> None:
        await settled(client.chat(model="m", messages=QUESTION))
        with pytest.raises(sdk_of(OLLAMA).ResponseError):
            await taken(await settled(client.pull("m", stream=True)))

    play(scenario, CHAT, face, server)
    assert telemetry.spans == []


# --- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("surface", "script"), [(CHAT, ollama.reply), (GENERATE, ollama.generate_reply)], ids=["chat", "generate"]
)
def test_the_servers_own_durations_are_on_the_span_in_seconds(
    surface: Surface, script: Callable[..., Script], face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(script(2))
    play(read, surface, face, server)
    durations = {name: value for name, value in span_of(telemetry).attributes.items() if "itl.server." in name}
    assert durations == {
        "itl.server.total_duration": 0.06,
        "itl.server.load_duration": 0.01,
        "itl.server.prompt_duration": 0.02,
        "itl.server.decode_duration": 0.03,
    }


def test_durations_that_the_server_does_not_report_are_absent(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    last = ollama.figures(1, load=None, prompt_time=None) | {"total_duration": None}
    server.play(Script([ollama.text("x"), ollama.finish(figures=last)]))
    play(read, CHAT, "sync", server)
    names = [name for name in span_of(telemetry).attributes if "itl.server." in name]
    assert names == ["itl.server.decode_duration"]


def test_reasoning_and_tools_are_distinguished_from_the_answer(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    if "thinking" not in sdk_of(OLLAMA).Message.model_fields:
        pytest.skip("this release of ollama drops reasoning")
    server.play(ollama.reply(1, thinking=2, tools=[("f", ["{}"])]))
    play(read, CHAT, face, server)
    assert kinds_of(telemetry) == [
        Kind.REASONING,
        Kind.REASONING,
        Kind.ANSWER,
        Kind.TOOL,
        Kind.FINISH | Kind.USAGE,
    ]


def test_the_log_probabilities_of_a_line_count_its_tokens(server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    if "logprobs" not in sdk_of(OLLAMA).ChatResponse.model_fields:
        pytest.skip("this release of ollama drops log probabilities")
    two = {"logprobs": [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -1.0}]}
    server.play(Script([ollama.text("ab", tokens=2, members=two), ollama.finish(figures=ollama.figures(2))]))
    play(read, CHAT, "sync", server)
    assert list(timeline_of(span_of(telemetry)).tokens) == [2, 0]


def test_the_progress_of_an_image_is_no_output_and_the_image_is(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    if "image" not in sdk_of(OLLAMA).GenerateResponse.model_fields:
        pytest.skip("this release of ollama makes no images")
    lines = ['"completed": 1, "total": 2, "done": false', '"image": "aW1n", "done": true, "done_reason": "stop"']
    server.play(Script(line("{" + f'"model": "m", "created_at": "", {text}' + "}") for text in lines))
    play(read, GENERATE, "sync", server)
    assert kinds_of(telemetry) == [Kind.LIFECYCLE, Kind.ANSWER | Kind.FINISH]


def test_the_last_line_ends_a_stream_also_without_a_reason(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script([ollama.text("x"), ollama.finish(None)]))
    play(read, CHAT, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.stream.outcome"], attributes.get("gen_ai.response.finish_reasons")) == ("completed", None)


def test_an_aborted_stream_raises_the_timeout_error_of_its_http_client(face: Face, server: ScriptedServer) -> None:
    server.play(ollama.reply(3).cut(2) + faults.hold())

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
        assert play(scenario, CHAT, face, server) == ("ReadTimeout", True)
        assert span_of(telemetry).attributes["error.type"] == "ReadTimeout"


# --- odd lines -------------------------------------------------------------------------------------------------------


def line(text: str) -> Step:
    return faults.raw(f"{text}\n".encode())


ODD: Final = {
    "an empty object": line("{}"),
    "a null message": line('{"message": null}'),
    "a message without content": line('{"message": {"role": "assistant"}}'),
    "null content": line('{"message": {"role": "assistant", "content": null}}'),
    "no tool calls": line('{"message": {"role": "assistant", "content": "x", "tool_calls": []}}'),
    "an unknown field": line('{"message": {"role": "assistant", "content": "x"}, "surprise": {"a": [1]}}'),
    "null figures": line('{"message": {"role": "assistant"}, "done": false, "eval_count": null}'),
    "negative figures": line('{"message": {"role": "assistant"}, "done": true, "eval_count": -1, "eval_duration": -5}'),
    "huge figures": line(
        '{"message": {"role": "assistant"}, "done": true, "eval_count": 9999999999999999999999, "load_duration": 9e99}'
    ),
    "a reason that is no text": line('{"message": {"role": "assistant"}, "done": true, "done_reason": 7}'),
    "no object": line("[1]"),
    "a null": line("null"),
    "an empty line": line(""),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_line_passes_or_fails_as_it_does_without(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    script = ollama.reply(2).insert(1, ODD[case])
    server.play(script, script)

    expected, seen, outcomes = play(bare_then_measured(), CHAT, "sync", server)
    assert (seen, outcomes) == (expected, ["completed" if expected[-1] == "ChatResponse" else "error"])


# --- the functions of the module -------------------------------------------------------------------------------------

IMPORTED_LATER: Final = """
    import sys
    import otel_itl
    from otel_itl.testing import capture_telemetry

    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        assert "ollama" not in sys.modules
        from ollama import chat, generate
        list(chat(model="m", messages=[{"role": "user", "content": "hello"}], stream=True))
        list(generate(model="m", prompt="hello", stream=True))
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


def test_the_functions_of_the_module_are_measured(server: ScriptedServer) -> None:
    sdk_of(OLLAMA)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(IMPORTED_LATER)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=dict(os.environ, OLLAMA_HOST=server.url),
    )
    assert (done.stdout.split(), done.stderr) == (["completed", "completed"], "")


LEFT_AT_THE_END: Final = """
    import asyncio
    import otel_itl
    from otel_itl.testing import capture_telemetry

    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        from ollama import AsyncClient

        async def main():
            question = [{"role": "user", "content": "hello"}]
            async for _ in await AsyncClient().chat(model="m", messages=question, stream=True):
                break

        asyncio.run(main())
        telemetry.tracer_provider.force_flush()
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


def test_a_stream_that_is_left_right_before_the_event_loop_ends_is_abandoned(server: ScriptedServer) -> None:
    """The loop cancels the task in which it would have closed the generator; before Python 3.13 asyncio complains."""
    sdk_of(OLLAMA)
    server.always(ollama.reply(3, gaps=0.02))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(LEFT_AT_THE_END)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=dict(os.environ, OLLAMA_HOST=server.url),
    )
    assert done.stdout.split() == ["abandoned"]
