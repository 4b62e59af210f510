"""A sweep that would look good although the endpoint refuses, dies, hangs, or does not keep up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from otel_itl.core.slo import SLO
from otel_itl.core.timeline import Outcome
from otel_itl.tools.sweep.brakes import INTERRUPTED, RoundEnd
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.judging import judge_round
from otel_itl.tools.sweep.knee import SweepResult, analyze
from otel_itl.tools.sweep.plan import SweepPlan
from otel_itl.tools.sweep.prompts import Prompt
from otel_itl.tools.sweep.records import Round, Sweep
from otel_itl.tools.sweep.render.json import sweep_to_json
from otel_itl.tools.sweep.render.words import describe_notes, headline
from otel_itl.tools.sweep.results import Standing
from tests.tools.sweep.sweeps import SECONDS, due_request, measured, one_round, simulate, sweep_of

OBJECTIVE = SLO(ttft=0.5, itl=0.1, target=0.9)
GOOD: dict[str, Any] = {"seconds": 8.0, "rounds": 2, "levels": (1.0, 2.0), "objective": OBJECTIVE}


def with_last_round(end: RoundEnd, level: float = 1.0, **other: Any) -> SweepResult:
    """The answers on a sweep within its objective, the last round of a level of which ended early."""
    sweep = simulate(lambda _: 0.02, **GOOD)
    last = next(one for one in reversed(sweep.rounds) if one.level == level)
    for name, value in {"end": end, **other}.items():
        setattr(last, name, value)
    return analyze(sweep)


def ended_in_its_warm_up(reason: str) -> dict[str, Any]:
    return {"reason": reason, "steady_from": None, "steady_until": None, "void_reason": f"it ended: {reason}"}


def test_the_sweep_that_is_spoilt_is_within_its_objective() -> None:
    result = analyze(simulate(lambda _: 0.02, **GOOD))
    assert ([one.standing for one in result.levels], result.exit_code) == ([Standing.WITHIN] * 2, 0)


def test_a_level_that_was_refused_in_one_round_is_not_known() -> None:
    result = with_last_round(RoundEnd.RATE_LIMITED, **ended_in_its_warm_up("429 from the endpoint"))
    assert ([one.standing for one in result.levels], result.exit_code) == ([Standing.UNCERTAIN] * 2, 3)
    assert headline(result).endswith("within the objective: 429 from the endpoint in 1 of 2 rounds at 1x.")


def test_a_refusal_above_the_peak_leaves_the_peak_as_it_is() -> None:
    result = with_last_round(RoundEnd.RATE_LIMITED, 2.0, **ended_in_its_warm_up("429 from the endpoint"))
    assert ([one.standing for one in result.levels], result.exit_code) == ([Standing.WITHIN, Standing.UNCERTAIN], 0)
    assert headline(result).endswith("it is not known, as 429 from the endpoint in 1 of 2 rounds at 2x.")


def test_an_endpoint_that_died_after_a_good_round_does_not_hold() -> None:
    reason = "100% of the requests failed (connection refused)"
    result = with_last_round(RoundEnd.FAILING, is_failing=True, **ended_in_its_warm_up(reason))
    assert (result.levels[0].standing, result.exit_code) == (Standing.FAILING, 1)
    assert headline(result) == "Too many requests failed at 1x the expected peak of 24."


def test_a_queue_that_grows_is_not_carried_however_short_the_waits_are_so_far() -> None:
    sweep = simulate(lambda _: 0.02, **{**GOOD, "rounds": 1, "levels": (1.0,)})
    sweep.rounds[0].end, sweep.rounds[0].reason = RoundEnd.SATURATED, "concurrency and TTFT kept rising"
    result = analyze(sweep)
    assert (result.levels[0].standing, result.exit_code) == (Standing.SATURATED, 1)
    assert "within the objective: concurrency and TTFT kept rising in 1 of 1 round at 1x, " in headline(result)


def test_a_queue_that_grew_in_one_of_two_rounds_leaves_it_open() -> None:
    result = with_last_round(RoundEnd.SATURATED, reason="concurrency and TTFT kept rising")
    assert (result.levels[0].standing, result.exit_code) == (Standing.UNCERTAIN, 3)
    assert json.loads(sweep_to_json(result, "", 3))["levels"][0]["doubt"].endswith("in 1 of 2 rounds at 1x")


def test_a_queue_that_this_machine_made_says_nothing_of_the_endpoint() -> None:
    void = {"is_driver_bound": True, "void_reason": "this machine could not drive more"}
    result = with_last_round(RoundEnd.SATURATED, reason="concurrency and TTFT kept rising", **void)
    assert result.levels[0].doubt is None


# --- An endpoint that dies -------------------------------------------------------------------------------------------

REFUSED = {"error": "APIConnectionError", "detail": "connection refused"}


def dying(*, answers_after: int = 0) -> SweepResult:
    """A round each at 1x, 2x and 1x again: the connections of the last 5 requests at 2x and of all later ones fail."""
    rounds = [one_round(1.0, 0), one_round(2.0, 0, 100.0, is_failing=True), one_round(1.0, 1, 200.0, is_failing=True)]
    answered = [due_request(SECONDS * number / 400, of=measured()) for number in range(400)]
    last = [due_request(100.0 + number, level=2.0, of=measured()) for number in range(17)]
    lost = [due_request(120.0 + number, level=2.0, **REFUSED) for number in range(5)]
    lost += [due_request(200.0, round=1, **REFUSED)]
    after = [due_request(201.0 + number, round=1, of=measured()) for number in range(answers_after)]
    return analyze(sweep_of(rounds, [*answered, *last, *lost, *after], levels=(1.0, 2.0)))


def test_an_endpoint_that_stops_answering_shows_no_capacity() -> None:
    result = dying()
    assert [(level.standing, level.void_reason) for level in result.levels] == [
        (Standing.WITHIN, None),
        (
            None,
            (
                "the endpoint stopped answering in round 2 of 3, at 2x: the last 6 requests failed "
                "(APIConnectionError: connection refused)"
            ),
        ),
    ]
    assert headline(result).endswith(f"at 48 streams (2x) nothing is known: {result.levels[1].void_reason}.")


def test_a_level_at_which_the_endpoint_stops_answering_is_not_known_to_be_within() -> None:
    lost = [due_request(100.0 + number, round=1, **REFUSED) for number in range(5)]
    answered = [due_request(SECONDS * number / 400, of=measured()) for number in range(400)]
    result = analyze(sweep_of([one_round(), one_round(number=1, start=100.0)], [*answered, *lost], levels=(1.0,)))
    assert (result.judged[0].standing, result.judged[0].doubt, result.exit_code) == (
        Standing.UNCERTAIN,
        "the endpoint stopped answering in 1 of 2 rounds at 1x",
        3,
    )


def test_an_endpoint_that_answers_again_has_failed_under_its_load() -> None:
    assert dying(answers_after=3).levels[1].standing is Standing.FAILING


def test_one_request_that_failed_does_not_make_a_level_failing() -> None:
    result = analyze(sweep_of([one_round()], [due_request(0.0, **REFUSED)], levels=(1.0,)))
    assert result.judged[0].standing is not Standing.FAILING


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupted(hangs_from: float) -> Round:
    """A round of 20 s that Ctrl-C ended, with a request each tenth of a second; from a moment on every second hangs."""
    cut_off = measured(first=None, gaps=(), outcome=Outcome.CANCELLED)
    requests = [
        due_request(due, of=cut_off, ended=None)
        if due >= hangs_from and number % 2
        else due_request(due, of=measured())
        for number, due in enumerate(number / 10 for number in range(200))
    ]
    one = one_round(end=None, reason=INTERRUPTED, requests=requests)
    judge_round(one, 20.0)
    return one


def test_requests_that_hang_when_ctrl_c_comes_are_not_left_out_alone() -> None:
    one = interrupted(hangs_from=2.0)
    assert (one.void_reason, one.steady_until) == ("it was cut short: interrupted", 2.1)


def test_a_round_ends_before_the_first_request_that_ctrl_c_cut_off() -> None:
    one = interrupted(hangs_from=15.0)
    assert (one.void_reason, one.steady_until) == (None, 15.1)
    assert [request.due for request in one.requests if request.is_steady][-1] == 15.0


# --- What is not said of the answer ----------------------------------------------------------------------------------


def swept(**other: Any) -> Sweep:
    """A round whose requests all have these fields."""
    return sweep_of([one_round()], [due_request(number / 10, of=measured(), **other) for number in range(200)])


def test_answers_that_are_longer_than_they_may_be_are_counted() -> None:
    notes = list(describe_notes(analyze(swept(most_tokens=40))))
    assert "1x: 200 answers had more tokens than --answer-tokens allows." in notes


def test_answers_without_a_finish_reason_are_said_to_be_the_reason() -> None:
    sweep = swept()
    for request in sweep.requests:
        assert request.measured is not None
        request.measured = replace(request.measured, outcome=Outcome.TRUNCATED)
    notes = list(describe_notes(analyze(sweep)))
    assert "1x: 200 answers ended without a finish reason: they count as not completed." in notes


def test_an_interval_that_would_do_is_said_to_be_of_too_few_requests() -> None:
    gaps = (0.02,) * 39 + (0.2,)
    requests = [due_request(number, of=measured(gaps=gaps)) for number in range(20)]
    sentence = headline(analyze(sweep_of([one_round()], requests, objective=SLO(itl=0.1, target=0.9))))
    assert (
        "1.53 to 3.83 % of the gaps are longer than 100 ms (10 % may), by 20 requests, which are too few;" in sentence
    )


def test_a_limit_counts_with_the_longest_answer_of_an_endpoint_that_does_not_keep_to_it() -> None:
    prompt = Prompt([{"role": "user", "content": "hello"}], 5)
    budget = Budget(SweepPlan(peak=1, prompts=lambda _: prompt, max_tokens=500))
    first = budget.reserve(prompt)
    assert first is not None
    budget.settle(first, 10, 300)
    assert budget.reserve(prompt) is None
