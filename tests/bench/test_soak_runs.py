"""The soak: for a while, all that it opens is told of exactly, and nothing grows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("ITL_TEST_SECONDS", "60"))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3 + 120)
@pytest.mark.requirement("R19", "R26", "R27")
def test_a_soak_adds_up() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench.soak", "--seconds", str(SECONDS), "--streams", "200"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout.splitlines()[-1:]) == (0, ["all adds up"]), run.stdout + run.stderr
