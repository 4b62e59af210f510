"""A cost that begins at some load or prompt length: its place and what it costs on either side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `explain` is not installed")

from bench.explain.fleets import ALONE, BENT, Fleet, simulate
from otel_itl.tools.explain.explaining import explain_observations
from otel_itl.tools.explain.findings import Bend, Driver, Effect, Finding, Unit
from otel_itl.tools.explain.render.words import describe_finding
from tests.tools.explain.made_explanations import OWN_LOAD, PROMPT, make_explanation


def bend_of(fleet: Fleet) -> Bend | None:
    (finding,) = explain_observations(simulate(fleet, np.random.default_rng(1))).findings
    return finding.bend


@pytest.mark.parametrize("fleet", BENT[2:], ids=lambda fleet: fleet.name)
def test_a_cost_that_begins_at_a_length_has_its_place(fleet: Fleet) -> None:
    bend, size = bend_of(fleet), next(iter(fleet.planted.values()))
    assert bend is not None
    assert bend.at == pytest.approx(fleet.knots[Driver.PROMPT], rel=0.15)
    assert bend.below.low <= 0 <= bend.below.high
    assert bend.above.low <= size <= bend.above.high


@pytest.mark.parametrize("fleet", [ALONE[0], ALONE[2], ALONE[4]], ids=lambda fleet: fleet.name)
def test_a_straight_line_has_no_bend(fleet: Fleet) -> None:
    assert bend_of(fleet) is None


SLOPES = "1.2 ms {}(1.0 to 1.4) from about {} on, and 0.1 ms (-0.1 to 0.3) up to there."


@pytest.mark.parametrize(
    ("finding", "at", "per", "start", "end"),
    [
        (OWN_LOAD, 8, 1, "With each further open stream ", SLOPES.format("longer ", "8")),
        (
            PROMPT,
            4_000,
            1_000,
            "Each further 1,000 prompt tokens cost ",
            SLOPES.format("a token ", "4,000 prompt tokens"),
        ),
    ],
)
def test_a_bend_is_said_with_both_slopes(finding: Finding, at: float, per: float, start: str, end: str) -> None:
    below, above = Effect(1e-4, -1e-4, 3e-4, Unit.SECONDS, per), Effect(1.2e-3, 1e-3, 1.4e-3, Unit.SECONDS, per)
    bent = replace(finding, bend=Bend(at, below, above))
    said = describe_finding(bent, make_explanation(bent))
    assert (said.startswith(start), said.endswith(end)) == (True, True), said
