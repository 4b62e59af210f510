"""What the chunks of the SDKs carry that stream OpenAI's wire format with fields of their own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pytest

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.openai_chat import classify_chat, classify_reasoning_chat, classify_text_completion

REASONING, ANSWER, TOOL, ROLE = Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.ROLE
EMPTY, FINISH, USAGE = Kind.EMPTY, Kind.FINISH, Kind.USAGE

CHAT_CHUNKS: Final = {
    "groq": ("groq.types.chat.chat_completion_chunk", "ChatCompletionChunk"),
    "together": ("together.types.chat.chat_completion_chunk", "ChatCompletionChunk"),
    "fireworks": ("fireworks.types.chat.chat_completion_chunk", "ChatCompletionChunk"),
    "cerebras": ("cerebras.cloud.sdk.types.chat.chat_completion", "ChatChunkResponse"),
}
"""SDK → module and class of its chat chunks."""
TEXT_CHUNKS: Final = {
    "together": ("together.types.completion_chunk", "CompletionChunk"),
    "fireworks": ("fireworks.types.completion_chunk", "CompletionChunk"),
    "cerebras": ("cerebras.cloud.sdk.types.completion", "CompletionResponse"),
}
"""SDK → module and class of its text completion chunks."""

every_chat = pytest.mark.parametrize("sdk", CHAT_CHUNKS)
every_text = pytest.mark.parametrize("sdk", TEXT_CHUNKS)


def made(place: tuple[str, str], data: Mapping[str, Any]) -> Any:
    """A chunk as the SDK makes it of what came over the wire; skips the test without the SDK."""
    module, name = place
    pytest.importorskip(module.partition(".types")[0])
    chunk_type: Any = getattr(import_module(module), name, None) or pytest.skip(f"this release has no {name}")
    return chunk_type.construct(**data)


def chat(delta: Mapping[str, Any], *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "model": "m", "object": "chat.completion.chunk", "created": 1, "choices": [choice], **fields}


def text(choice: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    choices = [{"index": 0, **choice}]
    return {"id": "c", "model": "m", "object": "text_completion", "created": 1, "choices": choices, **fields}


def known() -> ResponseInfo:
    """The metadata of a response after its first chunk."""
    info = ResponseInfo()
    info.response_id = "c"
    return info


def kind_of(code: int) -> Kind:
    return Kind(code & 0xFF)


USAGE_FIELDS: Final = {"prompt_tokens": 20, "completion_tokens": 14, "total_tokens": 34}
CALL: Final = {"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}]}
CHAT: Final[dict[str, tuple[dict[str, Any], Kind]]] = {
    "role": (chat({"role": "assistant", "content": ""}), ROLE),
    "content": (chat({"content": "Hi"}), ANSWER),
    "role and content": (chat({"role": "assistant", "content": "Hi"}), ANSWER),
    "reasoning": (chat({"reasoning": "Hm"}), REASONING),
    "reasoning_content": (chat({"reasoning_content": "Hm"}), REASONING),
    "reasoning and content": (chat({"reasoning": "Hm", "content": "Hi"}), REASONING | ANSWER),
    "reasoning_content and content": (chat({"reasoning_content": "Hm", "content": "Hi"}), REASONING | ANSWER),
    "empty reasoning and content": (chat({"reasoning": "", "reasoning_content": None, "content": "Hi"}), ANSWER),
    "tool call": (chat(CALL), TOOL),
    "finish": (chat({}, finish="stop"), FINISH),
    "usage with finish": (chat({}, finish="stop", usage=USAGE_FIELDS), FINISH | USAGE),
    "usage": (chat({}, choices=[], usage=USAGE_FIELDS), USAGE),
    "no choices": (chat({}, choices=[]), EMPTY),
}


@pytest.mark.requirement("R31", "R33")
@every_chat
@pytest.mark.parametrize("case", CHAT)
@pytest.mark.parametrize("before", [ResponseInfo, known])
def test_a_chat_chunk_of_a_compatible_sdk_carries(sdk: str, case: str, before: Any) -> None:
    data, kind = CHAT[case]
    assert kind_of(classify_reasoning_chat(made(CHAT_CHUNKS[sdk], data), before())) == kind


@every_chat
def test_a_chat_of_a_compatible_sdk_has_its_metadata(sdk: str) -> None:
    info = ResponseInfo()
    for data in (chat({"content": "Hi"}), chat({}, finish="stop", usage=USAGE_FIELDS)):
        classify_reasoning_chat(made(CHAT_CHUNKS[sdk], data), info)
    assert (info.response_id, info.model, info.finish_reasons, info.input_tokens, info.output_tokens) == (
        "c",
        "m",
        ["stop"],
        20,
        14,
    )


# --- groq ------------------------------------------------------------------------------------------------------------


def as_groq(data: Mapping[str, Any]) -> Any:
    return made(CHAT_CHUNKS["groq"], data)


def as_openai(data: Mapping[str, Any]) -> Any:
    """The chunk of the openai SDK, whose client may ask groq as well."""
    return made(("openai.types.chat.chat_completion_chunk", "ChatCompletionChunk"), data)


def as_dict(data: Mapping[str, Any]) -> Any:
    return data


forms = pytest.mark.parametrize("form", [as_groq, as_openai, as_dict])


@forms
def test_the_usage_of_groq_is_in_the_last_chunk(form: Any) -> None:
    info = known()
    code = classify_reasoning_chat(form(chat({}, finish="stop", x_groq={"id": "r", "usage": USAGE_FIELDS})), info)
    assert (kind_of(code), info.input_tokens, info.output_tokens) == (FINISH | USAGE, 20, 14)


@forms
def test_the_usage_of_groq_yields_to_that_of_the_standard_field(form: Any) -> None:
    info = known()
    usage = {**USAGE_FIELDS, "completion_tokens": 15}
    classify_reasoning_chat(form(chat({}, choices=[], usage=usage, x_groq={"usage": USAGE_FIELDS})), info)
    assert info.output_tokens == 15


@forms
def test_the_first_chunk_of_groq_is_no_usage(form: Any) -> None:
    code = classify_reasoning_chat(form(chat({"role": "assistant"}, x_groq={"id": "r"})), ResponseInfo())
    assert kind_of(code) == ROLE


@pytest.mark.requirement("R21")
@forms
def test_an_error_of_groq_is_a_failure_without_its_text(form: Any) -> None:
    info = known()
    classify_reasoning_chat(form(chat({}, x_groq={"error": "the prompt was: hello"})), info)
    assert info.error_type == "error"


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, {"usage": 3}, {"usage": {"completion_tokens": "14"}}])
def test_an_odd_field_of_groq_is_passed_over(odd: Any) -> None:
    info = known()
    code = classify_chat(chat({}, finish="stop", x_groq=odd), info)
    assert (kind_of(code) & ~USAGE, info.output_tokens, info.error_type) == (FINISH, None, None)


# --- fireworks -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R21")
@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"message": "no", "type": "server_error", "code": None}, "server_error"),
        ({"message": "no", "type": "invalid_request_error", "code": "context_length"}, "context_length"),
        ({"message": "no", "code": 503}, "error"),
        ("overloaded", "error"),
    ],
)
@pytest.mark.parametrize("place", [CHAT_CHUNKS["fireworks"], TEXT_CHUNKS["fireworks"]])
def test_an_error_of_fireworks_is_a_chunk_that_ends_the_stream(
    place: tuple[str, str], error: Any, failure: str
) -> None:
    info = known()
    classify = classify_reasoning_chat if place is CHAT_CHUNKS["fireworks"] else classify_text_completion
    code = classify(made(place, {"error": error}), info)
    assert (kind_of(code), info.error_type) == (FINISH, failure)


# --- text completions ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R31")
@every_text
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (text({"text": "Hi"}), ANSWER),
        (text({"text": ""}), EMPTY),
        (text({"text": "", "finish_reason": "stop"}), FINISH),
        (text({"text": "Hi", "finish_reason": "stop"}, usage=USAGE_FIELDS), ANSWER | FINISH),
        (text({}, choices=[], usage=USAGE_FIELDS), USAGE),
    ],
)
def test_a_chunk_of_a_text_completion_of_a_compatible_sdk_carries(sdk: str, data: dict[str, Any], kind: Kind) -> None:
    assert kind_of(classify_text_completion(made(TEXT_CHUNKS[sdk], data), ResponseInfo())) == kind


@pytest.mark.parametrize(
    ("delta", "kind"),
    [({"role": "assistant", "content": "Hi"}, ANSWER), ({"role": "assistant", "content": ""}, EMPTY), (None, EMPTY)],
)
def test_the_text_of_together_may_be_in_a_delta(delta: Any, kind: Kind) -> None:
    chunk = made(TEXT_CHUNKS["together"], text({"delta": delta}))
    assert kind_of(classify_text_completion(chunk, ResponseInfo())) == kind


def test_the_finish_reason_of_together_may_be_beside_the_choices() -> None:
    info = known()
    code = classify_text_completion(made(TEXT_CHUNKS["together"], text({"text": ""}, finish_reason="eos")), info)
    assert (kind_of(code), info.finish_reasons) == (FINISH, ["eos"])


def test_a_finish_reason_in_both_places_is_one() -> None:
    info = known()
    chunk = made(TEXT_CHUNKS["together"], text({"text": "", "finish_reason": "eos"}, finish_reason="eos"))
    classify_text_completion(chunk, info)
    assert info.finish_reasons == ["eos"]


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("reason", [None, 3, "", {}, []])
def test_an_odd_finish_reason_of_a_chunk_is_none(reason: Any) -> None:
    info = known()
    assert (kind_of(classify_text_completion(text({}, finish_reason=reason), info)), info.finish_reasons) == (EMPTY, [])
