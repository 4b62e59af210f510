"""The own load: what follows slowness is not named as its cause, and runs at one load each are no comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")

from bench.explain.loads import FEEDBACK, RUNS, FeedbackFleet, Runs
from otel_itl.tools.explain.explaining import explain_observations
from otel_itl.tools.explain.findings import Driver, Explanation, Target
from otel_itl.tools.explain.observations import Observations
from otel_itl.tools.explain.untested import RUNS as WHOLE_RUNS


def explained(fleet: FeedbackFleet | Runs) -> Explanation:
    return explain_observations(fleet.simulate(np.random.default_rng(1)))


@pytest.mark.parametrize("fleet", FEEDBACK[:1], ids=lambda fleet: fleet.name)
def test_requests_that_follow_slowness_are_no_cause(fleet: FeedbackFleet) -> None:
    findings = explained(fleet).findings
    assert [one.driver for one in findings if "looks the same" not in one.origin.words] == []


def of_name(name: str) -> Runs:
    (found,) = (one for one in RUNS if one.name == name)
    return found


@pytest.mark.parametrize("name", ["runs of 1, 2 and 1 streams", "runs of 1 and 2 streams", "runs of 1, 2, 4, 8 and 16"])
def test_few_runs_and_runs_in_the_order_of_their_load_are_not_examined_and_it_says_so(name: str) -> None:
    explanation = explained(of_name(name))
    reasons = explanation.models[0].untested[Target.ITL]
    assert (list(explanation.findings), reasons[Driver.OWN_LOAD]) == ([], WHOLE_RUNS)


@pytest.mark.parametrize("name", ["runs of 1, 2, 1, 2 and 1", "runs of 1, 2, 4, 8, 4, 2, 1", "nine runs of 1 and 4"])
def test_runs_that_alternate_are_compared_with_an_interval_over_runs(name: str) -> None:
    runs = of_name(name)
    (finding,) = explained(runs).findings
    assert finding.effect.low <= runs.cost <= finding.effect.high
    assert (finding.driver, finding.target) == (Driver.OWN_LOAD, Target.ITL)
    assert finding.runs is not None
    assert 5 <= finding.runs <= len(runs.levels)


@pytest.mark.parametrize("runs", [one for one in RUNS if one.cost == 0], ids=lambda runs: runs.name)
def test_runs_whose_load_has_no_effect_have_no_finding(runs: Runs) -> None:
    assert list(explained(runs).findings) == []


def test_hours_are_not_named_for_the_own_load_that_they_have() -> None:
    """Six streams are open at 9-11 h of every day, and one at all other hours; each costs 30 %."""
    random, used = np.random.default_rng(1), []
    for day in range(14):
        for hour in range(7, 20):
            load = 6 if 9 <= hour < 11 else 1
            for start in range(0, 3_000, 600):
                for number in range(load):
                    one = FEEDBACK[0].simulate(np.random.default_rng(3)).used[0] if not used else used[0]
                    pace = 0.02 * (1 + 0.3 * (load - 1)) * float(random.lognormal(0, 0.1))
                    moment = 1_772_409_600 + day * 86_400 + hour * 3_600 + start + 0.01 * number
                    made = {"session": f"{len(used)}", "start_ns": int(moment * 1e9), "tokens": 200, "itl": pace}
                    used.append(replace(one, ttft=0.4, duration=0.4 + 200 * pace, **made))
    explanation = explain_observations(Observations(used=used, instances={"a", "b"}))
    assert [one.driver for one in explanation.findings if one.driver is Driver.CALENDAR] == []


def test_shares_are_of_the_variance_with_outliers() -> None:
    """One in ten streams takes fifty times as long: next to all variance is theirs, and little is the prompts'."""
    random = np.random.default_rng(1)
    observations = FEEDBACK[0].simulate(random)
    for number, one in enumerate(observations.used):
        cost = 0.4 + 0.0002 * (one.prompt_tokens or 0)
        outlier = 50.0 if random.random() < 0.1 else 1.0
        object.__setattr__(observations.used[number], "ttft", cost * outlier * float(random.lognormal(0, 0.05)))
    ttft = np.log([one.ttft or 1.0 for one in observations.used])
    without = np.log([0.4 + 0.0002 * (one.prompt_tokens or 0) for one in observations.used])
    true_share = float(np.var(without) / np.var(ttft))
    (share,) = (
        one.share_of_variance for one in explain_observations(observations).findings if one.target is Target.TTFT
    )
    assert share == pytest.approx(true_share, rel=0.5)
