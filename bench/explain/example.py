"""The fleet of the example in docs/explain.md: six drivers are planted in four weeks of 12 processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.explain.fleets import Fleet, simulate
from otel_itl.tools.explain.findings import Driver, Target
from tests.tools.explain.fleet_files import write_streams

FLEET = Fleet(
    name="example",
    planted={
        (Driver.PROMPT, Target.ITL): 0.0016,
        (Driver.IDLE, Target.TTFT): 4.0,
        (Driver.CALENDAR, Target.ITL): 0.4,
        (Driver.RESPONSE_MODEL, Target.ITL): 0.5,
        (Driver.OWN_LOAD, Target.ITL): 0.002,
        (Driver.OWN_LOAD, Target.TTFT): 0.05,
    },
    bursts=200,
)
"""Sizes in the units of their effects: 1.6 ms a token for 1,000 prompt tokens, 4 s after a silence, 40 % at 9-11 h."""
SEED = 2
INSTANCES = 12


def write_example(path: Path) -> None:
    """Simulate the fleet, and write its telemetry to a file."""
    write_streams(path, simulate(FLEET, np.random.default_rng(SEED)).used, INSTANCES)
