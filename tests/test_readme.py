"""Every code block of the README runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from otel_itl.testing import ScriptedServer, chat
from tests.installed import leave_out_all_but

README = Path(__file__).parents[1] / "README.md"
REPORT_PAGE = README.parent / "docs" / "report.md"
TELEMETRY_PAGE = README.parent / "docs" / "telemetry.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
MAKEFILE = README.with_name("Makefile")


def blocks(language: str) -> list[str]:
    return [code for found, code in BLOCKS if found == language]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: PLW1510 - the tests look at the exit code
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, cwd=README.parent
    )


def test_every_block_says_what_it_is() -> None:
    assert {language for language, _ in BLOCKS} == {"bash", "python", "text"}


def programs() -> list[str]:
    """The python blocks one after another; where one instruments, a program begins."""
    made: list[str] = []
    for block in blocks("python"):
        if "otel_itl.instrument(" in block:
            made.append("")
        made[-1] += block
    return made


@pytest.mark.parametrize(
    ("program", "printed"), [*zip(programs(), ["Rayleigh scattering.any iterator of chunks"], strict=True)]
)
def test_the_python_blocks_run_one_after_another(program: str, printed: str) -> None:
    pytest.importorskip("openai")
    with ScriptedServer(chat.reply(["Rayleigh ", "scattering."])) as server:
        ran = run(
            [sys.executable, "-c", program],
            OPENAI_BASE_URL=server.openai_url,
            OPENAI_API_KEY="none",
            OTEL_TRACES_EXPORTER="none",
            OTEL_METRICS_EXPORTER="none",
            OTEL_LOGS_EXPORTER="none",
        )
    assert (ran.stderr, ran.stdout) == ("", printed)


INSTALLS = re.findall(r"pip install ['\"](?:otel-itl|\.)\[(.*?)\]", README.read_text(encoding="utf-8"))
"""The extras of each line that installs, in the order of the page."""
COMMANDS = [
    line.partition("&& ")[2] or line.partition("  #")[0].strip()
    for block in blocks("bash")
    for line in block.splitlines()
    if "otel-itl " in line
]


def test_what_is_installed_is_offered() -> None:
    project = README.with_name("pyproject.toml").read_text(encoding="utf-8")
    extras = ",".join(INSTALLS).split(",")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)


def test_a_checkout_installs_what_a_release_does() -> None:
    assert INSTALLS[:2] == ["tools,openai", "tools,openai"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_all_that_it_needs_after_the_first_line_that_installs(command: str, tmp_path: Path) -> None:
    pytest.importorskip("tomllib", reason="reads pyproject.toml, from Python 3.11 on")
    pytest.importorskip("openai")
    pytest.importorskip("scipy")
    (tmp_path / "app.py").write_text("import openai\n")
    (tmp_path / "fleet").mkdir()
    for name in ("before", "after", "traces", "fleet/one"):
        (tmp_path / f"{name}.jsonl").touch()
    (tmp_path / "fleet" / "one.jsonl").rename(tmp_path / "fleet" / "one.jsonl.gz")
    site = leave_out_all_but(INSTALLS[0].split(","), tmp_path)
    words = [sys.executable, "-m", "otel_itl", *command.replace("localhost:8000", "127.0.0.1:9").split()[1:]]
    ran = subprocess.run(
        ["/bin/sh", "-c", " ".join(words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(README.parent)))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ("pip install" in ran.stderr, "Traceback" in ran.stderr) == (False, False), ran.stderr


@pytest.mark.parametrize("command", [block.strip() for block in blocks("bash") if block.startswith("make ")])
def test_the_make_commands_exist(command: str) -> None:
    assert run([*command.split(), "--dry-run"]).returncode == 0


def test_the_variables_are_set_by_a_shell() -> None:
    (exports,) = (block for block in blocks("bash") if block.startswith("export "))
    ran = run(["bash", "-euc", exports + "\necho $OTEL_SERVICE_NAME"])
    assert ran.stdout == "my-chat\n"


def test_every_name_on_the_span_is_documented() -> None:
    (span,) = (block for block in blocks("text") if "CLIENT" in block)
    documented = set(re.findall(r"`([^`\n]+)`", TELEMETRY_PAGE.read_text(encoding="utf-8")))
    assert set(re.findall(r"\b(?:gen_ai|itl)\.[a-z_.0-9]+", span)) - documented == set()


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and the telemetry that it left."""
    pytest.importorskip("rich")
    output = tmp_path_factory.mktemp("demo") / "traces.jsonl"
    command = [sys.executable, "-m", "otel_itl", "demo", "--seconds", "2", "--quiet", "--output", str(output)]
    ran = run(command, COLUMNS="100")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, output


def test_the_picture_is_what_the_demo_draws(demonstrated: tuple[str, Path]) -> None:
    picture = REPORT_PAGE.read_text(encoding="utf-8").split("<!-- demo:begin -->")[1].split("<!-- demo:end -->")[0]
    shown, _ = demonstrated
    # On a busy machine a table has more columns, and the last of them are below the others.
    printed = {word for line in shown.splitlines() for word in words_of_heading(line)}
    headings = re.findall(
        r"^.*(?:TTFT, ms|p50 .*mean|gaps .*gaps|streams .*outcomes|^(?:stalls|objectives|sessions) ).*$",
        picture,
        re.MULTILINE,
    )
    named = [words_of_heading(heading) for heading in headings]
    assert (len(named), {word for words in named for word in words} - printed) == (7, set())


def words_of_heading(line: str) -> list[str]:
    """The words of a heading, without those of columns that there are on a machine that is busy, or idle, alone."""
    words = re.findall(r"[a-zA-Z,/-]*[a-zA-Z]{2}[a-zA-Z,/-]*", line)
    return [
        word for word in words if word not in {"host-", "caller-", "bound", "gaps", "imputed", "excluded", "fluidity"}
    ]


def test_the_report_command_reads_what_the_demo_left(demonstrated: tuple[str, Path]) -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("otel-itl report") and line.endswith(" traces.jsonl")]
    _, telemetry = demonstrated
    ran = [
        run([sys.executable, "-m", "otel_itl", *line.replace("traces.jsonl", str(telemetry)).split()[1:]])
        for line in commands
    ]
    assert [(one.returncode, one.stderr) for one in ran] == [(0, "")] * 3
    assert [shown in one.stdout for shown, one in zip(("smooth-1", "custom", "session agent-7"), ran, strict=True)] == [
        *(True, True, True),
    ]
