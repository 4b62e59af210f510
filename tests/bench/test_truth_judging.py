"""What was emitted is held against the truth: intervals, absences, silences and who is blamed for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.truth.judging import GOALS, Emitted, Interval, Reported, Sent, Tally, judge, read_interval, total

MS = 1_000_000
SECOND = 1_000 * MS
CALLED, REQUESTED, ARRIVED = 0, 1 * MS, 3 * MS
# The first token comes 100 ms after the request, then one every 20 ms, but for a gap of 40 ms.
SENT = Sent(ARRIVED, [REQUESTED + ms * MS for ms in (100, 120, 140, 180, 200)])
TRUE = {"itl.time_to_first_token": 0.1, "itl.latency.p99": 0.0394, "itl.time_per_output_token": 0.025}
# A silence of 3 s on the wire.
SILENT = Sent(ARRIVED, [SECOND, 4 * SECOND, 4 * SECOND + 20 * MS])


def emitted(*stalls: Reported, requested: int = REQUESTED, **attributes: Any) -> Emitted:
    names = {f"itl.{name}": value for name, value in attributes.items()}
    return Emitted("m", CALLED, requested, {**TRUE, **names}, stalls)


def stall(begin: float, end: float, cause: str) -> Reported:
    return Reported(round(begin * SECOND), round(end * SECOND), cause)


def test_the_truth_is_of_what_the_server_sent() -> None:
    figures = SENT.figures(emitted())
    assert figures == pytest.approx({"TTFT": 0.1, "p99": 0.0394, "TPOT": 0.025})


def test_a_span_that_begins_before_the_call_is_late() -> None:
    early = emitted(requested=CALLED - 50 * MS)
    assert SENT.figures(early)["TTFT"] == pytest.approx(0.101)


def test_a_span_that_begins_after_the_request_arrived_is_late() -> None:
    late = emitted(requested=ARRIVED + 50 * MS)
    assert SENT.figures(late)["TTFT"] == pytest.approx(0.098)


@pytest.mark.parametrize(
    ("figure", "attributes", "expected"),
    [
        ("TTFT", {"itl.time_to_first_token": 0.5}, Interval(0.5, 0.5)),
        (
            "TTFT",
            {"itl.time_to_first_token": 0.5, "itl.time_to_first_token.uncertainty": 0.125},
            Interval(0.375, 0.5),
        ),
        (
            "p99",
            {"itl.latency.p99": 0.5, "itl.latency.p99.uncertainty": 0.25, "itl.latency.p99.highest": 0.75},
            Interval(0.25, 0.75),
        ),
        ("TPOT", {"itl.time_per_output_token": 0.5, "itl.time_per_output_token.highest": 0.75}, Interval(0.5, 0.75)),
        ("p99", {}, None),
    ],
)
def test_an_interval_is_read_from_the_attributes(
    figure: str, attributes: dict[str, float], expected: Interval | None
) -> None:
    assert read_interval(figure, attributes) == expected


@pytest.mark.parametrize(
    ("true", "expected"),
    [
        (0.375, 0.125),
        (0.5, 0.0),
        (0.625, 0.0),
        (0.75, 0.0),
        (0.765, 0.0),  # 2 % of the truth may be the way of a chunk
        (1.0, 0.25),
    ],
)
def test_the_truth_lies_within_an_interval_or_off_by_some_time(true: float, expected: float) -> None:
    assert Interval(0.5, 0.75).miss(true) == expected


def test_a_millisecond_may_be_the_way_of_a_chunk() -> None:
    assert Interval(0.010, 0.010).miss(0.0109) == 0.0


def test_a_figure_without_an_uncertainty_is_held_against_the_truth_as_it_is() -> None:
    tally = judge(emitted(**{"latency.p99": 0.050}), SENT)
    assert tally.held == {"TTFT": 1, "p99": 0, "TPOT": 1}


def test_a_figure_holds_the_truth_by_its_uncertainty() -> None:
    tally = judge(emitted(**{"latency.p99": 0.050, "latency.p99.uncertainty": 0.015}), SENT)
    assert (tally.held["p99"], tally.widths["p99"]) == (1, [0.015])


def test_a_figure_that_is_absent_does_not_hold_the_truth() -> None:
    tally = judge(Emitted("m", CALLED, REQUESTED, {}, ()), SENT)
    assert (tally.held, tally.present) == ({"TTFT": 0, "p99": 0, "TPOT": 0}, 0)


@pytest.mark.parametrize("side", ["host", "consumer"])
def test_a_stream_is_called_bound_by_either_flag(side: str) -> None:
    assert judge(emitted(**{f"{side}.bound": True}), SENT).bound == 1


@pytest.mark.parametrize(
    ("stalls", "expected"),
    [
        ([], (1, 0, 0)),
        ([stall(1.1, 3.9, "upstream")], (1, 1, 1)),
        ([stall(1.1, 3.9, "process")], (1, 1, 0)),
        ([stall(3.0, 4.1, "upstream")], (1, 0, 0)),  # over less than half of the silence
        ([stall(0.5, 1.2, "process"), stall(1.2, 4.0, "upstream")], (1, 1, 1)),
    ],
)
def test_a_silence_on_the_wire_has_to_be_a_stall_of_the_upstream(
    stalls: list[Reported], expected: tuple[int, int, int]
) -> None:
    tally = judge(emitted(*stalls), SILENT)
    assert (tally.silences, tally.stalled, tally.blamed_rightly) == expected


@pytest.mark.parametrize(
    ("stalls", "is_silenced_by_caller", "expected"),
    [
        ([], False, (0, 0)),
        ([], True, (1, 1)),
        ([stall(0.11, 3.0, "event_loop")], True, (1, 1)),
        ([stall(0.11, 3.0, "upstream")], True, (1, 0)),
        ([stall(0.11, 3.0, "upstream")], False, (1, 0)),  # a silence that the caller did not intend
    ],
)
def test_a_silence_of_the_caller_is_not_the_upstreams(
    stalls: list[Reported], is_silenced_by_caller: bool, expected: tuple[int, int]
) -> None:
    tally = judge(emitted(*stalls), SENT, is_silenced_by_caller=is_silenced_by_caller)
    assert (tally.own, tally.own_blamed_rightly) == expected


def test_a_stall_over_a_silence_on_the_wire_is_not_the_callers() -> None:
    assert judge(emitted(stall(1.1, 4.2, "upstream")), SILENT).own == 0


def test_counts_of_streams_add_up() -> None:
    one = judge(emitted(stall(1.1, 3.9, "upstream")), SILENT)
    both = total([one, one])
    assert (both.streams, both.silences, len(both.widths["TTFT"])) == (2, 2, 2)


PERFECT = Tally(
    streams=100,
    held={"TTFT": 99, "p99": 99, "TPOT": 99},
    widths={"TTFT": [0.001], "p99": [0.001], "TPOT": [0.001]},
    present=100,
    bound=5,
    silences=100,
    stalled=100,
    blamed_rightly=99,
    own=100,
    own_blamed_rightly=99,
)
SLIPS = {
    "held": {"TTFT": 98, "p99": 98, "TPOT": 98},
    "widths": {"TTFT": [0.002], "p99": [0.002], "TPOT": [0.002]},
    "present": 99,
    "bound": 6,
    "stalled": 99,
    "blamed_rightly": 98,
    "own_blamed_rightly": 98,
}
"""One less than the goal."""


def test_the_goals_are_met_at_their_bounds() -> None:
    assert {goal.is_met(PERFECT, PERFECT) for goal in GOALS} == {True}


@pytest.mark.parametrize(("count", "missed"), [(name, 3 if name in {"held", "widths"} else 1) for name in SLIPS])
def test_a_goal_is_missed_below_its_bound(count: str, missed: int) -> None:
    short = replace(PERFECT, **{count: SLIPS[count]})  # type: ignore[arg-type]
    assert [goal.is_met(short, short) for goal in GOALS].count(False) == missed


def test_rows_without_silences_leave_their_goals_open() -> None:
    assert {goal.is_met(Tally(), Tally()) for goal in GOALS} == {None}
