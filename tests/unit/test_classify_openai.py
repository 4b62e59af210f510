"""What the chunks of the openai SDK carry: as its own objects, as dicts, and in every odd shape that servers send."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletionChunk

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.openai_chat import classify_chat, classify_text_completion
from otel_itl.sdks.formats.openai_responses import classify_response_event

REASONING, ANSWER, TOOL, ROLE = Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.ROLE
EMPTY, LIFECYCLE, PING, FINISH, USAGE = Kind.EMPTY, Kind.LIFECYCLE, Kind.PING, Kind.FINISH, Kind.USAGE
Form = Callable[[Any, Mapping[str, Any]], Any]


def as_dict(model: Any, data: Mapping[str, Any]) -> Any:
    """A chunk as other libraries pass it on."""
    return data


def constructed(model: Any, data: Mapping[str, Any]) -> Any:
    """A chunk as the SDK makes it of what came over the wire, whatever that was."""
    if isinstance(model, str):
        events = pytest.importorskip("openai.types.responses", reason="this openai has no responses")
        model = getattr(events, model, None) or pytest.skip(f"this openai has no {model}")
    return model.construct(**data)


def validated(model: Any, data: Mapping[str, Any]) -> Any:
    """A chunk as the SDK's own types want it."""
    return model.model_validate(data)


FORMS = [as_dict, constructed, validated]
LOOSE = [as_dict, constructed]


def parts(code: int) -> tuple[Kind, int, int]:
    """Kind, tokens and choice that a code stands for."""
    return Kind(code & 0xFF), code >> 8 & 0xFFFFFF, code >> 32


def test_a_signature_in_what_litellm_sends_shows_a_summary() -> None:
    info = ResponseInfo()
    shown = []
    for signature in ("", "E" * 300):
        block = {"type": "thinking", "thinking": "", "signature": signature}
        classify_chat(chat({"content": "", "thinking_blocks": [block]}), info)
        shown.append(info.is_reasoning_partial)
    assert shown == [False, True]


# --- Chat completions ----------------------------------------------------------------------------------------------


def chat(
    delta: Any = None, *, finish: Any = None, index: Any = 0, logprobs: Any = None, **fields: Any
) -> dict[str, Any]:
    """A chunk of chat completions with one choice."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish, "logprobs": logprobs}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-1",
        "choices": [choice],
        **fields,
    }


def call(**function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


def logged(*tokens: str, field: str = "content") -> dict[str, Any]:
    entries = [{"token": token, "logprob": -0.1, "bytes": None, "top_logprobs": []} for token in tokens]
    return {"content": None, "refusal": None, field: entries}


FINAL_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 14,
    "total_tokens": 34,
    "completion_tokens_details": {"reasoning_tokens": 3},
    "prompt_tokens_details": {"cached_tokens": 8},
}
CHAT: dict[str, tuple[dict[str, Any], Kind, int, int]] = {
    "role": (chat({"role": "assistant", "content": ""}), ROLE, 0, 0),
    "role without content": (chat({"role": "assistant", "content": None}), ROLE, 0, 0),
    "content": (chat({"content": "Hi"}), ANSWER, 0, 0),
    "role and content": (chat({"role": "assistant", "content": "Hi"}), ANSWER, 0, 0),
    "blank content": (chat({"content": " "}), ANSWER, 0, 0),
    "empty content": (chat({"content": ""}), EMPTY, 0, 0),
    "no delta": (chat({}), EMPTY, 0, 0),
    "refusal": (chat({"refusal": "No"}), ANSWER, 0, 0),
    "reasoning_content": (chat({"reasoning_content": "Hm"}), REASONING, 0, 0),
    "reasoning": (chat({"reasoning": "Hm"}), REASONING, 0, 0),
    "role and reasoning": (chat({"role": "assistant", "content": "", "reasoning_content": "Hm"}), REASONING, 0, 0),
    "empty reasoning": (chat({"reasoning_content": ""}), EMPTY, 0, 0),
    "reasoning details alone": (
        chat({"reasoning_details": [{"type": "reasoning.summary", "summary": "x"}]}),
        REASONING,
        0,
        0,
    ),
    "odd reasoning details": (
        chat({"content": "Hi", "reasoning_details": [None, {"type": [1], "format": 7}]}),
        ANSWER,
        0,
        0,
    ),
    "odd thinking blocks": (chat({"content": "Hi", "thinking_blocks": {"signature": "x" * 500}}), ANSWER, 0, 0),
    "a thought of Gemini's": (chat({"content": "x", "extra_content": {"google": {"thought": True}}}), REASONING, 0, 0),
    "other extra content": (
        chat({"content": "x", "extra_content": {"google": {"thought_signature": "s"}}}),
        ANSWER,
        0,
        0,
    ),
    "odd extra content": (chat({"content": "x", "extra_content": [1]}), ANSWER, 0, 0),
    "reasoning and content": (chat({"reasoning_content": "Hm", "content": "Hi"}), REASONING | ANSWER, 0, 0),
    "content and tool call": (chat({"content": "Hi", **call(name="f")}), ANSWER | TOOL, 0, 0),
    "tool name": (chat(call(name="f", arguments="")), TOOL, 0, 0),
    "tool arguments": (chat(call(arguments='{"a"')), TOOL, 0, 0),
    "tool call without either": (chat(call(name=None, arguments="")), EMPTY, 0, 0),
    "function call": (chat({"function_call": {"name": "f", "arguments": ""}}), TOOL, 0, 0),
    "function arguments": (chat({"function_call": {"arguments": "{}"}}), TOOL, 0, 0),
    "finish": (chat({}, finish="stop"), FINISH, 0, 0),
    "content and finish": (chat({"content": "Hi"}, finish="stop"), ANSWER | FINISH, 0, 0),
    "tool arguments and finish": (chat(call(arguments="{}"), finish="tool_calls"), TOOL | FINISH, 0, 0),
    "second choice": (chat({"content": "Hi"}, index=1), ANSWER, 0, 1),
    "finish of the third choice": (chat({}, finish="stop", index=2), FINISH, 0, 2),
    "logprobs": (chat({"content": "Hi all"}, logprobs=logged("Hi", " all")), ANSWER, 2, 0),
    "logprobs of a refusal": (chat({"refusal": "No"}, logprobs=logged("No", field="refusal")), ANSWER, 1, 0),
    "logprobs of a second choice": (chat({"content": "Hi"}, index=1, logprobs=logged("Hi")), ANSWER, 1, 1),
    "logprobs without output": (chat({}, finish="stop", logprobs=logged("x")), FINISH, 0, 0),
    "usage": (chat(choices=[], usage=FINAL_USAGE), USAGE, 0, 0),
    "usage with finish": (chat({}, finish="stop", usage=FINAL_USAGE), FINISH | USAGE, 0, 0),
    "no usage": (chat({"content": "Hi"}, usage=None), ANSWER, 0, 0),
    "no choices": (chat(choices=[]), EMPTY, 0, 0),
}


def known() -> ResponseInfo:
    """The metadata of a response after its first chunk."""
    info = ResponseInfo()
    info.response_id = "chatcmpl-1"
    return info


@pytest.mark.requirement("R31")
@pytest.mark.requirement("R33")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", [ResponseInfo, known])
@pytest.mark.parametrize(
    ("data", "kind", "tokens", "choice"), [pytest.param(*row, id=name) for name, row in CHAT.items()]
)
def test_a_chat_chunk_carries(
    form: Form, before: Callable[[], ResponseInfo], data: dict[str, Any], kind: Kind, tokens: int, choice: int
) -> None:
    assert parts(classify_chat(form(ChatCompletionChunk, data), before())) == (kind, tokens, choice)


@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize(
    ("delta", "kind"),
    [
        ({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "f", "input": ""}}]}, TOOL),
        ({"tool_calls": [{"index": 0, "type": "custom", "custom": {"input": "x"}}]}, TOOL),
        ({"tool_calls": [{"type": "function", "function": {"name": "f"}}]}, TOOL),
        ({"audio": {"data": "UklGRg=="}}, ANSWER),
        ({"audio": {"transcript": "Hi"}}, ANSWER),
        ({"audio": {"id": "a"}}, EMPTY),
    ],
)
def test_a_chat_delta_of_a_rarer_kind_carries(form: Form, delta: dict[str, Any], kind: Kind) -> None:
    assert parts(classify_chat(form(ChatCompletionChunk, chat(delta)), ResponseInfo()))[0] == kind


def read(classify: Callable[[Any, ResponseInfo], int], model: Any, form: Form, *chunks: dict[str, Any]) -> ResponseInfo:
    """The metadata of a response after all these chunks."""
    info = ResponseInfo()
    for data in chunks:
        classify(form(model, data), info)
    return info


def read_chat(form: Form, *chunks: dict[str, Any]) -> ResponseInfo:
    return read(classify_chat, ChatCompletionChunk, form, *chunks)


WHOLE = (
    chat({"role": "assistant", "content": ""}),
    chat({"content": "Hi"}),
    chat({}, finish="stop"),
    chat(choices=[], usage=FINAL_USAGE),
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("response_id", "chatcmpl-1"),
        ("model", "gpt-1"),
        ("finish_reasons", ["stop"]),
        ("input_tokens", 20),
        ("output_tokens", 14),
        ("reasoning_tokens", 3),
        ("cache_read_tokens", 8),
        ("error_type", None),
        ("is_finished", True),
    ],
)
def test_the_metadata_of_a_chat_is_recorded(form: Form, field: str, expected: Any) -> None:
    assert getattr(read_chat(form, *WHOLE), field) == expected


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("form", FORMS)
def test_a_chat_without_a_finish_reason_is_not_finished(form: Form) -> None:
    assert not read_chat(form, *WHOLE[:2]).is_finished


@pytest.mark.requirement("R39")
@pytest.mark.parametrize("form", FORMS)
def test_each_choice_has_its_finish_reason(form: Form) -> None:
    info = read_chat(form, chat({}, finish="stop"), chat({}, finish="length", index=1))
    assert info.finish_reasons == ["stop", "length"]


@pytest.mark.requirement("R36")
@pytest.mark.parametrize("form", FORMS)
def test_a_count_on_every_chunk_gives_the_tokens_of_each(form: Form) -> None:
    # So far 0, 1, 3, 3 tokens: the chunks hold 0, 1, 2 and 0 of them.
    info = ResponseInfo()
    chunks = [
        chat(delta, usage={"prompt_tokens": 5, "completion_tokens": total, "total_tokens": 5 + total})
        for delta, total in (({"role": "assistant"}, 0), ({"content": "a"}, 1), ({"content": "b c"}, 3), ({}, 3))
    ]
    held = [parts(classify_chat(form(ChatCompletionChunk, data), info))[1] for data in chunks]
    assert (held, info.output_tokens) == ([0, 1, 2, 0], 3)


@pytest.mark.requirement("R36")
@pytest.mark.parametrize("form", FORMS)
def test_a_count_that_comes_first_in_mid_stream_is_not_that_of_one_chunk(form: Form) -> None:
    info = ResponseInfo()
    classify_chat(form(ChatCompletionChunk, chat({"content": "a"})), info)
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    code = classify_chat(form(ChatCompletionChunk, chat({"content": "b"}, usage=usage)), info)
    assert (parts(code), info.output_tokens) == ((ANSWER, 0, 0), 7)


@pytest.mark.parametrize("form", FORMS)
def test_a_count_that_goes_back_gives_no_tokens(form: Form) -> None:
    info = ResponseInfo()
    chunks = [
        chat({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": total, "total_tokens": 5 + total})
        for total in (9, 4)
    ]
    held = [parts(classify_chat(form(ChatCompletionChunk, data), info))[1] for data in chunks]
    assert held == [9, 0]


@pytest.mark.parametrize("form", LOOSE)
def test_a_usage_of_nothing_after_the_usage_takes_nothing_away(form: Form) -> None:
    info = read_chat(form, *WHOLE, chat(choices=[], usage={}))
    assert (info.input_tokens, info.output_tokens) == (20, 14)


@pytest.mark.requirement("R39")
@pytest.mark.parametrize("form", FORMS)
def test_a_chunk_of_two_choices_carries_what_both_do(form: Form) -> None:
    both = [chat({"content": "a"})["choices"][0], chat({}, finish="stop", index=1)["choices"][0]]
    assert parts(classify_chat(form(ChatCompletionChunk, chat(choices=both)), ResponseInfo()))[0] == ANSWER | FINISH


# --- Odd chunks ----------------------------------------------------------------------------------------------------

ODD: dict[str, dict[str, Any]] = {
    "null choices": chat(choices=None),
    "missing choices": {"id": "1"},
    "nothing at all": {},
    "null choice": chat(choices=[None]),
    "empty choice": chat(choices=[{}]),
    "null index": chat({"content": "Hi"}, index=None),
    "text index": chat({"content": "Hi"}, index="1"),
    "negative index": chat({"content": "Hi"}, index=-1),
    "huge index": chat({"content": "Hi"}, index=1 << 70),
    "missing index": chat(choices=[{"delta": {"content": "Hi"}}]),
    "null delta": chat(choices=[{"index": 0, "delta": None, "finish_reason": None}]),
    "missing delta": chat(choices=[{"index": 0}]),
    "text delta": chat("Hi"),
    "null tool calls": chat({"tool_calls": None}),
    "empty tool calls": chat({"tool_calls": []}),
    "null tool call": chat({"tool_calls": [None]}),
    "null tool index": chat({"tool_calls": [{"index": None, "function": {"name": "f"}}]}),
    "missing tool index": chat({"tool_calls": [{"function": {"arguments": "{"}}]}),
    "null function": chat({"tool_calls": [{"index": 0, "function": None}]}),
    "missing function": chat({"tool_calls": [{"index": 0}]}),
    "arguments as an object": chat({"tool_calls": [{"index": 0, "function": {"arguments": {"a": 1}}}]}),
    "content as a list": chat({"content": [{"type": "text", "text": "Hi"}]}),
    "null logprobs": chat({"content": "Hi"}, logprobs={"content": None, "refusal": None}),
    "empty logprobs": chat({"content": "Hi"}, logprobs={}),
    "null finish": chat({"content": "Hi"}, finish=None),
    "a finish that is a number": chat({}, finish=1),
    "numbers as text": chat(choices=[], usage={"prompt_tokens": "20", "completion_tokens": "14"}),
    "null counts": chat(choices=[], usage={"prompt_tokens": None, "completion_tokens": None}),
    "negative counts": chat(choices=[], usage={"prompt_tokens": -1, "completion_tokens": -1}),
    "counts with a fraction": chat(choices=[], usage={"prompt_tokens": 1.5, "completion_tokens": 2.0}),
    "huge counts": chat(choices=[], usage={"prompt_tokens": 1 << 80, "completion_tokens": 1 << 80}),
    "true counts": chat(choices=[], usage={"prompt_tokens": True, "completion_tokens": False}),
    "null details": chat(choices=[], usage={**FINAL_USAGE, "completion_tokens_details": None}),
    "details that are a list": chat(choices=[], usage={**FINAL_USAGE, "prompt_tokens_details": []}),
    "a usage that is text": chat(choices=[], usage="14"),
    "null model": chat({"content": "Hi"}, model=None),
    "a model that is a number": chat({"content": "Hi"}, model=3),
    "null id": chat({"content": "Hi"}, id=None),
    "an id that is a number": chat({"content": "Hi"}, id=3),
    "unknown fields": chat({"content": "Hi", "thoughts": [1]}, x_groq={"id": "r"}, timings={"n": 1}),
    "choices that are no list": chat(choices=True),
    "choices that are an object": chat(choices={"0": {"delta": {}}}),
    "tool calls that are no list": chat({"tool_calls": 1}),
    "tool calls that are an object": chat({"tool_calls": {"function": {"name": "f"}}}),
    "logprobs that are no list": chat({"content": "Hi"}, logprobs={"content": 3, "refusal": True}),
    "logprobs that are text": chat({"content": "Hi"}, logprobs="none"),
    "tokens that are no list": chat(choices=[{"text": "Hi", "logprobs": {"tokens": 3}}]),
    "a type that is a list": chat({"content": "Hi"}, type=[]),
    "a type that is an object": chat({"content": "Hi"}, type={"a": 1}),
    "an item whose type is a list": {"type": "response.output_item.added", "item": {"type": [], "name": "f"}},
    "logprobs of an event that are no list": {"type": "response.output_text.delta", "delta": "Hi", "logprobs": 3},
    "an error in its place": {"error": {"message": "overloaded", "code": 529}},
}
COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_creation_tokens")


def misfits(info: ResponseInfo) -> list[str]:
    """What cannot go onto a span: attributes are text, and whole numbers of 64 bits."""
    wrong = [
        name
        for name in ("response_id", "model", "error_type")
        if not isinstance(getattr(info, name), (str, type(None)))
    ]
    for name in COUNTS:
        value = getattr(info, name)
        if value is not None and not (type(value) is int and 0 <= value < 1 << 63):
            wrong.append(name)
    return wrong + [reason for reason in info.finish_reasons if type(reason) is not str]


def recordable(code: Any) -> bool:
    """Whether a probe can take down this code."""
    kept = array("Q")
    kept.append(code)
    return kept[0] < 1 << 40


odd = pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in ODD.items()])


@odd
@pytest.mark.requirement("R15")
@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize("before", [ResponseInfo, known])
def test_an_odd_chunk_raises_nothing(form: Form, before: Callable[[], ResponseInfo], data: dict[str, Any]) -> None:
    assert recordable(classify_chat(form(ChatCompletionChunk, data), before()))


@odd
@pytest.mark.requirement("R15")
@pytest.mark.parametrize("classify", [classify_text_completion, classify_response_event])
def test_an_odd_chunk_raises_nothing_where_another_is_expected(
    classify: Callable[[Any, ResponseInfo], int], data: dict[str, Any]
) -> None:
    assert recordable(classify(data, ResponseInfo()))


@odd
@pytest.mark.requirement("R15")
@pytest.mark.parametrize("form", LOOSE)
def test_the_metadata_of_an_odd_chunk_fits_a_span(form: Form, data: dict[str, Any]) -> None:
    assert misfits(read_chat(form, data)) == []


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize(
    "name",
    [
        "null index",
        "text index",
        "negative index",
        "missing index",
        "content as a list",
        "null logprobs",
        "empty logprobs",
        "null finish",
        "null model",
        "an id that is a number",
        "unknown fields",
    ],
)
def test_an_odd_chunk_that_carries_text_is_an_answer_of_the_first_choice(form: Form, name: str) -> None:
    assert parts(classify_chat(form(ChatCompletionChunk, ODD[name]), ResponseInfo())) == (ANSWER, 0, 0)


@pytest.mark.requirement("R33")
@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize("name", ["null tool index", "missing tool index", "arguments as an object"])
def test_an_odd_chunk_that_carries_a_tool_call_is_one(form: Form, name: str) -> None:
    assert parts(classify_chat(form(ChatCompletionChunk, ODD[name]), ResponseInfo()))[0] == TOOL


@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize("name", ["numbers as text", "null counts", "negative counts", "counts with a fraction"])
def test_a_count_that_is_no_whole_number_is_unknown(form: Form, name: str) -> None:
    info = read_chat(form, ODD[name])
    assert (info.input_tokens, info.output_tokens) == (None, None)


# --- Text completions ----------------------------------------------------------------------------------------------


def completion(
    text: Any = "", *, finish: Any = None, index: int = 0, logprobs: Any = None, **fields: Any
) -> dict[str, Any]:
    choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-1", "choices": [choice], **fields}


@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (completion("Hi"), (ANSWER, 0, 0)),
        (completion(""), (EMPTY, 0, 0)),
        (completion(None), (EMPTY, 0, 0)),
        (completion("", finish="stop"), (FINISH, 0, 0)),
        (completion("Hi", finish="length"), (ANSWER | FINISH, 0, 0)),
        (completion("Hi", index=1), (ANSWER, 0, 1)),
        (completion("Hi all", logprobs={"tokens": ["Hi", " all"]}), (ANSWER, 2, 0)),
        (completion("Hi", logprobs={"tokens": None}), (ANSWER, 0, 0)),
        (completion(choices=[], usage=FINAL_USAGE), (USAGE, 0, 0)),
    ],
)
def test_a_chunk_of_a_text_completion_carries(form: Form, data: dict[str, Any], expected: Any) -> None:
    assert parts(classify_text_completion(form(Completion, data), ResponseInfo())) == expected


@pytest.mark.parametrize("form", LOOSE)
def test_the_metadata_of_a_text_completion_is_recorded(form: Form) -> None:
    info = read(
        classify_text_completion,
        Completion,
        form,
        completion("Hi"),
        completion("", finish="stop"),
        completion(choices=[], usage=FINAL_USAGE),
    )
    assert (
        info.response_id,
        info.model,
        info.finish_reasons,
        info.input_tokens,
        info.output_tokens,
    ) == (
        "cmpl-1",
        "gpt-1",
        ["stop"],
        20,
        14,
    )


# --- Responses -----------------------------------------------------------------------------------------------------

RESPONSE_USAGE = {
    "input_tokens": 20,
    "output_tokens": 14,
    "total_tokens": 34,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens_details": {"reasoning_tokens": 3},
}


def response(**fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "model": "gpt-1", "object": "response", "status": "in_progress", "usage": None, **fields}


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": name, "sequence_number": 1, "output_index": 0, "item_id": "i", "content_index": 0, **fields}


RESPONSES: dict[str, tuple[str, dict[str, Any], Kind]] = {
    # The class of the SDK by its name: older ones do not have them all.
    "text": ("ResponseTextDeltaEvent", event("response.output_text.delta", delta="Hi", logprobs=[]), ANSWER),
    "empty text": ("ResponseTextDeltaEvent", event("response.output_text.delta", delta="", logprobs=[]), EMPTY),
    "refusal": ("ResponseRefusalDeltaEvent", event("response.refusal.delta", delta="No"), ANSWER),
    "reasoning": (
        "ResponseReasoningTextDeltaEvent",
        event("response.reasoning_text.delta", delta="Hm"),
        REASONING,
    ),
    "reasoning summary": (
        "ResponseReasoningSummaryTextDeltaEvent",
        event("response.reasoning_summary_text.delta", delta="Hm", summary_index=0),
        REASONING,
    ),
    "function arguments": (
        "ResponseFunctionCallArgumentsDeltaEvent",
        event("response.function_call_arguments.delta", delta='{"a"'),
        TOOL,
    ),
    "mcp arguments": (
        "ResponseMcpCallArgumentsDeltaEvent",
        event("response.mcp_call_arguments.delta", delta="{"),
        TOOL,
    ),
    "code": (
        "ResponseCodeInterpreterCallCodeDeltaEvent",
        event("response.code_interpreter_call_code.delta", delta="print"),
        TOOL,
    ),
    "audio": ("ResponseAudioDeltaEvent", event("response.audio.delta", delta="UklGRg=="), ANSWER),
    "transcript": (
        "ResponseAudioTranscriptDeltaEvent",
        event("response.audio.transcript.delta", delta="Hi"),
        ANSWER,
    ),
    "created": ("ResponseCreatedEvent", event("response.created", response=response()), LIFECYCLE),
    "in progress": ("ResponseInProgressEvent", event("response.in_progress", response=response()), LIFECYCLE),
    "text is done": (
        "ResponseTextDoneEvent",
        event("response.output_text.done", text="Hi", logprobs=[]),
        LIFECYCLE,
    ),
    "a function call begins": (
        "ResponseOutputItemAddedEvent",
        event(
            "response.output_item.added",
            item={"type": "function_call", "name": "f", "arguments": "", "call_id": "c", "id": "fc", "status": None},
        ),
        TOOL,
    ),
    "a message begins": (
        "ResponseOutputItemAddedEvent",
        event(
            "response.output_item.added",
            item={"type": "message", "id": "m", "role": "assistant", "content": [], "status": "in_progress"},
        ),
        LIFECYCLE,
    ),
    "completed": ("ResponseCompletedEvent", event("response.completed", response=response()), FINISH),
    "completed with usage": (
        "ResponseCompletedEvent",
        event("response.completed", response=response(status="completed", usage=RESPONSE_USAGE)),
        FINISH | USAGE,
    ),
    "incomplete": ("ResponseIncompleteEvent", event("response.incomplete", response=response()), FINISH),
    "failed": ("ResponseFailedEvent", event("response.failed", response=response()), FINISH),
    "error": ("ResponseErrorEvent", event("error", code="server_error", message="no", param=None), FINISH),
}


@pytest.mark.requirement("R31")
@pytest.mark.requirement("R33")
@pytest.mark.parametrize("form", LOOSE)
@pytest.mark.parametrize(("model", "data", "kind"), [pytest.param(*row, id=name) for name, row in RESPONSES.items()])
def test_an_event_of_a_response_carries(form: Form, model: str, data: dict[str, Any], kind: Kind) -> None:
    assert parts(classify_response_event(form(model, data), ResponseInfo())) == (kind, 0, 0)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (event("response.custom_tool_call_input.delta", delta="x"), TOOL),
        (event("response.shell_call_command.delta", delta="ls"), TOOL),
        (event("response.shell_call_output_content.delta", delta={"stdout": "a"}), LIFECYCLE),
        (event("response.cancelled", response=response(status="cancelled")), FINISH),
        (event("keepalive"), PING),
        (event("response.of.the.future"), LIFECYCLE),
        (event("response.of.the.future.delta", delta="?"), LIFECYCLE),
        ({"type": None}, LIFECYCLE),
        ({}, LIFECYCLE),
        (event("response.output_text.delta", delta=None), EMPTY),
        (event("response.output_text.delta"), EMPTY),
        (event("response.output_item.added", item=None), LIFECYCLE),
        (event("response.output_item.added", item={"type": "function_call", "name": ""}), LIFECYCLE),
        (event("response.completed", response=None), FINISH),
        (event("response.completed"), FINISH),
    ],
)
@pytest.mark.requirement("R15")
def test_an_event_that_this_sdk_may_not_know_carries(data: dict[str, Any], kind: Kind) -> None:
    assert parts(classify_response_event(data, ResponseInfo()))[0] == kind


@pytest.mark.requirement("R36")
def test_the_logprobs_of_an_event_count_its_tokens() -> None:
    entries = [{"token": token, "logprob": -0.1, "top_logprobs": []} for token in ("Hi", " all")]
    data = event("response.output_text.delta", delta="Hi all", logprobs=entries)
    assert parts(classify_response_event(constructed("ResponseTextDeltaEvent", data), ResponseInfo())) == (ANSWER, 2, 0)


def read_response(*data: dict[str, Any]) -> ResponseInfo:
    return read(classify_response_event, None, as_dict, *data)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("response_id", "resp_1"),
        ("model", "gpt-1"),
        ("finish_reasons", ["completed"]),
        ("input_tokens", 20),
        ("output_tokens", 14),
        ("reasoning_tokens", 3),
        ("cache_read_tokens", 8),
        ("error_type", None),
        ("is_terminated", True),
    ],
)
def test_the_metadata_of_a_response_is_recorded(field: str, expected: Any) -> None:
    info = read_response(
        event("response.created", response=response()),
        event("response.output_text.delta", delta="Hi"),
        event("response.completed", response=response(status="completed", usage=RESPONSE_USAGE)),
    )
    assert getattr(info, field) == expected


def test_a_response_without_its_first_event_gets_its_id_from_its_last() -> None:
    info = read_response(event("response.completed", response=response(status="completed")))
    assert (info.response_id, info.model) == ("resp_1", "gpt-1")


def test_the_reason_of_an_incomplete_response_is_recorded() -> None:
    incomplete = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    info = read_response(event("response.incomplete", response=incomplete))
    assert (info.finish_reasons, info.error_type) == (["max_output_tokens"], None)


@pytest.mark.requirement("R21")
@pytest.mark.parametrize(
    ("data", "error_type"),
    [
        (event("response.failed", response=response(status="failed", error={"code": "rate_limit"})), "rate_limit"),
        (event("response.failed", response=response(status="failed", error=None)), "failed"),
        (event("response.failed"), "failed"),
        (event("error", code="server_error", message="no"), "server_error"),
        (event("error", code=None, message="no"), "error"),
    ],
)
def test_the_error_code_of_a_failed_response_is_recorded(data: dict[str, Any], error_type: str) -> None:
    assert read_response(data).error_type == error_type


@pytest.mark.requirement("R52")
def test_a_response_without_an_end_is_not_finished() -> None:
    info = read_response(event("response.created", response=response()), event("response.output_text.delta", delta="a"))
    assert not info.is_finished


# --- Anything ------------------------------------------------------------------------------------------------------

json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=4),
        st.sampled_from(["stop", "error", "assistant", "response.created", "response.completed", "function_call"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
WIRE = [
    *[data for data, *_ in CHAT.values()],
    *[data for _, data, _ in RESPONSES.values()],
    completion("Hi", finish="stop", logprobs={"tokens": ["Hi"]}),
]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A chunk of the wire with one value of it replaced by anything."""
    data = deepcopy(draw(st.sampled_from(WIRE)))
    place: Any = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
            place = place[key]
        else:
            place[key] = draw(json)
            return data


every = pytest.mark.parametrize("classify", [classify_chat, classify_text_completion, classify_response_event])


@every
@pytest.mark.requirement("R15")
@settings(max_examples=120, deadline=None)
@given(data=st.one_of(mutated(), json))
def test_no_chunk_raises(classify: Callable[[Any, ResponseInfo], int], data: Any) -> None:
    info = ResponseInfo()
    assert (recordable(classify(data, info)), misfits(info)) == (True, [])


@every
@pytest.mark.requirement("R15")
@settings(max_examples=60, deadline=None)
@given(data=mutated())
def test_no_object_of_the_sdk_raises(classify: Callable[[Any, ResponseInfo], int], data: Any) -> None:
    info = known()
    assert (recordable(classify(ChatCompletionChunk.construct(**data), info)), misfits(info)) == (
        True,
        [],
    )
