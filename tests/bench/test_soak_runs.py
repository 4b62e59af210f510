"""The soak beside two busy processes: every stream is counted, nothing grows, and the application is not held up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("ITL_TEST_SECONDS", "20"))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 4 + 120)
@pytest.mark.requirement("R19", "R26", "R27", "R44")
def test_every_check_of_the_soak_passes() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench.soak", "--seconds", str(SECONDS), "--busy", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout.splitlines()[-1:]) == (0, ["all checks passed"]), run.stdout + run.stderr
