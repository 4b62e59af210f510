"""Whatever comes in, in whatever shape, is read without an exception, or refused in the words that are documented.

`ITL_TEST_EXAMPLES=100000 pytest tests/production/test_fuzz.py` looks for longer.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable
from copy import deepcopy
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from replies import BODIES, ODD_EVENTS

from otel_itl.core.decoding import MalformedEventsError, decode
from otel_itl.core.encoding import encode, encode_each
from otel_itl.core.measures import Measures, measure
from otel_itl.core.stream import ResponseInfo
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.sdks.duck_typing import classify_by_shape
from otel_itl.sdks.formats.anthropic_messages import classify_legacy_completion, classify_message_event
from otel_itl.sdks.formats.openai_chat import classify_chat, classify_reasoning_chat, classify_text_completion
from otel_itl.sdks.formats.openai_responses import classify_response_event
from otel_itl.tools.report.reading.documents import UnreadableSourceError
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import StoredStream, read_streams

if TYPE_CHECKING:
    from pathlib import Path

    from otel_itl.recording.chunk_log import Classify

LONGER: Final = os.environ.get("ITL_TEST_EXAMPLES")
CLASSIFIERS: Final[dict[str, Classify]] = {
    "chat": classify_chat,
    "reasoning chat": classify_reasoning_chat,
    "completion": classify_text_completion,
    "response": classify_response_event,
    "message": classify_message_event,
    "legacy completion": classify_legacy_completion,
    "shape": classify_by_shape,
}


def fuzzed(examples: int) -> Callable[[Any], Any]:
    """Tried so often, the same way each time, or for as long as is asked for."""
    return settings(
        max_examples=int(LONGER or examples),
        deadline=None,
        derandomize=LONGER is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


JSON_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 2**31, 2**32, 2**63, 2**64, 10**30])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "x", "\ud800", "stop", "assistant", "text_delta", "error", "[DONE]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def _documents() -> list[Any]:
    found = []
    for events in (*BODIES.values(), *ODD_EVENTS.values()):
        for event in events:
            _, _, data = event.partition(b"data: ")
            try:
                document = json.loads(data)
            except ValueError:
                continue
            found.append(document)
    return found


DOCUMENTS: Final = _documents()


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else ())
    )
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn, originals: list[Any]) -> Any:
    """A document in which some parts are something else, or gone."""
    document = deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        *path, last = draw(st.sampled_from(_places(document))) or [None]
        if last is None:
            return draw(JSON_VALUES)
        holder = document
        for key in path:
            holder = holder[key]
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[last]
            continue
        holder[last] = draw(JSON_VALUES)
    return document


def check(answer: ResponseInfo) -> None:
    """A span can hold what an answer reports of itself."""
    for name in ("response_id", "model", "error_type"):
        value = getattr(answer, name)
        assert value is None or (isinstance(value, str) and len(value) <= 256 and value.encode() is not None)
    for name in ("input", "output", "reasoning", "cache_read", "cache_creation"):
        value = getattr(answer, f"{name}_tokens")
        assert value is None or 0 <= value < 2**63
    assert all(reason and reason.encode() for reason in answer.finish_reasons)


@pytest.mark.slow
@pytest.mark.requirement("R15")
@pytest.mark.parametrize("name", CLASSIFIERS)
@fuzzed(300)
@given(chunks=st.lists(st.one_of(mutated(DOCUMENTS), JSON_VALUES), max_size=6))
def test_any_chunk_is_classified(name: str, chunks: list[Any]) -> None:
    answer = ResponseInfo()
    for chunk in chunks:
        code = CLASSIFIERS[name](chunk, answer)
        assert type(code) is int
        assert 0 <= code < 2**40
    check(answer)


@pytest.mark.slow
@pytest.mark.requirement("R15")
@fuzzed(500)
@given(chunk=mutated([document for document in DOCUMENTS if isinstance(document, dict) and "choices" in document]))
def test_any_chunk_that_the_sdk_makes_is_classified(chunk: Any) -> None:
    if not isinstance(chunk, dict):
        return
    try:
        made = ChatCompletionChunk.construct(**chunk)
    except Exception:
        return
    answer = ResponseInfo()
    assert 0 <= classify_chat(made, answer) < 2**40
    check(answer)


# --- token events ----------------------------------------------------------------------------------------------------


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    steps = draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 255)), max_size=12))
    moments = list(accumulate((hold + wait for hold, wait, _ in steps)))
    return Timeline(
        request_unix_ns=draw(st.integers(0, 2**62)),
        asked=array("q", [(moment - wait) * 1_000 for moment, (_, wait, _) in zip(moments, steps, strict=True)]),
        arrived=array("q", [moment * 1_000 for moment in moments]),
        kinds=bytes(kind for _, _, kind in steps),
        end=(moments[-1] if moments else 0) * 1_000,
        outcome=draw(st.sampled_from(Outcome)),
        output_tokens=draw(st.none() | st.integers(0, 2**40)),
    )


@st.composite
def broken_events(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    timeline = draw(timelines())
    made = (encode_each(timeline) if draw(st.booleans()) else None) or encode(timeline)
    events = [(event.name, event.unix_ns, dict(event.attributes)) for event in made]
    for _ in range(draw(st.integers(0, 3))):
        _name, _unix_ns, attributes = draw(st.sampled_from(events))
        if attributes:
            attributes[draw(st.sampled_from(sorted(attributes)))] = draw(
                st.lists(st.integers(-5, 2**40), max_size=6) | JSON_VALUES
            )
    return draw(st.permutations(events)) if draw(st.booleans()) else events


@pytest.mark.slow
@fuzzed(1_000)
@given(events=broken_events())
def test_any_token_events_make_a_timeline_or_are_said_to_make_none(events: list[tuple[Any, ...]]) -> None:
    try:
        timeline = decode(events)
    except MalformedEventsError:
        return
    assert isinstance(measure(timeline), Measures)


# --- files -----------------------------------------------------------------------------------------------------------


def _otlp(timeline: Timeline) -> dict[str, Any]:
    def value(given: Any) -> dict[str, Any]:
        if isinstance(given, int):
            return {"intValue": str(given)}
        if isinstance(given, str):
            return {"stringValue": given}
        return {"arrayValue": {"values": [value(each) for each in given]}}

    events = [
        {
            "name": event.name,
            "timeUnixNano": str(event.unix_ns),
            "attributes": [{"key": key, "value": value(given)} for key, given in event.attributes.items()],
        }
        for event in encode(timeline)
    ]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "chat m", "attributes": [], "events": events}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


TELEMETRY: Final = [
    _otlp(Timeline(request_unix_ns=1_000, end=5_000)),
    _otlp(
        Timeline(
            request_unix_ns=10**18,
            asked=array("q", [0, 3_000]),
            arrived=array("q", [2_000, 9_000]),
            kinds=bytes([Kind.ANSWER, Kind.FINISH]),
            end=9_000,
        )
    ),
]


@pytest.mark.slow
@fuzzed(700)
@given(
    documents=st.lists(mutated(TELEMETRY), max_size=3),
    noise=st.binary(max_size=60),
    place=st.integers(0, 5_000),
    cut=st.integers(0, 60),
)
def test_any_file_is_read_or_said_to_be_unreadable(
    documents: list[Any], noise: bytes, place: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "\n".join(json.dumps(document) for document in documents).encode()
    path: Path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_bytes(text[:place] + noise + text[place + cut :])
    try:
        streams = list(read_streams([str(path)], SkippedInput()))
    except UnreadableSourceError:
        return
    assert all(isinstance(stream, StoredStream) for stream in streams)
