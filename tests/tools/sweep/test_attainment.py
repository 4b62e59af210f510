"""What a sweep may say of an objective: nothing that it did not measure, and nothing that its requests do not show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.report.certainty import Cause
from otel_itl.tools.sweep.attainment import (
    Share,
    estimate_requests,
    find_bounds,
    is_within,
    measure_share,
)
from otel_itl.tools.sweep.judging import judge_round
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.records import DueRequest
from otel_itl.tools.sweep.render.words import describe_notes, headline
from otel_itl.tools.sweep.results import Standing
from otel_itl.tools.sweep.sample_size import least_requests
from tests.tools.sweep.sweeps import CHAT, SECONDS, due_request, measured, one_round, sweep_of

FAST = SLO(ttft=0.5, itl=0.02)
FINE, LATE = np.array([0.2]), np.array([0.9])


def swept(
    requests: Sequence[DueRequest], objective: SLO | None = CHAT, levels: Sequence[float] = (1.0,)
) -> SweepResult:
    """A sweep with a round at each level, of which these are all requests."""
    rounds = [one_round(level, concurrency=level * 24.0) for level in levels]
    return analyze(sweep_of(rounds, requests, objective=objective, levels=levels))


def many(count: int, over: int = 0, *, level: float = 1.0) -> list[DueRequest]:
    """Requests over a round, of which some, evenly spread, have a first token that is late by chat's objective."""
    late = {number * count // over for number in range(over)} if over else set()
    return [
        due_request(SECONDS * number / count, of=measured(0.9 if number in late else 0.2), level=level)
        for number in range(count)
    ]


def standing_of(result: SweepResult) -> tuple[Standing | None, str | None, int]:
    return result.judged[0].standing, result.judged[0].missed, result.exit_code


# --- What was not measured -------------------------------------------------------------------------------------------


def test_answers_in_one_chunk_show_nothing_of_an_itl_objective() -> None:
    requests = [due_request(SECONDS * number / 400, of=measured(0.2, ())) for number in range(400)]
    result = swept(requests, FAST)
    assert standing_of(result) == (Standing.UNCERTAIN, "over_gaps", 3)
    assert "the ITL was not measured: most answers came in one chunk" in headline(result)


def test_gaps_of_a_buffer_show_nothing_of_an_itl_objective() -> None:
    requests = [due_request(SECONDS * n / 400, of=measured(0.2, (0.0,) * 99), is_buffered=True) for n in range(400)]
    result = swept(requests, FAST)
    assert standing_of(result) == (Standing.UNCERTAIN, "over_gaps", 3)
    assert "the ITL was not measured: 400 of 400 answers came in bursts of a buffer" in headline(result)


def test_gaps_of_fewer_than_half_of_the_answers_are_not_enough() -> None:
    requests = many(400) + [due_request(SECONDS * n / 401, of=measured(0.2, ())) for n in range(401)]
    assert standing_of(swept(requests)) == (Standing.UNCERTAIN, "over_gaps", 3)


def test_an_answer_in_one_chunk_is_no_goodput() -> None:
    requests = [due_request(number, of=measured(0.2, ())) for number in range(10)]
    assert swept(requests, FAST).judged[0].figures["goodput"].value == 0


def test_streams_that_hang_after_their_first_tokens_are_over_an_itl_objective() -> None:
    hung = [due_request(n, of=measured(0.2, outcome=Outcome.CANCELLED), ended=None) for n in range(20)]
    assert standing_of(swept(many(380) + hung, SLO(itl=0.1)))[:2] == (Standing.BEYOND, "over_requests")


def test_streams_that_ctrl_c_cut_off_are_not_the_endpoint_s() -> None:
    one = one_round(
        reason="interrupted", requests=[due_request(1.0, of=measured(outcome=Outcome.CANCELLED), ended=None)]
    )
    judge_round(one, SECONDS)
    assert [request.is_steady for request in one.requests] == [False]


@pytest.mark.parametrize(("delay", "standing"), [(0.05, Standing.BEYOND), (0.6, Standing.WITHIN)])
def test_a_request_that_was_held_up_counts_where_it_is_late_without_that_as_well(
    delay: float, standing: Standing
) -> None:
    held_up = [due_request(n, of=measured(0.9), held_up_by=Cause.HOST, held_up=delay) for n in range(20)]
    assert standing_of(swept(many(400) + held_up))[0] is standing


def test_answers_that_are_shorter_than_they_were_to_be_are_counted() -> None:
    requests = [
        due_request(n, of=measured(gaps=(0.02,) * 9), most_tokens=tokens, is_exact=True)
        for n, tokens in enumerate((10, 11))
    ]
    assert "1x: 1 answer had fewer tokens than --ignore-eos asked for." in describe_notes(swept(requests))


# --- What few requests show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "requests"), [(0.01, 368), (0.05, 72), (0.1, 36), (0.001, 3_688)])
def test_the_least_sample_is_the_one_with_which_none_over_the_objective_decides(allowed: float, requests: int) -> None:
    assert (least_requests(allowed), find_bounds(0, requests)[1] <= allowed) == (requests, True)
    assert find_bounds(0, requests - 1)[1] > allowed


def test_seventy_requests_in_time_do_not_show_that_one_in_a_hundred_is_not_late() -> None:
    assert standing_of(swept(many(70))) == (Standing.UNCERTAIN, "over_requests", 3)


def test_four_hundred_requests_in_time_do() -> None:
    assert standing_of(swept(many(400))) == (Standing.WITHIN, None, 0)


def test_gaps_of_few_requests_do_not_show_that_no_request_is_slow_from_end_to_end() -> None:
    requests = [due_request(SECONDS * n / 70, of=measured(0.2, (0.02,) * 1_000)) for n in range(70)]
    assert standing_of(swept(requests, SLO(itl=0.1)))[0] is Standing.UNCERTAIN


def test_eight_late_of_two_hundred_are_beyond() -> None:
    assert standing_of(swept(many(200, 8))) == (Standing.BEYOND, "over_requests", 1)


def test_the_answer_names_about_how_many_requests_would_decide() -> None:
    assert "; about 390 would decide" in headline(swept(many(70)))


def test_as_many_requests_as_are_named_do_decide() -> None:
    share = measure_share([[FINE] * 100, [LATE] + [FINE] * 199], 0.5)
    assert share is not None
    needed = estimate_requests(share, 0.01)
    assert needed is not None
    over = round(needed * share.value)
    assert find_bounds(over, needed)[1] <= 0.01


# --- What likeness takes from a sample -------------------------------------------------------------------------------


def test_gaps_over_the_objective_in_the_same_requests_count_as_few_samples() -> None:
    slow, mixed = np.full(40, 0.9), np.array([0.9] * 4 + [0.1] * 36)
    alike = measure_share([[slow if number % 10 == 0 else np.full(40, 0.1) for number in range(40)]] * 10, 0.5)
    apart = measure_share([[mixed] * 40] * 10, 0.5)
    assert alike is not None
    assert apart is not None
    assert (alike.value, round(alike.independent, -1), apart.independent) == (apart.value, 400, 16_000)


def test_requests_over_the_objective_in_the_same_spell_count_as_few_samples() -> None:
    share = measure_share([[LATE] * 30] + [[FINE] * 30] * 19, 0.5)
    assert share is not None
    assert share.independent < 25


def test_the_interval_of_a_share_covers_it_where_requests_are_alike() -> None:
    random = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        own = random.beta(0.2, 3.8, 600)  # 5 % of the gaps on average, most of them in a few requests
        requests = [np.where(random.random(40) < share, 0.9, 0.1) for share in own]
        share = measure_share([requests[start::20] for start in range(20)], 0.5)
        assert share is not None
        inside.append(share.interval[0] <= 0.05 <= share.interval[1])
    assert np.mean(inside) > 0.93


def spells(limit: float) -> Share:
    """First tokens of 600 requests in 20 spells, which are alike by half of their variance, and all below 0.5 s."""
    random = np.random.default_rng(3)
    logs = np.clip(random.normal(size=20), None, 1.5)[:, np.newaxis] + np.clip(random.normal(size=(20, 30)), None, 1.5)
    blocks = [[np.array([one]) for one in spell] for spell in 0.5 * np.exp(0.3 * (logs - 3.1))]
    share = measure_share(blocks, limit)
    assert share is not None
    return share


def test_few_spells_below_the_objective_do_not_show_that_no_slow_one_comes() -> None:
    assert (spells(0.5).value, spells(0.5).interval[1] < 0.01, is_within([spells(0.5)], 0.01)) == (0.0, True, False)


def test_few_spells_far_below_the_objective_do() -> None:
    assert is_within([spells(2.0)], 0.01)


@pytest.mark.parametrize("blocks", [3, 4, 5, 6, 10])
def test_times_that_hardly_vary_and_are_far_below_the_objective_are_within_it(blocks: int) -> None:
    random = np.random.default_rng(1)
    common = 0.606 * np.exp(random.normal(0, 0.003, (blocks, 1)) + random.normal(0, 0.0005, (blocks, 30)))
    share = measure_share([[np.array([one]) for one in block] for block in common], 1.2)
    assert share is not None
    assert is_within([share], 0.2)


@pytest.mark.parametrize("blocks", [3, 5, 10])
def test_blocks_of_times_that_are_all_alike_are_seldom_within_an_objective_that_too_many_miss(blocks: int) -> None:
    random = np.random.default_rng(2)
    found = []
    for _ in range(200):
        logs = random.normal(size=blocks)  # 20 % of the blocks are over it
        share = measure_share([[np.array([one])] * 10 for one in np.exp(logs)], float(np.exp(0.8416)))
        assert share is not None
        found.append(is_within([share], 0.2))
    assert np.mean(found) < 0.05


# --- The answer and the exit code ------------------------------------------------------------------------------------


def test_a_level_that_does_not_complete_its_load_does_not_hold() -> None:
    ended = [due_request(SECONDS * n / 400, of=measured(), ended=SECONDS + 1) for n in range(400)]
    result = swept(ended)
    assert (result.judged[0].standing, headline(result)[:16], result.exit_code) == (
        Standing.SATURATED,
        "Does not carry 2",
        1,
    )


def test_a_level_above_one_that_is_beyond_is_no_knee() -> None:
    result = swept(many(400, 40) + many(400, level=2.0), levels=(1.0, 2.0))
    standings = [level.standing for level in result.judged]
    assert (standings, result.knee, result.exit_code) == ([Standing.BEYOND, Standing.WITHIN], None, 1)


def test_a_level_beyond_the_objective_above_the_peak_leaves_the_peak_unknown() -> None:
    result = swept(many(400, 40, level=2.0), levels=(2.0,))
    assert headline(result).endswith("; whether it carries the expected peak is not known.")
    assert result.exit_code == 3


def test_a_knee_below_the_expected_peak_is_said_to_be_less() -> None:
    result = swept(many(400, level=0.5) + many(400, 40), levels=(0.5, 1.0))
    assert headline(result).startswith(
        "Carries 12 streams within chat's objective, fewer than the expected peak; at 24 "
    )
    assert result.exit_code == 1


def test_the_lowest_level_up_to_the_peak_that_does_not_hold_is_the_answer() -> None:
    result = swept(many(70, level=0.5) + many(400, 40), levels=(0.5, 1.0))
    assert (headline(result)[:38], result.exit_code) == ("Does not carry 24 streams (1x the expe", 1)
