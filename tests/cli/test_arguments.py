"""Arguments that `otel-itl` refuses, and its help.

Run as a script, this renews the help in docs/cli.md.
"""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from otel_itl.cli import main
from otel_itl.tools.demo.sdks import SDKS
from otel_itl.tools.report.other_tools import TOOLS

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
HELP_BLOCK = re.compile(r"```\n(\$ otel-itl[^\n]*--help)\n(.*?)```", re.DOTALL)
IDS = ["otel-itl", "run", "doctor", "report", "sweep", "demo", "view", "alerts", "dashboards", "collector-config"]
COMMANDS: list[list[str]] = [[], *([name] for name in IDS[1:])]


def help_of(command: list[str]) -> str:
    """What `--help` prints."""
    with redirect_stdout(io.StringIO()) as printed:
        main([*command, "--help"])
    return printed.getvalue()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "otel-itl: name a command: run, doctor, report, compare, sweep, demo, view, alerts, dashboards or coll"),
        (
            ["demo", "--port", "99999"],
            "argument --port: '99999' is not a port: it takes a whole number from 0 to 65535",
        ),
        (["demo", "--port", "http"], "argument --port: 'http' is not a port: it takes a whole number from 0 to 65535"),
        (["demo", "--seconds", "-1"], "'-1' is not a number of seconds: it takes a number from 0 to 3600"),
        (["demo", "--seconds", "nan"], "'nan' is not a number of seconds: it takes a number from 0 to 3600"),
        (["demo", "--seed", "x"], "'x' is not a seed: it takes a whole number from 0 to 4294967295"),
        (["report"], "otel-itl report: the following arguments are required: FILE"),
        (
            ["report", "--xml", "f"],
            "otel-itl report: unrecognized arguments: --xml. Did you mean --html? (see otel-itl report --help)",
        ),
        (["report", "--jsno", "f"], "unrecognized arguments: --jsno. Did you mean --json? (see"),
        (["demo", "--foo"], "otel-itl demo: unrecognized arguments: --foo (see otel-itl demo --help)"),
        (["demo", "--secnds=3"], "otel-itl demo: unrecognized arguments: --secnds=3. Did you mean --seconds? (see"),
        (["demo", "fast"], "otel-itl demo: unrecognized arguments: fast (see otel-itl demo --help)"),
        (["--verion"], "otel-itl: unrecognized arguments: --verion. Did you mean --version? (see otel-itl --help)"),
        (
            ["report", "--session", "s", "--as", "vllm", "f"],
            "otel-itl report: --session has no figures of another tool: leave out --as vllm.",
        ),
        (
            ["report", "--slo", "500/50", "f"],
            "argument --slo: '500/50' is not an SLO: times are in seconds: did you mean 0.5/0.05? (see",
        ),
        (["report", "--slo", "chatt", "f"], "*=0.5/0.05. Did you mean chat? (see"),
        (
            ["report", "--as", "vlm", "f"],
            f"argument --as: 'vlm' is not a known tool: it takes {', '.join(TOOLS)}. Did you mean vllm? (see",
        ),
        (
            ["report", "--slo", "fast", "f"],
            "argument --slo: 'fast' is not an SLO: it takes chat, code, agent, or TTFT/ITL such as 0.5/0.05 (seconds)",
        ),
        (["report", "--slo", "off", "f"], "argument --slo: 'off' has no objective to judge by: it takes chat"),
        (["report", "--slo", "batch", "f"], "argument --slo: 'batch' has no objective to judge by: it takes chat"),
        (["report", "--slo", "0/0", "f"], "argument --slo: '0/0' is not an SLO: its TTFT '0' is no time above 0"),
        (
            ["report", "--slo", "fast", "f"],
            "with a TTFT above 0 and below 100 s, an ITL above 0 and below 5 s, a target between 0 and 1",
        ),
        (
            ["report", "--where", "tenant", "f"],
            "argument --where: 'tenant' is not a condition: it takes an attribute and",
        ),
        (["compare", "--margin", "-5%", "a", "b"], "argument --margin: '-5%' is not a margin: it takes a share"),
        (
            ["sweep", "http://localhost", "--model", ""],
            "argument --model: '' is not a model: it takes a name that the endpoint knows",
        ),
        (["demo", "--no-open"], "otel-itl demo: --no-open belongs to --view, which shows a page: add --view, or"),
        (["run", "--no-open", "app.py"], "otel-itl run: --no-open belongs to --view, which shows a page: add --view"),
        (
            ["demo", "--sdk", "openai,gorq"],
            f"argument --sdk: 'gorq' is not an SDK of the demo: it takes {', '.join(SDKS)}. Did you mean groq? (see",
        ),
        (["demo", "--sdk", ""], "argument --sdk: '' is not an SDK of the demo: it takes openai, anthropic"),
        (
            ["reprot", "f"],
            "view, alerts, dashboards or collector-config. Did you mean report?",
        ),
        (
            ["xyz"],
            "otel-itl: 'xyz' is not a command: it takes run, doctor, report, compare, sweep, demo, view, alerts,",
        ),
    ],
)
def test_a_bad_argument_is_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code = main(arguments)
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert sentence in printed.err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--version"]), capsys.readouterr().out.split()[0]) == (0, "otel-itl")


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_help_has_examples(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert (main([*command, "--help"]), "examples:\n  otel-itl " in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, help_of(command).splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_the_documented_help_is_the_help(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = " ".join(["$ otel-itl", *command, "--help"])
    documented = dict(HELP_BLOCK.findall(DOCS.read_text("utf-8")))
    assert help_of(command) == documented[shown], f"run `python {Path(__file__).relative_to(DOCS.parents[1])}`"


def renewed(page: str) -> str:
    """The page with the help as it is now."""
    return HELP_BLOCK.sub(lambda block: f"```\n{block[1]}\n{help_of(block[1].split()[2:-1])}```", page)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    DOCS.write_text(renewed(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
