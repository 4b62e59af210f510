"""apache-otava finds the run that changed a figure, by the recipe of docs/compare.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.tools.report.conftest import Made

RUNS: Final = 14
FIRST_RUN: Final = 1_780_000_000
"""Unix time."""
LAST_OF_BEFORE: Final = 7
"""The run after which every gap takes half as long again."""

pytest.importorskip("otava", reason="apache-otava is not installed; it is in the environment `recipes` of .ci/run")


def write_run(file: Path, made: Made, gap: float, random: np.random.Generator) -> None:
    """Write a run of eight streams, whose gaps are about as long as given (ms)."""
    spans = (made.span(made.timeline(*(gap * random.lognormal(0, 0.1, 60)))) for _ in range(8))
    file.write_text(json.dumps(made.spans(*spans)), encoding="utf-8")


def run_command(command: str, folder: Path) -> str:
    """Run a line in a shell that finds the programs of this environment, and return what it prints."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(  # noqa: S602 - it has to run as a user would run it
        command, cwd=folder, env={**os.environ, "PATH": path}, shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What otava finds by the recipe."""
    folder = tmp_path_factory.mktemp("series")
    made, random = Made(), np.random.default_rng(1)
    (folder / "runs").mkdir()
    for run in range(1, RUNS + 1):
        file = folder / "runs" / f"run{run:02}.jsonl"
        write_run(file, made, 20 if run <= LAST_OF_BEFORE else 30, random)
        os.utime(file, (FIRST_RUN + run * 86_400,) * 2)
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    (recipe,) = [block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "otava analyze" in block]
    found: list[dict[str, Any]] = json.loads(run_command(recipe, folder))["streams"]
    return found


def test_otava_finds_the_run_from_which_on_streams_are_slower(changes: list[dict[str, Any]]) -> None:
    assert [change["attributes"]["run"] for change in changes] == [f"runs/run{LAST_OF_BEFORE + 1:02}.jsonl"]


def test_otava_names_the_figures_that_changed_and_no_other(changes: list[dict[str, Any]]) -> None:
    figures = [figure["metric"] for figure in changes[0]["changes"]]
    assert figures == ["itl_p50", "itl_p99", "tpot"]


def test_otava_measures_how_much_slower_they_are(changes: list[dict[str, Any]]) -> None:
    (median,) = [figure for figure in changes[0]["changes"] if figure["metric"] == "itl_p50"]
    assert float(median["magnitude"]) == pytest.approx(0.5, abs=0.02)
