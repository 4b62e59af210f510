"""What a sweep may consume, and what ends a round or the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from otel_itl.tools.command_error import CommandError
from otel_itl.tools.sweep.brakes import DEFAULT_PAUSE, INTERRUPTED_DRAIN, Brakes, RoundEnd
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.failures import read_retry_after
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.prices import Price, parse_price
from otel_itl.tools.sweep.prompts import Prompt, make_filler

NOON = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110."""


def prompt(max_tokens: int = 10, text: str = "x" * 40) -> Prompt:
    return Prompt([{"role": "user", "content": text}], max_tokens)


def budget_of(**limits: Any) -> Budget:
    return Budget(SweepPlan(peak=1, prompts=lambda _: prompt(), **limits))


# --- Retry-After -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: Mapping[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, NOON) == seconds


# --- Brakes ----------------------------------------------------------------------------------------------------------


def brakes_at(now: list[float]) -> Brakes:
    return Brakes(lambda: now[0])


def test_after_a_429_nothing_is_sent_until_the_time_is_over_also_in_the_next_round() -> None:
    now = [100.0]
    brakes = brakes_at(now)
    brakes.note_failure(429, 5.0)
    brakes.begin_round()
    before, now[0] = brakes.are_applied, 105.0
    assert (before, brakes.are_applied, brakes.stop_reason) == (True, False, None)


def test_a_429_without_retry_after_pauses_as_well() -> None:
    brakes = brakes_at([100.0])
    brakes.note_failure(429, None)
    assert (brakes.round_end, brakes.reason, brakes.not_before) == (
        RoundEnd.RATE_LIMITED,
        "429 from the endpoint",
        100.0 + DEFAULT_PAUSE,
    )


def test_a_503_that_asks_for_a_pause_gets_it() -> None:
    brakes = brakes_at([100.0])
    brakes.note_failure(503, 2.0)
    assert (brakes.reason, brakes.not_before) == ("503 from the endpoint", 102.0)


def test_another_failure_applies_no_brake() -> None:
    brakes = brakes_at([100.0])
    brakes.note_failure(500, None)
    assert not brakes.are_applied


def test_a_pause_beyond_the_maximum_stops_the_sweep() -> None:
    brakes = brakes_at([100.0])
    brakes.note_failure(429, 3_600.0)
    assert brakes.stop_reason == "the endpoint asked for a pause of 3,600 s, more than 120 s"


def test_the_second_interrupt_leaves_open_streams_no_time() -> None:
    now = [100.0]
    brakes = brakes_at(now)
    brakes.interrupt()
    first = brakes.drain_until
    brakes.interrupt()
    assert (first, brakes.drain_until, brakes.stop_reason) == (100.0 + INTERRUPTED_DRAIN, 100.0, "interrupted")


# --- Budget ----------------------------------------------------------------------------------------------------------


def test_requests_under_way_count_with_all_that_they_may_consume() -> None:
    budget = budget_of(max_tokens=300)
    size = prompt().size
    reserved = budget.reserve(prompt())
    assert reserved is not None
    assert reserved.input_tokens == size + 32  # one a byte, and what a template adds to a message
    assert (budget.reserve(prompt()), budget.exhausted) != (None, None)
    assert (budget.reserve(prompt()), budget.exhausted) == (
        None,
        "--max-tokens 300 would be exceeded by a further request (0 used, up to 242 by open requests, up to 121 each)",
    )
    assert budget.is_waiting


def test_a_prompt_of_a_known_length_reserves_little_more_than_that() -> None:
    words = make_filler([(256, 64)])(0)
    reserved = budget_of().estimate(words)
    assert (reserved.input_tokens, reserved.output_tokens) == (256 * 3 // 2 + 32, 64)


def test_a_limit_that_open_requests_do_not_give_back_is_final() -> None:
    budget = budget_of(max_requests=1)
    budget.reserve(prompt())
    assert (budget.reserve(prompt()), budget.exhausted, budget.is_waiting) == (
        None,
        "--max-requests 1 was reached",
        False,
    )


def test_a_request_that_has_ended_counts_with_what_it_has_consumed() -> None:
    budget = budget_of(max_tokens=300)
    for _ in range(4):  # each reserves more than a third of the limit, and uses 15
        reserved = budget.reserve(prompt())
        assert reserved is not None
        budget.settle(reserved, 10, 5)
    assert budget.tokens == 60


def test_a_request_without_token_counts_counts_in_full() -> None:
    budget = budget_of()
    reserved = budget.reserve(prompt())
    assert reserved is not None
    budget.settle(reserved, None, None)
    assert budget.tokens == reserved.input_tokens + reserved.output_tokens


def test_the_size_of_a_prompt_is_estimated_from_the_densest_so_far() -> None:
    budget = budget_of()
    for _ in range(5):
        reserved = budget.reserve(prompt())
        assert reserved is not None
        budget.settle(reserved, reserved.size // 4, 5)
    again = budget.reserve(prompt())
    assert again is not None
    assert again.input_tokens == pytest.approx(again.size / 4 * 1.25, abs=2)


def test_a_cost_counts_input_and_output_by_their_prices() -> None:
    budget = budget_of(max_cost=1.0, price=Price(3.0, 15.0))
    reserved = budget.reserve(prompt(max_tokens=40_000))
    assert reserved is not None
    budget.settle(reserved, 100_000, 40_000)
    assert budget.cost == pytest.approx(0.9)
    # 10 tokens of output cost 0.00015, 10,000 of them 0.15.
    assert budget.reserve(prompt(max_tokens=10)) is not None
    assert budget.reserve(prompt(max_tokens=10_000)) is None
    assert (budget.exhausted or "").startswith("--max-cost 1 would be exceeded by a further request (0.9 used, ")


def test_every_answer_that_a_prompt_asks_for_is_reserved() -> None:
    reserved = budget_of().reserve(Prompt([{"role": "user", "content": "x"}], 10, {"n": 3}))
    assert reserved is not None
    assert reserved.output_tokens == 30


# --- Prices ----------------------------------------------------------------------------------------------------------


def test_a_price_is_of_a_million_tokens() -> None:
    assert parse_price("in=3,out=15") == Price(3.0, 15.0)


@pytest.mark.parametrize("text", ["in=3", "in=3,out=x", "in=3,out=-1", "in=3,out=nan", "in=3,up=2"])
def test_other_prices_are_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(
        CommandError, match=f"^--prices '{text}' is not accepted: it takes a price of a million tokens each"
    ):
        parse_price(text)
