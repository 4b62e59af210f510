"""docs/first-minutes.md: its commands run as they are written, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openai")
pytest.importorskip("rich")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first-minutes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines()]
NEEDED_ELSEWHERE = (
    "otel-itl run -m chat.worker",
    "otel-itl run uvicorn app:app --workers 2",
    "export ",
    "pip install ",
)
"""Commands whose programs the page does not give, or that need an endpoint: other tests run them."""


@pytest.fixture(scope="module")
def ran(plain_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Exit code, output and error output of each command."""
    folder = tmp_path_factory.mktemp("first_minutes")
    (program,) = (code for language, code in BLOCKS if language == "python")
    (folder / "app.py").write_text(program)
    path = os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), plain_environ["PATH"]))
    (folder / "bin").mkdir()
    command = folder / "bin" / "otel-itl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m otel_itl "$@"\n')
    command.chmod(0o700)
    found = {}
    for line in dict.fromkeys(COMMANDS):
        if not line.startswith(NEEDED_ELSEWHERE):
            environ = {**plain_environ, "PATH": path}
            ended = subprocess.run(  # noqa: PLW1510 - the tests look at the exit code
                ["/bin/sh", "-euc", line], cwd=folder, env=environ, capture_output=True, text=True, timeout=55
            )
            found[line] = ended.returncode, ended.stdout, ended.stderr
    return found


def test_the_application_prints_its_answer_and_the_report_follows(ran: dict[str, tuple[int, str, str]]) -> None:
    exit_code, printed, report = ran["otel-itl run app.py"]
    assert (exit_code, printed.count("\n")) == (0, 1)
    assert "gpt-5-mini" in report


def test_the_report_on_the_page_is_what_is_printed(ran: dict[str, tuple[int, str, str]]) -> None:
    shown = PAGE.split("<!-- report:begin -->")[1].split("<!-- report:end -->")[0]
    report = ran["otel-itl run app.py"][2]
    headings = [line for line in shown.splitlines() if re.search(r"TTFT, ms|mean    ms|outcomes", line)]
    printed = [words(line) for line in report.splitlines()]
    assert (len(headings), [line for line in headings if words(line) not in printed]) == (3, [])


def words(line: str) -> set[str]:
    """The words of a heading: a busy machine has columns of its own, and none has those of nothing."""
    optional = {"host-", "caller-", "bound", "gaps", "imputed", "excluded", "TPOT", "speed", "tok/s", "ITL"}
    return set(re.findall(r"[a-zA-Z,/-]*[a-zA-Z]{2}[a-zA-Z,/-]*", line)) - optional


def test_the_reports_are_made_of_the_file(ran: dict[str, tuple[int, str, str]]) -> None:
    reports = [ended for line, ended in ran.items() if line.startswith("otel-itl report")]
    assert [(code, error, "gpt-5-mini" in printed) for code, printed, error in reports] == [(0, "", True)] * 3


def test_the_doctor_finds_that_the_program_measures_nothing_itself_and_that_there_is_no_backend(
    ran: dict[str, tuple[int, str, str]],
) -> None:
    exit_code, printed, _ = ran["otel-itl doctor app.py"]
    wrong = re.findall(r"^  NO ([^:]*):", printed, re.MULTILINE)
    assert (exit_code, wrong) == (1, ["program", "traces, metrics, logs"]), printed


def test_every_extra_is_offered() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = [extra for found in re.findall(r"otel-itl\[([^\]]*)\]", PAGE) for extra in found.split(",")]
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
