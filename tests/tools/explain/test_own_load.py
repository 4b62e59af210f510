"""The own load: what follows slowness is not named as its cause, and runs at one load each are no comparison."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")

from bench.explain.loads import FEEDBACK, RUNS, FeedbackFleet, Runs
from otel_itl.tools.explain.explaining import explain_observations
from otel_itl.tools.explain.findings import Driver, Explanation, Target
from otel_itl.tools.explain.untested import RUNS as WHOLE_RUNS


def explained(fleet: FeedbackFleet | Runs) -> Explanation:
    return explain_observations(fleet.simulate(np.random.default_rng(1)))


@pytest.mark.parametrize("fleet", FEEDBACK[:1], ids=lambda fleet: fleet.name)
def test_requests_that_follow_slowness_are_no_cause(fleet: FeedbackFleet) -> None:
    findings = explained(fleet).findings
    assert [one.driver for one in findings if "looks the same" not in one.origin.words] == []


@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: runs.name)
def test_whole_runs_at_one_load_are_not_examined_and_it_says_so(runs: Runs) -> None:
    explanation = explained(runs)
    reasons = explanation.models[0].untested[Target.ITL]
    assert (list(explanation.findings), reasons[Driver.OWN_LOAD]) == ([], WHOLE_RUNS)


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
