"""Several choices in one stream, and in one chunk of it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.chunk_code import MAX_CHOICE, SEVERAL, choice_byte, choices_in, chunk_code, unpack_codes
from otel_itl.core.decoding import decode
from otel_itl.core.encoding import encode, encode_each
from otel_itl.core.fluidity import count_deadlines
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Timeline

MS = 1_000_000
Chunk = tuple[float, Collection[int], int]
"""Milliseconds after the chunk before, the choices that it has output of, and the tokens of each."""


def joint(*chunks: Chunk) -> Timeline:
    """A stream in which a chunk carries all of its choices."""
    return _timeline([(gap, choice_byte(choices), tokens) for gap, choices, tokens in chunks])


def _timeline(rows: Sequence[tuple[float, int, int]]) -> Timeline:
    arrived, moment = array("q"), 500.0
    for gap, _, _ in rows:
        moment += gap
        arrived.append(round(moment * MS))
    tokens = array("I", [count for _, _, count in rows])
    return Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrived[:-1]][: len(arrived)]),
        arrived=arrived,
        kinds=bytes([Kind.ANSWER]) * len(rows),
        tokens=tokens if any(tokens) else array("I"),
        choices=bytes(byte for _, byte, _ in rows),
        end=arrived[-1] if arrived else 0,
    )


def samples_of_each(chunks: Sequence[Chunk]) -> list[float]:
    """The ITL samples of streams that have one of the choices each, pooled."""
    samples: list[float] = []
    for choice in sorted({choice for _, choices, _ in chunks for choice in choices}):
        rows, gap = [], 0.0
        for more, choices, tokens in chunks:
            gap += more
            if choice in choices:
                rows.append((gap, 0, tokens))
                gap = 0.0
        samples += measure(_timeline(rows)).itl_samples.nanoseconds
    return sorted(samples)


def milliseconds(samples: Sequence[float]) -> list[float]:
    return [round(sample / MS, 3) for sample in samples]


BOTH = (0, 1)


def test_a_chunk_of_two_choices_is_one_of_each() -> None:
    samples = measure(joint((20, BOTH, 1), (20, BOTH, 1), (30, BOTH, 1))).itl_samples.nanoseconds
    assert milliseconds(samples) == [20, 20, 30, 30]


def test_the_tokens_of_a_chunk_are_those_of_each_choice() -> None:
    assert milliseconds(measure(joint((20, BOTH, 2), (20, BOTH, 2))).itl_samples.nanoseconds) == [10] * 4


def test_a_choice_that_goes_on_alone_has_gaps_of_its_own() -> None:
    samples = measure(joint((20, BOTH, 1), (20, BOTH, 1), (20, (1,), 1), (20, (1,), 1))).itl_samples.nanoseconds
    assert milliseconds(samples) == [20] * 4


def test_choices_without_a_number_of_their_own_are_all_choices() -> None:
    many = tuple(range(9))
    samples = measure(joint((20, many, 1), (20, many, 1), (20, (3,), 1), (20, (3,), 1))).itl_samples.nanoseconds
    assert milliseconds(samples) == [20] * 3


CHUNKS = st.lists(
    st.tuples(st.floats(1.0, 90.0), st.sets(st.integers(0, 6), min_size=1), st.integers(1, 4)), min_size=1, max_size=25
)


@settings(max_examples=200)
@given(CHUNKS)
def test_the_samples_are_those_of_a_stream_for_each_choice(chunks: list[Chunk]) -> None:
    found = measure(joint(*chunks)).itl_samples.nanoseconds
    assert milliseconds(found) == pytest.approx(milliseconds(samples_of_each(chunks)), abs=0.002)


@settings(max_examples=100)
@given(CHUNKS)
def test_the_deadlines_are_those_of_a_stream_for_each_choice(chunks: list[Chunk]) -> None:
    deadlines = count_deadlines(joint(*chunks), 600 * MS, 20 * MS)
    tokens = sum(len(choices) * count for _, choices, count in chunks)
    assert deadlines is not None
    assert deadlines.total - deadlines.missed <= tokens <= deadlines.total


@settings(max_examples=100)
@given(CHUNKS)
def test_a_stream_of_several_choices_is_read_back_as_it_was(chunks: list[Chunk]) -> None:
    made = joint(*[(round(gap), choices, tokens) for gap, choices, tokens in chunks])
    assert [decode(encode(made)), decode(encode_each(made) or ())] == [made, made]


@given(st.sets(st.integers(0, 6), min_size=1))
def test_a_choice_byte_holds_any_of_the_first_seven_choices(choices: set[int]) -> None:
    assert choices_in(choice_byte(choices)) == choices


@given(st.integers(0, MAX_CHOICE))
def test_a_choice_byte_holds_any_choice_alone(choice: int) -> None:
    assert choices_in(choice_byte((choice,))) == {choice}


@pytest.mark.parametrize(
    ("choices", "expected"), [((), 0), ((500,), MAX_CHOICE), ((3, 9), SEVERAL), (range(128), SEVERAL)]
)
def test_other_choices_have_the_nearest_byte(choices: Any, expected: int) -> None:
    assert choice_byte(choices) == expected


def test_a_code_carries_a_choice_byte() -> None:
    codes = [chunk_code(int(Kind.ANSWER), 1, choice_byte(BOTH))] * 40
    assert unpack_codes(codes).choices == bytes([SEVERAL | 3]) * 40
