"""Decides the exit code of a sweep: what a deployment pipeline acts on."""

from __future__ import annotations

from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.records import Sweep
from otel_itl.tools.sweep.results import Standing

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

    A level above the peak shows that the objective holds at the peak, too, and one below it that it does not. Where
    too many requests fail, a level does not hold, with or without an objective; without one, any other level holds.
    """
    if not result.judged:
        has_failed = any(one.is_failing for level in result.levels if level.level <= 1 for one in level.rounds)
        return DOES_NOT_HOLD if has_failed else CANNOT_TELL
    met = (Standing.WITHIN, Standing.SATURATED)
    if any(one.standing in met and one.level >= 1 for one in result.judged):
        return HOLDS
    missed = (Standing.BEYOND, Standing.FAILING)
    if any(one.standing in missed and one.level <= 1 for one in result.judged):
        return DOES_NOT_HOLD
    return HOLDS if result.sweep.objective is None else CANNOT_TELL
