"""Estimates what the position in the answer costs: the gaps late in an answer beside those early in the same answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otel_itl.tools.explain.candidates import THOUSAND, Candidate, Trial, make_trial
from otel_itl.tools.explain.facts import Facts, Floats, mean_by
from otel_itl.tools.explain.findings import Driver
from otel_itl.tools.explain.robust import Parts, Regression, estimate, fit_robustly

MIN_ANSWERS = 20
"""Answers that are long enough to have parts."""


class Position(NamedTuple):
    """The cost of the position, in seconds for 1,000 tokens."""

    trial: Trial
    typical: float
    """Geometric mean of the gaps in seconds."""
    variance: float
    """Variance of the logarithm of the gaps between the parts of all answers, as far as the position explains it."""
    noise: float
    """Variance of the same, as far as neither the answer nor the position explains it."""
    relative: Floats
    """Logarithm of each part's gap over that of its answer at the mean position, without outliers."""


def estimate_position(facts: Facts) -> Position | None:
    """Estimate the cost of the position; None: too few answers are long enough."""
    rows = [row for row, one in enumerate(facts.streams) if len(one.parts) > 1]
    if len(rows) < MIN_ANSWERS:
        return None
    parts = [facts.streams[row].parts for row in rows]
    answer = np.repeat(np.arange(len(rows)), list(map(len, parts)))
    position, gap = np.concatenate(parts).T
    level = np.exp(mean_by(answer, np.log(gap)))
    middle = mean_by(answer, position)
    late = (position - middle[answer]) / THOUSAND / level[answer]
    early_and_late = gap / level[answer]
    fit = fit_robustly(early_and_late, Parts(np.ones((len(gap), 1)), late[:, None]))
    clusters = [facts.session[rows][answer], facts.block[rows][answer]]
    found = estimate(Regression(fit.response, late[:, None], fit.design[:, :1], np.empty((len(gap), 0)), clusters))[0]
    typical = float(np.exp(np.mean(np.log(level))))
    explained = found.value / THOUSAND / typical * (position - position.mean())
    residual = fit.response - fit.design @ fit.coefficients
    candidate = Candidate(driver=Driver.POSITION, column=position / THOUSAND, per=THOUSAND, adds=True)
    return Position(
        trial=make_trial(candidate, found),
        typical=typical,
        variance=float(np.var(explained)),
        noise=float(np.var(np.log(early_and_late) - (fit.log_latency - residual))),
        relative=np.asarray(residual + explained),
    )
