"""The tests that other tools judge by, which take gaps or requests as independent."""

from __future__ import annotations

import numpy as np
from scipy import stats

from otel_itl.tools.compare.requests import Side

ALPHA = 0.05
KAYENTA_TOLERANCE = 0.25
KAYENTA_CONFIDENCE = 0.98


def mann_whitney(a: Side, b: Side) -> bool:
    """Return whether B is slower by a Mann-Whitney test on all gaps."""
    found = stats.mannwhitneyu(_gaps(b), _gaps(a), alternative="two-sided")
    return bool(found.pvalue < ALPHA and np.median(_gaps(b)) > np.median(_gaps(a)))


def t_test(a: Side, b: Side) -> bool:
    """Return whether B is slower by Welch's t-test on the mean gaps of requests."""
    found = stats.ttest_ind(_means(b), _means(a), equal_var=False)
    return bool(found.pvalue < ALPHA and found.statistic > 0)


def kayenta(a: Side, b: Side) -> bool:
    """Return whether B is slower by the rule of Kayenta's NetflixACAJudge, on the mean gaps of requests.

    The lower confidence bound (98 %) of the Hodges-Lehmann estimate lies above a quarter of the estimate.
    """
    differences = np.sort(np.subtract.outer(_means(b), _means(a)).ravel())
    many, few = len(_means(b)), len(_means(a))
    spread = np.sqrt(many * few * (many + few + 1) / 12)
    rank = int(many * few / 2 - stats.norm.ppf((1 + KAYENTA_CONFIDENCE) / 2) * spread)
    lower = differences[max(rank, 0)]
    return bool(lower > KAYENTA_TOLERANCE * abs(np.median(differences)))


def session_t_test(a: Side, b: Side) -> bool:
    """Return whether B is slower by a t-test on the mean logarithms of the gaps of sessions.

    Of one figure that is the most that can be found without more false alarms than 5 %, where sessions are alike in
    size.
    """
    found = stats.ttest_ind(_sessions(b), _sessions(a))
    return bool(found.pvalue < ALPHA and found.statistic > 0)


def _sessions(side: Side) -> np.ndarray:
    by_session: dict[str, list[float]] = {}
    for request in side.requests:
        by_session.setdefault(request.cluster, []).append(float(np.log(np.mean(request.gaps))))
    return np.array([np.mean(own) for own in by_session.values()])


def _gaps(side: Side) -> np.ndarray:
    return np.concatenate([request.gaps for request in side.requests])


def _means(side: Side) -> np.ndarray:
    return np.array([np.mean(request.gaps) for request in side.requests])
