"""Finds where another server or another response model answers: instead of the one before, or beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from otel_itl.tools.explain.facts import Facts
from otel_itl.tools.explain.findings import Change, Driver, Switch

MIN_SHARE = 0.02
"""A value that fewer of the streams have is left out."""
MIN_STREAMS = 5
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


def find_changes(facts: Facts) -> list[Replacement]:
    """Find the changes of server address and of response model of one model's streams."""
    start_ns = [one.start_ns for one in facts.streams]
    return [
        *_find_changes(Driver.RESPONSE_MODEL, [one.response_model for one in facts.streams], start_ns),
        *_find_changes(Driver.SERVER_ADDRESS, [one.server for one in facts.streams], start_ns),
    ]


def _find_changes(driver: Driver, values: Sequence[str | None], start_ns: Sequence[int]) -> list[Replacement]:
    """Find the changes of one attribute, which either all have a moment or are all side by side."""
    enough = max(MIN_STREAMS, MIN_SHARE * len(values))
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
