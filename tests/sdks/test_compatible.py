"""What is particular to the SDKs that stream OpenAI's wire format: tested with their own clients."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any, Final

import pytest
from clients import play, sdk_of
from faces import Face, close, drop, pulled, run, settled, taken
from measuring import wait_for_a_span
from surfaces import CREATED, FIREWORKS, GROQ, PLAIN_CHAT, TOGETHER, Surface

from otel_itl.sdks.registry import REGISTRY
from otel_itl.testing import CapturedTelemetry, Script, ScriptedServer, chat

CREATE: Final = {surface.host: surface for surface in CREATED}
USAGE: Final = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}


async def read(surface: Surface, client: Any) -> None:
    async with surface.stream(client) as stream:
        await taken(stream)


def test_the_usage_that_groq_sends_in_a_field_of_its_own_is_on_the_span(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    last = chat.chunk("finish", [choice], x_groq={"id": "req_1", "usage": USAGE})
    server.play(Script([chat.role(), chat.text("Hi"), last, chat.done()]))
    play(read, CREATE[GROQ], face, server)
    (span,) = telemetry.spans
    assert {name: value for name, value in span.attributes.items() if ".usage." in name} == {
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
    }


def test_the_server_of_together_is_the_host_of_the_url_that_the_sdk_chooses(
    face: Face, telemetry: CapturedTelemetry
) -> None:
    sdk: Any = sdk_of(TOGETHER)
    http = sys.modules["httpx"]
    asked = []

    def answer(request: Any) -> Any:
        asked.append(request.url.host)
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=b"data: [DONE]\n\n")

    async def scenario() -> None:
        is_async = face == "async"
        http_client = (http.AsyncClient if is_async else http.Client)(transport=http.MockTransport(answer))
        client = (sdk.AsyncTogether if is_async else sdk.Together)(api_key="none", http_client=http_client)
        await read(CREATE[TOGETHER], client)

    run(face, scenario())
    (span,) = telemetry.spans
    assert ([span.attributes["server.address"]], span.attributes["gen_ai.provider.name"]) == (asked, "together_ai")


# --- fireworks: its async client goes through aiohttp ----------------------------------------------------------------


async def exhaust(stream: Any) -> None:
    await taken(stream)


async def leave_early(stream: Any) -> None:
    await pulled(stream)
    await close(stream)


async def abandon(stream: Any) -> None:
    await pulled(stream)


@pytest.mark.usefixtures("brisk_sweeper")
@pytest.mark.parametrize(
    ("act", "outcome", "chunks"), [(exhaust, "completed", 6), (leave_early, "closed", 1), (abandon, "abandoned", 1)]
)
def test_a_stream_over_aiohttp_is_recorded(
    act: Any, outcome: str, chunks: int, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(3))

    async def scenario() -> None:
        options = {"api_key": "none", "base_url": server.url, "max_retries": 0, "timeout": 5.0}
        async with sdk_of(FIREWORKS).AsyncFireworks(**options) as client:
            stream = await settled(client.chat.completions.create(**PLAIN_CHAT, stream=True))
            await act(stream)
            del stream
            await drop()
            await wait_for_a_span(telemetry)

    run("async", scenario())
    assert [
        (span.attributes["itl.stream.outcome"], span.attributes["itl.chunk.count"]) for span in telemetry.spans
    ] == [(outcome, chunks)]


# --- hooks that wait for an import -----------------------------------------------------------------------------------

IMPORTED_LATER: Final = """
    import sys
    from importlib import import_module
    import otel_itl
    from otel_itl.testing import capture_telemetry

    package, client, url = sys.argv[1:]
    with capture_telemetry() as telemetry:
        otel_itl.instrument(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
        assert package not in sys.modules
        options = {"warm_tcp_connection": False} if client == "Cerebras" else {}
        made = getattr(import_module(package), client)(api_key="none", base_url=url, max_retries=0, **options)
        list(made.chat.completions.create(model="m", messages=[], stream=True))
        print(*(span.attributes["itl.stream.outcome"] for span in telemetry.spans))
"""


@pytest.mark.parametrize("sdk", sorted({surface.sdk for surface in CREATED if surface.wire == "chat"}))
def test_an_sdk_that_is_imported_after_instrument_is_measured(sdk: str, server: ScriptedServer) -> None:
    (surface,) = [surface for surface in CREATED if surface.sdk == sdk and surface.wire == "chat"]
    sdk_of(surface.host)
    url = server.openai_url if sdk == "openai" else server.url
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(IMPORTED_LATER), REGISTRY[sdk].package, surface.host.client, url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("completed\n", "")
