"""The knee, the wait beyond it, and the exit code, of simulated endpoints with a known law."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.bottleneck import Bottleneck, find_bottleneck
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.results import Standing
from tests.tools.sweep.sweeps import LEVELS, PEAK, Law, simulate


def analyzed(gap: Law = lambda _: 0.02, first: Law = lambda _: 0.2, **given: Any) -> SweepResult:
    """The answers on a simulated sweep."""
    sweep = simulate(gap, first, **{"rounds": 2, **given})
    return analyze(sweep)


def knee_of(result: SweepResult) -> float | None:
    return None if result.knee is None else result.knee.level


def batching(streams: float) -> float:
    """A gap that grows with the streams in a batch: its p99 is 79 ms at 72 streams, 151 ms at 120."""
    return 0.02 * (1 + (streams / 48) ** 2 / 2)


def test_the_knee_lies_where_the_gaps_of_a_batch_exceed_the_objective() -> None:
    assert knee_of(analyzed(batching, seconds=8.0)) == 3.0


def test_the_knee_lies_where_a_queue_begins() -> None:
    assert knee_of(analyzed(first=lambda _: 0.1, capacity=50.0, seconds=8.0)) == 1.5


def test_without_an_objective_the_knee_lies_where_no_more_is_completed() -> None:
    assert knee_of(analyzed(capacity=52.0, objective=None, seconds=8.0)) == 2.0


def test_an_endpoint_without_a_limit_carries_all_levels() -> None:
    assert knee_of(analyzed(seconds=4.0)) == 5.0


def test_an_endpoint_that_is_too_slow_at_the_lowest_level_has_no_knee() -> None:
    result = analyzed(lambda _: 0.2, seconds=4.0, rounds=1)
    assert (knee_of(result), result.judged[0].standing) == (None, Standing.BEYOND)


@pytest.mark.parametrize("level", [1.0, 1.5, 2.0, 3.0])
def test_one_noisy_level_does_not_decide(level: float) -> None:
    assert knee_of(analyzed(noisy={level: 4.0}, seconds=8.0)) == 5.0


def test_a_level_whose_interval_contains_the_objective_is_not_known() -> None:
    objective = SLO(itl=0.0362)  # about the p99 of the gaps
    result = analyzed(objective=objective, levels=(1.0,), seconds=8.0)
    assert (result.judged[0].standing, result.judged[0].missed, result.exit_code) == (
        Standing.UNCERTAIN,
        "over_gaps",
        3,
    )


def test_a_goodput_that_falls_beyond_its_peak_leaves_the_knee_at_the_peak() -> None:
    objective = SLO(itl=0.05, target=0.9)
    assert knee_of(analyzed(batching, objective=objective, seconds=8.0)) == 2.0


def test_the_load_of_a_closed_loop_is_its_callers() -> None:
    result = analyzed(capacity=52.0, objective=None, seconds=8.0, is_open_loop=False)
    assert knee_of(result) == 2.0


def test_a_void_level_below_the_knee_does_not_move_it() -> None:
    assert knee_of(analyzed(batching, seconds=8.0, void={2.0: {"void_reason": "429 from the endpoint"}})) == 3.0


def bottleneck_of(result: SweepResult) -> Bottleneck:
    failing = next(one for one in result.judged if one.standing is not Standing.WITHIN)
    return find_bottleneck(failing, result)


def test_a_rising_gap_is_a_wait_at_every_token() -> None:
    assert bottleneck_of(analyzed(batching, seconds=4.0)) is Bottleneck.PACE


def test_a_rising_first_token_is_a_wait_before_it() -> None:
    assert bottleneck_of(analyzed(capacity=38.0, seconds=8.0)) is Bottleneck.QUEUE


def test_a_queue_without_an_objective_is_a_wait_before_the_first_token() -> None:
    assert bottleneck_of(analyzed(capacity=38.0, objective=None, seconds=8.0)) is Bottleneck.QUEUE


def test_a_long_tail_at_the_same_median_is_a_wait_in_single_gaps() -> None:
    assert bottleneck_of(analyzed(seconds=4.0, long_gaps={5.0: 0.03})) is Bottleneck.GAPS


def test_many_requests_that_were_held_up_here_are_a_wait_here() -> None:
    assert bottleneck_of(analyzed(batching, seconds=4.0, held_up={5.0: 0.1})) is Bottleneck.HERE


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0),
        ({"gap": lambda _: 0.2}, 1),
        ({"gap": lambda _: 0.2, "objective": None}, 0),
        ({"gap": lambda _: 0.2, "levels": (2.0,)}, 3),
        ({"gap": lambda _: 0.2, "levels": (0.5,)}, 1),
        ({"levels": (2.0,)}, 0),
        ({"levels": (0.5,)}, 3),
        ({"void": {level: {"void_reason": "429 from the endpoint"} for level in LEVELS}}, 3),
    ],
    ids=["holds", "beyond", "no objective", "beyond at 2x", "beyond at 0.5x", "holds at 2x", "holds at 0.5x", "void"],
)
def test_the_exit_code_is_that_of_the_expected_peak(given: dict[str, Any], expected: int) -> None:
    assert analyzed(**{"seconds": 10.0, "rounds": 1, **given}).exit_code == expected


def test_the_streams_of_the_knee_are_those_that_were_open() -> None:
    result = analyzed(seconds=10.0, rounds=1, levels=(1.0, 2.0))
    assert result.knee is not None
    assert result.knee.concurrency == pytest.approx(2 * PEAK)
