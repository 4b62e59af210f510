"""The table of what is known runs, and counts every stream. What is found is no matter of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.truth.rows import ROWS

ROOT = Path(__file__).resolve().parents[2]
QUIET, SILENT = "quiet, 1 on a loop, plain", "quota 5%, 8 in threads, HTTP/2"
"""A row of figures, and one of silences under a quota."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.truth", "known", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What two tiny rows printed, and the page that they were written into."""
    pytest.importorskip("openai")
    page = tmp_path_factory.mktemp("page") / "page.md"
    page.write_text("before\n<!-- generated: known -->\nold\n<!-- end of generated: known -->\nafter\n")
    rows = (argument for name in (QUIET, SILENT) for argument in ("--row", name))
    done = run("--quick", *rows, "--write", str(page))
    assert done.returncode == 0, done.stderr
    return done.stdout, page


def cells(printed: str, name: str) -> dict[str, str]:
    """The cells of one row, by their columns."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines()]
    header = next(line for line in lines if line[0] == "row")
    return dict(zip(header, next(line for line in lines if line[0].startswith(name)), strict=True))


def test_every_stream_is_counted(ran: tuple[str, Path]) -> None:
    printed, _ = ran
    assert [cells(printed, name)["streams"] for name in ("quiet", "quota 5%", "all")] == ["1", "2", "3"]


def test_every_silence_on_the_wire_is_counted(ran: tuple[str, Path]) -> None:
    printed, _ = ran
    assert cells(printed, "quota 5%")["silences"].endswith(" of 1")


def test_a_row_without_silences_shows_none(ran: tuple[str, Path]) -> None:
    printed, _ = ran
    assert cells(printed, "quiet")["silences"] == "-"


def test_the_goals_are_printed(ran: tuple[str, Path]) -> None:
    printed, _ = ran
    assert "| true p99 within what is emitted " in printed


def test_a_section_of_a_page_is_replaced_and_the_rest_of_it_kept(ran: tuple[str, Path]) -> None:
    printed, page = ran
    begin, end = "<!-- generated: known -->", "<!-- end of generated: known -->"
    assert page.read_text() == f"before\n{begin}\n\n{printed}{end}\nafter\n"


def test_an_unknown_row_is_refused_with_the_names_there_are() -> None:
    done = run("--row", "nonsense")
    assert (done.returncode, "No row has 'nonsense' in its name" in done.stderr) == (1, True)


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
