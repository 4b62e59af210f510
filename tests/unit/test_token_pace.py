"""The pace of the tokens where reasoning was streamed itself, as a summary, or not at all."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.decoding import decode
from otel_itl.core.encoding import encode, encode_each
from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import Kind, Timeline

MS = 1_000_000
R, A, T, L, E = (int(kind) for kind in (Kind.REASONING, Kind.ANSWER, Kind.TOOL, Kind.LIFECYCLE, Kind.EMPTY))
FIGURES = ("time_per_output_token", "output_speed", "tokens_per_chunk")


def stream(*chunks: tuple[int, float], start: float = 500.0, **facts: Any) -> Timeline:
    """Chunks of these kinds, each so many milliseconds after the one before and waited for all the time."""
    arrived, moment = array("q"), start
    for _, gap in chunks:
        moment += gap
        arrived.append(round(moment * MS))
    asked = array("q", [0, *arrived[:-1]][: len(arrived)])
    end = arrived[-1] if arrived else 0
    return Timeline(
        request_unix_ns=0, asked=asked, arrived=arrived, kinds=bytes(kind for kind, _ in chunks), end=end, **facts
    )


def summarised(reasoning: int | None = 3_000, **facts: Any) -> Timeline:
    """3,000 tokens of reasoning, a summary of them in 40 chunks within 40 ms, and 50 tokens of answer every 20 ms."""
    chunks = [(R, 1.0)] * 40 + [(A, 20.0)] * 50
    return stream(*chunks, output_tokens=3_050, reasoning_tokens=reasoning, **facts)


def figures(timeline: Timeline) -> tuple[float | None, ...]:
    measures = measure(timeline)
    return tuple(getattr(measures, name) for name in FIGURES)


# --- A summary -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_format", [True, False])
def test_the_pace_of_a_stream_with_a_summary_is_that_of_the_answer(by_format: bool) -> None:
    assert figures(summarised(is_reasoning_partial=by_format)) == pytest.approx((0.020, 50.0, 1.0))


@pytest.mark.parametrize("reasoning", [None, 0])
def test_a_summary_of_reasoning_that_is_not_counted_leaves_no_pace(reasoning: int | None) -> None:
    assert figures(summarised(reasoning, is_reasoning_partial=True)) == (None, None, None)


def test_it_is_known_that_the_pace_is_of_the_answer() -> None:
    measures = measure(summarised())
    assert (measures.is_pace_of_answer, measures.paced_tokens) == (True, 49)


def test_a_summary_that_trickles_in_while_the_model_reasons_does_not_slow_the_answer_down() -> None:
    chunks = [(R, 1_500.0)] * 40 + [(A, 20.0)] * 50
    timeline = stream(*chunks, output_tokens=3_050, reasoning_tokens=3_000, is_reasoning_partial=True)
    assert figures(timeline)[0] == pytest.approx(0.020)


def test_a_summary_in_as_many_chunks_as_the_reasoning_had_tokens_is_known_by_its_speed() -> None:
    timeline = stream(*[(R, 1.0)] * 200, *[(A, 20.0)] * 50, output_tokens=300, reasoning_tokens=250)
    assert figures(timeline)[0] == pytest.approx(0.020)


def test_reasoning_that_comes_in_one_piece_is_not_in_the_pace() -> None:
    timeline = stream((R, 0.0), *[(A, 20.0)] * 50, output_tokens=550, reasoning_tokens=500)
    assert figures(timeline) == pytest.approx((0.020, 50.0, 1.0))


def test_an_answer_in_one_chunk_has_no_pace_but_tokens() -> None:
    timeline = stream(*[(R, 1.0)] * 40, (T, 800.0), output_tokens=3_040, reasoning_tokens=3_000)
    assert figures(timeline) == (None, None, 40.0)


def test_a_summary_without_an_answer_leaves_no_pace() -> None:
    timeline = stream(*[(R, 1.0)] * 40, output_tokens=3_000, reasoning_tokens=3_000)
    assert figures(timeline) == (None, None, None)


def test_more_chunks_of_an_answer_than_it_has_tokens_are_not_believed() -> None:
    timeline = stream(*[(R, 1.0)] * 40, *[(A, 20.0)] * 50, output_tokens=3_005, reasoning_tokens=3_000)
    assert figures(timeline) == (None, None, None)


@pytest.mark.parametrize("by_format", [True, False])
@pytest.mark.parametrize("gap", [1.0, 1_500.0])
def test_a_count_of_the_summary_in_place_of_the_reasoning_leaves_no_pace(gap: float, by_format: bool) -> None:
    chunks = [(R, gap)] * 40 + [(A, 20.0)] * 50
    timeline = stream(*chunks, output_tokens=3_050, reasoning_tokens=60, is_reasoning_partial=by_format)
    assert figures(timeline) == (None, None, None)


def test_pieces_of_a_tool_call_behind_streamed_reasoning_are_in_the_pace() -> None:
    # Ten pieces of ten tokens each: as fast as the reasoning, a token at a time.
    timeline = stream(*[(R, 20.0)] * 100, *[(T, 200.0)] * 10, output_tokens=200, reasoning_tokens=100)
    assert (figures(timeline)[0], measure(timeline).is_pace_of_answer) == (pytest.approx(3.98 / 199), False)


# --- Reasoning itself ----------------------------------------------------------------------------------------------


def test_reasoning_that_was_streamed_itself_is_in_the_pace() -> None:
    timeline = stream(*[(R, 20.0)] * 100, *[(A, 20.0)] * 50, output_tokens=150, reasoning_tokens=100)
    assert (figures(timeline)[0], measure(timeline).is_pace_of_answer) == (pytest.approx(0.020), False)


def test_reasoning_that_is_not_counted_apart_is_in_the_pace() -> None:
    timeline = stream(*[(R, 20.0)] * 100, *[(A, 20.0)] * 50, output_tokens=150)
    assert figures(timeline)[0] == pytest.approx(0.020)


def test_a_tool_call_in_one_piece_behind_streamed_reasoning_is_in_the_pace() -> None:
    # The call's 100 tokens took 2 s, as did the 100 tokens of reasoning.
    timeline = stream(*[(R, 20.0)] * 100, (T, 2_000.0), output_tokens=200, reasoning_tokens=100)
    assert figures(timeline)[0] == pytest.approx((99 * 0.020 + 2) / 199)


def test_packed_chunks_of_reasoning_and_answer_are_in_the_pace() -> None:
    timeline = stream(*[(R, 80.0)] * 25, *[(A, 80.0)] * 25, output_tokens=200, reasoning_tokens=100)
    assert (figures(timeline)[0], measure(timeline).is_pace_of_answer) == (pytest.approx(49 * 0.080 / 199), False)


def test_a_stall_of_the_answer_does_not_make_a_summary_of_the_reasoning() -> None:
    chunks = [(R, 20.0)] * 100 + [(A, 20.0)] * 20 + [(A, 9_000.0)] + [(A, 20.0)] * 29
    assert not measure(stream(*chunks, output_tokens=150, reasoning_tokens=100)).is_pace_of_answer


# --- Hidden reasoning, and answers in parts ------------------------------------------------------------------------


def test_hidden_reasoning_between_two_parts_of_an_answer_is_not_in_the_pace() -> None:
    # Text, then 40 s of hidden reasoning, which begins and ends as an item of its own, then a tool call.
    chunks = [(A, 20.0)] * 30 + [(L, 1.0), (L, 40_000.0)] + [(T, 20.0)] * 20
    timeline = stream(*chunks, output_tokens=2_050, reasoning_tokens=2_000)
    assert figures(timeline) == pytest.approx((0.020, 50.0, 1.0))


def test_a_summary_between_two_parts_of_an_answer_is_not_in_the_pace() -> None:
    chunks = [(A, 20.0)] * 30 + [(R, 5_000.0)] * 4 + [(T, 20.0)] * 20
    timeline = stream(*chunks, output_tokens=2_050, reasoning_tokens=2_000)
    assert figures(timeline)[0] == pytest.approx(0.020)


def test_a_chunk_with_the_last_of_the_summary_begins_the_answer() -> None:
    chunks = [(R, 1.0)] * 40 + [(R | A, 9_000.0)] + [(A, 20.0)] * 49
    assert figures(stream(*chunks, output_tokens=3_050, reasoning_tokens=3_000))[0] == pytest.approx(0.020)


def test_empty_chunks_and_pings_do_not_part_an_answer() -> None:
    chunks = [(A, 20.0), (E, 1.0), (int(Kind.PING), 1.0), (A, 18.0)] * 25
    timeline = stream(*chunks, output_tokens=2_050, reasoning_tokens=2_000)
    assert measure(timeline).paced_tokens == 49


def test_an_answer_whose_parts_are_single_chunks_has_no_pace() -> None:
    timeline = stream(*[(A, 20.0), (L, 900.0)] * 5, output_tokens=205, reasoning_tokens=200)
    assert figures(timeline) == (None, None, 1.0)


def test_the_pace_of_a_part_whose_end_is_hidden_is_known_within_bounds() -> None:
    timeline = summarised()
    # The consumer held the stream for a second before it asked for the last chunk, which was there.
    asked, arrived = array("q", timeline.asked), array("q", timeline.arrived)
    asked[-1], arrived[-1] = arrived[-2] + 1_000 * MS, arrived[-2] + 1_000 * MS
    measures = measure(replace(timeline, asked=asked, arrived=arrived))
    # The last of 50 chunks came 48 * 20 ms after the first of the answer, or up to a second later.
    assert measures.bounds["time_per_output_token"] == pytest.approx((0.96 / 49, 1.96 / 49))


def test_several_choices_with_a_summary_have_no_pace() -> None:
    assert measure(summarised(choices=bytes(range(2)) * 45)).time_per_output_token is None


# --- What holds whatever comes -------------------------------------------------------------------------------------

KINDS = st.sampled_from([R, A, T, L, E, R | A, A | int(Kind.FINISH)])
CHUNKS = st.lists(st.tuples(KINDS, st.floats(1.0, 500.0)), max_size=40)
COUNTS = st.none() | st.integers(0, 5_000)


def measured(chunks: Sequence[tuple[int, float]], total: int | None, thought: int | None, partial: bool) -> Measures:
    return measure(stream(*chunks, output_tokens=total, reasoning_tokens=thought, is_reasoning_partial=partial))


@settings(max_examples=300)
@given(CHUNKS, COUNTS, COUNTS, st.booleans())
def test_pace_and_its_tokens_fit_within_the_stream(
    chunks: Sequence[tuple[int, float]], total: int | None, thought: int | None, partial: bool
) -> None:
    measures = measured(chunks, total, thought, partial)
    took = (measures.time_per_output_token or 0.0) * measures.paced_tokens
    counted = total or 0
    fits = took <= measures.duration + 1e-9 and measures.paced_tokens <= max(counted - 1, 0)
    assert (fits, measures.time_per_output_token is None) == (True, measures.paced_tokens == 0)


@settings(max_examples=300)
@given(CHUNKS, st.integers(0, 5_000), st.integers(5_000, 9_000), st.floats(0.0, 100_000.0))
def test_however_long_reasoning_takes_the_pace_of_the_answer_after_it_is_the_same(
    answer: Sequence[tuple[int, float]], tokens: int, thought: int, pause: float
) -> None:
    after = [(kind, gap) for kind, gap in answer if not kind & R]
    total = tokens + thought

    def pace(*before: tuple[int, float]) -> float | None:
        return measured([*before, *after], total, thought, partial=True).time_per_output_token

    assert (pace((R, 1.0)) or 0.0) == pytest.approx(pace((R, 1.0), (R, pause), (L, pause)) or 0.0, abs=1e-5)


@settings(max_examples=200)
@given(CHUNKS, COUNTS, COUNTS, st.booleans())
def test_a_stream_read_back_from_its_events_has_the_same_pace(
    chunks: Sequence[tuple[int, float]], total: int | None, thought: int | None, partial: bool
) -> None:
    timeline = stream(*chunks, output_tokens=total, reasoning_tokens=thought, is_reasoning_partial=partial)
    read, expected = measure(decode(encode(timeline))), measure(timeline)
    assert (read.paced_tokens, read.tokens_per_chunk) == (expected.paced_tokens, expected.tokens_per_chunk)


def test_the_form_of_an_event_for_each_chunk_keeps_that_the_reasoning_is_partial() -> None:
    timeline = stream((R, 1.0), (A, 20.0), is_reasoning_partial=True)
    assert decode(encode_each(timeline) or ()) == timeline
