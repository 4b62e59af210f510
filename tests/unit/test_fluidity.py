"""The fluidity index, by hand and against what Etalon's own code gave for recorded streams."""

from __future__ import annotations

import json
import re
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_itl.core.fluidity import Deadlines, count_deadlines, fluidity_index
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Timeline

MS = 1_000_000
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))
KINDS = {"content": Kind.ANSWER, "reasoning": Kind.REASONING, "tool_call": Kind.TOOL}
ETALON = [
    pytest.param(stream, objectives, figures, id=f"{stream}-{objectives}")
    for stream, recorded in GOLDEN["expected"]["etalon"]["streams"].items()
    for objectives, figures in recorded["deadlines"].items()
]


def output(*moments: int, **facts: Any) -> Timeline:
    """A stream of output chunks that arrive at these milliseconds, read by an attentive consumer."""
    arrived = array("q", [moment * MS for moment in moments])
    return Timeline(
        **{
            "request_unix_ns": 0,
            "asked": array("q", [0, *arrived[:-1]][: len(arrived)]),
            "arrived": arrived,
            "kinds": bytes([Kind.ANSWER]) * len(arrived),
            "end": max(arrived, default=0),
            **facts,
        }
    )


def recorded(stream: str) -> Timeline:
    """The output chunks of a recorded stream, with the number of tokens in each."""
    chunks = [event for event in GOLDEN["streams"][stream]["events"] if event["kind"] in KINDS]
    return output(
        *(event["t_ms"] for event in chunks),
        kinds=bytes(KINDS[event["kind"]] for event in chunks),
        tokens=array("I", [event["tokens"] for event in chunks]),
    )


@pytest.mark.parametrize(("stream", "objectives", "figures"), ETALON)
def test_deadlines_of_recorded_streams_are_those_of_etalon(
    stream: str, objectives: str, figures: dict[str, float]
) -> None:
    ttft, itl = map(int, re.findall(r"\d+", objectives))
    found = count_deadlines(recorded(stream), ttft * MS, itl * MS, counted=Kind.ANSWER)
    assert found is not None
    assert (found.missed, found.total, round(found.fluidity_index, 6)) == (
        figures["missed"],
        figures["total"],
        figures["fluidity_index"],
    )


def test_without_token_counts_a_chunk_is_a_token() -> None:
    # 600 is 50 early; then 40, 40, 40: 80 ms of slack. 1000 is 870 late: 1 + 17 missed. 40, 40 are met: 4 + 2.
    stream = output(600, 640, 680, 720, 1720, 1760, 1800)
    assert count_deadlines(stream, 650 * MS, 50 * MS) == Deadlines(missed=18, total=24)


def test_reasoning_and_tool_calls_are_tokens_by_default() -> None:
    stream = output(300, 340, 380, kinds=bytes([Kind.REASONING, Kind.TOOL, Kind.TOOL]))
    assert count_deadlines(stream, 300 * MS, 40 * MS) == Deadlines(missed=0, total=3)


def test_a_token_on_its_deadline_is_met_and_one_nanosecond_later_is_missed() -> None:
    stream = output(100, 150)
    assert count_deadlines(stream, 100 * MS, 50 * MS) == Deadlines(missed=0, total=2)
    assert count_deadlines(stream, 100 * MS, 50 * MS - 1) == Deadlines(missed=1, total=2)


def test_a_choice_has_deadlines_of_its_own() -> None:
    # Side by side, each choice has a token every 100 ms.
    stream = output(100, 110, 200, 210, choices=bytes([0, 1, 0, 1]))
    assert count_deadlines(stream, 110 * MS, 80 * MS) == Deadlines(missed=2, total=4)


def test_a_stream_without_a_token_is_fluid() -> None:
    assert fluidity_index(output(), 1, 1, measures=measure(output())) == 1.0


def test_deadlines_are_not_known_of_a_consumer_that_was_too_slow() -> None:
    # The third chunk is asked for 500 ms late, and is there: when it came is not known.
    slow = output(100, 150, 650, 700, asked=array("q", [0, 100 * MS, 650 * MS - 1000, 650 * MS]))
    assert count_deadlines(slow, 100 * MS, 50 * MS) is None


def test_deadlines_are_known_where_no_token_can_have_come_too_late() -> None:
    # Each may have come 10 ms earlier: gaps of 40 to 60 ms.
    late = output(100, 150, 200, lateness=array("q", [10 * MS] * 3))
    found = [count_deadlines(late, 100 * MS, itl * MS) for itl in (60, 59)]
    assert found == [Deadlines(missed=0, total=3), None]


def test_deadlines_are_not_known_where_the_first_token_may_have_missed_one() -> None:
    late = output(100, 150, lateness=array("q", [10 * MS] * 2))
    assert count_deadlines(late, 95 * MS, 100 * MS) is None


def test_deadlines_are_not_known_where_chunks_were_left_out() -> None:
    assert count_deadlines(output(100, 150, unrecorded=1), 100 * MS, 50 * MS) is None


def test_an_index_that_is_not_known_is_none() -> None:
    stream = output(100, 150, unrecorded=1)
    assert fluidity_index(stream, 100 * MS, 50 * MS, measures=measure(stream)) is None


@pytest.mark.parametrize("objectives", [(0, 1), (1, 0), (-1, 1)])
def test_an_objective_that_is_not_positive_is_refused(objectives: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="positive number of nanoseconds"):
        count_deadlines(output(100), *objectives)


def walked(gaps: list[int], tokens: list[int], ttft: int, itl: int) -> Deadlines:
    """Etalon's definition to the letter: slack that is carried from token to token."""
    slack, objective, missed, met = 0, ttft, 0, 0
    for gap, count in zip(gaps, tokens, strict=True):
        for wait in (gap, *[0] * (count - 1)):
            slack += objective - wait
            objective = itl
            if slack >= 0:
                met += 1
            else:
                missed += 1 + -slack // itl
                slack = 0
    return Deadlines(missed, missed + met)


@given(
    st.lists(st.tuples(st.integers(5, 400), st.integers(1, 4)), min_size=1, max_size=40),
    st.integers(1, 500),
    st.integers(1, 200),
)
def test_deadlines_are_those_of_a_walk_over_the_tokens(chunks: list[tuple[int, int]], ttft: int, itl: int) -> None:
    gaps, tokens = map(list, zip(*chunks, strict=True))
    moments = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    stream = output(*moments, tokens=array("I", tokens))
    assert count_deadlines(stream, ttft * MS, itl * MS) == walked(gaps, tokens, ttft, itl)
