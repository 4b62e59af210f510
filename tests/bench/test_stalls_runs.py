"""The benchmark of stalls runs and prints every row. How much anything takes is no matter of tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = (
    "idle: no stream open",
    "none stalls",
    "none stalls, `relative=None`",
    "some stall, `relative=None`",
    "`stall=None`",
    "the default",
    "`relative=None`",
    "`abort_after=60`",
    "`stall=None`, again",
    "800 ms, even",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="threads have no CPU clock here"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a quick run printed, and the page that it wrote it into."""
    page = tmp_path_factory.mktemp("page") / "page.md"
    page.write_text("before\n<!-- generated: stalls -->\nold\n<!-- end of generated: stalls -->\nafter\n")
    done = subprocess.run(
        [sys.executable, "-m", "bench.stalls", "--quick", "--write", str(page)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, page


@pytest.mark.parametrize("row", ROWS)
def test_a_quick_run_prints_every_row(row: str, ran: tuple[str, Path]) -> None:
    printed, _ = ran
    assert f"| {row} " in printed


def test_a_section_of_a_page_is_replaced_and_the_rest_of_it_kept(ran: tuple[str, Path]) -> None:
    printed, page = ran
    begin, end = "<!-- generated: stalls -->", "<!-- end of generated: stalls -->"
    assert page.read_text() == f"before\n{begin}\n\n{printed}\n{end}\nafter\n"
