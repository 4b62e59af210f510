"""The levels that a search for the knee drives."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from otel_itl.tools.sweep.attainment import Share
from otel_itl.tools.sweep.brakes import RoundEnd
from otel_itl.tools.sweep.objective import OVER_REQUESTS
from otel_itl.tools.sweep.results import LevelResult, Standing
from otel_itl.tools.sweep.schedule import MAX_SEARCH_ROUNDS, MAX_STEP, Search

Judge = Callable[[float, int], Standing]
"""Level, and its rounds so far → how it stands."""


def judged(level: float, standing: Standing) -> LevelResult:
    value = 0.5 if standing is Standing.BEYOND else 0.0
    share = Share(value=value, samples=9, independent=9.0, requests=9, independent_times=9.0, distance=9.0)
    return LevelResult(
        level=level, rounds=(), counted=(), seconds=1.0, standing=standing, shares={OVER_REQUESTS: share}
    )


def driven(judge: Judge, highest: float = 5.0) -> list[tuple[float, int]]:
    """The rounds of a search."""
    search, taken = Search(highest, 3, Random(1)), []
    while (one := search.take()) is not None:
        taken.append(one)
        rounds = [level for level, _ in taken]
        search.note([judged(level, judge(level, rounds.count(level))) for level in sorted(set(rounds))], 0.01)
    return taken


def up_to(limit: float) -> Judge:
    """An endpoint that carries loads up to a limit."""
    return lambda level, _: Standing.WITHIN if level <= limit else Standing.BEYOND


def test_the_load_doubles_until_the_objective_is_missed_and_the_step_is_halved() -> None:
    assert [level for level, number in driven(up_to(3.0)) if number == 0] == [1.0, 2.0, 4.0, 2.8, 3.3]


def test_the_load_is_halved_where_the_peak_is_not_carried() -> None:
    assert [level for level, number in driven(up_to(0.3)) if number == 0] == [1.0, 0.5, 0.25, 0.35, 0.3]


@pytest.mark.parametrize("limit", [0.3, 0.7, 1.0, 1.7, 3.0, 4.4])
def test_the_limit_lies_between_two_levels_that_are_near_each_other(limit: float) -> None:
    levels = {level for level, _ in driven(up_to(limit))}
    best, missed = max(one for one in levels if one <= limit), min(one for one in levels if one > limit)
    assert missed / best <= MAX_STEP


def test_an_endpoint_that_carries_everything_is_driven_up_to_the_highest_level() -> None:
    assert driven(up_to(9.0))[:4] == [(1.0, 0), (2.0, 0), (4.0, 0), (5.0, 0)]


def test_the_level_that_is_found_and_the_one_above_get_all_their_rounds() -> None:
    assert sorted(driven(up_to(3.0)))[-7:] == [(2.8, 0), (2.8, 1), (2.8, 2), (3.3, 0), (3.3, 1), (3.3, 2), (4.0, 0)]


def test_a_search_goes_on_below_a_level_that_is_not_within_after_all() -> None:
    def judge(level: float, rounds: int) -> Standing:
        return Standing.WITHIN if level <= 1.6 else Standing.UNCERTAIN if level <= 3.0 else Standing.BEYOND

    assert (1.4, 2) in driven(judge)


def test_a_search_ends_where_nothing_is_known() -> None:
    taken = driven(lambda *_: Standing.UNCERTAIN)
    assert len(taken) < MAX_SEARCH_ROUNDS + 4  # the other rounds of the last two levels


def test_a_level_whose_requests_failed_is_not_tried_again() -> None:
    search, taken = Search(5.0, 3, Random(1)), []
    while (one := search.take()) is not None:
        taken.append(one)
        if one[0] > 1.0:
            search.exclude(one[0], RoundEnd.FAILING, "failed")
        levels = sorted({level for level, _ in taken})
        search.note([judged(level, up_to(1.0)(level, 1)) for level in levels], 0.01)
    assert {number for level, number in taken if level > 1.0} == {0}
