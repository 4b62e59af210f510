"""Each command where a part is missing: one sentence names the one `pip install` that brings it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import leave_out_all_but

pytest.importorskip("tomllib", reason="reads pyproject.toml, from Python 3.11 on")

TABLES = "otel-itl needs rich for this: pip install 'otel-itl[tools]'\n"
STATISTICS = "otel-itl needs numpy, scipy for this: pip install 'otel-itl[tools]'\n"
BOTH = "otel-itl needs rich, numpy, scipy for this: pip install 'otel-itl[tools]'\n"
PAGE = "otel-itl needs starlette, uvicorn for this: pip install 'otel-itl[tools]'\n"
DEMO = "otel-itl needs rich for this: pip install 'otel-itl[demo]'\n"
NEEDED = {
    "run app.py": TABLES,
    "run --view app.py": PAGE,
    "doctor": TABLES,
    "doctor app.py": TABLES,
    "report streams.jsonl": TABLES,
    "report --explain streams.jsonl": BOTH,
    "report --explain --json streams.jsonl": STATISTICS,
    "compare streams.jsonl streams.jsonl": BOTH,
    "compare --json streams.jsonl streams.jsonl": STATISTICS,
    "sweep http://127.0.0.1:9/v1 --model m": BOTH.replace("[tools]", "[tools,openai]"),
    "demo": DEMO,
    "demo --view": PAGE,
    "view": PAGE,
    "view streams.jsonl": PAGE,
}
"""Command → what it prints where the core alone is installed."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that leaves nothing but the core."""
    return leave_out_all_but((), tmp_path_factory.mktemp("core"))


def run(arguments: str, site: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text("", encoding="utf-8")
    (folder / "streams.jsonl").write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "otel_itl", *arguments.split()]
    path = os.pathsep.join((str(site), str(Path(__file__).parents[2])))
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OTEL_TRACES_EXPORTER": "none"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("arguments", NEEDED)
def test_a_command_that_lacks_a_part_names_the_line_that_installs_it(
    arguments: str, core: Path, tmp_path: Path
) -> None:
    ran = run(arguments, core, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", NEEDED[arguments])


@pytest.mark.parametrize(
    "arguments", ["run --quiet app.py", "report --json streams.jsonl", "alerts --slo chat", "dashboards .", "--help"]
)
def test_a_command_that_lacks_nothing_runs_with_the_core_alone(arguments: str, core: Path, tmp_path: Path) -> None:
    ran = run(arguments, core, tmp_path)
    assert "pip install" not in ran.stderr


def test_the_doctor_examines_as_json_with_the_core_alone(core: Path, tmp_path: Path) -> None:
    ran = run("doctor --json app.py", core, tmp_path)
    assert ("imported no supported SDK" in ran.stdout, ran.returncode) == (True, 1), ran.stderr


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ("sweep http://127.0.0.1:9/v1 --model m", "openai is not installed: pip install 'otel-itl[openai]'"),
        ("sweep http://127.0.0.1:9 --model m --api anthropic", "pip install 'otel-itl[anthropic]'"),
    ],
)
def test_a_sweep_without_an_sdk_names_its_extra(
    arguments: str, missing: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    ran = run(arguments, leave_out_all_but(("tools",), tmp_path_factory.mktemp("tools")), tmp_path)
    assert (missing in ran.stderr, ran.returncode) == (True, 2), ran.stderr
