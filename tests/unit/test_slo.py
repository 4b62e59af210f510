"""Objectives: what holds for a model, and what one stream makes of it."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_itl.core.measures import measure
from otel_itl.core.slo import PROFILES, SLO, Objectives, SLOResult, evaluate
from otel_itl.core.timeline import Kind, Outcome, Timeline

MS = 1_000_000
CHAT = SLO(ttft=0.5, itl=0.1)


def stream(first: int | None, *gaps: int, outcome: Outcome = Outcome.COMPLETED, end: int | None = None) -> Timeline:
    """A stream whose first token came after `first` ms, and the others after these gaps."""
    arrived: list[int] = [] if first is None else [first * MS]
    for gap in gaps:
        arrived.append(arrived[-1] + gap * MS)
    return Timeline(
        request_unix_ns=0,
        asked=array("q", [0, *arrived[:-1]][: len(arrived)]),
        arrived=array("q", arrived),
        kinds=bytes([Kind.ANSWER] * len(arrived)),
        headers=0,
        end=end * MS if end is not None else arrived[-1] if arrived else 0,
        outcome=outcome,
    )


def slo_result(timeline: Timeline, slo: SLO = CHAT, *, stalled: bool = False) -> SLOResult:
    return evaluate(slo, timeline, measure(timeline), is_stalled=stalled)


# --- Objectives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "ttft", "itl"),
    [("chat", 0.5, 0.1), ("code", 0.5, 0.03), ("agent", 2.0, 0.015), ("batch", None, None)],
)
def test_a_profile_is_a_ttft_and_an_itl_objective_at_p99(profile: str, ttft: float | None, itl: float | None) -> None:
    assert PROFILES[profile] == SLO(ttft=ttft, itl=itl, target=0.99, profile=profile)


def test_an_objective_of_ones_own_is_custom() -> None:
    assert SLO(ttft=1.0).profile == "custom"


@pytest.mark.parametrize(
    ("times", "suggestion"),
    [
        ({"ttft": 500, "itl": 50}, "0.5/0.05"),
        ({"ttft": 0.5, "itl": 50}, "0.5/0.05"),
        ({"ttft": 2, "itl": 15}, "2/0.015"),
        ({"ttft": 80, "itl": 20}, "0.08/0.02"),
        ({"ttft": 500.0, "itl": 0.05}, "0.5/0.05"),
        ({"ttft": 100}, "ttft=0.1"),
        ({"itl": 5}, "itl=0.005"),
    ],
)
def test_times_in_milliseconds_are_refused_with_the_seconds(times: dict[str, float], suggestion: str) -> None:
    arguments = ", ".join(f"{name}={value!r}" for name, value in times.items())
    with pytest.raises(ValueError, match=r"^SLO\(") as refused:
        SLO(**times)
    expected = f"SLO({arguments}) is not accepted: times are in seconds: did you mean {suggestion}?"
    assert str(refused.value) == expected


def test_the_longest_times_that_are_accepted_are_a_patient_readers() -> None:
    assert SLO(ttft=99.9, itl=4.99) == SLO(itl=4.99, ttft=99.9)


@pytest.mark.parametrize("name", ["ttft", "itl"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e300, 10**400, "1", True])
def test_a_time_that_is_none_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^SLO\({name}=.*\) is not accepted: it takes seconds above 0"):
        SLO(**{name: value})


@pytest.mark.parametrize("target", [0, 1, 99, -0.1, math.nan, "0.9", True])
def test_a_target_is_a_share_between_0_and_1(target: Any) -> None:
    with pytest.raises(ValueError, match=r"^SLO\(target=.*\) is not accepted: it takes a share between 0 and 1"):
        SLO(target=target)


BY_MODEL = Objectives((("gpt-4o*", PROFILES["chat"]), ("*-coder", PROFILES["code"]), ("gpt-?", PROFILES["agent"])))


@pytest.mark.parametrize(
    ("model", "profile"),
    [("gpt-4o", "chat"), ("gpt-4o-mini", "chat"), ("qwen-coder", "code"), ("gpt-4o-coder", "chat"), ("gpt-5", "agent")],
)
def test_the_first_pattern_that_fits_a_model_holds(model: str, profile: str) -> None:
    assert BY_MODEL.for_model(model) == PROFILES[profile]


@pytest.mark.parametrize("model", ["claude-opus", "GPT-4o", "gpt-55", "", None])
def test_a_model_that_no_pattern_fits_has_no_objective(model: str | None) -> None:
    assert BY_MODEL.for_model(model) is None


def test_a_pattern_for_all_fits_a_request_without_a_model() -> None:
    assert Objectives((("*", CHAT),)).for_model(None) == CHAT


def test_every_objective_is_an_edge_once() -> None:
    edges = Objectives((*BY_MODEL.by_model, ("*", SLO(itl=0.07))))
    assert (edges.edges("ttft"), edges.edges("itl")) == ({0.5, 2.0}, {0.1, 0.03, 0.015, 0.07})


@pytest.mark.parametrize(
    ("objectives", "shown"), [(Objectives(), "off"), (BY_MODEL, "gpt-4o*=chat,*-coder=code,gpt-?=agent")]
)
def test_objectives_read_as_they_are_given(objectives: Objectives, shown: str) -> None:
    assert str(objectives) == shown


# --- Tokens ----------------------------------------------------------------------------------------------------------


def test_gaps_within_the_objective_meet_it_and_those_beyond_miss_it() -> None:
    found = slo_result(stream(100, 20, 99, 100, 101, 500))
    assert (found.tokens_met, found.tokens_missed) == (3, 2)


def test_a_gap_of_just_the_objective_meets_it() -> None:
    # 0.1 s is no binary fraction: in nanoseconds it is.
    assert slo_result(stream(100, 100)).tokens_met == 1


@pytest.mark.parametrize("timeline", [stream(None), stream(100)], ids=["no token", "one token"])
def test_without_a_gap_there_is_no_token_to_judge(timeline: Timeline) -> None:
    found = slo_result(timeline)
    assert (found.tokens_met, found.tokens_missed) == (0, 0)


def test_without_an_itl_objective_no_token_is_judged() -> None:
    found = slo_result(stream(100, 900, 900), SLO(ttft=0.5))
    assert (found.tokens_met, found.tokens_missed) == (0, 0)


@given(st.lists(st.integers(1, 300), max_size=50), st.integers(1, 300))
def test_met_and_missed_are_counted_exactly(gaps: list[int], objective: int) -> None:
    found = slo_result(stream(100, *gaps), SLO(itl=objective / 1_000))
    assert (found.tokens_met, found.tokens_missed) == (
        sum(gap <= objective for gap in gaps),
        sum(gap > objective for gap in gaps),
    )


# --- The target ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "met", "missed", "expected"),
    [
        (0.99, 99, 1, False),
        (0.99, 98, 1, True),
        (0.9, 9, 1, False),
        (0.9, 8, 2, True),
        (0.999, 999, 1, False),
        (0.5, 1, 1, False),
        (0.99, 0, 0, False),
    ],
)
def test_a_stream_misses_when_more_of_its_gaps_are_slow_than_the_target_allows(
    target: float, met: int, missed: int, expected: bool
) -> None:
    assert SLOResult(SLO(itl=0.1, target=target), met, missed, None).is_missed is expected


@given(st.integers(0, 5_000), st.integers(0, 5_000), st.integers(1, 9_999))
def test_the_share_is_compared_exactly(met: int, missed: int, per_10_000: int) -> None:
    allowed = (1 - Fraction(per_10_000, 10_000)) * (met + missed)
    assert SLOResult(SLO(target=per_10_000 / 10_000), met, missed, None).is_missed is (missed > allowed)


def test_a_stream_that_was_late_misses_though_its_tokens_met() -> None:
    assert SLOResult(CHAT, 100, 0, is_stream_met=False).is_missed is True


# --- Streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "met"), [(499, True), (500, True), (501, False)])
def test_the_first_token_is_to_come_in_time(first: int, met: bool) -> None:
    assert slo_result(stream(first, 20)).is_stream_met is met


def test_a_stream_that_the_upstream_stalled_missed() -> None:
    assert slo_result(stream(100, 20), stalled=True).is_stream_met is False


def test_a_stall_counts_where_the_objective_is_for_gaps_alone() -> None:
    gaps_alone = SLO(itl=0.1)
    assert [slo_result(stream(900, 20), gaps_alone, stalled=stalled).is_stream_met for stalled in (False, True)] == [
        True,
        False,
    ]


def test_without_any_objective_there_is_nothing_to_judge() -> None:
    assert slo_result(stream(9_000, 9_000), PROFILES["batch"], stalled=True) == SLOResult(PROFILES["batch"], 0, 0, None)


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.TRUNCATED])
def test_a_stream_that_failed_without_a_token_missed_it(outcome: Outcome) -> None:
    assert slo_result(stream(None, outcome=outcome, end=10)).is_stream_met is False


@pytest.mark.parametrize("outcome", [Outcome.CLOSED, Outcome.CANCELLED, Outcome.ABANDONED])
@pytest.mark.parametrize(("end", "met"), [(500, None), (501, False)])
def test_a_caller_that_left_without_a_token_missed_it_only_after_its_time(
    outcome: Outcome, end: int, met: bool | None
) -> None:
    assert slo_result(stream(None, outcome=outcome, end=end)).is_stream_met is met


def test_a_stream_that_ended_well_without_a_token_is_not_judged() -> None:
    assert slo_result(stream(None, end=900)).is_stream_met is None


def test_a_first_token_of_unknown_arrival_is_not_judged() -> None:
    # It was there already when it was asked for, after 900 ms.
    hidden = Timeline(
        request_unix_ns=0,
        asked=array("q", [900 * MS]),
        arrived=array("q", [900 * MS]),
        kinds=bytes([Kind.ANSWER]),
        headers=100 * MS,
        end=900 * MS,
    )
    assert slo_result(hidden).is_stream_met is None


def late(late_ms: float, *, count: int = 2) -> Timeline:
    """A first token at 505 ms and others 110 ms apart, of which each may have come that much earlier."""
    timeline = stream(505, *[110] * (count - 1))
    return replace(timeline, lateness=array("q", [round(late_ms * MS)] * count))


@pytest.mark.parametrize(("late_ms", "expected"), [(0, False), (4, False), (6, None)])
def test_a_first_token_is_judged_where_its_bounds_do_not_contain_the_limit(
    late_ms: float, expected: bool | None
) -> None:
    assert slo_result(late(late_ms), SLO(ttft=0.5)).is_stream_met is expected


@pytest.mark.parametrize(
    ("itl", "counted"), [(0.09, (0, 1, 0)), (0.11, (0, 0, 1)), (0.13, (1, 0, 0))], ids=["missed", "uncertain", "met"]
)
def test_a_gap_counts_where_its_bounds_do_not_contain_the_limit(itl: float, counted: tuple[int, ...]) -> None:
    # It took 100 to 120 ms.
    found = slo_result(late(10), SLO(itl=itl))
    assert (found.tokens_met, found.tokens_missed, found.tokens_uncertain) == counted


@pytest.mark.parametrize(
    ("uncertain", "expected"), [(10, True), (11, None)], ids=["within the target", "beyond the target"]
)
def test_a_stream_is_judged_where_its_uncertain_gaps_cannot_decide(uncertain: int, expected: bool | None) -> None:
    found = SLOResult(SLO(itl=0.1, target=0.9), 100 - uncertain, 0, is_stream_met=True, tokens_uncertain=uncertain)
    assert found.is_met is expected


def test_a_stream_that_certainly_missed_is_missed_whatever_is_uncertain() -> None:
    found = SLOResult(SLO(itl=0.1, target=0.9), 60, 11, is_stream_met=True, tokens_uncertain=29)
    assert found.is_met is False


@pytest.mark.parametrize("profile", ["", "x" * 65, 5, None, ["chat"], object()])
def test_a_profile_has_a_name(profile: Any) -> None:
    with pytest.raises(ValueError, match=r"^SLO\(profile=.* it takes a name of 1 to 64 characters\.$"):
        SLO(itl=1, profile=profile)


def test_a_name_of_ours_is_taken() -> None:
    with pytest.raises(
        ValueError, match=r"^SLO\(profile='chat'\) is not accepted: that is the name of a built-in objective"
    ):
        SLO(ttft=9, itl=0.9, profile="chat")


# --- Fluidity --------------------------------------------------------------------------------------------------------


def test_the_fluidity_of_a_stream_is_the_share_of_deadlines_that_it_met() -> None:
    # The first token is 400 ms early: that slack is 400 and 250 after the next two. The last one is 1,150 late, which
    # misses 1 + 11 deadlines; three were met.
    assert slo_result(stream(100, 100, 250, 1500)).fluidity == 1 - 12 / 15


@pytest.mark.parametrize("slo", [SLO(ttft=0.5), SLO(itl=0.1), PROFILES["batch"]])
def test_without_both_objectives_there_is_no_fluidity(slo: SLO) -> None:
    assert slo_result(stream(100, 20), slo).fluidity is None


def test_a_consumer_that_was_too_slow_leaves_no_fluidity() -> None:
    slow = Timeline(
        request_unix_ns=0,
        asked=array("q", [0, 900 * MS]),
        arrived=array("q", [100 * MS, 900 * MS]),
        kinds=bytes([Kind.ANSWER] * 2),
        end=900 * MS,
    )
    assert slo_result(slow).fluidity is None


def test_an_objective_of_less_than_a_nanosecond_has_a_fluidity() -> None:
    assert slo_result(stream(100, 20), SLO(ttft=1e-12, itl=1e-12)).fluidity == 0.0
