"""Makes the levels that are adjusted for, of hours and of blocks of time, each with enough streams."""

from __future__ import annotations

import numpy as np

from otel_itl.tools.explain.facts import Floats, Integers, mean_by

MIN_PER_LEVEL = 20
"""Streams for each level of time that is adjusted for."""
SIDE_BLOCKS = 8
"""Blocks of time on either side of a moment that are compared."""


def center(values: Floats) -> Floats:
    """Return values less their mean."""
    return np.asarray(values - values.mean())


def merge_levels(levels: Integers) -> Integers:
    """Join neighbouring levels, such as hours or days, until each has enough streams."""
    values, numbers, counts = np.unique(levels, return_inverse=True, return_counts=True)
    joined, inside = np.zeros(len(values), dtype=np.intp), 0
    for index in range(1, len(values)):
        inside += counts[index - 1]
        is_full = inside >= MIN_PER_LEVEL and counts[index:].sum() >= MIN_PER_LEVEL
        joined[index] = joined[index - 1] + is_full
        inside = 0 if is_full else inside
    return joined[numbers]


def make_dummies(levels: Integers) -> Floats:
    """Return a column for each level but the first."""
    return np.asarray(levels[:, None] == np.unique(levels)[1:], dtype=np.float64)


def find_block_means(values: Floats, blocks: Integers) -> Floats:
    """Return the means of up to `SIDE_BLOCKS` groups of neighbouring blocks, each with about as many streams."""
    _, numbers, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    groups = min(SIDE_BLOCKS, len(counts))
    return mean_by((middle * groups / len(values)).astype(np.intp)[numbers], values)
