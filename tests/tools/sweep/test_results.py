"""Figures of a level: what they count, and what their intervals rest on."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.sweep.blocks import split_into_blocks
from otel_itl.tools.sweep.objective import meets_objective
from otel_itl.tools.sweep.records import DueRequest
from otel_itl.tools.sweep.results import LevelResult, compute_levels
from tests.tools.sweep.sweeps import CHAT, SECONDS, due_request, measured, one_round, sweep_of


def level_of(requests: list[DueRequest], **other: Any) -> LevelResult:
    """The only level of a sweep with one round."""
    return compute_levels(sweep_of([one_round()], requests, **other))[0]


def value_of(requests: list[DueRequest], key: str, **other: Any) -> float | None:
    return level_of(requests, **other).figures[key].value


def test_time_to_first_token_counts_from_when_a_request_was_due() -> None:
    assert value_of([due_request(1.0, late=0.3, of=measured(0.2))], "ttft_p50") == pytest.approx(0.5)


def test_a_request_without_a_token_is_infinitely_late() -> None:
    failed = due_request(2.0, of=measured(None, (), Outcome.ERROR), error="APIError")
    found = level_of([due_request(1.0, of=measured(0.2)), failed])
    assert (found.figures["ttft_p99"].value, found.without_token) == (math.inf, 1)


def test_a_request_that_was_never_sent_is_infinitely_late() -> None:
    unsent = due_request(2.0, sent=None, ended=None)
    assert level_of([due_request(1.0, of=measured()), unsent]).without_token == 1


def test_the_median_of_few_failures_is_finite() -> None:
    requests = [due_request(number, of=measured(0.2)) for number in range(5)] + [due_request(6.0)]
    assert value_of(requests, "ttft_p50") == pytest.approx(0.2)


def test_gaps_are_pooled_over_requests() -> None:
    requests = [due_request(1.0, of=measured(gaps=(0.01, 0.02))), due_request(2.0, of=measured(gaps=(0.03,)))]
    assert value_of(requests, "itl_p50") == pytest.approx(0.02)


def test_warm_up_is_in_no_latency() -> None:
    requests = [due_request(1.0, of=measured(0.2)), due_request(0.5, of=measured(9.0), is_steady=False)]
    assert value_of(requests, "ttft_p99") == pytest.approx(0.2)


def test_goodput_is_what_ends_within_the_objective_per_second() -> None:
    good, late = measured(0.2, (0.02,) * 10), measured(0.6, (0.02,) * 10)
    requests = [due_request(number, of=good) for number in range(8)] + [due_request(9.0, of=late)]
    assert value_of(requests, "goodput") == pytest.approx(8 / SECONDS)


def test_goodput_includes_what_was_due_in_the_warm_up() -> None:
    requests = [due_request(1.0, of=measured()), due_request(-0.5, of=measured(), is_steady=False)]
    assert value_of(requests, "goodput") == pytest.approx(2 / SECONDS)


def test_goodput_excludes_what_ends_after_the_steady_part() -> None:
    requests = [due_request(1.0, of=measured()), due_request(SECONDS - 0.1, of=measured())]
    assert value_of(requests, "goodput") == pytest.approx(1 / SECONDS)


def test_without_an_objective_goodput_is_what_is_completed() -> None:
    requests = [due_request(1.0, of=measured(5.0)), due_request(2.0, of=measured(0.1, outcome=Outcome.TRUNCATED))]
    assert value_of(requests, "goodput", objective=None) == pytest.approx(1 / SECONDS)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (measured(0.5, (0.1,) * 100), True),
        (measured(0.51), False),
        (measured(gaps=(0.02,) * 99 + (0.2,)), True),
        (measured(gaps=(0.02,) * 98 + (0.2,) * 2), False),
        (measured(outcome=Outcome.TRUNCATED), False),
        (measured(None, ()), False),
    ],
)
def test_a_request_meets_the_objective_by_its_first_token_and_the_share_of_its_gaps(given: Any, expected: bool) -> None:
    assert meets_objective(due_request(1.0, of=given), CHAT) is expected


def test_requests_that_were_held_up_here_are_set_aside_and_stood_for_by_the_others() -> None:
    requests = [due_request(number, of=measured(0.2)) for number in range(6)]
    requests += [due_request(number + 0.5, of=measured(3.0), held_up_by=Cause.HOST) for number in range(3)]
    found = level_of(requests)
    assert (found.set_aside, found.figures["ttft_p99"].value) == (3, pytest.approx(0.2))
    assert found.figures["goodput"].value == pytest.approx(9 / SECONDS)


def test_tokens_count_in_proportion_to_the_time_in_the_steady_part() -> None:
    half_before = due_request(-5.0, of=measured(0.0, (0.1,) * 100), is_steady=False)  # 101 tokens from -5 s to 5 s
    requests = [half_before, due_request(1.0, of=measured(None, ()))]
    assert value_of(requests, "tokens") == pytest.approx(50.5 / SECONDS)


def test_stalls_are_counted_by_cause_and_per_thousand_tokens() -> None:
    stalled = due_request(1.0, of=measured(gaps=(0.02,) * 499), stall_causes=Counter(upstream=2, process=1))
    found = level_of([stalled])
    assert (found.figures["stalls"].value, found.stall_causes) == (6.0, Counter(upstream=2, process=1))


def test_failures_are_counted_by_type_and_status() -> None:
    failed = [due_request(1.0, status=429, error="RateLimitError"), due_request(2.0, error="ReadTimeout")]
    assert level_of(failed).errors == Counter({"429 RateLimitError": 1, "ReadTimeout": 1})


def test_the_percentile_is_that_of_the_target() -> None:
    objective = SLO(ttft=0.5, itl=0.1, target=0.95)
    figures = level_of([due_request(1.0, of=measured())], objective=objective).figures
    assert [key for key in figures if key.startswith("itl")] == ["itl_p50", "itl_p95"]


def test_a_void_round_does_not_count() -> None:
    rounds = [one_round(), one_round(number=1, start=100.0, void_reason="429 from the endpoint")]
    requests = [due_request(1.0, of=measured(0.2)), due_request(101.0, of=measured(9.0), round=1)]
    found = compute_levels(sweep_of(rounds, requests))[0]
    assert (found.figures["ttft_p99"].value, len(found.counted), found.void_reason) == (pytest.approx(0.2), 1, None)


def test_a_level_of_which_all_rounds_are_void_has_their_reason() -> None:
    rounds = [one_round(number=number, void_reason="429 from the endpoint") for number in range(2)]
    found = compute_levels(sweep_of(rounds, []))[0]
    assert (found.void_reason, dict(found.figures)) == ("429 from the endpoint", {})


def test_a_level_of_which_all_requests_were_set_aside_is_void() -> None:
    found = level_of([due_request(1.0, of=measured(), held_up_by=Cause.HOST)])
    assert found.void_reason == "1 of 1 set aside: its machine was busy"


def test_few_samples_beyond_a_percentile_make_it_rough() -> None:
    random = np.random.default_rng(1)
    requests = [
        due_request(number / 10, of=measured(0.2, random.lognormal(-4, 0.3, 40).tolist())) for number in range(150)
    ]
    figures = level_of(requests).figures
    assert (
        figures["ttft_p99"].has_few_tail_samples,
        figures["itl_p99"].has_few_tail_samples,
        figures["ttft_p50"].has_few_tail_samples,
    ) == (
        True,
        False,
        False,
    )


def test_gaps_that_are_alike_are_worth_fewer_samples() -> None:
    alike = [due_request(number / 10, of=measured(0.2, (0.02 + 0.0001 * number,) * 40)) for number in range(150)]
    figure = level_of(alike).figures["itl_p99"]
    assert (figure.samples, figure.effective_samples < 600, figure.has_few_tail_samples) == (6_000, True, True)


def test_the_same_sweep_has_the_same_intervals() -> None:
    requests = [due_request(number / 10, of=measured(0.1 + number / 1000)) for number in range(100)]
    assert level_of(requests).figures == level_of(requests).figures


def test_neighbours_that_are_alike_make_an_interval_wider() -> None:
    random = np.random.default_rng(1)
    firsts = np.repeat(random.lognormal(-2, 0.5, 20), 10)  # ten requests in a row wait alike
    shuffled = random.permutation(firsts)
    widths = []
    for given in (firsts, shuffled):
        requests = [due_request(number / 10, of=measured(float(first), (0.001,))) for number, first in enumerate(given)]
        figure = level_of(requests).figures["ttft_p50"]
        assert figure.interval is not None
        widths.append(figure.interval[1] - figure.interval[0])
    assert widths[0] > 1.5 * widths[1]


@pytest.mark.parametrize(("duration", "blocks"), [(0.5, 10), (2.0, 5), (4.0, 2), (30.0, 2)])
def test_a_block_is_twice_as_long_as_a_request_where_there_is_room(duration: float, blocks: int) -> None:
    requests = [due_request(number, of=measured(0.0, (duration,))) for number in range(20)]
    assert len(split_into_blocks(one_round(requests=requests))) == blocks


def test_every_steady_request_is_in_the_block_in_which_it_was_due() -> None:
    requests = [due_request(number + 0.5, of=measured(0.0, (1.0,))) for number in range(20)]
    assert [len(block.due) for block in split_into_blocks(one_round(requests=requests))] == [2] * 10
