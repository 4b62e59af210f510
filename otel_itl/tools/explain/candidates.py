"""Makes the columns of everything that may drive a latency, as far as it is known and varies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from otel_itl.tools.explain.facts import Bools, Facts, Floats
from otel_itl.tools.explain.findings import Bend, Change, Driver, Effect, Switch, Target, Unit, Window
from otel_itl.tools.explain.robust import Estimate, find_residuals

MIN_KNOWN = 0.9
"""Share of the streams of which a driver must be known; the others count as usual."""
MIN_DIFFERENT = 10
"""Streams that must not have the usual value."""
MAX_DECIMALS = 3
"""Values that differ by less are the same: averages over time have rounding errors."""
THOUSAND = 1_000.0
IDLE_THRESHOLDS = (10, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200)
"""Silences in seconds among which the threshold of a cold start is sought."""
MAX_CORRELATION = 0.98
"""Largest correlation of two columns that can be distinguished."""
MIN_IDLE_STREAMS = 8
"""Streams on either side of a threshold."""
MIN_IDLE_DAYS = 3
"""Days with streams after such a silence."""

MIN_CHANGED_SHARE = 0.02
"""A value that fewer of the streams have is left out."""
MIN_CHANGED_STREAMS = 5
MIN_SORTED = 0.98
"""A value has replaced another where a moment separates at least this share of their streams."""


class Replacement(NamedTuple):
    """A change of value, and which streams it concerns."""

    driver: Driver
    change: Change
    is_before: np.ndarray
    """Streams to compare with (bool)."""
    is_after: np.ndarray

    def switch(self, model: str) -> Switch:
        """Return it as a silent change of who answers."""
        return Switch(self.driver, model, self.change, int(self.is_before.sum()), int(self.is_after.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One driver of one target, as a column with one row for each stream."""

    driver: Driver
    column: Floats
    """Values of the driver in multiples of `per`."""
    per: float | None = None
    adds: bool = False
    """The driver adds seconds; else it multiplies."""
    replacement: Replacement | None = None
    threshold: float | None = None
    tries: int = 1
    """Thresholds that were tried."""
    window: Window | None = None
    """The window of the week; for `CALENDAR` alone."""
    attribute: str | None = None
    """Name of the attribute; for `ATTRIBUTE` alone."""
    runs: int | None = None
    """Whole runs that are compared; for `OWN_LOAD` alone."""
    twins: tuple[str, ...] = ()
    """Other drivers, or names of attributes, that vary together with it: an effect of theirs looks like one of this."""

    @property
    def name(self) -> str:
        """The driver, or the name of the attribute."""
        return self.attribute or self.driver

    @property
    def has_moment(self) -> bool:
        """It is a change at one moment, which no comparison within a day shows."""
        return self.replacement is not None and self.replacement.change.unix_ns is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of the test of one candidate."""

    candidate: Candidate
    effect: Effect
    p: float
    contribution: Floats
    """What the candidate adds to each stream: seconds where it adds, else the logarithm of the factor."""
    bend: Bend | None = None

    @property
    def driver(self) -> Driver:
        """What was tested."""
        return self.candidate.driver


def make_trial(candidate: Candidate, found: Estimate) -> Trial:
    """Make the trial of a candidate from the estimate of its coefficient."""
    low, high = found.interval()
    effect = make_cost(candidate, found) if candidate.adds else Effect.of_logarithms(found.value, low, high)
    p = min(found.p * candidate.tries, 1.0)
    return Trial(candidate=candidate, effect=effect, p=p, contribution=found.value * candidate.column)


def make_cost(candidate: Candidate, found: Estimate) -> Effect:
    """Return the effect of a candidate that adds seconds."""
    return Effect(found.value, *found.interval(), Unit.SECONDS, candidate.per)


def make_candidates(facts: Facts, target: Target, latency: Floats, *, examines_load: bool) -> list[Candidate]:
    """Make the candidates for a target, without those of attributes.

    Args:
        facts: the streams.
        target: what they may drive.
        latency: in seconds, to find the threshold of a silence.
        examines_load: False: the own load is left out.
    """
    is_first = target is Target.TTFT
    prompt = facts.column("prompt_tokens")
    cached = np.clip(np.nan_to_num(facts.column("cached_tokens")), 0, prompt)
    plain = [
        *([(Driver.OWN_LOAD, facts.load_at_start if is_first else facts.load_mean, 1.0)] if examines_load else []),
        (Driver.PROMPT, prompt - cached if is_first else prompt, THOUSAND),
        *([(Driver.CACHED_PROMPT, cached, THOUSAND)] if is_first else []),
        *([(Driver.TOKENS_PER_CHUNK, facts.column("tokens_per_chunk"), 1.0)] if not is_first else []),
        (Driver.RETRIES, np.maximum(facts.column("attempts") - 1, 0), 1.0),
    ]
    found = [
        Candidate(driver=driver, column=column / per, per=per, adds=True)
        for driver, values, per in plain
        if (column := _fill(values)) is not None
    ]
    changes = [
        Candidate(driver=one.driver, column=one.is_after.astype(np.float64), replacement=one)
        for one in find_changes(facts)
    ]
    idle = _find_idle(facts, latency, [*found, *changes])
    return [*found, *([idle] if idle is not None else []), *changes]


def _fill(values: Floats) -> Floats | None:
    """Replace values that are not known by the median; None: too few are known, or hardly any differ."""
    is_known = ~np.isnan(values)
    if is_known.mean() < MIN_KNOWN:
        return None
    filled = np.where(is_known, values, np.median(values[is_known]))
    _, counts = np.unique(np.round(filled, MAX_DECIMALS), return_counts=True)
    return filled if len(filled) - counts.max() >= MIN_DIFFERENT else None


def _find_idle(facts: Facts, latency: Floats, others: list[Candidate]) -> Candidate | None:
    """Find the silence from which on a latency differs most, by what a split explains; None: there is none."""
    days_after = {edge: len(np.unique(facts.day[facts.idle_before >= edge])) for edge in IDLE_THRESHOLDS}
    longer = {edge: int(np.sum(facts.idle_before >= edge)) for edge in IDLE_THRESHOLDS}
    edges = [
        edge
        for edge in IDLE_THRESHOLDS
        if MIN_IDLE_STREAMS <= longer[edge] <= len(facts) - MIN_IDLE_STREAMS
        and days_after[edge] >= min(MIN_IDLE_DAYS, len(np.unique(facts.day)))
    ]
    if not edges:
        return None
    columns = np.column_stack([np.ones(len(facts)), *(one.column for one in others)])
    residuals = find_residuals(np.log(latency), columns)
    level = np.searchsorted(edges, facts.idle_before, side="right")
    gains = [_difference(residuals, facts.idle_before >= edge) for edge in edges]
    # Where no silence lies between several thresholds, the longest of them is the one that was seen.
    threshold = edges[int(level[facts.idle_before >= edges[int(np.argmax(gains))]].min()) - 1]
    column = (facts.idle_before >= threshold).astype(np.float64)
    return Candidate(driver=Driver.IDLE, column=column, adds=True, threshold=float(threshold), tries=len(edges))


def _difference(values: Floats, is_inside: Bools) -> float:
    """Return by how much a split lowers the sum of the squares of values around their means."""
    inside, outside = values[is_inside], values[~is_inside]
    return float((inside.mean() - outside.mean()) ** 2 * len(inside) * len(outside) / len(values))


def leave_out_twins(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out a candidate that cannot be distinguished from one before it, of which it becomes a twin."""
    if not candidates:
        return []
    alike = abs(np.atleast_2d(np.corrcoef([one.column for one in candidates]))) >= MAX_CORRELATION
    kept: dict[int, Candidate] = {}
    for number, one in enumerate(candidates):
        twin = next((other for other in kept if alike[number, other]), None)
        if twin is None:
            kept[number] = one
        elif one.name not in {kept[twin].name, *kept[twin].twins}:
            kept[twin] = replace(kept[twin], twins=(*kept[twin].twins, one.name))
    return list(kept.values())


def find_changes(facts: Facts) -> list[Replacement]:
    """Find the changes of server address and of response model of one model's streams."""
    start_ns = [one.start_ns for one in facts.streams]
    enough = max(MIN_CHANGED_STREAMS, MIN_CHANGED_SHARE * len(start_ns))
    return [
        *find_replacements(Driver.RESPONSE_MODEL, [one.response_model for one in facts.streams], start_ns, enough),
        *find_replacements(Driver.SERVER_ADDRESS, [one.server for one in facts.streams], start_ns, enough),
    ]


def find_replacements(
    driver: Driver, values: Sequence[str | None], start_ns: Sequence[int], enough: float
) -> list[Replacement]:
    """Find the changes of one attribute, which either all have a moment or are all side by side.

    Args:
        driver: what they are changes of.
        values: of each stream.
        start_ns: Unix time of each request.
        enough: a value that fewer streams have is left out.
    """
    counts = Counter(value for value in values if value is not None)
    common = [value for value, count in counts.most_common() if count >= enough]
    rows = {value: np.array([one == value for one in values]) for value in common}
    ordered = sorted(common, key=lambda value: float(np.median(np.flatnonzero(rows[value]))))
    pairs = list(pairwise(ordered))
    splits = [_split(rows[before], rows[after]) for before, after in pairs]
    if all(split is not None for split in splits):
        return [
            Replacement(driver, Change(before, after, start_ns[split]), rows[before], rows[after])
            for (before, after), split in zip(pairs, splits, strict=True)
            if split is not None
        ]
    usual = common[0]
    return [Replacement(driver, Change(usual, other, None), rows[usual], rows[other]) for other in common[1:]]


def _split(is_before: np.ndarray, is_after: np.ndarray) -> int | None:
    """Return the row from which on the new value answers; None: both answer side by side."""
    wrong = is_after.cumsum() - is_after + is_before[::-1].cumsum()[::-1]
    split = int(np.argmin(wrong))
    if wrong[split] > (1 - MIN_SORTED) * (is_before.sum() + is_after.sum()):
        return None
    return split + int(np.argmax(is_after[split:]))
