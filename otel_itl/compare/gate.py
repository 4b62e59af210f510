"""Decides the exit code of a comparison: what a deployment pipeline acts on."""

from __future__ import annotations

from collections.abc import Sequence

from otel_itl.compare.comparison import Comparison, Row
from otel_itl.compare.rows import COMPARED
from otel_itl.compare.verdicts import Answer

NOT_SLOWER = 0
SLOWER = 1
CANNOT_TELL = 3


def exit_code(comparison: Comparison, keys: Sequence[str] = COMPARED) -> int:
    """Return 1 if a deciding row is slower, 3 if that is not known of a latency or none was compared, else 0.

    Args:
        comparison: the answers.
        keys: the quantities that decide. If they are fewer than `COMPARED`, a rate counts like a latency.
    """
    rows = deciding_rows(comparison, keys)
    if any(row.answer is Answer.SLOWER for row in rows):
        return SLOWER
    latencies = [row for row in rows if row.quantity.is_latency or len(keys) < len(COMPARED)]
    is_unknown = not latencies or any(row.answer is Answer.NOT_ENOUGH_DATA for row in latencies)
    return CANNOT_TELL if is_unknown else NOT_SLOWER


def deciding_rows(comparison: Comparison, keys: Sequence[str]) -> list[Row]:
    """Return the rows of these quantities."""
    return [row for row in comparison.rows if row.quantity.key in keys]
