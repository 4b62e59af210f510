"""The rules of `otel-itl alerts`, as Prometheus's own promtool takes them, and the dashboards."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

from otel_itl.cli import main

COLLECTOR = Path(__file__).parents[3] / "collector"
TESTS_OF_RULES = (COLLECTOR / "rules_test.yml").read_text(encoding="utf-8")

PROMTOOL = which("promtool") or ""
needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="promtool is not on this machine")


def rules_for(slo: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["alerts", "--slo", slo]) == 0
    return capsys.readouterr().out


def promtool(*arguments: str, folder: Path) -> str:
    """What is wrong, by promtool; empty: nothing is."""
    run = subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def test_the_rules_of_a_target_of_99_percent_are_those_of_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = rules_for("chat", capsys), (COLLECTOR / "rules.yml").read_text(encoding="utf-8")
    assert ours.partition("groups:")[2] == theirs.partition("groups:")[2]


@needs_promtool
@pytest.mark.parametrize("slo", ["chat", "0.5/0.05@0.995", "gpt-4o*=chat,*=2/", "/0.03@0.9999"])
def test_promtool_takes_the_rules(slo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.yml").write_text(rules_for(slo, capsys), encoding="utf-8")
    assert promtool("check", "rules", "rules.yml", folder=tmp_path) == ""


@needs_promtool
def test_half_of_what_may_miss_burns_twice_as_fast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.yml").write_text(rules_for("0.5/0.1@0.995", capsys))
    (tmp_path / "rules_test.yml").write_text(
        """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: itl_client_slo_tokens_total{itl_slo_met="true"}
        values: 0+990x90
      - series: itl_client_slo_tokens_total{itl_slo_met="false"}
        values: 0+10x90
    promql_expr_test:
      - expr: itl:slo:burn_rate5m
        eval_time: 1h
        exp_samples: [{labels: 'itl:slo:burn_rate5m{objective="itl"}', value: 2}]
""",
        encoding="utf-8",
    )
    assert promtool("test", "rules", "rules_test.yml", folder=tmp_path) == ""


TOO_LOOSE = (
    "a target of 0.9 lets 0.1 of all tokens miss, and the fastest alert is raised at 14.4 times that, which is more "
    "than all: name a target above 0.9306."
)
TWO_TARGETS = (
    "the objectives have the targets 0.99 and 0.999, and rules are for one: write a file for each, and keep the models "
    "apart in Prometheus."
)


@pytest.mark.parametrize(("slo", "sentence"), [("0.5/0.05@0.9", TOO_LOOSE), ("a=0.5/0.05@0.999,*=chat", TWO_TARGETS)])
def test_an_objective_without_an_alert_is_one_sentence(
    slo: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(["alerts", "--slo", slo]), capsys.readouterr().err) == (2, f"otel-itl alerts: {sentence}\n")


NO_TTFT = "its TTFT '-1' is no time above 0 and below 100 s, such as 0.5 or 50ms."
NO_OBJECTIVE = "it has no objective{}: name one, such as chat, 0.5/0.05 or 0.5/0.05@0.995."


@pytest.mark.parametrize(
    ("slo", "sentence"),
    [
        ("99%", "'99%' is a target alone: it follows TTFT/ITL, as in 0.5/0.05@0.99."),
        ("0,5/0,05", "numbers have a decimal point, not a comma: did you mean 0.5/0.05?"),
        ("", NO_OBJECTIVE.format("")),
        ("@1", NO_OBJECTIVE.format(" before @1")),
        ("@100", NO_OBJECTIVE.format(" before @100")),
        ("-1/0.05", NO_TTFT),
        ("0.5/x", "its ITL 'x' is no time above 0 and below 5 s, such as 0.5 or 50ms."),
        ("0.5/0.05@99%", "its target '99%' is no share between 0 and 1, such as 0.99."),
    ],
)
def test_what_is_wrong_with_an_objective_is_named(slo: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts", f"--slo={slo}"]) == 2
    assert f"argument --slo: {slo!r} is not an SLO: {sentence.rstrip('.')} (see " in capsys.readouterr().err


# --- Dashboards -----------------------------------------------------------------------------------------------------


def test_the_dashboards_are_those_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", str(tmp_path / "new" / "folder")]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    made = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in written}
    assert made == {path.name: json.loads(path.read_text()) for path in (COLLECTOR / "dashboards").glob("*.json")}


def test_writing_them_again_changes_nothing(tmp_path: Path) -> None:
    assert [main(["dashboards", str(tmp_path)]) for _ in range(2)] == [0, 0]


def test_a_dashboard_that_somebody_has_changed_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "fleet.json"
    changed.write_text("{}")
    assert main(["dashboards", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"otel-itl dashboards: {changed} is there already, and is another one: name another folder, or remove it.\n"
    )
    assert changed.read_text() == "{}"


@pytest.mark.parametrize("name", ["", " "])
def test_a_folder_without_a_name_is_one_sentence_and_nothing_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (main(["dashboards", name]), [*tmp_path.iterdir()]) == (2, [])
    expected = "otel-itl dashboards: the folder has no name: give one, or . for the current folder.\n"
    assert capsys.readouterr().err == expected


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dashboards", str(tmp_path / "file" / "folder")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
