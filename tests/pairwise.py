"""Chooses few of many combinations such that any two values that occur together, do so in one that was chosen.

Most faults need one value, or two that meet: a wire format and an ending, an ending and a kind of client. The others
are marked as slow: `make test` leaves them out, `make test-all` runs them once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Any

import pytest


def choose_pairwise(rows: Sequence[Sequence[Hashable]], always: Iterable[int] = ()) -> set[int]:
    """Return the numbers of the rows that are chosen: those in `always`, and as few others as a greedy choice finds.

    Each row holds one value for each factor. Of rows that add as many new pairs, the first is chosen: the choice is the
    same in every process.
    """
    pairs = [set(combinations(enumerate(row), 2)) for row in rows]
    chosen = set(always)
    missing = set().union(*pairs).difference(*(pairs[number] for number in chosen))
    candidates = [(-len(found), number) for number, found in enumerate(pairs)]
    heapify(candidates)
    while missing:
        _, number = heappop(candidates)
        gain = -len(pairs[number] & missing)  # it has only become less since the row was put into the heap
        if candidates and (gain, number) > candidates[0]:
            heappush(candidates, (gain, number))
        else:
            chosen.add(number)
            missing -= pairs[number]
    return chosen


def mark_beyond_pairs(
    params: Sequence[Any],
    values_of: Callable[..., Sequence[Hashable]],
    is_always_run: Callable[..., bool] = lambda *_: False,
) -> list[Any]:
    """Return `params` with the mark `slow` on those that a pairwise choice does not need.

    `params` are made by `pytest.param`; the functions get the values of each. `values_of` returns one value for each
    factor, and `is_always_run` whether the combination is chosen for another reason.
    """
    always = {number for number, param in enumerate(params) if is_always_run(*param.values)}
    chosen = choose_pairwise([values_of(*param.values) for param in params], always)
    return [
        param if number in chosen else param._replace(marks=(*param.marks, pytest.mark.slow))
        for number, param in enumerate(params)
    ]
