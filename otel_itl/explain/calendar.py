"""Searches the hours and weekdays for a window in which latency differs, with a p-value that honours the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from otel_itl.explain.facts import Bools, Facts, Floats, Integers
from otel_itl.explain.findings import Window
from otel_itl.explain.robust import span

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
"""After so many it is decided whether there is anything to find."""
MAX_BY_CHANCE = 0.3
"""There is not, if at least this share of them has a window that stands out as much."""
ALL_DAYS = tuple(range(7))
WEEKDAYS = (*((day,) for day in range(7)), tuple(range(5)), (5, 6), ALL_DAYS)
"""The sets of weekdays that a window may have."""


MIN_EXCEEDING = 10
"""With fewer exchanges beyond the observed statistic, their tail is fitted."""
MIN_OWN = 0.1
"""A window of which the other columns leave less than this share is judged as if they left so much."""
PRIOR_DAYS = 4
"""The expected variance counts for as much as that over so many days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFound:
    """The window that differs most."""

    window: Window
    rows: Bools
    """Which streams are inside (bool)."""
    difference: float
    error: float
    critical: float
    """So many standard errors hold, in 95 % of searches, for all windows at once."""
    p: float


def can_search(facts: Facts) -> bool:
    """Return whether there are days enough to tell an hour from an incident."""
    days = len(np.unique(facts.day))
    return days >= MIN_DAYS and len(facts) >= MIN_STREAMS_A_DAY * days


def find_window(
    response: Floats, columns: Floats, facts: Facts, random: np.random.Generator, beside: Sequence[Window] = ()
) -> WindowFound | None:
    """Find the window of the week in which a response differs most from that outside; None: no window has enough days.

    A window is judged by a t-statistic over days. The reference is the largest one of the same streams after their
    residuals are moved by a random distance within each day, and their weekdays are exchanged between days: that keeps
    what neighbours have in common, and loses every relation with hour and weekday.

    Args:
        response: the logarithm of the latency, linearized.
        columns: what else explains it, the own load among them. What these may explain is no window's.
        facts: the streams.
        random: makes the exchanges.
        beside: windows that were found before; another one does not touch them.
    """
    basis = span(columns)
    search = _Search(facts, response - basis @ (basis.T @ response), beside)
    if not search.is_allowed.any():
        return None
    difference, error = search.compare(search.centred, search.weekdays)
    own = search.share_of_own(basis)
    difference, error = difference / own, error / np.sqrt(own)
    t = np.where(search.is_allowed, np.abs(difference / error), 0.0)
    row, column = np.unravel_index(int(np.argmax(t)), t.shape)
    largest: list[float] = []
    while len(largest) < EXCHANGES:
        largest.append(search.exchange(random))
        if len(largest) == FIRST_EXCHANGES and np.mean(np.array(largest) >= t.max()) >= MAX_BY_CHANCE:
            break
    return search.describe((int(row), int(column)), difference[row, column], error[row, column], np.array(largest))


class _Search:
    """The windows over the streams of one model."""

    def __init__(self, facts: Facts, residuals: Floats, beside: Sequence[Window]) -> None:
        days, self._day = np.unique(facts.day, return_inverse=True)
        self._facts = facts
        self.centred = residuals - residuals.mean()
        self._first = np.searchsorted(self._day, np.arange(len(days)))
        self._length = np.bincount(self._day)
        self._cell = self._day * 24 + facts.hour
        self.weekdays: Integers = facts.weekday[self._first]
        self._spans = _spans(facts.hour)
        self._sets = np.array([[day in chosen for day in ALL_DAYS] for chosen in WEEKDAYS], dtype=np.float64)
        self._inside, self._of_day = self._sum(np.ones(len(facts)))
        self._noise = self._variances()
        self.is_allowed = self._has_enough(self.weekdays) & self._is_apart(beside)

    def _is_apart(self, beside: Sequence[Window]) -> Bools:
        """Return for each window whether it does not touch any of these."""
        is_apart = np.ones((len(WEEKDAYS), len(self._spans)), dtype=bool)
        for window in beside:
            is_near = (self._spans[:, 0] <= window.end_hour) & (self._spans[:, 1] >= window.first_hour)
            shares_day = self._sets[:, list(window.weekdays)].sum(axis=1) > 0
            is_apart &= ~np.logical_and.outer(shares_day, is_near)
        return is_apart

    def _sum(self, values: Floats) -> tuple[Floats, Floats]:
        """Sum values up by day (row) and span of hours (column), and by day."""
        cells = np.bincount(self._cell, values, minlength=24 * len(self._first)).reshape(-1, 24)
        until = np.hstack([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)])
        return until[:, self._spans[:, 1]] - until[:, self._spans[:, 0]], until[:, -1:]

    def _variances(self) -> tuple[float, float]:
        """Return the variance between streams of the same hour, and that between the hours of all days."""
        sums, counts = np.bincount(self._cell, self.centred), np.bincount(self._cell)
        pairs = float(np.sum(counts**2) - len(self._cell))
        square = float(np.sum(self.centred**2))
        between = max((float(np.sum(sums**2)) - square) / pairs, 0.0) if pairs else 0.0
        return max(square / len(self._cell) - between, 0.0), between

    def _has_enough(self, weekdays: Integers) -> Bools:
        """Return for each window whether it has enough days and streams, inside and outside."""
        chosen = self._sets[:, weekdays]
        outside = self._of_day - self._inside
        days_outside = chosen @ (outside > 0) + (1 - chosen).sum(axis=1)[:, None]
        inside = chosen @ self._inside
        is_enough = (chosen @ (self._inside > 0) >= MIN_WINDOW_DAYS) & (days_outside >= MIN_WINDOW_DAYS)
        fewest = np.minimum(inside, len(self._cell) - inside)
        return np.asarray(is_enough & (fewest >= MIN_WINDOW_STREAMS))

    def compare(self, centred: Floats, weekdays: Integers) -> tuple[Floats, Floats]:
        """Return for all windows the difference between inside and outside, and its standard error.

        The error is that over days. Of few days it would be known badly, so it is drawn towards what the same streams
        would have if all hours were alike.
        """
        chosen = self._sets[:, weekdays]
        sums, of_day = self._sum(centred)
        inside, total = np.maximum(chosen @ self._inside, 1.0), float(len(centred))
        outside = np.maximum(total - inside, 1.0)
        mean_inside = chosen @ sums / inside
        mean_outside = -(chosen @ sums) / outside
        rest, rest_counts = of_day - sums, self._of_day - self._inside
        within = _spread(chosen, sums, self._inside, mean_inside)
        beyond = _spread(chosen, rest, rest_counts, mean_outside) + _spread(
            1 - chosen, of_day, self._of_day, mean_outside
        )
        days = chosen @ (self._inside > 0)
        others = chosen @ (rest_counts > 0) + (1 - chosen).sum(axis=1)[:, None]
        of_streams, of_hours = self._noise
        squares = chosen @ self._inside**2
        expected = of_streams * inside + of_hours * squares
        expected_beyond = of_streams * outside + of_hours * np.maximum(np.sum(self._of_day**2) - squares, 0.0)
        variance = (
            _moderate(within, days, expected) / inside**2 + _moderate(beyond, others, expected_beyond) / outside**2
        )
        return mean_inside - mean_outside, np.sqrt(np.maximum(variance, np.finfo(float).tiny))

    def share_of_own(self, basis: Floats) -> Floats:
        """Return the share of the variance of each window's column that other columns leave to it."""
        chosen = self._sets[:, self.weekdays]
        inside = np.maximum(chosen @ self._inside, 1.0)
        shared = sum((chosen @ self._sum(column)[0]) ** 2 for column in basis.T)
        alone = (inside - shared) / np.maximum(inside * (1 - inside / len(self._cell)), 1.0)
        return np.clip(alone, MIN_OWN, 1.0)

    def exchange(self, random: np.random.Generator) -> float:
        """Return the largest t-statistic after one exchange."""
        weekdays = random.permutation(self.weekdays)
        difference, error = self.compare(self._shift(random), weekdays)
        is_judged = self.is_allowed & self._has_enough(weekdays)
        return float(np.max(np.abs(difference / error), where=is_judged, initial=0.0))

    def _shift(self, random: np.random.Generator) -> Floats:
        """Move the residuals within each day, all by the same random distance, around its end."""
        distance = (random.random(len(self._first)) * self._length).astype(np.intp)[self._day]
        position = np.arange(len(self._cell)) - self._first[self._day]
        return np.asarray(self.centred[self._first[self._day] + (position + distance) % self._length[self._day]])

    def describe(self, place: tuple[int, int], difference: float, error: float, largest: Floats) -> WindowFound:
        """Describe a window; `largest` is the largest t-statistic of each exchange."""
        weekdays, (start, end) = WEEKDAYS[place[0]], self._spans[place[1]]
        hour = self._facts.hour
        return WindowFound(
            window=Window(weekdays, int(start), int(end)),
            rows=np.asarray(np.isin(self._facts.weekday, weekdays) & (hour >= start) & (hour < end)),
            difference=difference,
            error=error,
            critical=float(np.quantile(largest, 0.95)),
            p=_tail(abs(difference) / error, largest),
        )


def _spans(hours: Integers) -> Integers:
    """Return first and end hour of every span that is considered: it begins and ends with an hour that has streams."""
    used = np.unique(hours)
    spans = [(start, end + 1) for start in used for end in used if 0 <= end - start < MAX_HOURS]
    return np.array([*spans, (0, 24)], dtype=np.intp)


def _spread(chosen: Floats, sums: Floats, counts: Floats, means: Floats) -> Floats:
    """Return the sum over the chosen days of the squares by which their sums differ from those expected by the mean."""
    return np.asarray(chosen @ sums**2 - 2 * means * (chosen @ (sums * counts)) + means**2 * (chosen @ counts**2))


def _moderate(squares: Floats, days: Floats, expected: Floats) -> Floats:
    """Draw the variance over few days towards the expected one."""
    observed = squares * days / np.maximum(days - 1, 1)
    return np.asarray((days * observed + PRIOR_DAYS * expected) / (days + PRIOR_DAYS))


def _tail(z: float, most: Floats) -> float:
    """Return how often an exchange reaches a score; beyond nearly all of them, by the distribution of maxima."""
    exceeding = int(np.sum(most >= z))
    if exceeding >= MIN_EXCEEDING:
        return (exceeding + 1) / (len(most) + 1)
    location, scale = stats.gumbel_r.fit(most, method="MM")
    return float(stats.gumbel_r.sf(z, location, scale))
