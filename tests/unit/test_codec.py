"""Timelines as token events and back: what is written is what is read, and what cannot be read is reported."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from otel_itl.core import conventions as names
from otel_itl.core.decoding import MalformedEventsError, decode, read_timeline
from otel_itl.core.encoding import TokenEvent, encode, encode_each
from otel_itl.core.measures import measure
from otel_itl.core.thinning import MAX_CHUNKS
from otel_itl.core.timeline import OUTPUT, Kind, Outcome, Timeline

quick = settings(max_examples=35, deadline=None)
US = 1_000
MS = 1_000_000
WALL = 1_700_000_000_123_456_789
"""Any wall-clock time: it is no multiple of a microsecond."""

counts = st.one_of(st.none(), st.just(0), st.integers(0, 10**12))
microseconds = st.one_of(st.integers(0, 2_000), st.integers(0, 10**8))


@st.composite
def timelines(draw: st.DrawFn, most: int = 12) -> Timeline:
    """Any timeline with a resolution of one microsecond that can be recorded."""
    chunks = draw(st.integers(0, most))

    def each(of: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(of, min_size=chunks, max_size=chunks))

    arrived = [moment * US for moment in accumulate(each(microseconds))]
    asked = [max(moment - wait * US, 0) for moment, wait in zip(arrived, each(microseconds), strict=True)]
    return Timeline(
        request_unix_ns=draw(st.integers(0, 2 * 10**18)),
        asked=array("q", asked),
        arrived=array("q", arrived),
        kinds=bytes(each(st.integers(0, 255))),
        tokens=array("I", draw(st.one_of(st.just([]), st.just(each(st.integers(0, 2**32 - 1)))))),
        choices=bytes(draw(st.one_of(st.just([]), st.just(each(st.integers(0, 255)))))),
        lateness=array("q", draw(st.one_of(st.just([]), st.just([US * late for late in each(microseconds)])))),
        unrecorded=draw(st.sampled_from([0, 1, 10**6])),
        headers=draw(st.one_of(st.none(), st.integers(0, 10**9).map(lambda moment: moment * US))),
        end=draw(st.integers(0, 10**10)) * US,
        outcome=draw(st.sampled_from(Outcome)),
        input_tokens=draw(counts),
        output_tokens=draw(counts),
        reasoning_tokens=draw(counts),
        attempts=draw(st.one_of(st.none(), st.integers(1, 9))),
    )


def long(chunks: int, gaps: Iterable[int] | None = None, **facts: Any) -> Timeline:
    """A stream of that many chunks, whose consumer waits for each; gaps in microseconds."""
    rng = Random(chunks)  # noqa: S311 - any numbers will do
    gaps = [rng.randrange(500, 40_000) for _ in range(chunks)] if gaps is None else gaps
    arrived = array("q", [moment * US for moment in accumulate(gaps)])
    return Timeline(
        **{
            "request_unix_ns": WALL,
            "asked": array("q", [0, *arrived[:-1]]),
            "arrived": arrived,
            "kinds": bytes([Kind.ANSWER]) * chunks,
            "end": arrived[-1],
            "output_tokens": chunks,
            **facts,
        }
    )


SHORT = Timeline(
    request_unix_ns=WALL,
    asked=array("q", [0, 200_000, 500_000]),
    arrived=array("q", [200_000, 500_000, 540_000]),
    kinds=bytes([Kind.ROLE, Kind.ANSWER, Kind.ANSWER]),
    tokens=array("I", [0, 1, 2]),
    choices=b"\0\0\1",
    lateness=array("q", [0, 2_000_000, 0]),
    headers=190_000,
    end=560_000,
    outcome=Outcome.CLOSED,
    input_tokens=20,
    output_tokens=3,
    reasoning_tokens=0,
    attempts=2,
)


# --- What is written is what is read -------------------------------------------------------------------------------


@quick
@given(timelines(), st.integers(1, 1_000))
def test_packed_events_hold_the_whole_timeline(timeline: Timeline, limit: int) -> None:
    assert decode(encode(timeline, limit)) == timeline


@quick
@given(timelines(), st.integers(1, 1_000))
def test_an_event_for_each_chunk_holds_the_whole_timeline_where_it_fits(timeline: Timeline, limit: int) -> None:
    events = encode_each(timeline, limit)
    assert events is None or decode(events) == timeline


@quick
@given(timelines(), st.integers(1, 40))
def test_an_event_for_each_chunk_is_used_exactly_where_it_fits(timeline: Timeline, limit: int) -> None:
    events = encode_each(timeline, limit)
    outputs = sum(1 for kind in timeline.kinds if kind & OUTPUT)
    assert (events is not None) is (outputs + 1 <= limit)


@quick
@given(timelines(), st.integers(1, 40))
def test_an_event_for_each_chunk_never_takes_more_than_the_limit(timeline: Timeline, limit: int) -> None:
    assert len(encode_each(timeline, limit) or ()) <= limit


@quick
@given(timelines(), st.randoms(use_true_random=False))
def test_the_order_of_single_events_does_not_matter(timeline: Timeline, rng: Any) -> None:
    events = encode_each(timeline, 1_000) or []
    rng.shuffle(events)
    assert decode(events) == timeline


@quick
@given(timelines())
def test_events_of_other_names_are_passed_over(timeline: Timeline) -> None:
    foreign = TokenEvent("gen_ai.content.chunk", WALL, {names.TOKENS_OFFSETS: "nothing of ours"})
    assert decode([foreign, *encode(timeline), foreign]) == timeline


@pytest.mark.requirement("R56")
@pytest.mark.parametrize("limit", [0, 1, 3, 4, 7, 8, 128, 256, 1_000])
@pytest.mark.parametrize("chunks", [1, 1_023, 1_024, 1_025, 4_000, MAX_CHUNKS])
def test_packed_events_take_at_most_a_quarter_of_the_limit_and_one_for_1024_chunks(chunks: int, limit: int) -> None:
    assert len(encode(long(chunks, [20] * chunks), limit)) <= min(max(limit // 4, 1), -(-chunks // 1_024))


@pytest.mark.parametrize("limit", [1, 8, 128, 1_000])
@pytest.mark.parametrize("chunks", [1_023, 1_024, 1_025, 5_000])
def test_a_timeline_of_many_events_is_read_back_whole(chunks: int, limit: int) -> None:
    timeline = long(chunks, tokens=array("I", range(chunks)), choices=bytes(j % 256 for j in range(chunks)))
    assert decode(encode(timeline, limit)) == timeline


def test_a_timeline_of_65536_chunks_is_read_back_whole() -> None:
    timeline = long(MAX_CHUNKS)
    assert decode(encode(timeline)) == timeline


def test_a_stream_without_chunks_is_one_event() -> None:
    assert len(encode(Timeline(request_unix_ns=WALL))) == 1


def test_moments_are_written_in_microseconds_after_the_request() -> None:
    assert encode(SHORT)[0].attributes[names.TOKENS_OFFSETS] == (200, 500, 540)


def test_waits_are_written_in_microseconds() -> None:
    assert encode(SHORT)[0].attributes[names.TOKENS_WAITS] == (200, 300, 40)


def test_lateness_is_written_in_microseconds() -> None:
    assert encode(SHORT)[0].attributes[names.TOKENS_LATENESS] == (0, 2_000, 0)


def test_lateness_is_absent_where_nothing_was_late() -> None:
    assert names.TOKENS_LATENESS not in encode(replace(SHORT, lateness=array("q")))[0].attributes


def test_kinds_are_written_as_runs() -> None:
    # One role chunk, two answers.
    assert encode(SHORT)[0].attributes[names.TOKENS_KINDS] == (8, 1, 2, 2)


def test_a_packed_event_has_the_time_of_its_last_chunk() -> None:
    assert encode(SHORT)[0].unix_ns == WALL + 540_000


def test_an_event_of_one_chunk_has_the_time_of_its_arrival() -> None:
    events = encode_each(SHORT) or []
    assert [event.unix_ns for event in events if event.name == names.TOKEN_EVENT] == [WALL + 500_000, WALL + 540_000]


def test_a_chunk_without_output_has_no_event_of_its_own() -> None:
    events = encode_each(SHORT) or []
    assert [event.attributes[names.TOKEN_INDEX] for event in events if event.name == names.TOKEN_EVENT] == [1, 2]


def test_only_the_last_packed_event_holds_the_facts_of_the_stream() -> None:
    held = [names.STREAM_OUTCOME in event.attributes for event in encode(long(3_000))]
    assert held == [False, False, True]


def test_nothing_is_written_for_what_is_unknown() -> None:
    attributes = encode(Timeline(request_unix_ns=WALL))[0].attributes
    facts = {names.STREAM_OUTCOME, names.STREAM_END, names.STREAM_REQUEST_TIME, names.TOKENS_RECORDED}
    assert attributes.keys() == facts


def test_a_thinned_timeline_in_packed_events_is_read_back() -> None:
    timeline = long(5, skipped=array("I", [0, 0, 7, 0, 2]))
    assert decode(encode(timeline)) == timeline


def test_a_thinned_timeline_in_single_events_is_read_back_or_refused() -> None:
    timeline = long(5, skipped=array("I", [0, 0, 7, 0, 2]))
    events = encode_each(timeline)
    assert events is None or decode(events) == timeline


# --- More than can be held -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless() -> Timeline:
    """100,000 chunks, 10 to 30 ms apart; every thousandth of the tail stalls."""
    rng = Random(1)  # noqa: S311 - any numbers will do
    gaps = [rng.randrange(10_000, 30_000) for _ in range(100_000)]
    for index in range(40_500, 100_000, 1_000):
        gaps[index] = 1_000_000 + index
    return long(100_000, gaps)


@pytest.fixture(scope="module")
def stored(endless: Timeline) -> Timeline:
    return decode(encode(endless))


def test_an_endless_stream_is_thinned_to_what_can_be_held(stored: Timeline) -> None:
    assert len(stored) <= MAX_CHUNKS


def test_an_endless_stream_takes_no_more_events_than_any_other(endless: Timeline) -> None:
    assert len(encode(endless)) <= 32


def test_the_first_half_of_what_is_held_is_as_it_was(endless: Timeline, stored: Timeline) -> None:
    half = MAX_CHUNKS // 2
    assert (stored.arrived[:half], stored.asked[:half], any(stored.skipped[:half])) == (
        endless.arrived[:half],
        endless.asked[:half],
        False,
    )


def test_the_last_chunk_is_kept(endless: Timeline, stored: Timeline) -> None:
    assert stored.arrived[-1] == endless.arrived[-1]


def test_every_chunk_that_was_left_out_is_counted(endless: Timeline, stored: Timeline) -> None:
    assert sum(stored.skipped) + len(stored) == len(endless)


@pytest.mark.requirement("R57")
def test_what_was_left_out_is_counted_in_one_number(endless: Timeline, stored: Timeline) -> None:
    assert encode(endless)[-1].attributes[names.TOKENS_DROPPED] == len(endless) - len(stored)


@pytest.mark.requirement("R57")
def test_there_is_no_count_of_dropped_tokens_where_none_were() -> None:
    assert names.TOKENS_DROPPED not in encode(SHORT)[-1].attributes


@pytest.mark.requirement("R57")
def test_chunks_that_were_never_timed_are_among_the_dropped() -> None:
    assert encode(long(3, unrecorded=5))[-1].attributes[names.TOKENS_DROPPED] == 5


def test_the_longest_gaps_are_kept_whole(endless: Timeline, stored: Timeline) -> None:
    expected = {(endless.arrived[index - 1], endless.arrived[index]) for index in range(40_500, 100_000, 1_000)}
    assert expected - set(pairwise(stored.arrived)) == set()


def test_the_mean_gap_of_an_endless_stream_is_kept(endless: Timeline, stored: Timeline) -> None:
    assert measure(stored).itl_mean == pytest.approx(measure(endless).itl_mean, rel=1e-9)


def test_the_longest_gap_of_an_endless_stream_is_kept(endless: Timeline, stored: Timeline) -> None:
    assert measure(stored).itl_max == measure(endless).itl_max


@pytest.fixture(scope="module")
def scattered() -> Timeline:
    """The longest gaps lie where an even choice of every eighth chunk leaves out both of their ends."""
    chunks = MAX_CHUNKS // 2 + 8 * 30_720
    gaps = [10] * chunks
    for index in range(1_024):
        gaps[MAX_CHUNKS // 2 + 8 * index + 4] = 5_000
    return long(chunks, gaps)


@pytest.mark.parametrize("chunks", [MAX_CHUNKS + 1, 70_001, 131_072])
def test_no_stream_is_stored_with_more_chunks_than_can_be_held(chunks: int) -> None:
    assert len(decode(encode(long(chunks, [20] * chunks)))) <= MAX_CHUNKS


def test_long_gaps_are_not_kept_on_top_of_what_can_be_held(scattered: Timeline) -> None:
    assert len(decode(encode(scattered))) <= MAX_CHUNKS


def test_what_was_thinned_once_is_not_thinned_again(endless: Timeline, stored: Timeline) -> None:
    assert decode(encode(stored)) == stored


def test_what_was_thinned_and_written_again_still_counts_every_chunk(scattered: Timeline) -> None:
    twice = decode(encode(decode(encode(scattered))))
    assert sum(twice.skipped) + len(twice) == len(scattered)


# --- Through a span and over the wire ------------------------------------------------------------------------------


def ended_span(events: Sequence[TokenEvent]) -> ReadableSpan:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("chat")
    for event in events:
        span.add_event(event.name, event.attributes, event.unix_ns)
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


def read_from_wire(span: ReadableSpan) -> Timeline:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        held = getattr(value, kind)
        return [plain(item) for item in held.values] if kind == "array_value" else held

    wire = encode_spans([span]).SerializeToString()
    sent = ExportTraceServiceRequest.FromString(wire).resource_spans[0].scope_spans[0].spans[0]
    return decode(
        (event.name, event.time_unix_nano, {pair.key: plain(pair.value) for pair in event.attributes})
        for event in sent.events
    )


through = pytest.mark.parametrize("reading", [read_timeline, read_from_wire])
forms = pytest.mark.parametrize("form", [encode, encode_each])


@through
@forms
@settings(max_examples=25, deadline=None)
@given(timeline=timelines(most=12))
def test_a_timeline_survives_a_span(reading: Any, form: Any, timeline: Timeline) -> None:
    assert reading(ended_span(form(timeline))) == timeline


@through
def test_a_long_timeline_survives_a_span(reading: Any) -> None:
    timeline = long(5_000)
    assert reading(ended_span(encode(timeline))) == timeline


def test_a_timeline_is_read_from_the_events_themselves() -> None:
    assert read_timeline(event for event in encode(SHORT)) == SHORT


def test_a_span_without_token_events_has_no_timeline() -> None:
    with pytest.raises(MalformedEventsError, match=r"no itl\.tokens event holds itl\.stream\.outcome"):
        read_timeline(ended_span([]))


def test_an_event_without_attributes_is_malformed() -> None:
    with pytest.raises(MalformedEventsError):
        read_timeline(ended_span([TokenEvent(names.TOKENS_EVENT, WALL, {})]))


def test_the_longest_timeline_survives_a_span_with_the_default_limits() -> None:
    timeline = long(MAX_CHUNKS)
    assert read_timeline(ended_span(encode(timeline))) == timeline


# --- What no timeline can be read from -----------------------------------------------------------------------------

Event = tuple[str, int, Mapping[str, Any]]
PACKED: list[Event] = [tuple(event) for event in encode(SHORT)]
EACH: list[Event] = [tuple(event) for event in encode_each(SHORT) or ()]
ARRAYS = (
    names.TOKENS_OFFSETS,
    names.TOKENS_WAITS,
    names.TOKENS_KINDS,
    names.TOKENS_COUNTS,
    names.TOKENS_CHOICES,
)
NUMBERS = (
    names.STREAM_END,
    names.STREAM_HEADERS,
    names.STREAM_REQUEST_TIME,
    names.USAGE_INPUT_TOKENS,
    names.USAGE_OUTPUT_TOKENS,
    names.USAGE_REASONING_TOKENS,
    names.REQUEST_ATTEMPTS,
)
MEASURED = (names.TOKENS_OFFSETS, names.TOKENS_WAITS, names.TOKENS_KINDS, names.TOKEN_WAIT, names.TOKEN_KIND)
"""Attributes that the figures follow from, but for token counts: a count may claim any number of samples."""
SINGLES = (names.TOKEN_INDEX, names.TOKEN_WAIT, names.TOKEN_KIND, names.TOKEN_COUNT, names.TOKEN_CHOICE)


def changed(events: Sequence[Event], attribute: str, value: Any, where: int = -1) -> list[Event]:
    """The events with one attribute of one of them replaced."""
    name, unix_ns, attributes = events[where]
    copied = list(events)
    copied[where] = (name, unix_ns, {**attributes, attribute: value})
    return copied


def without(events: Sequence[Event], attribute: str, where: int = -1) -> list[Event]:
    name, unix_ns, attributes = events[where]
    copied = list(events)
    copied[where] = (name, unix_ns, {key: value for key, value in attributes.items() if key != attribute})
    return copied


def test_no_events_are_malformed() -> None:
    with pytest.raises(MalformedEventsError, match=r"no itl\.tokens event holds itl\.stream\.outcome"):
        decode([])


def test_single_events_without_the_one_that_closes_them_are_malformed() -> None:
    with pytest.raises(MalformedEventsError, match=r"last token event is missing"):
        decode(EACH[:-1])


def test_a_malformed_event_is_a_value_error() -> None:
    assert issubclass(MalformedEventsError, ValueError)


@pytest.mark.parametrize(
    "attribute",
    [
        names.TOKENS_OFFSETS,
        names.TOKENS_WAITS,
        names.TOKENS_KINDS,
        names.STREAM_OUTCOME,
        names.STREAM_END,
        names.STREAM_REQUEST_TIME,
    ],
)
def test_a_packed_event_without_a_needed_attribute_is_malformed(attribute: str) -> None:
    with pytest.raises(MalformedEventsError):
        decode(without(PACKED, attribute))


@pytest.mark.parametrize("attribute", [names.TOKEN_INDEX, names.TOKEN_WAIT, names.TOKEN_KIND])
def test_a_single_event_without_a_needed_attribute_is_malformed(attribute: str) -> None:
    with pytest.raises(MalformedEventsError):
        decode(without(EACH, attribute, where=0))


def test_single_events_without_the_indexes_of_the_others_are_malformed() -> None:
    with pytest.raises(MalformedEventsError):
        decode(without(EACH, names.TOKENS_INDEXES))


@pytest.mark.parametrize("attribute", ARRAYS)
@pytest.mark.parametrize("length", [1, 2, 4])
def test_an_array_of_another_length_is_malformed(attribute: str, length: int) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, [1] * length))


@pytest.mark.parametrize("attribute", ARRAYS)
@pytest.mark.parametrize("value", ["abc", 3, 2.5, True, ["a", "b", "c"], [1.5, 2.5, 3.5], [None] * 3, [[1], [2], [3]]])
def test_an_array_of_another_type_is_malformed(attribute: str, value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, value))


@pytest.mark.parametrize("runs", [[2, 4], [2, 1], [2, 3, 2], [2, -3, 2, 6], [-1, 3], [256, 3], [2, 3.0], [2.0, 3]])
def test_runs_of_kinds_that_do_not_fit_are_malformed(runs: list[Any]) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, names.TOKENS_KINDS, runs))


@pytest.mark.parametrize("attribute", [names.TOKENS_CHOICES, names.TOKENS_COUNTS])
@pytest.mark.parametrize("value", [-1, 1 << 40])
def test_a_number_that_its_field_cannot_hold_is_malformed(attribute: str, value: int) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, [0, 0, value]))


@pytest.mark.parametrize("attribute", NUMBERS)
@pytest.mark.parametrize("value", ["soon", 2.5, [1], {"a": 1}])
def test_a_fact_of_another_type_is_malformed(attribute: str, value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, value))


@pytest.mark.parametrize("attribute", [names.STREAM_END, names.STREAM_REQUEST_TIME])
def test_a_needed_fact_of_nothing_is_malformed(attribute: str) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, None))


@pytest.mark.parametrize("value", ["soon", 2.5, [1]])
def test_a_count_of_unrecorded_chunks_of_another_type_is_malformed(value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, names.TOKENS_UNRECORDED, value))


@pytest.mark.parametrize(
    "attribute",
    [
        names.STREAM_END,
        names.STREAM_HEADERS,
        names.STREAM_REQUEST_TIME,
        names.TOKENS_UNRECORDED,
        names.USAGE_INPUT_TOKENS,
        names.USAGE_OUTPUT_TOKENS,
        names.USAGE_REASONING_TOKENS,
        names.REQUEST_ATTEMPTS,
    ],
)
def test_a_fact_below_zero_is_malformed(attribute: str) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, -1))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (names.TOKENS_WAITS, [200, -1, 40]),  # it came before it was asked for
        (names.TOKENS_OFFSETS, [-200, 500, 540]),  # it came before the request
        (names.TOKENS_OFFSETS, [500, 200, 540]),  # it came before its predecessor
    ],
)
def test_moments_that_cannot_have_been_are_malformed(attribute: str, value: list[int]) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, attribute, value))


@pytest.mark.parametrize("value", ["finished", "", 1, None, ["closed"], {"closed": 1}])
def test_an_unknown_outcome_is_malformed(value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(PACKED, names.STREAM_OUTCOME, value))


@pytest.mark.parametrize("attribute", SINGLES)
@pytest.mark.parametrize("value", ["soon", 2.5, None, [1], {"a": 1}])
def test_an_attribute_of_a_single_event_of_another_type_is_malformed(attribute: str, value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(EACH, attribute, value, where=0))


@pytest.mark.parametrize("value", ["soon", 3, [0, 1], [7], ["a"], [None]])
def test_indexes_that_do_not_fit_are_malformed(value: Any) -> None:
    with pytest.raises(MalformedEventsError):
        decode(changed(EACH, names.TOKENS_INDEXES, value))


def test_two_single_events_of_the_same_chunk_are_malformed() -> None:
    with pytest.raises(MalformedEventsError):
        decode([EACH[0], *EACH])


def test_a_single_event_that_was_lost_is_noticed() -> None:
    with pytest.raises(MalformedEventsError):
        decode(EACH[1:])


def test_the_message_names_what_does_not_fit() -> None:
    with pytest.raises(MalformedEventsError, match=r"2 itl\.tokens\.offsets beside 3 itl\.tokens\.waits"):
        decode(changed(PACKED, names.TOKENS_OFFSETS, [1, 2]))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 300),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
)
anything = st.one_of(
    scalars,
    st.lists(scalars, max_size=5),
    st.dictionaries(st.text(max_size=2), scalars, max_size=2),
    st.lists(st.none()),
)


@settings(max_examples=150, deadline=None)
@given(
    events=st.sampled_from([PACKED, EACH]),
    where=st.integers(0, len(EACH) - 1),
    attribute=st.sampled_from([*ARRAYS, *NUMBERS, *SINGLES, names.TOKENS_INDEXES, names.STREAM_OUTCOME]),
    value=anything,
)
def test_events_with_any_one_value_raise_nothing_but_that_they_are_malformed(
    events: list[Event], where: int, attribute: str, value: Any
) -> None:
    with suppress(MalformedEventsError):
        decode(changed(events, attribute, value, where % len(events)))


@settings(max_examples=150, deadline=None)
@given(
    events=st.sampled_from([PACKED, EACH]),
    where=st.integers(0, len(EACH) - 1),
    attribute=st.sampled_from([*MEASURED, *NUMBERS, names.TOKENS_INDEXES, names.TOKENS_UNRECORDED]),
    value=anything,
)
def test_whatever_is_read_can_be_measured(events: list[Event], where: int, attribute: str, value: Any) -> None:
    with suppress(MalformedEventsError):
        timeline = decode(changed(events, attribute, value, where % len(events)))
        assert measure(timeline).chunk_count >= 0


def test_a_token_event_that_a_span_has_dropped_is_noticed() -> None:
    whole = encode(long(3_000))
    with pytest.raises(MalformedEventsError, match="1976 of 3000 chunks"):
        decode(whole[1:])
