"""The comparison with the truth runs, and its figures are figures. How near they are is no matter of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HTTP2 = ("HTTP/2",) if find_spec("h2") else ()
SCENARIOS = ("steady 25 ms", "retry", "Bedrock 25 ms", "Gemini 25 ms", *HTTP2)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def run(*arguments: str, program: Sequence[str] = ("-m", "bench.truth")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture(scope="module")
def printed() -> str:
    for package in ("openai", "anthropic"):
        pytest.importorskip(package)
    done = run("--repeats", "1", *(argument for name in SCENARIOS for argument in ("--only", name)))
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def figures(printed: str, scenario: str, measured_by: str) -> dict[str, float]:
    """The figures of one row of the detailed table, in milliseconds."""
    lines = printed.split("### Every figure")[1].splitlines()
    table = [cells(line) for line in lines if line.startswith("|")]
    header, _, *rows = table
    start = next(number for number, row in enumerate(rows) if row[0] == scenario)
    row = next(row for row in rows[start:] if row[1] == measured_by)
    names = ("TTFT", "mean ITL", "p50", "p99", "max")
    return {name: float(row[header.index(name)].split()[0]) for name in names}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("figure", ["TTFT", "mean ITL", "p50"])
def test_a_figure_is_within_half_of_the_truth(printed: str, scenario: str, figure: str) -> None:
    true = figures(printed, scenario, "truth")[figure]
    assert figures(printed, scenario, "otel_itl")[figure] == pytest.approx(true, rel=0.5)


def test_the_truth_is_what_the_script_says(printed: str) -> None:
    # 24 gaps of 25 ms by absolute deadlines: the server may be late, but not for the mean.
    assert figures(printed, "steady 25 ms", "truth")["mean ITL"] == pytest.approx(25, rel=0.5)


def test_the_first_token_of_a_retried_request_counts_from_the_call(printed: str) -> None:
    # The server asks for 100 ms before the second attempt, and takes another 50 to the first token.
    assert figures(printed, "retry", "truth")["TTFT"] > 150


def test_the_naive_stopwatch_takes_the_role_chunk_for_a_token(printed: str) -> None:
    naive, true = (figures(printed, "steady 25 ms", measured_by)["TTFT"] for measured_by in ("naive", "truth"))
    # The first token comes 50 ms after the role chunk.
    assert naive < true - 25


def test_a_run_says_what_it_measured_and_on_what(printed: str) -> None:
    said = printed.partition("###")[0]
    assert "`python -m bench.truth --repeats 1 --only 'steady 25 ms' --only retry" in said
    assert "openai " in said
    assert "cores" in said


def test_every_repeat_is_counted(printed: str) -> None:
    summary = printed.split("### Every figure", maxsplit=1)[0]
    row = next(cells(line) for line in summary.splitlines() if line.startswith("| retry"))
    assert row[3] in {"0 of 1", "1 of 1"}


def test_a_scenario_that_cannot_be_run_says_why() -> None:
    without_h2 = "import sys; sys.modules['h2'] = None; from bench.truth.__main__ import main; main()"
    done = run("--only", "HTTP/2", program=("-c", without_h2))
    assert "not run: the h2 package is not installed" in done.stdout


def test_an_unknown_scenario_is_refused_with_the_names_there_are() -> None:
    done = run("--only", "nonsense")
    assert done.returncode == 1
    assert "No scenario has 'nonsense' in its name: there are steady 1.4 ms, " in done.stderr


def test_a_section_of_a_page_is_replaced_and_the_rest_of_it_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- generated: truth -->", "<!-- end of generated: truth -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    printed = run("--only", "retry", "--repeats", "1", "--write", str(page)).stdout
    assert page.read_text() == f"before\n{begin}\n\n{printed}{end}\nafter\n"
