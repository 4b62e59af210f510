"""The answers on simulated sides."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from otel_itl.core.timeline import Outcome
from otel_itl.tools.compare.comparison import compare
from otel_itl.tools.compare.estimator import POOLED
from otel_itl.tools.compare.gate import exit_code
from otel_itl.tools.compare.prompts import CONFOUNDED
from otel_itl.tools.compare.quantities import QUANTITIES, Direction
from otel_itl.tools.compare.render.words import describe_compared_prompts, headline, note_of
from otel_itl.tools.compare.resampling import Interval
from otel_itl.tools.compare.results import Comparison, Reading, Row
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.compare.verdicts import Answer, Estimate, answer, answer_estimates
from otel_itl.tools.report.certainty import Cause

Sides = Callable[..., Any]
QUIET: dict[str, Any] = {"between_sessions": 0.02, "between_requests": 0.02, "between_gaps": 0.1, "sessions": 24}


def row_of(comparison: Comparison, key: str, model: str = "model 0") -> Row:
    return next(row for row in comparison.rows if (row.quantity.key, row.model) == (key, model))


def test_twice_the_time_is_slower(sides: Sides) -> None:
    row = row_of(compare(*sides(2.0)), "itl_p50")
    assert (row.answer, (row.measured.ratio_interval or (0, 0))[0] > 1.05) == (Answer.SLOWER, True)


def test_half_the_time_is_faster(sides: Sides) -> None:
    assert row_of(compare(*sides(0.5)), "itl_p50").answer is Answer.FASTER


def test_the_same_upstream_with_little_spread_is_the_same(sides: Sides) -> None:
    assert row_of(compare(*sides(1.0, **QUIET)), "itl_p50").answer is Answer.SAME


def test_a_difference_inside_the_margin_is_the_same(sides: Sides) -> None:
    assert row_of(compare(*sides(1.03, **QUIET), margin=0.1), "itl_p50").answer is Answer.SAME


def test_a_spread_beyond_the_margin_is_not_enough_data(sides: Sides) -> None:
    row = row_of(compare(*sides(1.0)), "itl_p50")
    assert (row.answer, row.why, (row.measured.enough or 0) > 10) == (
        Answer.NOT_ENOUGH_DATA,
        "the interval is wider than the margin",
        True,
    )


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        (0.2, 0.3, "the interval is beyond the margin, but p, adjusted for all rows, is not below 0.05"),
        (-0.1, 0.1, "the interval is wider than the margin"),
        (0.0, 0.06, "the interval crosses the margin"),
    ],
)
def test_the_reason_is_that_of_the_interval_beside_it(low: float, high: float, why: str) -> None:
    assert answer(Interval(low=low, high=high, standard_error=0.01), 1.0, 0.05) == (Answer.NOT_ENOUGH_DATA, why)


def test_what_would_be_enough_is_enough(sides: Sides) -> None:
    spread = {"between_sessions": 0.05, "between_requests": 0.05, "between_gaps": 0.1}
    enough = row_of(compare(*sides(1.0, sessions=6, **spread)), "itl_p50").measured.enough or 0
    answers = [row_of(compare(*sides(1.0, seed, sessions=enough, **spread)), "itl_p50").answer for seed in (2, 3, 4)]
    assert answers == [Answer.SAME] * 3


def test_p99_of_few_gaps_is_refused(sides: Sides) -> None:
    row = row_of(compare(*sides(2.0, sessions=6, requests=2)), "itl_p99")
    assert (row.answer, row.why, row.measured.enough) == (
        Answer.NOT_ENOUGH_DATA,
        "960 of the 1,000 gaps that ITL p99 needs at least",
        None,
    )


def test_p99_of_few_sessions_is_refused(sides: Sides) -> None:
    row = row_of(compare(*sides(2.0, sessions=4)), "itl_p99")
    assert (row.answer, row.why) == (Answer.NOT_ENOUGH_DATA, "4 of the 5 sessions or requests that it needs at least")


def test_sessions_count_as_one_and_their_gaps_as_fewer(sides: Sides) -> None:
    figure = row_of(compare(*sides(1.0)), "itl_p50").a
    assert (figure.clusters, figure.samples, figure.effective_samples < 500) == (10, 4_800, True)


def test_the_same_seed_gives_the_same_answers(sides: Sides) -> None:
    a, b = sides(1.2)
    assert compare(a, b, resamples=199).rows == compare(a, b, resamples=199).rows


def test_sessions_of_the_same_script_are_compared_with_themselves(sides: Sides) -> None:
    comparison = compare(*sides(1.1, between_sessions=0.6, between_gaps=0.1, paired=True))
    assert (comparison.is_paired, row_of(comparison, "itl_p50").answer) == (True, Answer.SLOWER)


def test_more_requests_to_a_slow_model_do_not_make_all_models_slower(sides: Sides) -> None:
    a, b = sides(1.0, models=2, **QUIET)
    slow = [one for one in b.requests if one.model == "model 1"]
    b.requests.extend(dataclasses.replace(one, cluster=f"more {one.cluster}") for one in slow * 3)
    assert row_of(compare(a, b), "itl_p50", POOLED).answer is Answer.SAME


def test_a_model_of_one_side_is_named_and_not_compared(sides: Sides) -> None:
    a, b = sides(1.0)
    b.requests.append(dataclasses.replace(b.requests[0], model="new"))
    comparison = compare(a, b, resamples=99)
    assert (comparison.only_in, {row.model for row in comparison.rows}) == ([("new", "B")], {"model 0"})


def test_many_clusters_are_joined(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_itl.tools.compare.clusters.MAX_CLUSTERS", 20)
    figure = row_of(compare(*sides(2.0, sessions=60, requests=1), resamples=199), "itl_p50").a
    assert (figure.clusters, figure.samples) == (20, 4_800)


def test_errors_that_become_frequent_are_slower(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    b.requests[:] = [
        dataclasses.replace(one, outcome=Outcome.ERROR if number % 2 else one.outcome)
        for number, one in enumerate(b.requests)
    ]
    comparison = compare(a, b)
    assert (row_of(comparison, "errors").answer, exit_code(comparison)) == (Answer.SLOWER, 1)


def test_what_never_happened_has_no_row(sides: Sides) -> None:
    keys = {row.quantity.key for row in compare(*sides(1.0), resamples=99).rows}
    assert keys & {"stalls", "no_token", "truncated", "errors", "cancelled", "closed", "abandoned"} == set()


def test_gaps_over_an_objective_are_counted(sides: Sides) -> None:
    a, b = sides(2.0, between_gaps=0.1, between_sessions=0.01, between_requests=0.01)
    for side in (a, b):
        side.requests[:] = [dataclasses.replace(one, itl_objective=0.03) for one in side.requests]
    row = row_of(compare(a, b), "over_objective")
    assert (row.a.value is not None and row.a.value < 0.01, row.b.value is not None and row.b.value > 0.99) == (
        True,
        True,
    )


def bound(side: Any, lowest: float, highest: float = 1.0) -> None:
    """Let the gaps of a side be uncertain: they may be shorter and longer by these factors."""
    side.requests[:] = [
        dataclasses.replace(one, lowest=_scale(one, lowest), highest=_scale(one, highest)) for one in side.requests
    ]


def _scale(request: Any, factor: float) -> Any:
    gaps = array("d", [gap * factor for gap in request.gaps])
    return dataclasses.replace(request, gaps=gaps, decode_time=request.decode_time * factor)


def test_an_answer_that_the_error_of_a_side_could_change_is_not_known(sides: Sides) -> None:
    a, b = sides(1.3, **QUIET)
    bound(b, 1 / 1.3)
    row = row_of(compare(a, b), "itl_p50")
    assert (row.answer, row.bounds[Reading.LOWEST].answer, row.sides) == (Answer.MACHINE_DECIDES, Answer.SAME, ["B"])
    assert row.why == "slower as measured, same if all chunks came as early as they may have; side B is uncertain"


def test_an_answer_that_no_error_could_change_is_given(sides: Sides) -> None:
    a, b = sides(2.0, **QUIET)
    bound(b, 0.8)
    row = row_of(compare(a, b), "itl_p50")
    assert (row.answer, row.bounds[Reading.LOWEST].answer) == (Answer.SLOWER, Answer.SLOWER)


def test_errors_that_are_alike_on_both_sides_change_no_answer(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    bound(a, 0.8)
    bound(b, 0.8)
    row = row_of(compare(a, b), "itl_p50")
    lowest = row.bounds[Reading.LOWEST].ratio
    assert (row.answer, lowest, row.sides) == (Answer.SAME, pytest.approx(row.measured.ratio), ["A", "B"])


def test_a_figure_says_what_it_may_be_more_by(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    bound(b, 1, 1.1)
    row = row_of(compare(a, b, resamples=99), "tpot")
    assert (row.a.highest, row.b.highest) == (None, pytest.approx(1.1 * (row.b.value or 0)))


def test_a_side_that_is_faster_unless_its_gaps_were_longer_is_not_known(sides: Sides) -> None:
    a, b = sides(0.7, **QUIET)
    bound(b, 0.9, 1 / 0.7)
    row = row_of(compare(a, b), "itl_p50")
    assert (row.answer, row.why) == (
        Answer.MACHINE_DECIDES,
        "faster as measured, same if all gaps were as long as they may have been; side B is uncertain",
    )


def test_a_share_over_an_objective_that_blocks_of_the_loop_may_have_made_is_not_known(sides: Sides) -> None:
    """The chunks that a block held up come late, and then short gaps after each other."""
    a, b = sides(1.0, **QUIET)
    bound(b, 0.7, 1.4)
    for side in (a, b):
        side.requests[:] = [dataclasses.replace(one, itl_objective=0.021) for one in side.requests]
    b.requests[:] = [dataclasses.replace(one, gaps=array("d", [gap * 0.8 for gap in one.gaps])) for one in b.requests]
    row = row_of(compare(a, b), "over_objective")
    assert (row.measured.answer, row.answer) == (Answer.FASTER, Answer.MACHINE_DECIDES)


def test_figures_that_may_be_nothing_on_both_sides_are_the_same(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    bound(a, 0)
    bound(b, 0)
    row = row_of(compare(a, b), "itl_p50")
    assert (row.answer, row.bounds[Reading.LOWEST].ratio) == (Answer.SAME, 1.0)


def test_more_data_are_needed_first_where_they_would_decide_as_measured(sides: Sides) -> None:
    a, b = sides(1.0)
    bound(b, 0.5)
    row = row_of(compare(a, b), "itl_p50")
    assert (row.answer, row.why) == (Answer.NOT_ENOUGH_DATA, "the interval is wider than the margin")


def test_the_sentence_is_what_most_rows_say(sides: Sides) -> None:
    assert headline(compare(*sides(1.0, **QUIET), margin=0.15), COMPARED) == (
        "B is not slower, as far as the data show: of the 5 rows that decide 4 are the same, 1 has not enough data. "
        "TTFT p50 of model 0: the interval crosses the margin; about 98 sessions a side would be enough if nothing "
        "has changed."
    )


def test_the_sentence_counts_the_rows_that_are_shown(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    bound(b, 0.7, 1.4)
    for side in (a, b):
        side.requests[:] = [dataclasses.replace(one, itl_objective=0.021) for one in side.requests]
    comparison = compare(a, b)
    assert headline(comparison, COMPARED).partition(" in ")[2].startswith("4 of the 6 rows that decide")


def test_the_sentence_says_how_many_rows_were_chosen(sides: Sides) -> None:
    sentence = headline(compare(*sides(2.0)), ("itl_p50", "tpot"))
    assert sentence.startswith("B is slower in 2 of the 2 rows that decide: ")


def test_the_caller_s_machine_decides_is_exit_code_3(sides: Sides) -> None:
    a, b = sides(1.3, **QUIET)
    bound(b, 1 / 1.3)
    comparison = compare(a, b)
    assert (exit_code(comparison, ("itl_p50",)), headline(comparison, ("itl_p50",)).partition(":")[0]) == (
        3,
        "The caller's machine decides whether B is slower",
    )


@pytest.mark.parametrize(("factor", "fleet", "code"), [(2.0, {}, 1), (1.0, QUIET, 0), (1.0, {}, 3)])
def test_the_exit_code_says_what_a_pipeline_has_to_do(
    sides: Sides, factor: float, fleet: dict[str, Any], code: int
) -> None:
    quick = ("itl_p50", "itl_p95", "tpot") if fleet else COMPARED
    comparison = compare(*sides(factor, **fleet), margin=0.15 if fleet else 0.05)
    assert exit_code(comparison, quick) == code


def test_the_sentence_agrees_with_the_exit_code_where_a_chosen_rate_is_not_known(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    b.requests[0] = dataclasses.replace(b.requests[0], outcome=Outcome.TRUNCATED)
    comparison = compare(a, b, resamples=199)
    sentence = headline(comparison, ("truncated",))
    assert (exit_code(comparison, ("truncated",)), sentence.startswith("Not enough data")) == (3, True)


def test_the_names_on_the_command_line_are_those_of_the_rows() -> None:
    assert tuple(quantity.key for quantity in QUANTITIES) == COMPARED


def hang(side: Any, every: int) -> None:
    """Let every so many requests be cancelled before any token."""
    side.requests[:] = [
        one
        if number % every
        else dataclasses.replace(
            one, outcome=Outcome.CANCELLED, time_to_first_token=None, gaps=array("d"), decode_time=0.0, later_tokens=0
        )
        for number, one in enumerate(side.requests)
    ]


ALONE: dict[str, Any] = {**QUIET, "sessions": 240, "requests": 1, "between_sessions": 0.0}


def test_requests_that_hang_until_they_are_cancelled_are_slower(sides: Sides) -> None:
    a, b = sides(1.0, **ALONE)
    hang(b, 3)
    comparison = compare(a, b, resamples=999)
    rows = {key: row_of(comparison, key) for key in ("no_token", "cancelled", "ttft_p95")}
    assert (exit_code(comparison), {row.answer for row in rows.values()}) == (1, {Answer.SLOWER})


def test_a_first_token_that_never_came_is_infinitely_late(sides: Sides) -> None:
    a, b = sides(1.0, **ALONE)
    hang(b, 3)
    row = row_of(compare(a, b, resamples=999), "ttft_p95")
    assert (row.b.value, row.measured.ratio) == (float("inf"), float("inf"))


def test_a_first_token_that_comes_on_neither_side_is_not_known(sides: Sides) -> None:
    a, b = sides(1.0, **ALONE)
    for side in (a, b):
        hang(side, 1)
    comparison = compare(a, b, resamples=999)
    row = row_of(comparison, "ttft_p50")
    assert (exit_code(comparison), row.answer, row.measured.why) == (
        3,
        Answer.NOT_ENOUGH_DATA,
        "it is infinite on both sides",
    )


def test_a_model_that_hangs_on_both_sides_makes_no_other_one_less_slow(sides: Sides) -> None:
    whole = sides(1.5, **{**ALONE, "models": 2})
    hung = sides(1.5, **{**ALONE, "models": 2})
    for side in hung:
        side.requests[:] = [
            dataclasses.replace(one, time_to_first_token=None, gaps=array("d")) if one.model == "model 0" else one
            for one in side.requests
        ]
    ratios = [row_of(compare(*both, resamples=999), "ttft_p50", POOLED).measured.ratio for both in (whole, hung)]
    assert ratios[1] == pytest.approx(ratios[0], rel=0.1)


def test_a_rate_that_only_p_leaves_open_is_not_passed(sides: Sides) -> None:
    a, b = sides(1.0, **{**ALONE, "sessions": 60, "requests": 3})
    b.requests[:18] = [
        dataclasses.replace(one, time_to_first_token=None, gaps=array("d"), decode_time=0.0, later_tokens=0)
        for one in b.requests[:18]
    ]
    comparison = compare(a, b, resamples=999)
    answer_of_rate = row_of(comparison, "no_token").answer
    is_open = headline(comparison, COMPARED).startswith("Not enough data")
    assert (answer_of_rate, exit_code(comparison), is_open) == (Answer.NOT_ENOUGH_DATA, 3, True)


def test_a_model_that_hangs_is_not_left_out_of_all_models(sides: Sides) -> None:
    a, b = sides(1.0, **{**ALONE, "models": 2})
    hang(b, 1)
    row = row_of(compare(a, b, resamples=999), "ttft_p50", POOLED)
    assert row.measured.ratio == float("inf")


def test_the_ratio_to_a_rate_of_no_event_has_no_upper_end(sides: Sides) -> None:
    a, b = sides(1.0, **{**ALONE, "gaps": 5})
    b.requests[:] = [
        dataclasses.replace(one, outcome=Outcome.ERROR if number % 10 < 3 else one.outcome)
        for number, one in enumerate(b.requests)
    ]
    low, high = row_of(compare(a, b, resamples=999), "errors").measured.ratio_interval or (0, 0)
    assert (15 < low < 20, high) == (True, float("inf"))


def test_the_answer_names_what_is_not_known(sides: Sides) -> None:
    a, b = sides(1.0, **ALONE)
    for side, failed in ((a, 1), (b, 3)):
        side.requests[:failed] = [dataclasses.replace(one, outcome=Outcome.ERROR) for one in side.requests[:failed]]
    comparison = compare(a, b, 0.2, resamples=999)
    assert (exit_code(comparison), headline(comparison, COMPARED)) == (
        0,
        "No latency is slower by more than 20 %; errors: not known.",
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.02, 0.26, Answer.SLOWER_SOMEHOW),
        (-0.26, 0.02, Answer.NOT_SLOWER),
        (-0.3, -0.2, Answer.FASTER),
        (0.2, 0.3, Answer.SLOWER),
    ],
)
def test_an_answer_is_what_the_interval_shows(low: float, high: float, expected: Answer) -> None:
    assert answer(Interval(low=low, high=high, standard_error=0.01), 0.01, 0.05)[0] is expected


def test_slower_by_what_is_not_known_is_neither_fine_nor_a_failure(sides: Sides) -> None:
    comparison = compare(*sides(1.1, **{**ALONE, "sessions": 60}))
    row = dataclasses.replace(
        comparison.rows[0], measured=dataclasses.replace(comparison.rows[0].measured, answer=Answer.SLOWER_SOMEHOW)
    )
    found = dataclasses.replace(comparison, rows=[row])
    assert (exit_code(found), headline(found, COMPARED).startswith("B is slower, but by how much is not known: ")) == (
        3,
        True,
    )


def test_tokens_a_second_that_fall_are_slower_and_longer_answers_are_longer(sides: Sides) -> None:
    a, b = sides(1.0, **ALONE)
    b.requests[:] = [dataclasses.replace(one, tokens=2 * one.tokens, duration=4 * one.duration) for one in b.requests]
    comparison = compare(a, b, resamples=999)
    answers = [row_of(comparison, key).answer for key in ("speed", "answer_length")]
    assert answers == [Answer.SLOWER, Answer.LONGER]


def test_time_per_token_of_alike_requests_in_a_session_is_worth_fewer(sides: Sides) -> None:
    figure = row_of(compare(*sides(1.0, between_requests=0.02), resamples=99), "tpot").a
    assert (figure.samples, (figure.design_effect or 0) > 3) == (60, True)


def test_streams_that_a_proxy_buffers_are_compared_from_burst_to_burst(sides: Sides) -> None:
    pair = sides(1.0, **ALONE)
    for side in pair:
        side.requests[:] = [
            dataclasses.replace(one, set_aside={"itl_p99": Cause.BUFFERED}, buffered_time=1.0, buffered_gaps=50.0)
            for one in side.requests
        ]
    comparison = compare(*pair, resamples=999)
    assert [row_of(comparison, key).answer for key in ("itl_p50", "burst_to_burst")] == [Answer.BUFFERED, Answer.SAME]


def steady(side: Any, gap: float) -> None:
    """Let all gaps of a side be of one length (s)."""
    side.requests[:] = [
        dataclasses.replace(one, gaps=array("d", [gap] * len(one.gaps)), decode_time=gap * one.later_tokens)
        for one in side.requests
    ]


@pytest.mark.parametrize("key", ["itl_p50", "itl_p95", "itl_p99", "tpot"])
def test_gaps_that_are_all_alike_are_slower_where_all_are_longer(key: str, sides: Sides) -> None:
    a, b = sides(1.0)
    steady(a, 0.010)
    steady(b, 0.012)
    row = row_of(compare(a, b), key)
    assert (row.answer, row.measured.ratio) == (Answer.SLOWER, pytest.approx(1.2))


def test_no_absurd_number_of_sessions_is_promised(sides: Sides) -> None:
    row = row_of(compare(*sides(1.0, sessions=3, between_sessions=2.0)), "itl_p50")
    assert (row.measured.enough, row.why.endswith("; more data of this kind will not settle it")) == (None, True)


def prompt(side: Any, *, of: Callable[[int], int], power: float = 1.0) -> None:
    """Record prompts; first tokens come later by a power of their length, in thousands of tokens."""
    tokens = [of(number) for number in range(len(side.requests))]
    side.requests[:] = [
        dataclasses.replace(
            one, prompt_tokens=count, time_to_first_token=(one.time_to_first_token or 0) * (count / 1_000) ** power
        )
        for one, count in zip(side.requests, tokens, strict=True)
    ]


def test_prompts_of_other_lengths_leave_the_first_token_open(sides: Sides) -> None:
    """B takes twice as long for a token of the prompt, which prompts of half the length hide."""
    a, b = sides(1.0, **QUIET)
    prompt(a, of=lambda _: 4_000)
    prompt(b, of=lambda _: 2_000)
    b.requests[:] = [
        dataclasses.replace(one, time_to_first_token=2 * (one.time_to_first_token or 0)) for one in b.requests
    ]
    comparison = compare(a, b, 0.2, resamples=999)
    row = row_of(comparison, "ttft_p50")
    assert (exit_code(comparison), row.answer, row.why) == (
        3,
        Answer.NOT_ENOUGH_DATA,
        "B's prompts are 0.50 times as long, and what that makes of it is not known: give sides with like prompts",
    )
    assert "B's prompts are shorter, 0.50 times A's." in headline(comparison, COMPARED)


LONG = 3_000


def affine(side: Any, shortest: int, longest: int, *, factor: float = 1.0, known: float = 1.0) -> None:
    """Let first tokens follow one law, 100 ms and 0.1 ms a token, with prompts spread evenly by their logarithms."""
    random = np.random.default_rng(longest)
    side.requests[:] = [
        dataclasses.replace(
            one,
            prompt_tokens=tokens if random.random() < known else None,
            time_to_first_token=factor * (0.1 + tokens / 10_000) * random.lognormal(0, 0.1),
        )
        for one in side.requests
        for tokens in [round(shortest * (longest / shortest) ** random.random())]
    ]


@pytest.mark.parametrize(
    ("lengths", "how"),
    [
        ({"shortest": 400, "longest": 4 * LONG, "factor": 0.85}, {}),
        ({"shortest": 50, "longest": LONG // 2}, {}),
        ({"shortest": 400, "longest": 4 * LONG}, {"known": 0.85}),
        ({"shortest": 400, "longest": 900}, {}),
    ],
    ids=["faster law, longer prompts", "shorter", "of which some are not known", "as long, but more alike"],
)
def test_first_tokens_after_other_prompts_have_no_answer(
    lengths: dict[str, Any], how: dict[str, Any], sides: Sides
) -> None:
    a, b = sides(1.0, **{**ALONE, "sessions": 240, "gaps": 5})
    affine(a, 100, LONG, **how)
    affine(b, **lengths, **how)
    comparison = compare(a, b, resamples=299)
    assert {row_of(comparison, key).answer for key in ("ttft_p50", "ttft_p95")} == {Answer.NOT_ENOUGH_DATA}


@pytest.mark.parametrize(("power", "is_open"), [(0.3, True), (0.0, False)])
def test_gaps_after_other_prompts_have_no_answer_where_they_follow_them(
    power: float, is_open: bool, sides: Sides
) -> None:
    a, b = sides(1.0, **{**ALONE, "sessions": 100, "gaps": 20})
    for side, shortest in ((a, 100), (b, 400)):
        affine(side, shortest, 30 * shortest)
        side.requests[:] = [
            dataclasses.replace(one, gaps=array("d", [gap * scale for gap in one.gaps]))
            for one in side.requests
            for scale in [((one.prompt_tokens or 0) / 1_000) ** power]
        ]
    row = row_of(compare(a, b, resamples=299), "itl_p50")
    assert row.why.endswith(CONFOUNDED) == is_open


def test_prompts_that_one_side_alone_records_are_named(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    prompt(a, of=lambda _: 1_000)
    assert describe_compared_prompts(compare(a, b, resamples=199)) == [
        "Prompt lengths are known of A alone: nothing was checked of prompts."
    ]


def test_no_row_is_called_chosen_where_none_was(sides: Sides) -> None:
    comparison = compare(*sides(1.0, **QUIET), margin=0.15, resamples=999)
    rows = [row for row in comparison.rows if row.quantity.key in {"itl_p50", "tpot"}]
    sentence = headline(dataclasses.replace(comparison, rows=rows), COMPARED)
    assert sentence == "No latency is slower by more than 15 %."


def test_more_and_fewer_are_each_other_s_mirror_image() -> None:
    exchanged = np.array([1.0] + [0.0] * 1_999)
    answers = [
        answer_estimates(
            [Estimate(interval=Interval(low=low, high=high, standard_error=0.01), exchanged=exchanged)],
            [40],
            [Direction.MORE],
            0.05,
        )[0]
        for low, high in ((0.01, 0.12), (-0.12, -0.01))
    ]
    assert [(one.answer, one.why) for one in answers] == [(Answer.MORE, ""), (Answer.FEWER, "")]


@pytest.mark.parametrize(("sessions", "is_paired", "least"), [(3, False, 4), (5, True, 6)])
def test_the_least_number_of_sessions_that_can_show_a_difference_is_named(
    sessions: int, is_paired: bool, least: int, sides: Sides
) -> None:
    a, b = sides(3.0, **{**QUIET, "sessions": sessions})
    if is_paired:
        b.requests[:] = [
            dataclasses.replace(one, cluster=other.cluster) for one, other in zip(b.requests, a.requests, strict=True)
        ]
    comparison = compare(a, b, resamples=999)
    assert note_of(row_of(comparison, "itl_p50"), comparison) == (
        f"the interval is beyond the margin, but p cannot be below 0.05 with so few; it takes at least {least} "
        "sessions a side"
    )


def test_a_p_that_other_draws_may_put_beyond_the_threshold_is_open() -> None:
    interval = Interval(low=0.2, high=0.3, standard_error=0.01)
    answers = []
    for beyond in (96, 80):  # of 2,000: 0.048 and 0.040
        exchanged = np.array([1.0] * beyond + [0.0] * (2_000 - beyond))
        estimate = Estimate(interval=interval, exchanged=exchanged)
        answers += [one.answer for one in answer_estimates([estimate], [40], [Direction.SLOWER], 0.05)]
    assert answers == [Answer.NOT_ENOUGH_DATA, Answer.SLOWER]


def test_prompts_of_many_lengths_hide_no_slower_first_token(sides: Sides) -> None:
    found = []
    for recorded in (True, False):
        pair = sides(1.15, prompts=0.7, sessions=30, records_prompts=recorded, between_sessions=0.05)
        row = row_of(compare(*pair, resamples=999), "ttft_p50")
        low, high = row.measured.ratio_interval or (0, 0)
        found.append(high / low)
    assert found[0] < 0.8 * found[1]


def test_the_load_of_both_sides_is_shown(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET)
    for side, apart in ((a, 1.0), (b, 0.5)):
        side.requests[:] = [
            dataclasses.replace(one, start_unix_ns=round(number * apart * 1e9), duration=2.2)
            for number, one in enumerate(side.requests)
        ]
    row = row_of(compare(a, b, resamples=999), "open_streams")
    assert (round(row.a.value or 0), round(row.b.value or 0), row.answer) == (3, 5, Answer.MORE)


def test_a_buffered_side_without_a_pace_says_so(sides: Sides) -> None:
    pair = sides(1.0, **ALONE)
    for side in pair:
        side.requests[:] = [dataclasses.replace(one, set_aside={"itl_p99": Cause.BUFFERED}) for one in side.requests]
    row = row_of(compare(*pair, resamples=999), "burst_to_burst")
    assert row.why == "no stream has bursts enough to show one pace from burst to burst"


def test_a_first_token_that_is_later_after_long_prompts_alone_is_in_the_tail(sides: Sides) -> None:
    a, b = sides(1.0, **QUIET, requests=10)
    for side, power in ((a, 0.3), (b, 1.0)):
        prompt(side, of=lambda number: 250 * 2 ** (number * 7 % 5), power=power)
    row = row_of(compare(a, b, resamples=999), "ttft_p95")
    assert row.answer is Answer.SLOWER
