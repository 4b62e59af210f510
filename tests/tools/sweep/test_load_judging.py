"""Whether a level is too much for the endpoint, and whether this machine could drive it."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from otel_itl.tools.sweep.records import Round
from otel_itl.tools.sweep.saturation import FirstTokenWait, is_over_saturated
from otel_itl.tools.sweep.self_check import SelfCheck, describe_driver_limit, find_tail
from tests.tools.sweep.sweeps import one_round

GOOD = one_round(host_delay_share=0.01)


def waits(growth: float, count: int = 60, seed: int = 1) -> list[FirstTokenWait]:
    """Waits of requests that were due evenly over 30 s, of 0.2 s with noise, and longer by `growth` (s) at the end."""
    random = Random(seed)
    moments = [30 * number / count for number in range(count)]
    return [FirstTokenWait(moment, 0.2 * random.lognormvariate(0, 0.3) + growth * moment / 30) for moment in moments]


# --- Saturation ------------------------------------------------------------------------------------------------------


def test_a_queue_that_grows_is_over_saturation() -> None:
    assert is_over_saturated(waits(growth=2.0), [8, 16, 24], 0.0, 30.0)


def test_a_level_wait_is_none() -> None:
    assert not is_over_saturated(waits(growth=0.0), [8, 16, 24], 0.0, 30.0)


def test_waits_that_rise_at_a_level_concurrency_are_none() -> None:
    assert not is_over_saturated(waits(growth=2.0), [8, 8.4, 8.2], 0.0, 30.0)


def test_a_rise_that_falls_again_is_none() -> None:
    assert not is_over_saturated(waits(growth=2.0), [8, 24, 16], 0.0, 30.0)


def test_requests_that_got_no_token_waited_longest() -> None:
    cut_off = [one._replace(seconds=math.inf) if one.due > 18 else one for one in waits(growth=0.5)]
    assert is_over_saturated(cut_off, [8, 16, 24], 0.0, 30.0)


def test_of_too_few_requests_nothing_is_concluded() -> None:
    assert not is_over_saturated(waits(growth=2.0, count=12), [8, 16, 24], 0.0, 30.0)


def test_noise_is_taken_for_saturation_in_fewer_than_one_of_fifty_rounds() -> None:
    # Whatever the concurrency did: only the waits speak.
    found = sum(is_over_saturated(waits(0.0, seed=seed), [8, 16, 24], 0.0, 30.0) for seed in range(200))
    assert found < 4


# --- This machine ----------------------------------------------------------------------------------------------------


def test_a_machine_that_keeps_up_is_no_limit() -> None:
    assert describe_driver_limit(GOOD, [0.2, 0.3], 0.02, 0.0) is None


@pytest.mark.parametrize(
    ("driven", "held_up_share", "reason"),
    [
        (replace(GOOD, schedule_delay_p99=0.08), 0.0, "1 in 100 requests was sent 80 ms late or later"),
        (replace(GOOD, loop_lag_p99=0.04), 0.0, "the event loop was 40 ms late, 1 in 100 times"),
        (replace(GOOD, host_delay_share=0.3), 0.0, "this process waited for a CPU 30% of the time"),
        (GOOD, 0.4, "it held up 40% of the streams"),
    ],
)
def test_each_limit_of_this_machine_is_named(driven: Round, held_up_share: float, reason: str) -> None:
    assert describe_driver_limit(driven, [0.2], 0.02, held_up_share) == f"this machine could not drive more: {reason}"


def test_a_delay_that_is_small_beside_the_ttft_is_no_limit() -> None:
    assert describe_driver_limit(replace(GOOD, schedule_delay_p99=0.08), [2.0], 0.02, 0.0) is None


def test_a_lag_that_is_small_beside_the_gaps_is_no_limit() -> None:
    assert describe_driver_limit(replace(GOOD, loop_lag_p99=0.04), [0.2], 0.2, 0.0) is None


def test_two_pauses_are_no_tail() -> None:
    assert find_tail([0.001] * 98 + [0.5, 0.5]) == 0.001


def test_of_many_values_the_tail_is_the_99th_percentile() -> None:
    assert find_tail(range(1, 1002)) == 991


def test_the_self_check_measures_the_steady_part_alone() -> None:
    delays = iter([1_000_000_000, 1_500_000_000])
    check = SelfCheck(lambda: next(delays))
    check.note_lag(9.0)
    check.begin(10.0)
    for lag in (0.001, 0.002, 0.003):
        check.note_lag(lag)
    check.end(20.0)
    check.note_lag(9.0)
    assert (check.host_delay_share, check.loop_lag_p99) == (0.05, 0.001)
