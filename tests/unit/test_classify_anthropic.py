"""What the events of the anthropic SDK carry: as its own objects, as dicts, and in every odd shape a server sends."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib.metadata import version
from typing import Any

import pytest
from anthropic import types
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind
from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event

REASONING, ANSWER, TOOL = Kind.REASONING, Kind.ANSWER, Kind.TOOL
EMPTY, LIFECYCLE, PING, FINISH, USAGE = Kind.EMPTY, Kind.LIFECYCLE, Kind.PING, Kind.FINISH, Kind.USAGE
Form = Callable[[Any, Mapping[str, Any]], Any]


def as_dict(model: Any, data: Mapping[str, Any]) -> Any:
    """An event as other libraries pass it on."""
    return data


def constructed(model: Any, data: Mapping[str, Any]) -> Any:
    """An event as the SDK makes it of what came over the wire, whatever that was."""
    return model.construct(**data)


def validated(model: Any, data: Mapping[str, Any]) -> Any:
    """An event as the SDK's own types want it."""
    if version("anthropic").startswith("0."):
        pytest.skip("the types of anthropic before 1.0 do not know every event")
    return model.model_validate(data)


FORMS = [as_dict, constructed, validated]
START, STOP = types.RawMessageStartEvent, types.RawMessageStopEvent
DELTA, BLOCK_START = types.RawContentBlockDeltaEvent, types.RawContentBlockStartEvent
BLOCK_STOP, MESSAGE_DELTA = types.RawContentBlockStopEvent, types.RawMessageDeltaEvent


def delta(name: Any, /, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": name, **fields}}


def block(name: Any, /, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": name, **fields}}


def message_start(**usage: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def message_delta(reason: Any = "end_turn", **usage: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 14, **usage},
    }


MESSAGE_STOP = {"type": "message_stop"}
EVENTS: dict[str, tuple[Any, dict[str, Any], Kind]] = {
    "start": (START, message_start(), LIFECYCLE),
    "a text begins": (BLOCK_START, block("text", text="", citations=None), LIFECYCLE),
    "a thought begins": (BLOCK_START, block("thinking", thinking="", signature=""), LIFECYCLE),
    "a tool call begins": (BLOCK_START, block("tool_use", id="t", name="f", input={}), TOOL),
    "a server's tool call begins": (BLOCK_START, block("server_tool_use", id="t", name="web_search", input={}), TOOL),
    "text": (DELTA, delta("text_delta", text="Hi"), ANSWER),
    "blank text": (DELTA, delta("text_delta", text=" "), ANSWER),
    "empty text": (DELTA, delta("text_delta", text=""), EMPTY),
    "thought": (DELTA, delta("thinking_delta", thinking="Hm"), REASONING),
    "empty thought": (DELTA, delta("thinking_delta", thinking=""), EMPTY),
    "signature": (DELTA, delta("signature_delta", signature="s"), LIFECYCLE),
    "tool arguments": (DELTA, delta("input_json_delta", partial_json='{"a"'), TOOL),
    "empty tool arguments": (DELTA, delta("input_json_delta", partial_json=""), EMPTY),
    "a block ends": (BLOCK_STOP, {"type": "content_block_stop", "index": 0}, LIFECYCLE),
    "finish and usage": (MESSAGE_DELTA, message_delta(), FINISH | USAGE),
    "usage without a finish": (MESSAGE_DELTA, message_delta(None), LIFECYCLE | USAGE),
    "stop": (STOP, MESSAGE_STOP, FINISH),
}


@pytest.mark.requirement("R31")
@pytest.mark.requirement("R33")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("model", "data", "kind"), [pytest.param(*row, id=name) for name, row in EVENTS.items()])
def test_an_event_carries(form: Form, model: Any, data: dict[str, Any], kind: Kind) -> None:
    assert Kind(classify_message_event(form(model, data), ResponseInfo())) == kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "ping"}, PING),
        (block("mcp_tool_use", id="t", name="f", server_name="s", input={}), TOOL),
        (block("web_search_tool_result", tool_use_id="t", content=[]), LIFECYCLE),
        (block("redacted_thinking", data="x"), LIFECYCLE),
        (block("of_the_future"), LIFECYCLE),
        (delta("citations_delta", citation={"type": "char_location"}), LIFECYCLE),
        (delta("of_the_future", text="?"), LIFECYCLE),
        ({"type": "of_the_future"}, LIFECYCLE),
        # The SDK's own helpers add events to those of the wire, which repeat what these carried.
        ({"type": "text", "text": "Hi", "snapshot": "Hi"}, LIFECYCLE),
        ({"type": "input_json", "partial_json": "{", "snapshot": {}}, LIFECYCLE),
    ],
)
@pytest.mark.requirement("R15")
def test_an_event_that_this_sdk_may_not_know_carries(data: dict[str, Any], kind: Kind) -> None:
    assert Kind(classify_message_event(data, ResponseInfo())) == kind


def read(form: Form, *events: tuple[Any, dict[str, Any]]) -> ResponseInfo:
    """The metadata of a response after all these events."""
    info = ResponseInfo()
    for model, data in events:
        classify_message_event(form(model, data), info)
    return info


TEXT = (DELTA, delta("text_delta", text="Hi"))
WHOLE = (
    (START, message_start(cache_read_input_tokens=8, cache_creation_input_tokens=4)),
    TEXT,
    (MESSAGE_DELTA, message_delta()),
    (STOP, MESSAGE_STOP),
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("response_id", "msg_1"),
        ("model", "claude-1"),
        ("finish_reasons", ["end_turn"]),
        ("input_tokens", 32),  # 20 + 8 read from the cache + 4 written to it
        ("output_tokens", 14),
        ("cache_read_tokens", 8),
        ("cache_creation_tokens", 4),
        ("reasoning_tokens", None),
        ("error_type", None),
        ("is_terminated", True),
    ],
)
def test_the_metadata_of_a_message_is_recorded(form: Form, field: str, expected: Any) -> None:
    assert getattr(read(form, *WHOLE), field) == expected


@pytest.mark.parametrize("form", FORMS)
def test_input_that_was_not_cached_is_all_input(form: Form) -> None:
    assert read(form, (START, message_start()), (MESSAGE_DELTA, message_delta())).input_tokens == 20


@pytest.mark.parametrize("form", FORMS)
def test_input_that_is_counted_again_at_the_end_is_counted_once(form: Form) -> None:
    counted = message_delta(input_tokens=20, cache_read_input_tokens=8, cache_creation_input_tokens=4)
    assert read(form, *WHOLE[:2], (MESSAGE_DELTA, counted)).input_tokens == 32


def test_the_thinking_tokens_of_a_message_are_recorded() -> None:
    counted = message_delta(output_tokens_details={"thinking_tokens": 9})
    assert read(as_dict, (START, message_start()), (MESSAGE_DELTA, counted)).reasoning_tokens == 9


@pytest.mark.requirement("R36")
@pytest.mark.parametrize("form", FORMS)
def test_a_message_that_was_left_before_its_end_has_no_count_of_its_output(form: Form) -> None:
    # What a message starts with is a count of what was there then, not of what it is going to be.
    assert read(form, (START, message_start()), TEXT, TEXT, TEXT).output_tokens is None


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("form", FORMS)
def test_a_message_without_an_end_is_not_finished(form: Form) -> None:
    assert not read(form, (START, message_start()), TEXT).is_finished


@pytest.mark.requirement("R52")
@pytest.mark.parametrize("form", FORMS)
def test_a_message_with_a_stop_reason_and_no_stop_is_finished(form: Form) -> None:
    assert read(form, (START, message_start()), (MESSAGE_DELTA, message_delta())).is_finished


# --- Odd events ----------------------------------------------------------------------------------------------------

ODD: dict[str, Any] = {
    "nothing at all": {},
    "null type": {"type": None},
    "a type that is a number": {"type": 3},
    "a type that is a list": {"type": []},
    "null delta": {"type": "content_block_delta", "index": 0, "delta": None},
    "missing delta": {"type": "content_block_delta", "index": 0},
    "empty delta": {"type": "content_block_delta", "index": 0, "delta": {}},
    "text delta": {"type": "content_block_delta", "index": 0, "delta": "Hi"},
    "a delta whose type is a list": delta([]),
    "a delta whose type is an object": delta({"a": 1}),
    "null text": delta("text_delta", text=None),
    "missing text": delta("text_delta"),
    "text that is a number": delta("text_delta", text=3),
    "null index": {**delta("text_delta", text="Hi"), "index": None},
    "missing index": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
    "null block": {"type": "content_block_start", "index": 0, "content_block": None},
    "missing block": {"type": "content_block_start", "index": 0},
    "a block whose type is a list": block([], name="f"),
    "a tool call without a name": block("tool_use", id="t", input={}),
    "null message": {"type": "message_start", "message": None},
    "missing message": {"type": "message_start"},
    "null usage": {"type": "message_start", "message": {"id": "m", "model": "c", "usage": None}},
    "numbers as text": message_start(input_tokens="20", output_tokens="1", cache_read_input_tokens="3"),
    "null counts": message_start(input_tokens=None, output_tokens=None),
    "negative counts": message_start(input_tokens=-1, output_tokens=-1),
    "huge counts": message_start(input_tokens=1 << 80, output_tokens=1 << 80),
    "true counts": message_start(input_tokens=True, output_tokens=False),
    "a model that is a number": {"type": "message_start", "message": {"id": 3, "model": 4}},
    "null end": {"type": "message_delta", "delta": None, "usage": None},
    "missing end": {"type": "message_delta"},
    "a stop reason that is a number": message_delta(3),
    "a usage that is text": {"type": "message_delta", "delta": {}, "usage": "14"},
    "a usage that is a list": {"type": "message_delta", "delta": {}, "usage": [14]},
    "details that are a list": message_delta(output_tokens_details=[1]),
    "unknown fields": {**delta("text_delta", text="Hi", extra=1), "more": {"a": [1]}},
    "an error": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
}
odd = pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in ODD.items()])
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


@odd
@pytest.mark.requirement("R15")
@pytest.mark.parametrize("classify", [classify_message_event, classify_legacy_completion])
@pytest.mark.parametrize("form", [as_dict, constructed])
def test_an_odd_event_raises_nothing(
    classify: Callable[[Any, ResponseInfo], int], form: Form, data: dict[str, Any]
) -> None:
    assert recordable(classify(form(DELTA, data), ResponseInfo()))


@odd
@pytest.mark.requirement("R15")
def test_the_metadata_of_an_odd_event_fits_a_span(data: dict[str, Any]) -> None:
    assert misfits(read(as_dict, (None, data))) == []


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("form", [as_dict, constructed])
@pytest.mark.parametrize("name", ["null index", "missing index", "unknown fields"])
def test_an_odd_event_that_carries_text_is_an_answer(form: Form, name: str) -> None:
    assert Kind(classify_message_event(form(DELTA, ODD[name]), ResponseInfo())) == ANSWER


@pytest.mark.parametrize("name", ["numbers as text", "null counts", "negative counts"])
def test_a_count_that_is_no_whole_number_is_unknown(name: str) -> None:
    assert read(as_dict, (None, ODD[name])).input_tokens is None


# --- Text completions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "completion", "completion": "Hi", "stop_reason": None}, ANSWER),
        ({"type": "completion", "completion": "", "stop_reason": None}, EMPTY),
        ({"type": "completion", "completion": "", "stop_reason": "stop_sequence"}, FINISH),
        ({"type": "completion", "completion": "Hi", "stop_reason": "max_tokens"}, ANSWER | FINISH),
        ({"type": "completion"}, EMPTY),
    ],
)
def test_a_chunk_of_a_text_completion_carries(data: dict[str, Any], kind: Kind) -> None:
    assert Kind(classify_legacy_completion(data, ResponseInfo())) == kind


def test_the_stop_reason_of_a_text_completion_is_recorded() -> None:
    info = ResponseInfo()
    classify_legacy_completion({"completion": "", "stop_reason": "stop_sequence"}, info)
    assert info.finish_reasons == ["stop_sequence"]


# --- Anything ------------------------------------------------------------------------------------------------------

json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=4),
        st.sampled_from(["end_turn", "error", "ping", "message_start", "message_delta", "text_delta", "tool_use"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """An event of the wire with one value of it replaced by anything."""
    data = deepcopy(draw(st.sampled_from([data for _, data, _ in EVENTS.values()])))
    place: Any = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
            place = place[key]
        else:
            place[key] = draw(json)
            return data


every = pytest.mark.parametrize("classify", [classify_message_event, classify_legacy_completion])


@every
@pytest.mark.requirement("R15")
@settings(max_examples=120, deadline=None)
@given(data=st.one_of(mutated(), json))
def test_no_event_raises(classify: Callable[[Any, ResponseInfo], int], data: Any) -> None:
    info = ResponseInfo()
    assert (recordable(classify(data, info)), misfits(info)) == (True, [])


@every
@pytest.mark.requirement("R15")
@settings(max_examples=60, deadline=None)
@given(data=mutated())
def test_no_object_of_the_sdk_raises(classify: Callable[[Any, ResponseInfo], int], data: Any) -> None:
    info = ResponseInfo()
    model = next(model for model, known, _ in EVENTS.values() if known.keys() == data.keys())
    assert (recordable(classify(model.construct(**data), info)), misfits(info)) == (True, [])
