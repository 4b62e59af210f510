"""The chunks of litellm's routes: dicts of its own make, and lines of the Responses API; objects are in tests/sdks."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.litellm_chunks import classify_litellm_chunk, classify_response_data
from otel_itl.sdks.litellm_names import name_error
from otel_itl.sdks.values import split_address


def own(**fields: Any) -> dict[str, Any]:
    """A dict of litellm's own make."""
    return {"text": "", "is_finished": False, "finish_reason": "", "usage": None, "index": 0, **fields}


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        (own(), Kind.EMPTY),
        (own(text="a"), Kind.ANSWER),
        (own(text=None, finish_reason=7, usage="many", index=None), Kind.EMPTY),
        (own(tool_use={"function": {"name": "f", "arguments": ""}}), Kind.TOOL),
        (own(text="a", provider_specific_fields={"reasoning_content": "b"}), Kind.ANSWER | Kind.REASONING),
        (own(is_finished=True, finish_reason="stop"), Kind.FINISH),
        (own(usage={"prompt_tokens": 10, "completion_tokens": 2}), Kind.USAGE),
        ({"is_finished": True}, Kind.EMPTY),
        ({}, Kind.EMPTY),
        (None, Kind.EMPTY),
        ("text", Kind.EMPTY),
    ],
)
def test_a_chunk_is_classified(chunk: Any, kind: Kind) -> None:
    assert Kind(classify_litellm_chunk(chunk, ResponseInfo()) & 0xFF) == kind


def test_a_terminator_adds_no_second_finish_reason() -> None:
    response = ResponseInfo()
    for chunk in (own(finish_reason="length"), own(is_finished=True, finish_reason="stop")):
        classify_litellm_chunk(chunk, response)
    assert response.finish_reasons == ["length"]


def test_usage_in_two_parts_keeps_the_input_of_the_first() -> None:
    response = ResponseInfo()
    for usage in (
        {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
        {"prompt_tokens": 0, "completion_tokens": 5},
    ):
        classify_litellm_chunk(own(usage=usage), response)
    assert (response.input_tokens, response.cache_read_tokens, response.output_tokens) == (10, 4, 5)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('data: {"type":"response.output_text.delta","delta":"a"}', Kind.ANSWER),
        ("event: response.output_text.delta", Kind.EMPTY),
        ("data: [DONE]", Kind.EMPTY),
        ("data: [1]", Kind.EMPTY),
        ("", Kind.EMPTY),
    ],
)
def test_a_line_of_the_responses_api_is_classified(line: str, kind: Kind) -> None:
    assert Kind(classify_response_data(line, ResponseInfo()) & 0xFF) == kind


def test_an_error_is_named_as_the_caller_gets_it() -> None:
    refused: Any = Exception()
    refused.status_code = 429
    assert (name_error(refused), name_error(Exception())) == ("RateLimitError", None)


def test_an_address_that_is_none_has_no_host() -> None:
    assert split_address("http://host:x/v1") == (None, None)
