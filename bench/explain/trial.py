"""Explains many simulated fleets, and counts what is named rightly, and what without cause."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.explain.fleets import SLOW_HOURS, Fleet, simulate
from otel_itl.tools.explain.explaining import explain, explain_observations
from otel_itl.tools.explain.findings import Driver, Finding, Target
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from tests.tools.explain.fleet_files import write_streams

Planted = tuple[Driver, Target]


@dataclass(slots=True)
class Tally:
    """What was counted over fleets of one kind."""

    fleets: int = 0
    streams: int = 0
    named: Counter[Planted] = field(default_factory=Counter)
    """Planted driver → fleets in which it is named."""
    covered: Counter[Planted] = field(default_factory=Counter)
    """Planted driver → fleets in which it is named with its size inside the interval."""
    bent: Counter[Planted] = field(default_factory=Counter)
    """Planted driver → fleets in which it is named with a bend."""
    places: list[float] = field(default_factory=list)
    """Where the bends are."""
    clean: int = 0
    """Fleets in which nothing else is named."""
    wrong: Counter[Planted] = field(default_factory=Counter)
    """What else is named."""
    complete: int = 0
    """Fleets in which all planted drivers are named."""


def play(fleet: Fleet, fleets: int) -> Tally:
    """Simulate fleets of one kind, and count what is found."""
    tally = Tally()
    for seed in range(fleets):
        explanation = explain_observations(simulate(fleet, np.random.default_rng([seed, *fleet.name.encode()])))
        tally.streams += explanation.streams
        _count(tally, fleet, explanation.findings)
    return tally


def play_stored(fleet: Fleet, fleets: int) -> tuple[Tally, Tally]:
    """Explain fleets as they are simulated, and as they are read back from files of telemetry; count both."""
    simulated, read = Tally(), Tally()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(fleets):
            observations = simulate(fleet, np.random.default_rng([seed, *fleet.name.encode()]))
            path = write_streams(Path(folder) / f"{seed}.jsonl", observations.used, len(observations.instances))
            _count(simulated, fleet, explain_observations(observations).findings)
            _count(read, fleet, explain(read_streams([str(path)], SkippedInput())).findings)
    return simulated, read


def _count(tally: Tally, fleet: Fleet, findings: Sequence[Finding]) -> None:
    """Count the findings of one fleet."""
    tally.fleets += 1
    right: dict[Planted, Finding] = {}
    wrong = []
    for finding in findings:
        planted = (finding.driver, finding.target)
        is_tenant = finding.attribute in {None, "tenant.id"} and (finding.attribute is None or _is_acme(finding))
        if planted in fleet.planted and _is_the_window(finding, fleet) and is_tenant:
            right.setdefault(planted, finding)
        else:
            wrong.append(planted)
    tally.wrong.update(wrong)
    tally.clean += not wrong
    tally.complete += right.keys() == fleet.planted.keys()
    for planted, finding in right.items():
        tally.named[planted] += 1
        effect = finding.bend.above if finding.bend else finding.effect
        tally.covered[planted] += effect.low <= fleet.planted[planted] <= effect.high
        if finding.bend:
            tally.bent[planted] += 1
            tally.places.append(finding.bend.at)


def _is_acme(finding: Finding) -> bool:
    """Return whether a tenant is the planted one."""
    return finding.change is not None and finding.change.after == "acme"


def _is_the_window(finding: Finding, fleet: Fleet) -> bool:
    """Return whether a window is the planted one, give or take an hour at either end; True where it is none."""
    if finding.window is None:
        return True
    begin, end = SLOW_HOURS
    is_near = abs(finding.window.first_hour - begin) <= 1 and abs(finding.window.end_hour - end) <= 1
    return is_near and set(finding.window.weekdays) <= set(fleet.weekdays)
