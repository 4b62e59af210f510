"""When requests are due, in which order levels are driven, and how many streams are open meanwhile."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from random import Random
from statistics import mean, pstdev

import pytest

from otel_itl.tools.sweep.arrivals import iterate_constant, iterate_poisson, iterate_recorded
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.concurrency import clip_spans, mean_open, most_open
from otel_itl.tools.sweep.schedule import Schedule

# --- Moments ---------------------------------------------------------------------------------------------------------


def test_constant_arrivals_are_evenly_spread() -> None:
    assert list(islice(iterate_constant(4.0), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_poisson_arrivals_have_their_rate_and_distances_that_spread_as_much_as_they_last() -> None:
    distances = [b - a for a, b in pairwise(islice(iterate_poisson(20.0, Random(1)), 20_000))]
    assert (mean(distances), pstdev(distances)) == (pytest.approx(0.05, rel=0.03), pytest.approx(0.05, rel=0.03))


def test_the_same_seed_makes_the_same_moments() -> None:
    first, second = (list(islice(iterate_poisson(3.0, Random("1 2.0 0")), 50)) for _ in range(2))
    assert first == second


def test_recorded_arrivals_keep_their_shape_at_another_rate() -> None:
    # Two close ones, then a pause of three times as long: 1 per second on average, replayed at 4 per second.
    moments = list(islice(iterate_recorded([0.5, 1.5], 4.0, Random(0)), 9))
    assert sorted({round(b - a, 6) for a, b in pairwise(moments)}) == [0.125, 0.375]
    assert mean(b - a for a, b in pairwise(moments)) == pytest.approx(0.25)


# --- Levels ----------------------------------------------------------------------------------------------------------


def taken(schedule: Schedule) -> list[tuple[float, int]]:
    """The rounds that are left."""
    found = []
    while (item := schedule.take()) is not None:
        found.append(item)
    return found


def test_the_first_round_ascends_and_the_others_are_shuffled() -> None:
    rounds = taken(Schedule((1, 2, 3), 3, Random(4)))
    assert rounds[:3] == [(1, 0), (2, 0), (3, 0)]
    assert [sorted(rounds[3:6]), sorted(rounds[6:])] == [[(n, r) for n in (1, 2, 3)] for r in (1, 2)]


def test_above_a_saturated_level_none_is_tried_and_itself_is_again() -> None:
    schedule = Schedule((1, 2, 3), 2, Random(4))
    for _ in range(2):
        schedule.take()
    schedule.exclude(2, RoundEnd.SATURATED, "concurrency and TTFT kept rising")
    assert sorted(taken(schedule)) == [(1, 1), (2, 1)]
    assert schedule.skipped == "concurrency and TTFT kept rising at 2 times the peak: higher levels were not tried"


def test_a_level_of_which_requests_failed_is_not_tried_again() -> None:
    schedule = Schedule((1, 2, 3), 2, Random(4))
    for _ in range(2):
        schedule.take()
    schedule.exclude(2, RoundEnd.FAILING, "30% of the requests failed")
    assert taken(schedule) == [(1, 1)]
    assert (
        schedule.skipped == "30% of the requests failed at 2 times the peak: it and higher levels were not tried again"
    )


def test_the_end_of_the_highest_level_skips_nothing() -> None:
    schedule = Schedule((1, 2), 1, Random(4))
    taken(schedule)
    schedule.exclude(2, RoundEnd.SATURATED, "concurrency and TTFT kept rising")
    assert schedule.skipped is None


# --- Concurrency -----------------------------------------------------------------------------------------------------


def test_streams_count_for_as_long_as_they_are_open_between_two_moments() -> None:
    # From 11 to 15: one stream for 4 s, another for 2 s.
    assert mean_open([(10.0, math.inf), (12.0, 14.0)], 11.0, 15.0) == 1.5


def test_the_most_streams_are_those_at_one_moment() -> None:
    # The third begins as the second ends.
    assert most_open([(0, 10), (2, 6), (6, 9), (7, 8)]) == 3


def test_between_two_moments_the_streams_count_that_are_open_then() -> None:
    assert clip_spans([(0.0, 3.0), (1.0, 5.0), (6.0, math.inf)], 4.0, 7.0) == [(4.0, 5.0), (6.0, 7.0)]
