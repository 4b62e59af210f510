"""The choice of few combinations for many, by which the largest tables of tests are made small."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, Final

import pytest

from tests.pairwise import choose_pairwise, mark_beyond_pairs

ROWS: Final = list(product("abcd", "xyz", (1, 2, 3)))


def pairs_of(rows: list[Any]) -> set[Any]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_every_two_values_that_occur_together_do_so_in_a_chosen_row() -> None:
    chosen = [ROWS[number] for number in choose_pairwise(ROWS)]
    assert pairs_of(chosen) == pairs_of(ROWS)


def test_few_rows_are_chosen() -> None:
    assert len(choose_pairwise(ROWS)) <= 4 * 3 + 2  # four times three is the least for the first two factors


def test_a_pair_that_one_row_alone_has_is_kept() -> None:
    rows = [*product("ab", "xy"), ("c", "x")]
    assert 4 in choose_pairwise(rows)


def test_rows_that_are_always_run_are_chosen() -> None:
    assert choose_pairwise(ROWS, {30, 31}) >= {30, 31}


def test_pairs_of_the_rows_that_are_always_run_are_not_looked_for_again() -> None:
    assert choose_pairwise(ROWS, range(len(ROWS) - 1)) == set(range(len(ROWS) - 1))


def test_of_equal_rows_the_first_is_chosen() -> None:
    assert choose_pairwise([("a", "x"), ("a", "x")]) == {0}


def test_no_rows_give_no_choice() -> None:
    assert choose_pairwise([]) == set()


def marks_of(params: list[Any]) -> dict[str, list[str]]:
    return {param.id: [mark.name for mark in param.marks] for param in params}


def test_what_is_not_chosen_is_marked_as_slow() -> None:
    params = [pytest.param("a", "x", id="first"), pytest.param("a", "x", id="second")]
    assert marks_of(mark_beyond_pairs(params, lambda *values: values)) == {"first": [], "second": ["slow"]}


def test_a_param_that_is_always_run_is_not_marked() -> None:
    params = [pytest.param("a", "x", id="first"), pytest.param("a", "x", id="second")]
    marked = mark_beyond_pairs(params, lambda *values: values, lambda *_: True)
    assert marks_of(marked) == {"first": [], "second": []}


def test_the_marks_of_a_param_are_kept() -> None:
    params = [pytest.param("a", "x", id="first"), pytest.param("a", "x", id="second", marks=pytest.mark.timeout(9))]
    assert marks_of(mark_beyond_pairs(params, lambda *values: values))["second"] == ["timeout", "slow"]
