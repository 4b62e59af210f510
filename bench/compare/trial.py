"""Plays many pairs of simulated sides, and counts what `compare` and other tests answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce

import numpy as np

from bench.compare.fleets import Fleet, simulate
from bench.compare.other_tests import kayenta, mann_whitney, session_t_test, t_test
from otel_itl.tools.compare.comparison import compare
from otel_itl.tools.compare.quantities import Role
from otel_itl.tools.compare.verdicts import ALPHA, Answer

RESAMPLES = 399
OTHERS = {
    "t-test on sessions": session_t_test,
    "Mann-Whitney on gaps": mann_whitney,
    "t-test on requests": t_test,
    "Kayenta's rule": kayenta,
}


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted over pairs of sides."""

    pairs: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    """Quantity → rows that had enough data to be estimated."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Of these, with a raw p-value of at most 0.05."""
    covered: Counter[str] = field(default_factory=Counter)
    """Of these, with the true ratio inside the interval."""
    wrong: int = 0
    """Pairs with a row that decides and has an adjusted p below 0.05: of those in which nothing has changed a false
    alarm is among them."""
    slower: int = 0
    """Pairs with any row that is slower."""
    found: int = 0
    """Pairs with any row that is slower, by the margin or by what is not known."""
    answers: Counter[str] = field(default_factory=Counter)
    """Answer → rows."""
    others: Counter[str] = field(default_factory=Counter)
    """Other test → pairs that it calls slower."""

    def __add__(self, other: Tally) -> Tally:
        """Add the counts of other pairs."""
        return Tally(
            self.pairs + other.pairs,
            self.rows + other.rows,
            self.rejected + other.rejected,
            self.covered + other.covered,
            self.wrong + other.wrong,
            self.slower + other.slower,
            self.found + other.found,
            self.answers + other.answers,
            self.others + other.others,
        )


def play(fleet: Fleet, pairs: int, factor: float = 1.0, workers: int = 1) -> Tally:
    """Simulate pairs of sides, of which B takes `factor` times as long, and count the answers."""
    with ProcessPoolExecutor(workers) as pool:
        return _sum(pool.map(partial(_play_one, fleet, factor), range(pairs), chunksize=20))


def _play_one(fleet: Fleet, factor: float, seed: int) -> Tally:
    random = np.random.default_rng(seed)
    a = simulate(fleet, "A", random, script=seed)
    b = simulate(fleet, "B", random, script=seed, factor=factor)
    rows = compare(a, b, resamples=RESAMPLES, seed=seed).rows
    estimated = [row for row in rows if row.measured.p is not None]
    deciding = [row for row in rows if row.quantity.role is not Role.SHOWN]
    return Tally(
        pairs=1,
        rows=Counter(row.quantity.key for row in estimated),
        rejected=Counter(row.quantity.key for row in estimated if (row.measured.p or 0.0) <= ALPHA),
        covered=Counter(
            row.quantity.key
            for row in estimated
            if (ends := row.measured.ratio_interval) and ends[0] <= factor <= ends[1]
        ),
        wrong=int(any((row.measured.adjusted_p or 1.0) < ALPHA for row in deciding)),
        slower=int(any(row.answer is Answer.SLOWER for row in deciding)),
        found=int(any(row.answer in {Answer.SLOWER, Answer.SLOWER_SOMEHOW} for row in deciding)),
        answers=Counter(row.answer.value for row in rows),
        others=Counter(name for name, is_slower in OTHERS.items() if is_slower(a, b)),
    )


def _sum(tallies: Iterable[Tally]) -> Tally:
    return reduce(Tally.__add__, tallies, Tally())
