"""Answers one row of a comparison: slower, same, faster, or that it is not known, and then what would be enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from scipy import stats

from otel_itl.tools.compare.levels import Floats
from otel_itl.tools.compare.quantities import Direction
from otel_itl.tools.compare.resampling import CONFIDENCE, Interval
from otel_itl.tools.statistics.adjusted import adjust_by_exchanges, find_p_values

ALPHA = 1 - CONFIDENCE
MAX_ENOUGH: Final = 10_000
MAX_FACTOR: Final = 10
"""More clusters than this, and than this many times those at hand, are not named as what would be enough."""
WILL_NOT_SETTLE: Final = "more data of this kind will not settle it"
TOO_FEW: Final = f"p cannot be below {ALPHA:.2g} with so few"
_POWER = 0.9
"""How likely `enough` makes an answer of a difference that is none."""
_DRAWS: Final = 2.0
"""Standard errors by which a p is below 0.05 for certain, however exchanges were drawn."""
_DOUBT = 0.2
"""How likely the clusters vary by more than `enough` allows for."""


class Answer(str, Enum):
    """What is known of a difference."""

    SLOWER = "slower"
    SLOWER_SOMEHOW = "slower, by how much is not known"
    """Slower than A, and it is not known whether by more than the margin."""
    SAME = "same"
    NOT_SLOWER = "not slower"
    """The same or faster."""
    FASTER = "faster"
    LONGER = "longer"
    SHORTER = "shorter"
    MORE = "more"
    FEWER = "fewer"
    NOT_ENOUGH_DATA = "not enough data"
    MACHINE_DECIDES = "machine decides"
    """It depends on when chunks came, which what the caller's machine did leaves open within bounds."""
    BUFFERED = "buffered"
    """A proxy or a server on the way made the figure what it is."""


UNKNOWN: Final = frozenset({Answer.SLOWER_SOMEHOW, Answer.NOT_ENOUGH_DATA, Answer.MACHINE_DECIDES, Answer.BUFFERED})
"""Answers that leave open whether B is slower by more than the margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The effect of a row and its answer."""

    ratio: float | None = None
    """B's figure over A's."""
    unadjusted_ratio: float | None = None
    """The ratio of the figures themselves, where chance differences of the prompts are taken out of `ratio`."""
    interval: Interval | None = None
    """Of the log ratio."""
    least_p: float = 0.0
    """The least p that these clusters can have."""
    least_clusters: int = 0
    """The clusters a side whose least p is below 0.05."""
    exchanged: Floats | None = field(default=None, compare=False, repr=False)
    """The absolute score as observed, and then of each exchange of labels; None: there is no test."""
    adjusted_p: float | None = None
    answer: Answer = Answer.NOT_ENOUGH_DATA
    why: str = ""
    """Why it is not known, in one clause; empty for the other answers."""
    enough: int | None = None
    """About how many clusters a side would be enough; None: unknown, or there are enough."""

    @property
    def p(self) -> float | None:
        """The share of exchanges whose score is at least as far from 0, of this estimate alone."""
        return None if self.exchanged is None else float(find_p_values(self.exchanged)[0])

    @property
    def ratio_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio."""
        if self.interval is None:
            return None
        low, high = (
            math.exp(min(end, 700.0)) if end < math.inf else math.inf for end in (self.interval.low, self.interval.high)
        )
        return low, high


def answer_estimates(
    estimates: Sequence[Estimate], clusters: Sequence[int], directions: Sequence[Direction], margin: float
) -> list[Estimate]:
    """Answer the estimates of all rows, given the clusters on the smaller side of each, and what a higher figure means.

    The p-values are adjusted over all of them; an estimate without a test stays as it is.
    """
    adjusted = iter(adjust_by_exchanges([one.exchanged for one in estimates if one.exchanged is not None]))
    return [
        one
        if one.exchanged is None or one.interval is None
        else _answer_one(replace(one, adjusted_p=next(adjusted)), one.interval, count, direction, margin)
        for one, count, direction in zip(estimates, clusters, directions, strict=True)
    ]


def _answer_one(estimate: Estimate, interval: Interval, clusters: int, direction: Direction, margin: float) -> Estimate:
    """Return an estimate with its answer, and how many clusters would be enough for one where there is none."""
    is_mirrored = direction is Direction.FASTER
    slowness = (
        Interval(low=-interval.high, high=-interval.low, standard_error=interval.standard_error)
        if is_mirrored
        else interval
    )
    p = _find_most(estimate)
    if direction in _OF_NEITHER:
        found, why = _answer_neither(slowness, p, direction, margin)
    else:
        found, why = answer(slowness, p, margin)
    enough = enough_clusters(interval, clusters, margin) if why else None
    if why and estimate.least_p >= ALPHA:  # no difference is large enough for so few
        if slowness.low > math.log1p(margin):
            why, enough = f"the interval is beyond the margin, but {TOO_FEW}", None
        enough = max(enough or 0, estimate.least_clusters)
    is_more = enough is not None and enough > clusters
    if enough is not None and enough > max(MAX_ENOUGH, MAX_FACTOR * clusters):
        why, is_more = f"{why}; {WILL_NOT_SETTLE}", False
    return replace(estimate, answer=found, why=why, enough=enough if is_more else None)


def _find_most(estimate: Estimate) -> float:
    """Return what p may be of all exchanges, of which some are drawn: what other draws may answer otherwise is open."""
    p, draws = estimate.adjusted_p or 0.0, 1 if estimate.exchanged is None else len(estimate.exchanged)
    return p + _DRAWS * math.sqrt(p * (1 - p) / draws)


_OF_NEITHER: Final = {
    Direction.LONGER: (Answer.LONGER, Answer.SHORTER),
    Direction.MORE: (Answer.MORE, Answer.FEWER),
}
"""What is neither slower nor faster → the answers where B's figure is higher, and where it is lower."""


def _answer_neither(interval: Interval, adjusted_p: float, direction: Direction, margin: float) -> tuple[Answer, str]:
    """Answer a row that is neither slower nor faster, of both signs alike; returns what `answer` does."""
    more, less = _OF_NEITHER[direction]
    found, why = answer(interval, adjusted_p, margin)
    if found is Answer.SAME:
        return found, why
    if adjusted_p < ALPHA and interval.low > 0:
        return more, ""
    if adjusted_p < ALPHA and interval.high < 0:
        return less, ""
    return Answer.NOT_ENOUGH_DATA, why or "the interval crosses the margin"


def answer(interval: Interval, adjusted_p: float, margin: float) -> tuple[Answer, str]:
    """Answer a row; returns the answer, and in one clause why there is not enough data, empty where there is.

    Args:
        interval: of the log ratio.
        adjusted_p: over all rows; the most that it may be.
        margin: the relative difference that does not matter, such as 0.05.
    """
    up, down = math.log1p(margin), math.log1p(-margin)
    is_different = adjusted_p < ALPHA
    if down < interval.low and interval.high < up:
        return Answer.SAME, ""
    if is_different and interval.low > up:
        return Answer.SLOWER, ""
    if is_different and interval.high < down:
        return Answer.FASTER, ""
    if interval.high < up:
        return Answer.NOT_SLOWER, ""
    if is_different and interval.low > 0:
        return Answer.SLOWER_SOMEHOW, "the interval crosses the margin"
    if interval.low > up:
        why = f"the interval is beyond the margin, but p, adjusted for all rows, is not below {ALPHA:.2g}"
    elif interval.high - interval.low > up - down:
        why = "the interval is wider than the margin"
    else:
        why = "the interval crosses the margin"
    return Answer.NOT_ENOUGH_DATA, why


def enough_clusters(interval: Interval, clusters: int, margin: float) -> int | None:
    """Return about how many clusters a side make `SAME` likely where nothing has changed; None: cannot be estimated.

    With that number the interval fits into the margin in 90 % of cases. How much the clusters vary is itself known from
    these few alone: the number is for the most that they may vary (80 % confidence).
    """
    if interval.standard_error <= 0 or clusters < 2:  # noqa: PLR2004 - no spread
        return None
    needed = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf((1 + _POWER) / 2)
    most = math.sqrt((clusters - 1) / stats.chi2.ppf(_DOUBT, clusters - 1))
    ratio = most * interval.standard_error * needed / math.log1p(margin)
    enough = max(clusters * ratio**2, 3.0)
    return math.ceil(enough * (stats.t.ppf(1 - ALPHA / 2, enough - 1) / stats.norm.ppf(1 - ALPHA / 2)) ** 2)
