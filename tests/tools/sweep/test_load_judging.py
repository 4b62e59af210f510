"""Whether a level is too much for the endpoint, and whether this machine could drive it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from otel_itl.tools.sweep.judging import describe_driver_limit, find_tail
from otel_itl.tools.sweep.records import Round
from otel_itl.tools.sweep.saturation import is_over_saturated
from tests.tools.sweep.sweeps import due_request, one_round

GOOD = one_round(host_delay_share=0.01)


def loaded(waits: Mapping[float, float], concurrency: Sequence[float]) -> Round:
    """A round of 30 s, with when each request was due → how long it waited, and the streams open in each third (s)."""
    asked = [due_request(due, first_token=due + wait, sent=None) for due, wait in waits.items()]
    others = [
        due_request(10.0 * third, ended=10.0 * (third + share), is_steady=False)
        for third, streams in enumerate(concurrency)
        for share in [*[1.0] * int(streams), streams % 1]
    ]
    return one_round(steady_from=0.0, steady_until=30.0, requests=[*asked, *others])


def waits(growth: float, count: int = 60, seed: int = 1) -> dict[float, float]:
    """Waits of requests that were due evenly over 30 s, of 0.2 s with noise, and longer by `growth` (s) at the end."""
    random = Random(seed)
    moments = [30 * number / count for number in range(count)]
    return {moment: 0.2 * random.lognormvariate(0, 0.3) + growth * moment / 30 for moment in moments}


# --- Saturation ------------------------------------------------------------------------------------------------------


def test_a_queue_that_grows_is_over_saturation() -> None:
    assert is_over_saturated(loaded(waits(growth=2.0), [8, 16, 24]))


def test_a_level_wait_is_none() -> None:
    assert not is_over_saturated(loaded(waits(growth=0.0), [8, 16, 24]))


def test_waits_that_rise_at_a_level_concurrency_are_none() -> None:
    assert not is_over_saturated(loaded(waits(growth=2.0), [8, 8.4, 8.2]))


def test_a_rise_that_falls_again_is_none() -> None:
    assert not is_over_saturated(loaded(waits(growth=2.0), [8, 24, 16]))


def test_requests_that_got_no_token_waited_longest() -> None:
    one = loaded(waits(growth=0.5), [8, 16, 24])
    for request in one.requests:
        if request.is_steady and request.due > 18:
            request.first_token = request.ended = None
    assert is_over_saturated(one)


def test_of_too_few_requests_nothing_is_concluded() -> None:
    assert not is_over_saturated(loaded(waits(growth=2.0, count=12), [8, 16, 24]))


def test_noise_is_taken_for_saturation_in_fewer_than_one_of_fifty_rounds() -> None:
    # Whatever the concurrency did: only the waits speak.
    found = sum(is_over_saturated(loaded(waits(0.0, seed=seed), [8, 16, 24])) for seed in range(200))
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
