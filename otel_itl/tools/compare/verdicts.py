"""Answers one row of a comparison: slower, same, faster, or that it is not known, and then what would be enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from scipy import stats

from otel_itl.tools.compare.resampling import CONFIDENCE, Interval
from otel_itl.tools.statistics.holm import adjust_p_values

ALPHA = 1 - CONFIDENCE
_POWER = 0.9
"""How likely `enough` makes an answer of a difference that is none."""


class Answer(str, Enum):
    """What is known of a difference."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"
    NOT_ENOUGH_DATA = "not enough data"
    MACHINE_DECIDES = "machine decides"
    """It depends on when chunks came, which what the caller's machine did leaves open within bounds."""


UNKNOWN: Final = frozenset({Answer.NOT_ENOUGH_DATA, Answer.MACHINE_DECIDES})
"""Answers that leave open whether B is slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The effect of a row and its answer."""

    ratio: float | None = None
    """B's figure over A's."""
    interval: Interval | None = None
    """Of the log ratio."""
    p: float | None = None
    adjusted_p: float | None = None
    answer: Answer = Answer.NOT_ENOUGH_DATA
    why: str = ""
    """Why it is not known, in one clause; empty for the other answers."""
    enough: int | None = None
    """About how many clusters a side would be enough; None: unknown, or there are enough."""

    @property
    def ratio_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio."""
        return None if self.interval is None else (math.exp(self.interval.low), math.exp(self.interval.high))


def answer_estimates(estimates: Sequence[Estimate], clusters: Sequence[int], margin: float) -> list[Estimate]:
    """Answer the estimates of all rows, given the clusters on the smaller side of each.

    The p-values are adjusted over all of them; an estimate without one stays as it is.
    """
    adjusted = iter(adjust_p_values([one.p for one in estimates if one.p is not None]))
    return [
        one
        if one.p is None or one.interval is None
        else _answer_one(replace(one, adjusted_p=next(adjusted)), one.interval, count, margin)
        for one, count in zip(estimates, clusters, strict=True)
    ]


def _answer_one(estimate: Estimate, interval: Interval, clusters: int, margin: float) -> Estimate:
    """Return an estimate with its answer, and how many clusters would be enough for one where there is none."""
    found, why = answer(interval, estimate.adjusted_p or 0.0, margin)
    enough = enough_clusters(interval, clusters, margin) if why else None
    is_more = enough is not None and enough > clusters
    return replace(estimate, answer=found, why=why, enough=enough if is_more else None)


def answer(interval: Interval, adjusted_p: float, margin: float) -> tuple[Answer, str]:
    """Answer a row; returns the answer, and in one clause why there is not enough data, empty where there is.

    Args:
        interval: of the log ratio.
        adjusted_p: by Holm's method over all rows.
        margin: the relative difference that does not matter, such as 0.05.
    """
    up, down = math.log1p(margin), math.log1p(-margin)
    if down < interval.low and interval.high < up:
        return Answer.SAME, ""
    if interval.low > up or interval.high < down:
        if adjusted_p < ALPHA:
            return Answer.SLOWER if interval.low > up else Answer.FASTER, ""
        why = f"the interval is beyond the margin, but p, adjusted for all rows, is not below {ALPHA:.2g}"
    elif interval.high - interval.low > up - down:
        why = "the interval is wider than the margin"
    else:
        why = "the interval crosses the margin"
    return Answer.NOT_ENOUGH_DATA, why


def enough_clusters(interval: Interval, clusters: int, margin: float) -> int | None:
    """Return about how many clusters a side make `SAME` likely where nothing has changed; None: cannot be estimated.

    With that number the interval fits into the margin in 90 % of cases, if the clusters vary as they do now.
    """
    if interval.standard_error <= 0:
        return None
    needed = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf((1 + _POWER) / 2)
    ratio = interval.standard_error * needed / math.log1p(margin)
    return max(math.ceil(clusters * ratio**2), 2)
