"""What the chunks of Google's wire formats carry, and what they reveal about the response."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from otel_itl.core.chunk_code import unpack_codes
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.gemini import classify_content
from otel_itl.sdks.formats.gemini_interactions import classify_interaction_event

REASONING, ANSWER, TOOL = Kind.REASONING, Kind.ANSWER, Kind.TOOL
EMPTY, FINISH, USAGE, LIFECYCLE = Kind.EMPTY, Kind.FINISH, Kind.USAGE, Kind.LIFECYCLE


def classified(*chunks: Any) -> tuple[list[Kind], list[int], ResponseInfo]:
    """The kinds and the tokens of the chunks of one stream, and its metadata."""
    response = ResponseInfo()
    codes = unpack_codes([classify_content(chunk, response) for chunk in chunks])
    return list(map(Kind, codes.kinds)), list(codes.tokens), response


def chunk(*parts: dict[str, Any], usage: dict[str, Any] | None = None, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **candidate}], "usage_metadata": usage}


def counts(answered: int | None, thought: int | None = None) -> dict[str, Any]:
    return {"prompt_token_count": 7, "candidates_token_count": answered, "thoughts_token_count": thought}


PARTS: Final = {
    "text": ({"text": "x"}, ANSWER),
    "empty text": ({"text": ""}, EMPTY),
    "a thought": ({"text": "x", "thought": True}, REASONING),
    "a thought of another type": ({"text": "x", "thought": "no"}, ANSWER),
    "a signature": ({"thought_signature": b"x"}, EMPTY),
    "a call": ({"function_call": {"name": "f"}}, TOOL),
    "a piece of a call's arguments": ({"function_call": {"partial_args": [1]}}, TOOL),
    "an empty call": ({"function_call": {}}, EMPTY),
    "code": ({"executable_code": {"code": "1"}}, TOOL),
    "the result of code": ({"code_execution_result": {"output": "1"}}, EMPTY),
    "an image": ({"inline_data": {"data": b"x"}}, ANSWER),
    "no object": (3, EMPTY),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_part_tells_what_a_chunk_carries(case: str) -> None:
    part, kind = PARTS[case]
    assert classified(chunk(part))[0] == [kind]


def test_a_chunk_of_several_parts_carries_all_of_them() -> None:
    parts = ({"text": "x", "thought": True}, {"text": "y"}, {"function_call": {"name": "f"}})
    assert classified(chunk(*parts, finish_reason="STOP"))[0] == [REASONING | ANSWER | TOOL | FINISH]


def test_plain_text_is_recognized_by_attributes() -> None:
    part = SimpleNamespace(text="x", thought=None, function_call=None)
    candidate = SimpleNamespace(content=SimpleNamespace(parts=[part]), finish_reason=None, index=0)
    plain = SimpleNamespace(candidates=[candidate], usage_metadata=None)
    assert classified(chunk({"text": "a"}), plain)[0] == [ANSWER, ANSWER]


def test_plain_text_with_a_count_is_recognized_by_attributes() -> None:
    def plain(answered: int, thought: int | None = None) -> Any:
        part = SimpleNamespace(text="x", thought=None, function_call=None)
        candidate = SimpleNamespace(content=SimpleNamespace(parts=[part]), finish_reason=None, index=0)
        usage = SimpleNamespace(**counts(answered, thought))
        return SimpleNamespace(candidates=[candidate], usage_metadata=usage)

    chunks = (plain(2), plain(5), plain(5, 3), plain(6, 3), plain(4, 3), plain(5, 3))
    _, tokens, response = classified(chunk({"text": "x"}, usage=counts(1)), *chunks)
    assert (tokens, response.output_tokens, response.reasoning_tokens) == ([1, 1, 3, 0, 1, 0, 1], 8, 3)


def test_tokens_of_each_chunk_of_the_answer_are_the_counts_since_the_one_before() -> None:
    kinds, tokens, response = classified(
        chunk({"text": "x", "thought": True}, usage=counts(None, 30)),
        chunk({"text": "x"}, usage=counts(4, 30)),
        chunk({"text": "x"}, usage=counts(9, 30), finish_reason="STOP"),
    )
    assert (kinds, tokens) == ([REASONING, ANSWER, ANSWER | FINISH], [0, 4, 5])
    assert (response.input_tokens, response.output_tokens, response.reasoning_tokens) == (7, 39, 30)


def test_hidden_thoughts_are_no_tokens_of_the_chunk_that_follows_them() -> None:
    assert classified(chunk({"text": "x"}, usage=counts(4, 500)))[1] == [4]


def test_counts_of_the_last_chunk_alone_are_not_those_of_that_chunk() -> None:
    _, tokens, response = classified(chunk({"text": "x"}), chunk({"text": "y"}, usage=counts(9), finish_reason="STOP"))
    assert (tokens, response.output_tokens) == ([], 9)


def test_counts_that_shrink_are_no_negative_tokens() -> None:
    assert classified(chunk({"text": "x"}, usage=counts(5)), chunk({"text": "x"}, usage=counts(3)))[1] == [5, 0]


def test_results_of_tools_are_input() -> None:
    usage = {"prompt_token_count": 7, "tool_use_prompt_token_count": 5, "cached_content_token_count": 2}
    _, _, response = classified({"usage_metadata": usage})
    assert (response.input_tokens, response.cache_read_tokens, response.output_tokens) == (12, 2, None)


def test_a_prompt_that_is_refused_is_finished_by_the_reason() -> None:
    kinds, _, response = classified({"prompt_feedback": {"block_reason": "SAFETY"}})
    assert (kinds, response.finish_reasons, response.error_type) == ([FINISH], ["blocked_safety"], None)


def test_feedback_beside_candidates_finishes_nothing() -> None:
    kinds, _, _ = classified({**chunk({"text": "x"}), "prompt_feedback": {"block_reason": "SAFETY"}})
    assert kinds == [ANSWER]


def test_the_first_chunk_names_the_response_and_its_model() -> None:
    first = {**chunk({"text": "x"}), "response_id": "r1", "model_version": "m-1"}
    _, _, response = classified(first, {**first, "response_id": "r2"})
    assert (response.response_id, response.model) == ("r1", "m-1")


EVENTS: Final = {
    "the first": ({"event_type": "interaction.created", "interaction": {"id": "i"}}, LIFECYCLE),
    "a step": ({"event_type": "step.start", "step": {"type": "model_output"}}, LIFECYCLE),
    "the start of a call": ({"event_type": "step.start", "step": {"type": "function_call", "name": "f"}}, TOOL),
    "text": ({"event_type": "step.delta", "delta": {"type": "text", "text": "x"}}, ANSWER),
    "empty text": ({"event_type": "step.delta", "delta": {"type": "text", "text": ""}}, EMPTY),
    "a thought": ({"event_type": "step.delta", "delta": {"type": "thought_summary", "content": {"a": 1}}}, REASONING),
    "arguments": ({"event_type": "step.delta", "delta": {"type": "arguments_delta", "arguments": "{"}}, TOOL),
    "a signature": ({"event_type": "step.delta", "delta": {"type": "thought_signature"}}, LIFECYCLE),
    "an unknown delta": ({"event_type": "step.delta", "delta": {"type": "new"}}, LIFECYCLE),
    "an error": ({"event_type": "error", "error": {"code": "c"}}, FINISH),
    "an error without an error": ({"event_type": "error"}, LIFECYCLE),
    "the last": ({"event_type": "interaction.completed", "interaction": {"status": "completed"}}, FINISH),
    "no event": (None, LIFECYCLE),
}


@pytest.mark.parametrize("case", EVENTS)
def test_the_type_of_an_event_tells_what_it_carries(case: str) -> None:
    event, kind = EVENTS[case]
    assert Kind(classify_interaction_event(event, ResponseInfo())) == kind


def test_the_last_event_has_status_and_usage() -> None:
    usage = {"total_input_tokens": 7, "total_output_tokens": 4, "total_thought_tokens": 3, "total_cached_tokens": 2}
    response = ResponseInfo()
    last = {"event_type": "interaction.completed", "interaction": {"id": "i", "status": "incomplete", "usage": usage}}
    assert Kind(classify_interaction_event(last, response)) == FINISH | USAGE
    assert (response.finish_reasons, response.is_terminated, response.output_tokens) == (["incomplete"], True, 7)


def test_an_interaction_that_failed_is_an_error() -> None:
    response = ResponseInfo()
    classify_interaction_event({"event_type": "interaction.completed", "interaction": {"status": "failed"}}, response)
    assert response.error_type == "failed"
