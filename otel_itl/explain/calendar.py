"""Searches the hours and weekdays for a window in which latency differs, with a p-value that honours the search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from otel_itl.explain.facts import Facts, Floats, Integers
from otel_itl.explain.findings import Window

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
ALL_DAYS = tuple(range(7))
WEEKDAYS = (*((day,) for day in range(7)), tuple(range(5)), (5, 6), ALL_DAYS)
"""The sets of weekdays that a window may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFound:
    """The window that differs most."""

    window: Window
    rows: np.ndarray
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


def find_window(residuals: Floats, facts: Facts, random: np.random.Generator) -> WindowFound | None:
    """Find the window of the week in which residuals differ most from those outside; None: no window has enough days.

    The reference is what the search finds in the same streams after their residuals are moved by a random distance
    within each day, and their weekdays are exchanged between days. That keeps what neighbours have in common, and
    loses every relation with hour and weekday.
    """
    search = _Search(facts)
    if not search.is_allowed.any():
        return None
    centred = residuals - residuals.mean()
    observed = search.score(centred, search.weekdays)
    exchanged: list[Floats] = []
    for count in range(EXCHANGES):
        if count == FIRST_EXCHANGES and _exceeding(observed, np.array(exchanged), search.is_allowed) > count // 8:
            break
        exchanged.append(search.score(search.shift(centred, random), random.permutation(search.weekdays)))
    spread = np.sqrt(np.mean(np.square(exchanged), axis=0))
    spread = np.where(spread > 0, spread, np.inf)
    z = np.where(search.is_allowed, observed / spread, 0.0)
    best = np.unravel_index(int(np.argmax(np.abs(z))), z.shape)
    most = np.max(np.abs(np.where(search.is_allowed, np.array(exchanged) / spread, 0.0)), axis=(1, 2))
    return search.describe(best, float(observed[best]), float(spread[best]), most)


def _exceeding(observed: Floats, exchanged: Floats, is_allowed: np.ndarray) -> int:
    """Count the exchanges with a window that stands out as much as the best one observed."""
    spread = np.sqrt(np.mean(np.square(exchanged), axis=0))
    spread = np.where((spread > 0) & is_allowed, spread, np.inf)
    return int(np.sum(np.max(np.abs(exchanged / spread), axis=(1, 2)) >= np.max(np.abs(observed / spread))))


class _Search:
    """The windows over the streams of one model."""

    def __init__(self, facts: Facts) -> None:
        days, self._day = np.unique(facts.day, return_inverse=True)
        self._facts = facts
        self._first = np.searchsorted(self._day, np.arange(len(days)))
        self._length = np.bincount(self._day)
        self._cell = self._day * 24 + facts.hour
        self.weekdays: Integers = facts.weekday[self._first]
        self._spans = np.array(
            [(start, end) for start in range(24) for end in range(start + 1, min(start + MAX_HOURS, 24) + 1)]
            + [(0, 24)]
        )
        self._sets = np.array([[day in chosen for day in ALL_DAYS] for chosen in WEEKDAYS], dtype=np.float64)
        self._total = len(facts)
        counts = self._sum(np.ones(self._total))
        inside = self._in_windows(counts, self.weekdays)
        days_inside = self._sets[:, self.weekdays] @ (counts[:, self._spans[:, 1]] > counts[:, self._spans[:, 0]])
        days_outside = len(days) - self._sets[:, self.weekdays].sum(axis=1)[:, None] * np.all(
            self._spans == (0, 24), axis=1
        )
        self._counts = counts
        self.is_allowed = (
            (days_inside >= MIN_WINDOW_DAYS)
            & (days_outside >= MIN_WINDOW_DAYS)
            & (inside >= MIN_WINDOW_STREAMS)
            & (self._total - inside >= MIN_WINDOW_STREAMS)
        )

    def _sum(self, values: Floats) -> Floats:
        """Sum values up by day (row), from midnight to each hour (column)."""
        cells = np.bincount(self._cell, values, minlength=24 * len(self._first)).reshape(-1, 24)
        return np.hstack([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)])

    def _in_windows(self, sums: Floats, weekdays: Integers) -> Floats:
        """Sum up over each set of weekdays (row) and span of hours (column)."""
        by_set = self._sets[:, weekdays] @ sums
        return np.asarray(by_set[:, self._spans[:, 1]] - by_set[:, self._spans[:, 0]])

    def shift(self, values: Floats, random: np.random.Generator) -> Floats:
        """Move the values within each day, all by the same random distance, around its end."""
        distance = (random.random(len(self._first)) * self._length).astype(np.intp)[self._day]
        position = np.arange(self._total) - self._first[self._day]
        return values[self._first[self._day] + (position + distance) % self._length[self._day]]

    def score(self, centred: Floats, weekdays: Integers) -> Floats:
        """Return the difference between inside and outside for all windows, scaled to the same spread."""
        inside = self._in_windows(self._counts, weekdays)
        weight = np.sqrt(np.maximum(inside * (1 - inside / self._total), 1.0))
        return np.asarray(self._in_windows(self._sum(centred), weekdays) / weight)

    def describe(self, best: tuple[np.intp, ...], score: float, spread: float, most: Floats) -> WindowFound:
        """Describe the best window; `most` is the largest score of each exchange in standard errors."""
        chosen, (start, end) = WEEKDAYS[int(best[0])], self._spans[best[1]]
        inside = float(self._in_windows(self._counts, self.weekdays)[best])
        scale = np.sqrt(inside * (1 - inside / self._total))
        z = abs(score) / spread
        return WindowFound(
            window=Window(chosen, int(start), int(end)),
            rows=np.isin(self._facts.weekday, chosen) & (self._facts.hour >= start) & (self._facts.hour < end),
            difference=score / scale,
            error=spread / scale,
            critical=float(np.quantile(most, 0.95)),
            p=_tail(z, most),
        )


MIN_EXCEEDING = 10
"""With fewer exchanges beyond the observed score, their tail is fitted."""


def _tail(z: float, most: Floats) -> float:
    """Return how often an exchange reaches a score; beyond nearly all of them, by the distribution of maxima."""
    exceeding = int(np.sum(most >= z))
    if exceeding >= MIN_EXCEEDING:
        return (exceeding + 1) / (len(most) + 1)
    location, scale = stats.gumbel_r.fit(most, method="MM")
    return float(stats.gumbel_r.sf(z, location, scale))
