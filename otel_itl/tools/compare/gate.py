"""Decides the exit code of a comparison: what a deployment pipeline acts on."""

from __future__ import annotations

from collections.abc import Sequence

from otel_itl.tools.compare.comparison import Comparison, Row
from otel_itl.tools.compare.rows import COMPARED
from otel_itl.tools.compare.verdicts import UNKNOWN, Answer

NOT_SLOWER = 0
SLOWER = 1
CANNOT_TELL = 3


def exit_code(comparison: Comparison, keys: Sequence[str] = COMPARED) -> int:
    """Return 1 if a deciding row is slower, 3 if that is not known of a latency or none was compared, else 0.

    Args:
        comparison: the answers.
        keys: the quantities that decide. If they are fewer than `COMPARED`, a rate counts like a latency.
    """
    if any(row.answer is Answer.SLOWER for row in deciding_rows(comparison, keys)):
        return SLOWER
    required = required_rows(comparison, keys)
    is_unknown = not required or any(row.answer in UNKNOWN for row in required)
    return CANNOT_TELL if is_unknown else NOT_SLOWER


def deciding_rows(comparison: Comparison, keys: Sequence[str]) -> list[Row]:
    """Return the rows of these quantities."""
    return [row for row in comparison.rows if row.quantity.key in keys]


def required_rows(comparison: Comparison, keys: Sequence[str]) -> list[Row]:
    """Return the rows whose answer has to be known: the latencies, or all rows where some were chosen."""
    is_chosen = len(keys) < len(COMPARED)
    return [row for row in deciding_rows(comparison, keys) if is_chosen or row.quantity.is_latency]
