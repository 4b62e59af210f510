"""The facts of one stream: what a Timeline holds, refuses and derives."""

from __future__ import annotations

from array import array
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from otel_itl.core.timeline import OUTPUT, Kind, Outcome, Timeline

FIELDS: dict[str, Any] = {"request_unix_ns": 0, "asked": array("q", [0, 10]), "arrived": array("q", [5, 30])}


def test_a_kind_is_one_byte_of_flags() -> None:
    # Python 3.10 iterates over the empty kind as well.
    values = {kind.name: kind.value for kind in Kind if kind}
    assert values == {
        "REASONING": 1,
        "ANSWER": 2,
        "TOOL": 4,
        "ROLE": 8,
        "LIFECYCLE": 16,
        "PING": 32,
        "FINISH": 64,
        "USAGE": 128,
    }


def test_a_chunk_without_a_flag_is_empty() -> None:
    assert Kind(0) is Kind.EMPTY


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("kind", [Kind.EMPTY, Kind.ROLE, Kind.LIFECYCLE, Kind.PING, Kind.FINISH, Kind.USAGE])
def test_a_chunk_that_carries_no_text_and_no_tool_call_is_no_output(kind: Kind) -> None:
    assert kind & OUTPUT == 0


@pytest.mark.requirement("R33")
@pytest.mark.parametrize("kind", [Kind.REASONING, Kind.ANSWER, Kind.TOOL])
def test_reasoning_answers_and_tool_calls_are_output(kind: Kind) -> None:
    assert kind & OUTPUT == kind


def test_a_finish_may_stand_beside_output() -> None:
    assert (Kind.ANSWER | Kind.FINISH) & OUTPUT == Kind.ANSWER


def test_the_outcomes_are_those_of_the_definition() -> None:
    assert [outcome.value for outcome in Outcome] == [
        "completed",
        "truncated",
        "closed",
        "abandoned",
        "cancelled",
        "interrupted",
        "error",
    ]


def test_an_outcome_is_read_back_from_its_value() -> None:
    assert Outcome("truncated") is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("name", "value", "length"),
    [
        ("asked", array("q", [0]), 1),
        ("arrived", array("q", [5, 30, 40]), 3),
        ("tokens", array("I", [1]), 1),
        ("choices", b"\0\1\0", 3),
        ("skipped", array("I", [0]), 1),
    ],
)
def test_a_parallel_field_of_another_length_is_refused_by_name_and_lengths(name: str, value: Any, length: int) -> None:
    refused = rf"^Timeline\.{name} has {length} entries for 2 chunks: it needs one for each"
    with pytest.raises(ValueError, match=refused):
        Timeline(**{**FIELDS, "kinds": b"\2\2", name: value})


@pytest.mark.parametrize("name", ["asked", "arrived"])
def test_moments_may_not_be_left_out(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^Timeline\.{name} has 0 entries for 2 chunks"):
        Timeline(**{**FIELDS, "kinds": b"\2\2", name: array("q")})


@pytest.mark.parametrize("name", ["tokens", "choices", "skipped"])
def test_what_no_chunk_has_may_be_left_out(name: str) -> None:
    timeline = Timeline(**FIELDS, kinds=b"\2\2")
    assert len(getattr(timeline, name)) == 0


def test_the_length_of_a_timeline_is_the_number_of_its_chunks() -> None:
    assert len(Timeline(**FIELDS, kinds=b"\2\2")) == 2


def test_chunks_that_were_not_timed_do_not_count_to_its_length() -> None:
    assert len(Timeline(**FIELDS, kinds=b"\2\2", unrecorded=7)) == 2


def test_a_stream_without_chunks_is_a_timeline() -> None:
    assert len(Timeline(request_unix_ns=1)) == 0


def test_a_wait_is_the_time_from_the_pull_to_the_arrival() -> None:
    # Asked at 0 and 10, arrived at 5 and 30: waits 5 and 20.
    assert Timeline(**FIELDS, kinds=b"\2\2").waits == array("q", [5, 20])


def test_facts_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Timeline(request_unix_ns=1).end = 3  # type: ignore[misc]


def test_equal_facts_are_equal_timelines() -> None:
    assert Timeline(**FIELDS, kinds=b"\2\2") == Timeline(**FIELDS, kinds=b"\2\2")


def test_two_timelines_share_no_array() -> None:
    assert Timeline(request_unix_ns=1).asked is not Timeline(request_unix_ns=1).asked


def test_facts_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Timeline(1)  # type: ignore[misc]
