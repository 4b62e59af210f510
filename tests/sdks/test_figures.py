"""Figures that are easily wrong: of summarised reasoning, of filters' chunks, of several choices, of fetched responses.

Through the real SDKs, from what the services really send.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import aws
import pytest
from clients import play
from faces import END, Face, pulled, settled, taken
from given_time import timed
from measuring import measured, span_of, timeline_of
from surfaces import AZURE, CREATED, OTHER_STREAMS, SURFACES, Surface

from otel_itl.testing import (
    CapturedTelemetry,
    Script,
    ScriptedServer,
    Step,
    azure,
    bedrock,
    chat,
    completions,
    gemini,
    interactions,
    messages,
    responses,
    xai,
)

CREATE: Final = {surface.wire: surface for surface in CREATED if surface.sdk in {"openai", "anthropic"}}
OTHERS: Final = {surface.wire: surface for surface in reversed(OTHER_STREAMS)}
AZURE_CHAT: Final = next(surface for surface in SURFACES if surface.host is AZURE and surface.wire == "chat")
FETCHES: Final = {surface.wire: surface for surface in SURFACES if surface.operation == "fetch_response"}
TPOT: Final = "itl.time_per_output_token"
PER_CHUNK: Final = "itl.tokens_per_chunk"
ANSWER_ONLY: Final = "itl.pace.answer_only"
USAGE: Final = "gen_ai.usage.output_tokens"
REASONS: Final = "gen_ai.response.finish_reasons"
HIDDEN: Final = 3_000
GAP: Final = 0.02
QUICK: Final = GAP / 2
"""Between chunks of reasoning that come faster than the answer, and yet not in bursts."""


async def read(surface: Surface, client: Any) -> list[Any]:
    async with surface.stream(client) as stream:
        return await taken(stream)


def changed(step: Step, **members: Any) -> Step:
    """A step whose JSON has these members in place of its own, and those of them that are objects merged."""
    payload = json.loads(step.event.data)
    for name, value in members.items():
        payload[name] = {**payload[name], **value} if isinstance(payload.get(name), dict) else value
    return replace(step, event=replace(step.event, data=json.dumps(payload)))


# --- Reasoning that is not streamed --------------------------------------------------------------------------------


def openrouter(detail: dict[str, str]) -> Script:
    """Summarised reasoning as OpenRouter sends it, with an item beside the text."""
    thought = chat.delta(
        "reasoning", {"content": "", "reasoning": "x", "reasoning_details": [detail]}, tokens=1, after=QUICK
    )
    return chat.reply(6, hidden_reasoning=HIDDEN, first=0.05, gaps=GAP).insert(0, *[thought] * 3)


def compatible_gemini() -> Script:
    """Thoughts as Gemini sends them in OpenAI's format, which it does not count in the completion."""
    thought = chat.delta(
        "reasoning", {"content": "x", "extra_content": {"google": {"thought": True}}}, tokens=1, after=QUICK
    )
    *steps, _, done = chat.reply(6, first=0.05, gaps=GAP)
    counts = {"prompt_tokens": 10, "completion_tokens": 6, "total_tokens": 16 + HIDDEN}
    return Script([steps[0], *[thought] * 3, *steps[1:], chat.chunk("usage", usage=counts), done])


def databricks() -> Script:
    """Summarised reasoning as Databricks sends it, as a part of the content."""
    part = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x", "signature": ""}]}
    thought = chat.delta("reasoning", {"content": [part]}, tokens=1, after=QUICK)
    return chat.reply(6, hidden_reasoning=HIDDEN, first=0.05, gaps=GAP).insert(0, *[thought] * 3)


def rejected() -> Script:
    """An answer to a request with a predicted output, of which the model rejected most."""
    *steps, _, done = chat.reply(6, gaps=0.001)
    details = {"reasoning_tokens": 0, "accepted_prediction_tokens": 2, "rejected_prediction_tokens": 400}
    counts = {"prompt_tokens": 10, "completion_tokens": 406, "total_tokens": 416, "completion_tokens_details": details}
    return Script([*steps, chat.chunk("usage", usage=counts), done])


SUMMARISED: Final[dict[str, tuple[Surface, Script]]] = {
    "responses, a summary": (
        CREATE["responses"],
        responses.reply(6, reasoning_summary=5, hidden_reasoning=HIDDEN, first=0.05, gaps=[QUICK] * 4 + [GAP] * 6),
    ),
    "responses, hidden": (CREATE["responses"], responses.reply(6, hidden_reasoning=HIDDEN, first=0.05, gaps=GAP)),
    "chat, hidden": (CREATE["chat"], chat.reply(6, hidden_reasoning=HIDDEN, first=0.05, gaps=GAP)),
    "chat, a summary of which the format shows nothing": (
        CREATE["chat"],
        chat.reply(6, reasoning=5, hidden_reasoning=HIDDEN, first=0.05, gaps=[QUICK] * 4 + [GAP] * 6),
    ),
    "OpenRouter, a summary": (CREATE["chat"], openrouter({"type": "reasoning.summary", "summary": "x"})),
    "OpenRouter, encrypted": (CREATE["chat"], openrouter({"type": "reasoning.encrypted", "data": "x"})),
    "OpenRouter, of Claude": (
        CREATE["chat"],
        openrouter({"type": "reasoning.text", "text": "x", "format": "anthropic-claude-v1"}),
    ),
    "Databricks, a summary": (CREATE["chat"], databricks()),
    "Gemini in OpenAI's format": (CREATE["chat"], compatible_gemini()),
    "messages, a summary": (
        CREATE["messages"],
        messages.reply(6, thinking=5, hidden_thinking=HIDDEN, first=0.05, gaps=[QUICK] * 4 + [GAP] * 6),
    ),
    "messages, omitted": (CREATE["messages"], messages.reply(6, hidden_thinking=HIDDEN, first=0.05, gaps=GAP)),
    "gemini, a summary": (
        OTHERS["gemini"],
        gemini.reply(6, thoughts=5, hidden_thoughts=HIDDEN, first=0.05, gaps=[QUICK] * 4 + [GAP] * 6),
    ),
    "gemini, a summary, with counts in each chunk": (
        OTHERS["gemini"],
        gemini.reply(
            6,
            thoughts=5,
            hidden_thoughts=HIDDEN,
            first=0.05,
            gaps=[QUICK] * 4 + [GAP] * 6,
            continuous_usage=True,
        ),
    ),
    "gemini, hidden": (OTHERS["gemini"], gemini.reply(6, hidden_thoughts=HIDDEN, first=0.05, gaps=GAP)),
    "xai, a summary": (
        OTHERS["xai"],
        xai.reply(6, reasoning=5, hidden_reasoning=HIDDEN, first=0.05, gaps=[QUICK] * 4 + [GAP] * 6),
    ),
    "xai, hidden, with counts in each chunk": (
        OTHERS["xai"],
        xai.reply(6, hidden_reasoning=HIDDEN, first=0.05, gaps=GAP, continuous_usage=True),
    ),
}


@pytest.mark.parametrize("case", SUMMARISED)
def test_the_pace_is_that_of_the_answer_where_reasoning_is_not_streamed(case: str, face: Face) -> None:
    surface, script = SUMMARISED[case]
    recorded = timed(read, surface, face, script)
    attributes = recorded.attributes
    (point,) = recorded.metrics["itl.client.time_per_output_token"]
    assert (attributes[TPOT], point.raw.sum, attributes[PER_CHUNK], attributes[ANSWER_ONLY]) == (
        pytest.approx(GAP),
        pytest.approx(attributes[TPOT], abs=1e-6),
        1.0,
        True,
    )


COUNTED: Final = ["gemini, a summary, with counts in each chunk", "xai, hidden, with counts in each chunk"]


@pytest.mark.parametrize("case", COUNTED)
def test_tokens_of_hidden_reasoning_are_those_of_no_chunk(
    case: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    surface, script = SUMMARISED[case]
    server.play(script)
    play(read, surface, face, server)
    assert max(timeline_of(span_of(telemetry)).tokens) == 1


UNCOUNTED: Final[dict[str, tuple[Surface, Script]]] = {
    "chat, a rejected prediction": (CREATE["chat"], rejected()),
    "invoke_model, a summary by Claude": (
        OTHERS["invoke_model"],
        bedrock.invoked(messages.reply(6, thinking=5, hidden_thinking=HIDDEN, details=False, gaps=0.001)),
    ),
    "messages, a summary": (
        CREATE["messages"],
        messages.reply(6, thinking=5, hidden_thinking=HIDDEN, details=False, gaps=0.001),
    ),
    "messages, omitted": (CREATE["messages"], messages.reply(6, hidden_thinking=HIDDEN, details=False, gaps=0.001)),
    "converse, a summary": (OTHERS["converse"], bedrock.reply(6, reasoning=5, hidden_reasoning=HIDDEN, gaps=0.001)),
    "converse, a signature alone": (OTHERS["converse"], bedrock.reply(6, hidden_reasoning=HIDDEN, gaps=0.001)),
}


def skip_unless_known(case: str) -> None:
    """Skip a case of Bedrock's where the installed release drops the reasoning of a response."""
    if case.startswith("converse") and not aws.is_known("ContentBlockDelta", "reasoningContent"):
        pytest.skip("this release of botocore knows no reasoning")


@pytest.mark.parametrize("case", UNCOUNTED)
def test_reasoning_that_is_neither_streamed_nor_counted_apart_leaves_no_pace(case: str, face: Face) -> None:
    skip_unless_known(case)
    surface, script = UNCOUNTED[case]
    recorded = timed(read, surface, face, script)
    found = [recorded.attributes.get(name) for name in (TPOT, PER_CHUNK, ANSWER_ONLY)]
    assert (found, "itl.client.time_per_output_token" in recorded.metrics) == ([None, None, True], False)


WHOLE: Final[dict[str, tuple[Surface, Script]]] = {
    "responses": (CREATE["responses"], responses.reply(6, reasoning=6, first=0.02, gaps=GAP)),
    "chat": (CREATE["chat"], chat.reply(6, reasoning=6, first=0.02, gaps=GAP)),
    "messages of another model": (CREATE["messages"], messages.reply(6, thinking=6, first=0.02, gaps=GAP)),
    "converse of another model": (OTHERS["converse"], bedrock.reply(6, reasoning=6, first=0.02, gaps=GAP)),
    "xai": (OTHERS["xai"], xai.reply(6, reasoning=6, first=0.02, gaps=GAP)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_reasoning_that_is_streamed_itself_is_in_the_pace(case: str, face: Face) -> None:
    skip_unless_known(case)
    surface, script = WHOLE[case]
    attributes = timed(read, surface, face, script).attributes
    found = (attributes.get(ANSWER_ONLY), attributes[TPOT], attributes[PER_CHUNK])
    assert found == (None, pytest.approx(GAP), 1.0)


def test_the_only_claude_that_streams_its_thinking_itself_has_it_in_the_pace(face: Face) -> None:
    script = messages.reply(6, thinking=6, first=0.02, gaps=GAP)
    start, *rest = script.insert(6, messages.withheld())
    named = changed(start, message={"model": "claude-3-7-sonnet-20250219"})
    attributes = timed(read, CREATE["messages"], face, Script([named, *rest])).attributes
    assert (attributes.get(ANSWER_ONLY), attributes[PER_CHUNK]) == (None, 1.0)


def test_a_claude_whose_signature_was_stripped_is_known_by_its_name(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    start, *rest = messages.reply(6, thinking=5)
    server.play(Script([changed(start, message={"model": "claude-sonnet-4-5"}), *rest]))
    play(read, CREATE["messages"], face, server)
    assert timeline_of(span_of(telemetry)).is_reasoning_partial


# --- What counts as output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "output"),
    [
        ({"completion_tokens": 9, "total_tokens": 19, "completion_tokens_details": {"reasoning_tokens": 4}}, 9),
        ({"completion_tokens": 9, "total_tokens": 23, "completion_tokens_details": {"reasoning_tokens": 4}}, 13),  # xAI
        ({"completion_tokens": 9, "total_tokens": 19, "reasoning_tokens": 70}, 79),  # Perplexity
        ({"completion_tokens": 9, "total_tokens": 99}, 9),
        ({"completion_tokens": 9}, 9),
    ],
)
def test_output_tokens_include_reasoning(
    counts: dict[str, Any], output: int, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    usage = chat.chunk("usage", usage={"prompt_tokens": 10, **counts})
    server.play(Script([*chat.reply(3, usage=False)[:-1], usage, chat.done()]))
    play(read, CREATE["chat"], face, server)
    assert span_of(telemetry).attributes[USAGE] == output


# --- The first chunk, and the last, decide nothing -----------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_azure_s_response_has_its_id_and_model(
    asynchronous: bool, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(azure.reply(5, asynchronous=asynchronous))
    chunks = play(read, AZURE_CHAT, face, server)
    attributes = span_of(telemetry).attributes
    named = next(chunk for chunk in chunks if chunk.id)
    assert (attributes["gen_ai.response.id"], attributes["gen_ai.response.model"], chunks[0].id) == (
        named.id,
        named.model,
        "",
    )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_azure_s_filter_sends_is_no_output(
    asynchronous: bool, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(azure.reply(5, asynchronous=asynchronous))
    play(read, AZURE_CHAT, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes["itl.output_chunk.count"], attributes[REASONS], attributes["itl.stream.outcome"]) == (
        5,
        ("stop",),
        "completed",
    )


def test_an_answer_that_azure_s_filter_cuts_off_has_that_finish_reason(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    blocked = azure.annotation(0, 9, finish_reason="content_filter")
    server.play(Script([*azure.reply(5, asynchronous=True).cut(4), blocked, azure.done()]))
    play(read, AZURE_CHAT, face, server)
    assert span_of(telemetry).attributes[REASONS] == ("content_filter",)


def test_an_annotation_before_the_first_chunk_of_the_answer_hides_neither_id_nor_model(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    first, *rest = azure.reply(2)
    server.play(Script([first, azure.annotation(), *rest]))
    play(read, AZURE_CHAT, face, server)
    assert {"gen_ai.response.id", "gen_ai.response.model"} <= set(span_of(telemetry).attributes)


LATE: Final[dict[str, tuple[Surface, Script]]] = {
    "chat, in the usage alone": (
        CREATE["chat"],
        Script(
            step if step.event.kind in {"usage", "done"} else changed(step, id="", model="") for step in chat.reply(3)
        ),
    ),
    "gemini, in the second chunk": (
        OTHERS["gemini"],
        Script(
            [
                changed(step, responseId="", modelVersion="") if not at else step
                for at, step in enumerate(gemini.reply(3))
            ]
        ),
    ),
    "responses, in a later event of the lifecycle": (CREATE["responses"], responses.reply(3)[1:-1]),
    "xai, in the second chunk": (
        OTHERS["xai"],
        Script([changed(xai.text("x"), id="", model=""), *xai.reply(3)]),
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_id_and_model_are_found_wherever_they_are(
    case: str, face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    surface, script = LATE[case]
    server.play(script)
    play(read, surface, face, server)
    assert {"gen_ai.response.id", "gen_ai.response.model"} <= set(span_of(telemetry).attributes)


def test_a_usage_in_the_first_and_the_last_chunk_alone_counts_no_tokens_of_the_last(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    usage = chat.usage_object
    server.play(
        Script(
            [
                chat.delta("role", {"role": "assistant", "content": "a"}, usage=usage(1)),
                *(chat.text(text) for text in "bcd"),
                chat.delta("answer", {"content": "e"}, finish_reason="stop", usage=usage(500)),
                chat.done(),
            ]
        )
    )
    play(read, CREATE["chat"], face, server)
    assert max(timeline_of(span_of(telemetry)).tokens) == 1


def test_a_usage_behind_azure_s_first_chunk_is_that_of_each_chunk(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(Script([azure.prompt_results(), *chat.reply(4, continuous_usage=True)]))
    play(read, AZURE_CHAT, face, server)
    timeline = timeline_of(span_of(telemetry))
    assert [tokens for tokens, kind in zip(timeline.tokens, timeline.kinds, strict=True) if kind & 7] == [1, 1, 1, 1]


# --- Responses that are fetched again ------------------------------------------------------------------------------


def resume(client: Any, response_id: str = "", after: int | None = 4) -> Any:
    """Fetch a response, by default one that no test has fetched, from behind an event of it or from its start."""
    response_id = response_id or f"resp_{uuid4().hex}"
    where = {} if after is None else {"starting_after": after}
    return client.responses.retrieve(response_id, stream=True, **where)


RESUME: Final = replace(FETCHES["responses"], open=resume, needs="responses.retrieve(starting_after)")
TAIL: Final = responses.reply(40, gaps=0.001, background=True)[-20:]


def test_a_resumed_response_has_no_pace(face: Face) -> None:
    recorded = timed(read, RESUME, face, TAIL)
    found = [recorded.attributes.get(name) for name in (TPOT, PER_CHUNK, "itl.token_count.source")]
    assert (found, "itl.client.time_per_output_token" in recorded.metrics) == ([None, None, "chunk"], False)


def test_a_resumed_response_reports_the_usage_that_no_other_stream_has(face: Face) -> None:
    recorded = timed(read, RESUME, face, TAIL)
    counted = {
        point.attributes["gen_ai.token.type"]: point.raw.sum for point in recorded.metrics["gen_ai.client.token.usage"]
    }
    assert (recorded.attributes[USAGE], counted) == (40, {"input": 10, "output": 40})


async def begin_and_fetch(surface: Surface, client: Any, *afters: int | None, read_all: bool) -> None:
    """Begin a response in the background and read it to its end or not, then fetch it again after these events."""
    stream = await settled(client.responses.create(model="m", input="hello", stream=True, background=True))
    event = await pulled(stream)
    response_id = event.response.id
    while read_all and event is not END:
        event = await pulled(stream)
    if not read_all:
        await settled(stream.close())
    for after in afters:
        await taken(await settled(resume(client, response_id, after)))


@pytest.mark.parametrize(
    ("read_all", "afters", "expected"),
    [
        (True, (4,), [40, None]),
        (True, (None,), [40, None]),
        (False, (4,), [None, 40]),
        (False, (0,), [None, 40]),
        (False, (None,), [None, 40]),
        (False, (4, 4, None), [None, 40, None, None]),
    ],
)
def test_the_usage_of_a_background_response_is_reported_once(
    read_all: bool, afters: tuple[int | None, ...], expected: list[int | None], face: Face, server: ScriptedServer
) -> None:
    async def scenario(surface: Surface, client: Any) -> None:
        await begin_and_fetch(surface, client, *afters, read_all=read_all)

    whole = responses.reply(40, background=True)
    server.play(whole, *[whole[-20:]] * len(afters))
    with measured() as telemetry:
        play(scenario, RESUME, face, server)
        spans, points = telemetry.spans, telemetry.metrics["gen_ai.client.token.usage"]
    by_time = sorted(spans, key=lambda span: span.start_time)
    reported = sum(point.raw.sum for point in points if point.attributes["gen_ai.token.type"] == "output")
    assert ([span.attributes.get(USAGE) for span in by_time], reported) == (expected, 40)


def test_a_response_of_another_process_that_is_fetched_from_its_start_reports_no_usage(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    server.play(responses.reply(4, background=True))
    play(read, FETCHES["responses"], face, server)
    assert USAGE not in span_of(telemetry).attributes


def test_an_interaction_that_goes_on_reports_its_usage_and_has_no_pace(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    surface = replace(
        FETCHES["interactions"],
        open=lambda client: client.interactions.get(id=uuid4().hex, stream=True, last_event_id="evt_3"),
        needs="interactions.get(last_event_id)",
    )
    server.play(interactions.reply(30)[-10:])
    play(read, surface, face, server)
    attributes = span_of(telemetry).attributes
    assert (attributes[USAGE], attributes.get(TPOT), attributes.get(PER_CHUNK)) == (30, None, None)


# --- Several choices in a chunk ------------------------------------------------------------------------------------


def test_tokens_belong_to_the_choice_that_has_them(face: Face) -> None:
    script = chat.reply(8, choices=2, join_choices=True, logprobs=True, first=0.05, gaps=GAP)
    recorded = timed(read, CREATE["chat"], face, script)
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (recorded.attributes["itl.latency.p50"], point.count, recorded.attributes["itl.output_chunk.count"]) == (
        pytest.approx(GAP),
        14,
        8,
    )


def test_a_choice_that_goes_on_alone_has_the_gaps_of_its_own_chunks(face: Face) -> None:
    both = chat.reply(4, choices=2, join_choices=True, logprobs=True, first=0.05, gaps=GAP)
    alone = [chat.text("x", logprobs=["x"], index=1, after=GAP) for _ in range(4)]
    script = Script([*both.cut(4), *alone, chat.finish(index=1), chat.finish(index=0), chat.done()])
    recorded = timed(read, CREATE["chat"], face, script)
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (point.count, recorded.attributes["itl.latency.p50"]) == (3 + 7, pytest.approx(GAP))


def test_a_usage_beside_each_choice_is_not_that_of_all(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    counted = [(0, 1), (1, 1), (0, 2), (1, 2), (1, 3), (0, 3), (1, 9)]
    steps = [
        chat.delta("answer", {"content": "x"}, index=index, usage=chat.usage_object(count)) for index, count in counted
    ]
    server.play(Script(steps), Script([*steps, chat.finish(), chat.finish(index=1), chat.usage(12), chat.done()]))
    for _ in range(2):
        play(read, CREATE["chat"], face, server)
    by_time = sorted(telemetry.spans, key=lambda span: span.start_time)
    assert [span.attributes.get(USAGE) for span in by_time] == [None, 12]
    assert [max(timeline_of(span).tokens, default=0) <= 1 for span in by_time] == [True, True]


def test_chunks_of_several_choices_are_in_no_burst(face: Face) -> None:
    script = chat.reply(8, choices=3, join_choices=True, first=0.05, gaps=GAP)
    attributes = timed(read, CREATE["chat"], face, script).attributes
    assert (attributes["itl.burst.ratio"], attributes["itl.burst.buffered"]) == (0.0, False)


def test_several_outputs_of_xai_in_a_chunk_have_gaps_of_their_own(face: Face) -> None:
    def joined(*steps: Step) -> Step:
        payloads = [json.loads(step.event.data) for step in steps]
        outputs = [output for payload in payloads for output in payload["outputs"]]
        return replace(steps[0], event=replace(steps[0].event, data=json.dumps({**payloads[0], "outputs": outputs})))

    steps = [joined(*[xai.text("x", index=index, after=GAP) for index in range(2)]) for _ in range(6)]
    script = Script([*steps, xai.finish(index=0), xai.finish(index=1)])
    recorded = timed(read, OTHERS["xai"], face, script)
    (point,) = recorded.metrics["itl.client.inter_token_latency"]
    assert (point.count, recorded.attributes["itl.latency.p50"]) == (10, pytest.approx(GAP))


def test_finish_reasons_are_in_the_order_of_the_choices(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    texts = [chat.text("x", index=index) for index in (2, 0, 1)]
    ends = [chat.finish(reason, index=index) for reason, index in (("length", 2), ("stop", 0), ("content_filter", 1))]
    server.play(Script([*texts, *ends, chat.done()]))
    play(read, CREATE["chat"], face, server)
    assert span_of(telemetry).attributes[REASONS] == ("stop", "content_filter", "length")


def test_finish_reasons_of_gemini_s_candidates_are_in_their_order(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    ends = [gemini.finish(reason, index=index) for reason, index in (("MAX_TOKENS", 1), ("STOP", 0))]
    server.play(Script([gemini.text("x"), gemini.text("x", index=1), *ends]))
    play(read, OTHERS["gemini"], face, server)
    assert span_of(telemetry).attributes[REASONS] == ("stop", "max_tokens")


def test_finish_reasons_of_text_completions_are_in_the_order_of_the_choices(
    face: Face, server: ScriptedServer, telemetry: CapturedTelemetry
) -> None:
    surface = next(one for one in SURFACES if one.sdk == "openai" and one.wire == "completions")
    ends = [completions.finish(reason, index=index) for reason, index in (("length", 1), ("stop", 0))]
    server.play(Script([completions.text("x"), completions.text("x", index=1), *ends, completions.done()]))
    play(read, surface, face, server)
    assert span_of(telemetry).attributes[REASONS] == ("stop", "length")
