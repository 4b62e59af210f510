"""Tests of an application that streams, with real sockets and without a model: run them with pytest.

The scripted server plays what you want when you want it; the telemetry that comes of it is captured in memory.
"""
# ruff: noqa: PLR2004, S101 - numbers and assertions are what tests are made of

from collections.abc import Iterator

import openai
import pytest

import otel_itl
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat

# --- the application ------------------------------------------------------------------------------------------------

APOLOGY = " ... sorry, there is no more."


def answer(client: openai.OpenAI, question: str) -> str:
    """Return the text of the answer, as far as it came."""
    text = ""
    try:
        for chunk in client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": question}], stream=True
        ):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
    except openai.APIError:
        text += APOLOGY
    return text


# --- its tests ------------------------------------------------------------------------------------------------------


@pytest.fixture
def telemetry() -> Iterator[CapturedTelemetry]:
    """Everything that is emitted in one test."""
    with capture_telemetry() as captured:
        otel_itl.instrument(tracer_provider=captured.tracer_provider, meter_provider=captured.meter_provider)
        yield captured
        otel_itl.uninstrument()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Run a server on a free port of this machine."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[openai.OpenAI]:
    """Make a real client, pointed at the scripted server."""
    with openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0) as made:
        yield made


def test_an_answer_is_one_request(server: ScriptedServer, client: openai.OpenAI, telemetry: CapturedTelemetry) -> None:
    """Nothing is asked twice."""
    server.play(chat.reply(["Hel", "lo", "!"], first=0.05, gaps=0.02))
    assert answer(client, "Say hello") == "Hello!"
    assert [span.name for span in telemetry.spans] == ["chat gpt-4o-mini"]


def test_a_model_that_gives_up_leaves_what_had_come(
    server: ScriptedServer, client: openai.OpenAI, telemetry: CapturedTelemetry
) -> None:
    """The user sees the beginning of the answer, the trace says why there is no more."""
    server.play(chat.reply(["Hel", "lo", "!"]).cut(2) + chat.error("Overloaded"))
    assert answer(client, "Say hello") == "Hello" + APOLOGY
    assert [span.attributes["itl.stream.outcome"] for span in telemetry.spans if span.attributes] == ["error"]


def test_a_model_that_hesitates_shows_in_the_longest_gap(
    server: ScriptedServer, client: openai.OpenAI, telemetry: CapturedTelemetry
) -> None:
    """The pause is the model's, and is measured as such."""
    server.play(chat.reply(5, gaps=[0.01, 0.2, 0.01, 0.01]))
    answer(client, "Say five words")
    (point,) = telemetry.metrics["itl.client.inter_token_latency"]
    assert point.count == 4
    assert point.raw.max >= 0.19
