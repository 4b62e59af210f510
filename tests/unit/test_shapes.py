"""Chunks of unknown make: classified by their shape, and as an answer where no shape is known."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import RawContentBlockDeltaEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.duck_typing import classify_by_shape

CHAT = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
RESPONSE = {"type": "response.output_text.delta", "delta": "Hi", "logprobs": []}
MESSAGE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}


@dataclass
class Token:
    """A chunk of an unknown library."""

    text: str


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        ("Hi", Kind.ANSWER),
        (" ", Kind.ANSWER),
        ("", Kind.EMPTY),
        (b"Hi", Kind.ANSWER),
        (b"", Kind.EMPTY),
        (None, Kind.EMPTY),
        (Token("Hi"), Kind.ANSWER),
        (SimpleNamespace(text=""), Kind.ANSWER),
        (42, Kind.ANSWER),
        ([], Kind.ANSWER),
        ({"text": "Hi"}, Kind.ANSWER),
        (CHAT, Kind.ANSWER),
        ({"contentBlockDelta": {"delta": {"text": "Hi"}}}, Kind.ANSWER),
        ({"contentBlockDelta": {"delta": {"reasoningContent": {"text": "Hi"}}}}, Kind.REASONING),
        ({"messageStop": {"stopReason": "end_turn"}}, Kind.FINISH),
        ({"metadata": {"usage": {}}}, Kind.USAGE),
        ({"metadata": {"usage": {}}, "text": "Hi"}, Kind.ANSWER),
        ({"chunk": {"bytes": b'{"generation": "Hi"}'}}, Kind.ANSWER),
        ({"chunk": "Hi"}, Kind.ANSWER),
        ({"choices": []}, Kind.EMPTY),
        ({"choices": None}, Kind.EMPTY),
        ({"choices": [{"delta": {"role": "assistant"}}]}, Kind.ROLE),
        (SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content="Hi"))]), Kind.ANSWER),
        (ChatCompletionChunk.construct(**CHAT), Kind.ANSWER),
        (RESPONSE, Kind.ANSWER),
        ({"type": "response.created", "response": {}}, Kind.LIFECYCLE),
        (MESSAGE, Kind.ANSWER),
        ({"type": "ping"}, Kind.PING),
        ({"type": "keepalive"}, Kind.PING),
        ({"type": "message_stop"}, Kind.FINISH),
        (RawContentBlockDeltaEvent.construct(**MESSAGE), Kind.ANSWER),
        ({"type": 3}, Kind.ANSWER),
        ({"type": None, "text": "Hi"}, Kind.ANSWER),
    ],
)
def test_a_chunk_is_classified_by_its_shape(chunk: Any, kind: Kind) -> None:
    assert Kind(classify_by_shape(chunk, ResponseInfo()) & 0xFF) == kind


def test_an_event_object_of_a_response_is_classified_by_its_shape() -> None:
    events = pytest.importorskip("openai.types.responses", reason="this openai has no responses")
    assert classify_by_shape(events.ResponseTextDeltaEvent.construct(**RESPONSE), ResponseInfo()) == Kind.ANSWER


@pytest.mark.requirement("R39")
def test_a_chunk_of_a_known_shape_has_the_index_of_its_choice() -> None:
    chunk = {"choices": [{"index": 1, "delta": {"content": "Hi"}}]}
    assert classify_by_shape(chunk, ResponseInfo()) >> 32 == 1


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("chunk", ["Hi", b"Hi", "", Token("Hi"), 42, {"text": "Hi"}])
def test_a_stream_of_no_known_shape_is_finished_where_its_iterator_ends(chunk: Any) -> None:
    info = ResponseInfo()
    classify_by_shape(chunk, info)
    assert info.is_finished


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("chunk", [CHAT, RESPONSE, MESSAGE])
def test_a_stream_of_a_known_shape_is_not_finished_before_its_own_end(chunk: Any) -> None:
    info = ResponseInfo()
    classify_by_shape(chunk, info)
    assert not info.is_finished


@pytest.mark.requirement("R21")
@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "error", "code": "server_error", "message": "no", "param": None},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "response.failed", "response": {"error": {"code": "server_error"}}},
    ],
)
def test_a_failure_in_a_known_shape_is_recorded(chunk: Any) -> None:
    info = ResponseInfo()
    classify_by_shape(chunk, info)
    assert info.error_type is not None


def test_the_metadata_of_a_known_shape_is_recorded() -> None:
    info = ResponseInfo()
    classify_by_shape(CHAT, info)
    assert (info.response_id, info.model) == ("c", "m")


class Hostile:
    """An object that fails whatever it is asked."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.requirement("R15")
def test_an_object_whose_methods_all_raise_is_an_answer() -> None:
    assert classify_by_shape(Hostile(), ResponseInfo()) == Kind.ANSWER


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "choices", "delta", "message", "usage", "index", "response", "item"]), inner
        ),
    ),
    max_leaves=8,
)


@pytest.mark.requirement("R15")
@settings(max_examples=150, deadline=None)
@given(chunk=anything)
def test_no_chunk_raises(chunk: Any) -> None:
    assert classify_by_shape(chunk, ResponseInfo()) >= 0
