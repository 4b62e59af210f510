"""Searches the hours and weekdays for a window in which latency differs, with a p-value that honours the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from otel_itl.tools.explain.candidates import Candidate, Trial
from otel_itl.tools.explain.facts import Bools, Facts, Floats, Integers
from otel_itl.tools.explain.findings import Driver, Effect, Window
from otel_itl.tools.explain.robust import span

MIN_DAYS = 5
"""Days with streams, below which hours are not compared."""
MIN_WINDOW_DAYS = 3
"""Days with streams in a window: what was slow once or twice is an incident."""
MIN_WINDOW_STREAMS = 12
MIN_STREAMS_A_DAY = 4
MAX_HOURS = 12
"""Length of the longest window, beside the whole day."""
EXCHANGES = 400
FIRST_EXCHANGES = 80
"""The first of them decide whether there is anything to find."""
MAX_BY_CHANCE = 0.3
"""There is not, if at least this share of them has a window that stands out as much."""
ALL_DAYS = tuple(range(7))
WEEKDAYS = (*((day,) for day in range(7)), tuple(range(5)), (5, 6), ALL_DAYS)
"""The sets of weekdays that a window may have."""


MIN_EXCEEDING = 10
"""With fewer exchanges beyond the observed statistic, their tail is fitted."""
MIN_OWN = 0.1
"""A window of which the other columns leave less than this share is judged as if they left this share."""
PRIOR_DAYS = 4
"""The expected variance counts for as much as that over this number of days."""


def can_search(facts: Facts) -> bool:
    """Return whether there are days enough to distinguish an hour from an incident."""
    days = len(np.unique(facts.day))
    return days >= MIN_DAYS and len(facts) >= MIN_STREAMS_A_DAY * days


def find_window(
    response: Floats, columns: Floats, facts: Facts, random: np.random.Generator, beside: Sequence[Trial] = ()
) -> Trial | None:
    """Find the window of the week in which a response differs most from that outside; None: no window has enough days.

    This is a max-t permutation test. A window is judged by a t-statistic over days. The reference is the largest one of
    the same streams after the hours of each day have changed places in a circle, and weekdays were exchanged between
    days: that keeps what neighbours have in common, and loses every relation with hour and weekday.

    Args:
        response: the logarithm of the latency, linearized.
        columns: what else explains it, the own load among them. What these may explain is no window's.
        facts: the streams.
        random: makes the exchanges.
        beside: windows that were found before; another one does not touch them.

    Returns:
        The test of the window, with an interval that holds for all windows at once: half its width is the standard
        error over days, times the 95th percentile of the largest |t| over all windows when days are exchanged. p is the
        share of exchanges whose largest |t| is at least that of this window.
    """
    search = _Search(facts, response, span(columns), beside)
    observed = search.judge(facts.hour, search.weekdays)
    if not observed.is_judged.any():
        return None
    row, column = np.unravel_index(int(np.argmax(observed.t)), observed.t.shape)
    largest: list[float] = []
    while len(largest) < EXCHANGES:
        largest.append(float(search.judge(*search.exchange(random)).t.max()))
        if len(largest) == FIRST_EXCHANGES and np.mean(np.array(largest) >= observed.t.max()) >= MAX_BY_CHANCE:
            break
    weekdays, (start, end) = WEEKDAYS[row], search.spans[column]
    inside = np.isin(facts.weekday, weekdays) & (facts.hour >= start) & (facts.hour < end)
    difference = float(observed.difference[row, column])
    reach = float(observed.standard_error[row, column] * np.quantile(largest, 0.95))
    window = Window(weekdays, int(start), int(end))
    candidate = Candidate(driver=Driver.CALENDAR, column=inside.astype(np.float64), window=window)
    return Trial(
        candidate=candidate,
        effect=Effect.of_logarithms(difference, difference - reach, difference + reach),
        p=_tail(float(observed.t[row, column]), np.array(largest)),
        contribution=difference * candidate.column,
    )


class _Judged(NamedTuple):
    """All windows: a row for each set of weekdays, a column for each span of hours."""

    difference: Floats
    """Difference between inside and outside, adjusted for the other columns."""
    standard_error: Floats
    """Standard error of `difference` over days."""
    is_judged: Bools

    @property
    def t(self) -> Floats:
        """Size of the t-statistic; 0 for a window that is not judged."""
        return np.where(self.is_judged, np.abs(self.difference / self.standard_error), 0.0)


class _Search:
    """The windows over the streams of one model."""

    def __init__(self, facts: Facts, response: Floats, basis: Floats, beside: Sequence[Trial]) -> None:
        days, self._day = np.unique(facts.day, return_inverse=True)
        self._facts = facts
        self._days = len(days)
        self.weekdays = facts.weekday[np.searchsorted(self._day, np.arange(self._days))]
        """Weekday of each day."""
        self._columns = np.column_stack([np.ones(len(facts)), response - basis @ (basis.T @ response), basis])
        """What is summed up over windows: streams, residuals, and each of the other columns."""
        self._of_day = self._sum_days(self._columns[:, :2])
        self._rank, self._used, self._hours = _number_hours(self._day, facts.hour)
        self.spans = _spans(facts.hour)
        self._sets = np.array([[day in chosen for day in ALL_DAYS] for chosen in WEEKDAYS], dtype=np.float64)
        self._noise = self._variances()
        self._is_apart = self._find_apart(beside)

    def exchange(self, random: np.random.Generator) -> tuple[Integers, Integers]:
        """Move the hours of each day that have streams in a circle, and exchange weekdays between days."""
        distance = (random.random(self._days) * self._used).astype(np.intp)
        rank = (self._rank + distance[self._day]) % self._used[self._day]
        return self._hours[self._day, rank], random.permutation(self.weekdays)

    def judge(self, hours: Integers, weekdays: Integers) -> _Judged:
        """Judge all windows.

        The standard error is that over days. Few days would estimate it badly, so it is shrunk towards the one that the
        same streams would have if all hours were alike.

        Args:
            hours: hour of each stream, as it was or exchanged.
            weekdays: weekday of each day likewise.
        """
        chosen, sums = self._sets[:, weekdays], self._sum(hours)
        counts, residuals = sums[0], sums[1]
        day_counts, day_residuals = self._of_day.T[:, :, None]
        inside = np.maximum(chosen @ counts, 1.0)
        outside = np.maximum(float(len(self._day)) - inside, 1.0)
        mean = chosen @ residuals / inside
        mean_outside = (day_residuals.sum() - chosen @ residuals) / outside
        rest, rest_counts = day_residuals - residuals, day_counts - counts
        within = _spread(chosen, residuals, counts, mean)
        beyond = _spread(chosen, rest, rest_counts, mean_outside)
        beyond += _spread(1 - chosen, day_residuals, day_counts, mean_outside)
        days, days_outside = chosen @ (counts > 0), chosen @ (rest_counts > 0) + (1 - chosen).sum(axis=1)[:, None]
        of_streams, of_hours = self._noise
        squares = chosen @ counts**2
        others = np.maximum(np.sum(day_counts**2) - squares, 0.0)
        variance = _moderate(within, days, of_streams * inside + of_hours * squares) / inside**2
        variance += _moderate(beyond, days_outside, of_streams * outside + of_hours * others) / outside**2
        own = self._share_of_own(chosen, inside, sums[2:])
        is_enough = (np.minimum(days, days_outside) >= MIN_WINDOW_DAYS) & (
            np.minimum(inside, outside) >= MIN_WINDOW_STREAMS
        )
        standard_error = np.sqrt(np.maximum(variance, np.finfo(float).tiny) / own)
        return _Judged((mean - mean_outside) / own, standard_error, np.asarray(is_enough & self._is_apart))

    def _share_of_own(self, chosen: Floats, inside: Floats, sums: Floats) -> Floats:
        """Return the share of the variance of each window's column that the other columns leave to it."""
        shared = np.sum((chosen @ sums) ** 2, axis=0)
        alone = (inside - shared) / np.maximum(inside * (1 - inside / len(self._day)), 1.0)
        return np.asarray(np.clip(alone, MIN_OWN, 1.0))

    def _sum_days(self, columns: Floats) -> Floats:
        """Sum columns up by day."""
        return np.column_stack([np.bincount(self._day, column) for column in columns.T])

    def _sum(self, hour: Integers) -> Floats:
        """Sum each column up by day and span of hours."""
        cell, width = self._day * 24 + hour, 24 * self._days
        cells = np.array([np.bincount(cell, column, minlength=width) for column in self._columns.T])
        by_hour = cells.reshape(len(cells), self._days, 24)
        until = np.concatenate([np.zeros((*by_hour.shape[:2], 1)), np.cumsum(by_hour, axis=2)], axis=2)
        return np.asarray(until[:, :, self.spans[:, 1]] - until[:, :, self.spans[:, 0]])

    def _variances(self) -> tuple[float, float]:
        """Return the variance between streams of the same hour, and that between the hours of all days."""
        cell, residuals = self._day * 24 + self._facts.hour, self._columns[:, 1]
        sums, counts = np.bincount(cell, residuals), np.bincount(cell)
        pairs = float(np.sum(counts**2) - len(cell))
        square = float(np.sum(residuals**2))
        between = max((float(np.sum(sums**2)) - square) / pairs, 0.0) if pairs else 0.0
        return max(square / len(cell) - between, 0.0), between

    def _find_apart(self, beside: Sequence[Trial]) -> Bools:
        """Return for each window whether it does not touch any of these."""
        is_apart = np.ones((len(WEEKDAYS), len(self.spans)), dtype=bool)
        for window in filter(None, (one.candidate.window for one in beside)):
            is_near = (self.spans[:, 0] <= window.end_hour) & (self.spans[:, 1] >= window.first_hour)
            shares_day = self._sets[:, list(window.weekdays)].sum(axis=1) > 0
            is_apart &= ~np.logical_and.outer(shares_day, is_near)
        return is_apart


def _number_hours(day: Integers, hour: Integers) -> tuple[Integers, Integers, Integers]:
    """Assign numbers to the hours of each day that have streams.

    Returns:
        The number of each stream's hour, how many each day has, and a table of the hours by day and number.
    """
    has_streams = np.zeros((int(day.max()) + 1, 24), dtype=np.intp)
    has_streams[day, hour] = 1
    number = np.cumsum(has_streams, axis=1) - 1
    hours = np.argsort(-has_streams, axis=1, kind="stable")
    return number[day, hour], has_streams.sum(axis=1), hours


def _spans(hours: Integers) -> Integers:
    """Return first and end hour of every span that is considered: it begins and ends with an hour that has streams."""
    used = np.unique(hours)
    spans = [(start, end + 1) for start in used for end in used if 0 <= end - start < MAX_HOURS]
    return np.array([*spans, (0, 24)], dtype=np.intp)


def _spread(chosen: Floats, sums: Floats, counts: Floats, means: Floats) -> Floats:
    """Return the sum over the chosen days of the squares by which their sums differ from those expected by the mean."""
    return np.asarray(chosen @ sums**2 - 2 * means * (chosen @ (sums * counts)) + means**2 * (chosen @ counts**2))


def _moderate(squares: Floats, days: Floats, expected: Floats) -> Floats:
    """Shrink the variance over few days towards the expected one."""
    observed = squares * days / np.maximum(days - 1, 1)
    return np.asarray((days * observed + PRIOR_DAYS * expected) / (days + PRIOR_DAYS))


def _tail(z: float, most: Floats) -> float:
    """Return how often an exchange reaches a score; beyond nearly all of them, by the distribution of maxima."""
    exceeding = int(np.sum(most >= z))
    if exceeding >= MIN_EXCEEDING:
        return (exceeding + 1) / (len(most) + 1)
    location, scale = stats.gumbel_r.fit(most, method="MM")
    return float(stats.gumbel_r.sf(z, location, scale))
