"""What chunks carry, as the SDKs pass it on: which are tokens, and how many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import anthropic
import openai
import pytest
from clients import play
from faces import Face, taken
from given_time import timed
from measuring import bare, measured, span_of, timeline_of
from surfaces import CREATED, Surface

from otel_itl.core.arrivals import find_arrivals
from otel_itl.core.timeline import OUTPUT, Kind
from otel_itl.sdks.provider_hosts import provider_of
from otel_itl.testing import CapturedTelemetry, Event, Script, ScriptedServer, Step, chat, messages, responses

R, A, T = Kind.REASONING, Kind.ANSWER, Kind.TOOL
ROLE, EMPTY, LIFE, PING, FINISH, USAGE = (
    Kind.ROLE,
    Kind.EMPTY,
    Kind.LIFECYCLE,
    Kind.PING,
    Kind.FINISH,
    Kind.USAGE,
)
CREATE: Final = {surface.wire: surface for surface in CREATED if surface.sdk in {"openai", "anthropic"}}
"""`create(stream=True)` by wire format, of the SDKs of those who made it."""

WEATHER: Final = [("weather", ['{"city":', '"Ulm"}'])]
FUNCTION: Final = {"function_call": {"name": "weather", "arguments": ""}}
ARGUMENTS: Final = {"function_call": {"arguments": '{"city":"Ulm"}'}}
CUSTOM: Final = {"tool_calls": [{"index": 0, "id": "call_0", "type": "custom", "custom": {"name": "sh", "input": ""}}]}
CUSTOM_INPUT: Final = {"tool_calls": [{"index": 0, "custom": {"input": "ls"}}]}
AUDIO: Final = {"audio": {"id": "audio_1", "transcript": "hello"}}

END: Final = [FINISH, USAGE]
ITEM: Final = [LIFE, LIFE]
ITEM_END: Final = [LIFE, LIFE, LIFE]
RESPONSE_END: Final = [FINISH | USAGE]
MESSAGE_END: Final = [FINISH | USAGE, FINISH]

CONTENT: Final[dict[str, tuple[str, Script, list[Kind]]]] = {
    "chat text": ("chat", chat.reply(2), [ROLE, A, A, *END]),
    "chat reasoning_content": ("chat", chat.reply(1, reasoning=2), [ROLE, R, R, A, *END]),
    "chat reasoning": ("chat", chat.reply(1, reasoning=2, reasoning_field="reasoning"), [ROLE, R, R, A, *END]),
    "chat tool call": ("chat", chat.reply(0, tools=WEATHER), [ROLE, T, T, T, *END]),
    "chat text before a tool call": ("chat", chat.reply(1, tools=WEATHER), [ROLE, A, T, T, T, *END]),
    "chat function call": (
        "chat",
        Script([chat.role(), chat.delta("tool", FUNCTION), chat.delta("tool", ARGUMENTS), chat.finish(), chat.done()]),
        [ROLE, T, T, FINISH],
    ),
    "chat custom tool": (
        "chat",
        Script([chat.role(), chat.delta("tool", CUSTOM), chat.delta("tool", CUSTOM_INPUT), chat.finish(), chat.done()]),
        [ROLE, T, T, FINISH],
    ),
    "chat audio": (
        "chat",
        Script([chat.role(), chat.delta("answer", AUDIO), chat.finish(), chat.done()]),
        [ROLE, A, FINISH],
    ),
    "chat refusal": ("chat", chat.reply(2, refuse=True), [ROLE, A, A, *END]),
    "chat without output": (
        "chat",
        Script([chat.role(), chat.empty(), chat.no_choices(), chat.ping(), chat.finish(), chat.usage(0), chat.done()]),
        [ROLE, EMPTY, EMPTY, *END],
    ),
    "chat text in the last chunk": (
        "chat",
        Script([chat.role(), chat.delta("answer", {"content": "x"}, finish_reason="stop"), chat.done()]),
        [ROLE, A | FINISH],
    ),
    "chat continuous usage": (
        "chat",
        chat.reply(2, continuous_usage=True),
        [ROLE | USAGE, A, A, FINISH | USAGE, USAGE],
    ),
    "responses text": (
        "responses",
        responses.reply(2),
        [LIFE, LIFE, *ITEM, A, A, *ITEM_END, *RESPONSE_END],
    ),
    "responses reasoning text": (
        "responses",
        responses.reply(1, reasoning=2),
        [LIFE, LIFE, *ITEM, R, R, *ITEM_END, *ITEM, A, *ITEM_END, *RESPONSE_END],
    ),
    "responses reasoning summary": (
        "responses",
        responses.reply(1, reasoning_summary=2),
        [LIFE, LIFE, *ITEM, R, R, *ITEM_END, *ITEM, A, *ITEM_END, *RESPONSE_END],
    ),
    "responses function call": (
        "responses",
        responses.reply(0, tools=WEATHER),
        [LIFE, LIFE, T, T, T, LIFE, LIFE, *RESPONSE_END],
    ),
    "responses refusal": (
        "responses",
        responses.reply(2, refuse=True),
        [LIFE, LIFE, *ITEM, A, A, *ITEM_END, *RESPONSE_END],
    ),
    "responses keep-alive": (
        "responses",
        Script([responses.created(), responses.event("ping", "keepalive"), responses.completed()]),
        [LIFE, PING, FINISH],
    ),
    "messages text": (
        "messages",
        messages.reply(2),
        [LIFE, LIFE, A, A, LIFE, *MESSAGE_END],
    ),
    "messages thinking": (
        "messages",
        messages.reply(1, thinking=2),
        [LIFE, LIFE, R, R, LIFE, LIFE, LIFE, A, LIFE, *MESSAGE_END],
    ),
    "messages tool use": (
        "messages",
        messages.reply(0, tools=WEATHER),
        [LIFE, T, T, T, LIFE, *MESSAGE_END],
    ),
    "messages pings and empty deltas": (
        "messages",
        Script([messages.start(), messages.ping(), messages.empty(), messages.ping(), messages.stop()]),
        [LIFE, PING, EMPTY, PING, FINISH],
    ),
}  # fmt: skip
"""What is streamed, by wire format, and what each chunk of it carries."""

SILENT: Final = [case for case, (_, _, kinds) in CONTENT.items() if not any(kind & OUTPUT for kind in kinds)]


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


@pytest.mark.parametrize("case", CONTENT)
@pytest.mark.requirement("R31", "R33")
def test_each_chunk_has_the_kind_of_what_it_carries(
    case: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    wire, script, kinds = CONTENT[case]
    server.play(script)
    play(read, CREATE[wire], face, server)
    assert [Kind(kind) for kind in timeline_of(span_of(telemetry)).kinds] == kinds


@pytest.mark.parametrize("case", CONTENT)
@pytest.mark.requirement("R31", "R32", "R33")
def test_the_first_token_is_the_first_chunk_that_carries_output(case: str) -> None:
    wire, script, kinds = CONTENT[case]
    slowed = Script(replace(step, delay=0.003) for step in script)
    recorded = timed(read, CREATE[wire], "sync", slowed)
    arrived = find_arrivals(recorded.timeline).latest
    outputs = [index for index, kind in enumerate(kinds) if kind & OUTPUT]
    answers = [index for index, kind in enumerate(kinds) if kind & (A | T)]
    expected = {
        "gen_ai.response.time_to_first_chunk": arrived[0] / 1e9,
        **({"itl.time_to_first_token": arrived[outputs[0]] / 1e9} if outputs else {}),
        **({"itl.time_to_first_answer_token": arrived[answers[0]] / 1e9} if answers else {}),
    }
    actual = {name: value for name, value in recorded.attributes.items() if ".time_to_first_" in name}
    assert actual == expected


LATE_ANSWERS: Final = {
    "chat": chat.reply(1, reasoning=1, first=0.05, gaps=0.05),
    "responses": responses.reply(1, reasoning=1, first=0.05, gaps=0.05),
    "messages": messages.reply(1, thinking=1, first=0.05, gaps=0.05),
}


@pytest.mark.parametrize("wire", LATE_ANSWERS)
@pytest.mark.requirement("R31", "R32")
def test_first_chunk_first_token_and_first_answer_token_have_times_of_their_own(wire: str, face: Face) -> None:
    recorded = timed(read, CREATE[wire], face, LATE_ANSWERS[wire])
    found = {name: value for name, value in recorded.attributes.items() if ".time_to_first_" in name}
    assert found == {
        "gen_ai.response.time_to_first_chunk": 0.0,
        "itl.time_to_first_token": pytest.approx(0.05),
        "itl.time_to_first_answer_token": pytest.approx(0.1),
    }


def test_a_reply_that_only_reasons_has_no_first_answer_token(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(0, reasoning=2))
    play(read, CREATE["chat"], face, server)
    assert "itl.time_to_first_answer_token" not in span_of(telemetry).attributes


@pytest.mark.parametrize("case", SILENT)
@pytest.mark.requirement("R31", "R41")
def test_a_reply_without_output_has_no_time_to_first_token(
    case: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    wire, script, _ = CONTENT[case]
    server.play(script)
    play(read, CREATE[wire], face, server)
    assert "itl.client.time_to_first_token" not in telemetry.metrics


# --- tokens ----------------------------------------------------------------------------------------------------------

PACKED: Final = {
    "logprobs": Script(
        [
            chat.role(),
            chat.text("a", logprobs=["a"]),
            chat.text("bcd", logprobs=["b", "c", "d"], after=0.03),
            chat.text("ef", logprobs=["e", "f"], after=0.03),
            chat.finish(),
            chat.done(),
        ]
    ),
    "continuous usage": Script(
        [
            chat.delta("role", {"role": "assistant"}, usage=chat.usage_object(0)),
            chat.delta("answer", {"content": "a"}, usage=chat.usage_object(1)),
            chat.delta("answer", {"content": "bcd"}, usage=chat.usage_object(4), after=0.03),
            chat.delta("answer", {"content": "ef"}, usage=chat.usage_object(6), after=0.03),
            chat.finish(),
            chat.done(),
        ]
    ),
    "logprobs of responses": Script(
        [
            responses.created(),
            responses.text("a", logprobs=["a"]),
            responses.text("bcd", logprobs=["b", "c", "d"], after=0.03),
            responses.text("ef", logprobs=["e", "f"], after=0.03),
            responses.completed(),
        ]
    ),
}
"""Chunks of one, three and two tokens by the provider's count."""

packed = pytest.mark.parametrize("case", PACKED)


def wire_of(case: str) -> str:
    return "responses" if case.endswith("responses") else "chat"


@packed
@pytest.mark.requirement("R36")
def test_the_tokens_of_a_chunk_are_those_that_the_provider_counts(
    case: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(PACKED[case])
    play(read, CREATE[wire_of(case)], face, server)
    timeline = timeline_of(span_of(telemetry))
    assert [
        count for count, kind in zip(timeline.tokens, timeline.kinds, strict=True) if kind & OUTPUT
    ] == [1, 3, 2]  # fmt: skip


@packed
@pytest.mark.requirement("R36")
def test_a_gap_before_n_tokens_is_n_samples(case: str, face: Face) -> None:
    recorded = timed(read, CREATE[wire_of(case)], face, PACKED[case])
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (point.count, point.raw.sum) == (3 + 2, pytest.approx(0.06))


@pytest.mark.requirement("R36")
def test_without_counts_a_gap_is_one_sample(face: Face) -> None:
    recorded = timed(read, CREATE["chat"], face, chat.reply(3, first=0.01, gaps=0.01, usage=False))
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (point.count, recorded.attributes["itl.token_count.source"]) == (2, "chunk")


@pytest.mark.requirement("R36")
def test_without_counts_there_is_no_time_per_output_token(face: Face) -> None:
    recorded = timed(read, CREATE["chat"], face, chat.reply(3, first=0.01, gaps=0.01, usage=False))
    assert "itl.time_per_output_token" not in recorded.attributes


@pytest.mark.requirement("R39")
def test_the_gaps_of_two_choices_are_taken_within_each(face: Face) -> None:
    # Taking turns every 20 ms, each choice has a token every 40 ms.
    recorded = timed(read, CREATE["chat"], face, chat.reply(4, choices=2, first=0.02, gaps=0.02))
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (point.count, recorded.attributes["itl.latency.p50"]) == (2 * 3, pytest.approx(0.04))


@pytest.mark.requirement("R39")
def test_two_choices_have_two_finish_reasons(face: Face, server: ScriptedServer, telemetry: CapturedTelemetry) -> None:
    server.play(chat.reply(2, choices=2))
    play(read, CREATE["chat"], face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["gen_ai.response.finish_reasons"], attributes["itl.stream.outcome"]) == (
        ("stop", "stop"),
        "completed",
    )


# --- odd chunks ------------------------------------------------------------------------------------------------------


def _chat_event(data: str) -> Step:
    return Step(0.0, Event("raw", data, wire="chat"))


def _named_event(name: str, data: str) -> Step:
    return Step(0.0, Event("raw", data, name=name))


ODD: Final[dict[str, tuple[str, Step]]] = {
    "no choices": ("chat", _chat_event('{"id": "c", "choices": []}')),
    "null choices": ("chat", _chat_event('{"id": "c", "choices": null}')),
    "choices missing": ("chat", _chat_event('{"id": "c"}')),
    "an empty choice": ("chat", _chat_event('{"choices": [{}]}')),
    "index missing": ("chat", _chat_event('{"choices": [{"delta": {"content": "x"}}]}')),
    "null index": ("chat", _chat_event('{"choices": [{"index": null, "delta": {"content": "x"}}]}')),
    "index as text": ("chat", _chat_event('{"choices": [{"index": "0", "delta": {"content": "x"}}]}')),
    "delta missing": ("chat", _chat_event('{"choices": [{"index": 0, "finish_reason": null}]}')),
    "null delta": ("chat", _chat_event('{"choices": [{"index": 0, "delta": null}]}')),
    "delta as text": ("chat", _chat_event('{"choices": [{"index": 0, "delta": "x"}]}')),
    "choices as an object": ("chat", _chat_event('{"choices": {"0": {}}}')),
    "choices of numbers": ("chat", _chat_event('{"choices": [1, null, "x"]}')),
    "null tool calls": ("chat", _chat_event('{"choices": [{"index": 0, "delta": {"tool_calls": null}}]}')),
    "tool calls of nulls": ("chat", _chat_event('{"choices": [{"index": 0, "delta": {"tool_calls": [null]}}]}')),
    "usage as text": ("chat", _chat_event('{"choices": [], "usage": "3 tokens"}')),
    "usage of texts": ("chat", _chat_event('{"choices": [], "usage": {"completion_tokens": "3"}}')),
    "negative usage": ("chat", _chat_event('{"choices": [], "usage": {"completion_tokens": -3}}')),
    "logprobs as a list": ("chat", _chat_event('{"choices": [{"index": 0, "delta": {}, "logprobs": [1]}]}')),
    "a huge index": ("chat", _chat_event('{"choices": [{"index": 99999, "delta": {"content": "x"}}]}')),
    "an empty object": ("chat", _chat_event("{}")),
    "an unknown response event": ("responses", _named_event("response.new", '{"type": "response.new", "delta": 1}')),
    "an unknown event": ("responses", _named_event("surprise", '{"type": "surprise"}')),
    "a response event without type": ("responses", _named_event("response.new", '{"delta": "x"}')),
    "a delta that is no text": (
        "responses",
        _named_event("response.output_text.delta", '{"type": "response.output_text.delta", "delta": {"a": 1}}'),
    ),
    "an item without type": (
        "responses",
        _named_event("response.output_item.added", '{"type": "response.output_item.added", "item": null}'),
    ),
    "an unknown message event": ("messages", _named_event("surprise", '{"type": "surprise"}')),
    "an unknown delta": (
        "messages",
        _named_event(
            "content_block_delta", '{"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "x": 1}}'
        ),
    ),
    "a null message delta": (
        "messages",
        _named_event("content_block_delta", '{"type": "content_block_delta", "index": 0, "delta": null}'),
    ),
    "an unknown block": (
        "messages",
        _named_event(
            "content_block_start", '{"type": "content_block_start", "index": 0, "content_block": {"type": "new"}}'
        ),
    ),
    "a block without type": (
        "messages",
        _named_event("content_block_start", '{"type": "content_block_start", "index": 0, "content_block": {}}'),
    ),
    "a message end without delta": ("messages", _named_event("message_delta", '{"type": "message_delta"}')),
    "a message start without message": ("messages", _named_event("message_start", '{"type": "message_start"}')),
}  # fmt: skip
REPLIES: Final = {"chat": chat.reply(2), "responses": responses.reply(2), "messages": messages.reply(2)}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.requirement("R15")
def test_an_odd_chunk_passes_and_the_stream_goes_on(case: str, server: ScriptedServer) -> None:
    """`measured` checks that nothing failed inside."""
    wire, odd = ODD[case]
    script = REPLIES[wire].insert(1, odd)
    server.play(script, script)

    async def bare_then_measured(surface: Surface, client: Any) -> tuple[int, int, list[str]]:
        bare()
        expected = await read(surface, client)
        with measured() as telemetry:
            seen = await read(surface, client)
            return len(expected), len(seen), [span.attributes["itl.stream.outcome"] for span in telemetry.spans]

    expected, seen, outcomes = play(bare_then_measured, CREATE[wire], "sync", server)
    assert (seen, outcomes) == (expected, ["completed"])


# --- providers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("unit.openai.azure.com", "azure.ai.openai"),
        ("unit.cognitiveservices.azure.com", "azure.ai.openai"),
        ("unit.services.ai.azure.com", "azure.ai.inference"),
        ("api.groq.com", "groq"),
        ("api.deepseek.com", "deepseek"),
        ("api.mistral.ai", "mistral_ai"),
        ("api.perplexity.ai", "perplexity"),
        ("api.x.ai", "x_ai"),
        ("api.together.ai", "together_ai"),
        ("api.fireworks.ai", "fireworks_ai"),
        ("api.cerebras.ai", "cerebras"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "aws.bedrock"),
        ("API.OpenAI.com", "openai"),
        ("notapi.openai.com.example.org", "the SDK's own"),
        ("myapi.openai.com", "the SDK's own"),
        ("127.0.0.1", "the SDK's own"),
        (None, "the SDK's own"),
    ],
)
def test_the_provider_follows_the_host(host: str | None, provider: str) -> None:
    assert provider_of(host, "the SDK's own") == provider


def test_the_provider_of_a_copied_client_follows_its_own_base_url(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        await read(surface, client.with_options(base_url=f"http://api.deepseek.com:{server.port}/v1"))

    play(scenario, CREATE["chat"], face, server)
    assert span_of(telemetry).attributes["gen_ai.provider.name"] == "deepseek"


def test_the_provider_of_an_unknown_host_follows_the_class_of_an_azure_client(
    server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    http_client = openai.DefaultHttpxClient(verify=False)
    azure = {"azure_endpoint": server.url, "api_version": "2024-06-01", "api_key": "none", "http_client": http_client}
    with openai.AzureOpenAI(**azure) as client:
        list(client.chat.completions.create(model="m", messages=[], stream=True))
    assert span_of(telemetry).attributes["gen_ai.provider.name"] == "azure.ai.openai"


@pytest.mark.parametrize(
    ("cloud", "provider"), [("BaseBedrockClient", "aws.bedrock"), ("BaseVertexClient", "gcp.vertex_ai")]
)
def test_the_provider_of_an_unknown_host_follows_the_class_of_an_anthropic_cloud_client(
    cloud: str, provider: str, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    # The genuine clients need the package of the cloud; the provider is derived from the name of their base class.
    client = type("Client", (type(cloud, (anthropic.Anthropic,), {}),), {})(
        base_url=server.anthropic_url, api_key="none", http_client=anthropic.DefaultHttpxClient(verify=False)
    )
    with client:
        list(client.messages.create(model="m", max_tokens=9, messages=[], stream=True))
    assert span_of(telemetry).attributes["gen_ai.provider.name"] == provider
