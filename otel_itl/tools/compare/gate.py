"""Decides the exit code of a comparison: what a deployment pipeline acts on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from otel_itl.tools.compare.quantities import Direction, Role
from otel_itl.tools.compare.results import Comparison, Row
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.compare.verdicts import UNKNOWN, Answer
from otel_itl.tools.exit_codes import CANNOT_TELL

NOT_SLOWER = 0
SLOWER = 1


def exit_code(comparison: Comparison, keys: Sequence[str] = COMPARED) -> int:
    """Return 1 if a deciding row is slower, 3 if that is not known of all that has to be known, else 0.

    A model that one side lacks cannot be known, nor can a rate of which only p leaves open that it is higher.

    Args:
        comparison: the answers.
        keys: the quantities that decide. If they are fewer than `COMPARED`, each has to be known.
    """
    if any(row.answer is Answer.SLOWER for row in deciding_rows(comparison, keys)):
        return SLOWER
    is_unknown = not required_rows(comparison, keys) or leaves_open(comparison, keys) or lacks_models(comparison)
    return CANNOT_TELL if is_unknown else NOT_SLOWER


def leaves_open(comparison: Comparison, keys: Sequence[str]) -> bool:
    """Return whether a row that has to be known is not, or one that decides seems slower."""
    return any(row.answer in UNKNOWN for row in required_rows(comparison, keys)) or any(
        seems_slower(row, comparison.margin) for row in deciding_rows(comparison, keys)
    )


def seems_slower(row: Row, margin: float) -> bool:
    """Return whether the interval of a row lies above the margin, though p leaves open whether that is chance."""
    interval = row.measured.interval
    is_open = row.answer is Answer.NOT_ENOUGH_DATA and row.quantity.direction is Direction.SLOWER
    return is_open and interval is not None and interval.low > math.log1p(margin)


def lacks_models(comparison: Comparison) -> bool:
    """Return whether a side lacks a model of the other, and that was not asked for."""
    return bool(comparison.only_in) and not comparison.is_of_models


def deciding_rows(comparison: Comparison, keys: Sequence[str]) -> list[Row]:
    """Return the rows of these quantities; if none were chosen, those that decide."""
    rows = (row for row in comparison.rows if row.quantity.key in keys)
    return [row for row in rows if is_chosen(keys) or row.quantity.role is not Role.SHOWN]


def required_rows(comparison: Comparison, keys: Sequence[str]) -> list[Row]:
    """Return the rows whose answer has to be known; all of those that were chosen, if any were."""
    rows = deciding_rows(comparison, keys)
    return [row for row in rows if is_chosen(keys) or row.quantity.role is Role.REQUIRED]


def is_chosen(keys: Sequence[str]) -> bool:
    """Return whether rows were chosen to decide."""
    return len(keys) < len(COMPARED)
