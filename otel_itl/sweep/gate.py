"""Decides the exit code of a sweep: what a deployment pipeline acts on."""

from __future__ import annotations

from otel_itl.sweep.knee import Standing, SweepResult
from otel_itl.sweep.records import Sweep

HOLDS = 0
DOES_NOT_HOLD = 1
CANNOT_TELL = 3

_INTERRUPTED = "interrupted"
"""Why a sweep that Ctrl-C ended was stopped."""


def is_interrupted(sweep: Sweep) -> bool:
    """Return whether Ctrl-C ended a sweep."""
    return sweep.stop_reason == _INTERRUPTED


def exit_code(result: SweepResult) -> int:
    """Return 0 if the objective holds at the expected peak, 1 if it does not, 3 if that is not known.

    Without an objective it is 0 as soon as anything is known. A level above the peak shows that the objective holds at
    the peak, too, and one below it that it does not.
    """
    if not result.judged:
        return CANNOT_TELL
    if result.sweep.objective is None:
        return HOLDS
    met = (Standing.WITHIN, Standing.SATURATED)
    if any(one.standing in met and one.result.level >= 1 for one in result.judged):
        return HOLDS
    is_missed = any(one.standing is Standing.BEYOND and one.result.level <= 1 for one in result.judged)
    return DOES_NOT_HOLD if is_missed else CANNOT_TELL
