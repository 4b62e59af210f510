"""Answers one row of a comparison: slower, same, faster, or that it is not known, and then what would be enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Final

import numpy as np
from scipy import stats

from otel_itl.tools.compare.resampling import CONFIDENCE, Interval

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
    """It depends on whether chunks came when the caller's machine delivered them, or as early as they may have."""


UNKNOWN: Final = frozenset({Answer.NOT_ENOUGH_DATA, Answer.MACHINE_DECIDES})
"""Answers that leave open whether B is slower."""


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for being several (Holm 1979), in their order.

    Where nothing differs, 5 % of all families then have one below 0.05.
    """
    if not p_values:
        return []
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in adjusted]


def answer(interval: Interval | None, adjusted_p: float, margin: float) -> Answer:
    """Answer a row.

    Args:
        interval: of the log ratio; None: it cannot be estimated.
        adjusted_p: by Holm's method over all rows.
        margin: the relative difference that does not matter, such as 0.05.
    """
    if interval is None:
        return Answer.NOT_ENOUGH_DATA
    up, down = math.log1p(margin), math.log1p(-margin)
    if adjusted_p < ALPHA and interval.low > up:
        return Answer.SLOWER
    if adjusted_p < ALPHA and interval.high < down:
        return Answer.FASTER
    return Answer.SAME if down < interval.low and interval.high < up else Answer.NOT_ENOUGH_DATA


def explain_unknown(interval: Interval, margin: float) -> str:
    """Return in one clause why an interval, whose answer is `NOT_ENOUGH_DATA`, gives no other."""
    up, down = math.log1p(margin), math.log1p(-margin)
    if interval.low > up or interval.high < down:
        return f"the interval is beyond the margin, but p, adjusted for all rows, is not below {ALPHA:.2g}"
    is_wide = interval.high - interval.low > up - down
    return "the interval is wider than the margin" if is_wide else "the interval crosses the margin"


def enough_clusters(interval: Interval | None, clusters: int, margin: float) -> int | None:
    """Return about how many clusters a side make `SAME` likely where nothing has changed; None: cannot be estimated.

    With that number the interval fits into the margin in 90 % of cases, if the clusters vary as they do now.
    """
    if interval is None or interval.standard_error <= 0:
        return None
    needed = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf((1 + _POWER) / 2)
    ratio = interval.standard_error * needed / math.log1p(margin)
    return max(math.ceil(clusters * ratio**2), 2)
