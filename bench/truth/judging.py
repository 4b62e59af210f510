"""Which figures were wrong under pressure, and whether a flag that names the right cause excuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.truth.figures import FIGURES, Measured
from bench.truth.pressure import CALLER, Pressure
from bench.truth.scenarios import EVERYTHING, Scenario
from bench.truth.tables import table

ABSOLUTE_MS, RELATIVE = 1.0, 0.02
"""A figure that is further from the truth than both is wrong."""
_TAIL: Final = frozenset({"p99", "max"})
"""Figures of pooled samples that one stream alone can decide; another needs half of the streams."""


class Verdict(NamedTuple):
    """How one run of a scenario came out."""

    wrong: tuple[str, ...]
    """Figures that are wrong and not excused, each with its error."""
    is_excused: bool
    """At least one figure is wrong, or absent, and the right flag is there."""
    streams: int
    flagged_streams: int
    """How many carry a flag of any kind."""

    def __str__(self) -> str:
        return (
            "WRONG"
            if self.wrong
            else "flagged"
            if self.is_excused
            else "right, flagged"
            if self.flagged_streams
            else "right"
        )


def judge(run: Measured, scenario: Scenario, pressure: Pressure) -> Verdict:
    """Judge one run. A flag excuses a figure only if it names what disturbed the run.

    Host-bound does where the delay that the tool names, an upper bound, is at least as long as the error. Imputed,
    excluded and consumer-bound do where this process itself kept the stream waiting: by the scenario's caller, or by a
    thread that keeps the GIL.
    """
    is_own_fault = scenario.caller.is_slow or pressure.cause == CALLER
    held = max(run.consumer_bound, min(run.imputed + run.excluded, run.streams)) if is_own_fault else 0
    wrong, is_excused = [], False
    for figure in FIGURES:
        error, true = run.error(figure), getattr(run.true, figure)
        if error is not None and abs(error) <= max(ABSOLUTE_MS, RELATIVE * true):
            continue
        if error is None and figure not in scenario.knowable:
            continue
        late = run.host_bound if error is None or abs(error) <= run.host_delay_ms + ABSOLUTE_MS else 0
        # The gaps' flags are not about the TTFT, but for a consumer-bound stream.
        held_here = run.consumer_bound if figure == "ttft" and is_own_fault else held
        flagged = max(late, held_here)
        if flagged > 0 if figure in _TAIL else 2 * flagged >= run.streams:
            is_excused = True
        else:
            wrong.append(figure + (" absent" if error is None else f" {error:+.1f}"))
    return Verdict(tuple(wrong), is_excused, run.streams, run.flagged_streams)


def is_knowable(scenario: Scenario) -> bool:
    """Return whether a client can know every figure of a scenario."""
    return scenario.knowable == EVERYTHING


Verdicts = dict[Scenario, dict[Pressure, list[Verdict]]]


def pressure_table(verdicts: Verdicts, pressures: Sequence[Pressure]) -> str:
    """Return a table, scenarios by pressure: how many runs were right, flagged, and wrong without a right flag."""
    rows = [
        [scenario.name, *(_cell(by_pressure.get(pressure, ())) for pressure in pressures)]
        for scenario, by_pressure in verdicts.items()
    ]
    sums = [
        "all",
        *(_cell([one for by in verdicts.values() for one in by.get(pressure, ())]) for pressure in pressures),
    ]
    return table(["scenario", *(pressure.name for pressure in pressures)], [*rows, sums])


def _cell(runs: Sequence[Verdict]) -> str:
    """Return the counts of right, flagged and wrong runs as text, the wrong figures of a run in words."""
    if not runs:
        return "-"
    wrong = [one for one in runs if one.wrong]
    right = sum(not one.wrong and not one.is_excused for one in runs)
    text = f"{right} right"
    if right + len(wrong) < len(runs):
        text += f", {len(runs) - right - len(wrong)} flagged"
    if wrong:
        text += f", {len(wrong)} WRONG"
        if len(runs) < 10:
            text += f" ({', '.join(wrong[0].wrong)})"
    return text
