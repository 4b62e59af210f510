"""`otel-itl demo`, end to end, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(170)  # a demo takes 6 s on an idle machine, and may starve beside others

MODELS = (
    *("smooth-1", "bursty-1", "reasoning-1", "cut-off-1", "smooth-2"),
    *("slow-start-1", "stalling-1", "degrading-1", "agent-1", "left-early-1"),
    *("smooth-3", "thinking-1", "smooth-4", "throttled-1"),
)


def environment(**more: str) -> dict[str, str]:
    """This process's, without what somebody exports for telemetry or terminals of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "FORCE_", "NO_COLOR"))}
    return {**kept, "COLUMNS": "100", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "otel_itl", *arguments]


def run(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def done(place: Path) -> subprocess.CompletedProcess[str]:
    return run("demo", "--seconds", "2", "--seed", "1", "--output", "out.jsonl", cwd=place)


@pytest.fixture(scope="module")
def report(done: subprocess.CompletedProcess[str], place: Path) -> Any:
    assert done.returncode == 0
    return json.loads(run("report", "--json", "out.jsonl", cwd=place).stdout)


@pytest.mark.slow
def test_the_demo_succeeds_and_prints_nothing_on_standard_error(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_output_that_is_no_terminal_is_plain(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_the_report_on_the_file_is_the_one_that_the_demo_showed(
    done: subprocess.CompletedProcess[str], place: Path
) -> None:
    again = run("report", "out.jsonl", cwd=place)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout in done.stdout


@pytest.mark.slow
def test_every_model_was_measured(report: Any) -> None:
    assert {row["model"] for row in report["rows"]} == set(MODELS)


@pytest.mark.slow
def test_streams_end_as_their_model_is_called(report: Any) -> None:
    ends = {row["model"]: set(row["outcomes"]) for row in report["rows"]}
    expected = {model: {"completed"} for model in MODELS}
    assert ends == expected | {"cut-off-1": {"error"}, "throttled-1": {"error"}, "left-early-1": {"closed"}}


@pytest.mark.slow
def test_nothing_in_the_file_is_skipped(report: Any) -> None:
    assert set(report["skipped_input"].values()) == {0}


@pytest.mark.slow
def test_the_worst_stream_stalled(report: Any) -> None:
    worst = report["worst"]
    gap = worst["gap"] or {"start": 0, "end": worst["longest_latency"]}  # null: it is not known where it began
    assert (worst["model"], gap["end"] - gap["start"]) == ("stalling-1", pytest.approx(worst["longest_latency"]))


@pytest.mark.slow
def test_a_stall_is_printed_while_it_lasts(done: subprocess.CompletedProcess[str]) -> None:
    sentence = r"^stalled now: anthropic stalling-1, no token for [\d.]+ m?s so far, decode, "
    assert re.search(sentence, done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_stalls_are_reported_as_the_upstreams(report: Any) -> None:
    stalls = {row["model"]: row["stalls"] for row in report["rows"]}
    assert ("decode", "upstream") in {(stall["phase"], stall["cause"]) for stall in stalls["stalling-1"]}


@pytest.mark.slow
def test_streams_are_held_against_objectives(report: Any) -> None:
    assert {slo["profile"] for slo in report["slo"]} == {"agent", "chat"}


@pytest.mark.slow
def test_sessions_are_reported(report: Any) -> None:
    assert {session["session"] for session in report["sessions"]} == {"agent-7", "chat-1", "chat-2"}


@pytest.mark.slow
def test_the_last_line_compares_with_the_scripted_truth(done: subprocess.CompletedProcess[str]) -> None:
    sentence = r"scripted truth: TTFT within [\d.,]+ m?s, p99 ITL within [\d.,]+ m?s \(\d+ smooth streams?\)"
    assert re.fullmatch(sentence, done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_demo_prints_where_the_telemetry_is_and_how_to_read_it(done: subprocess.CompletedProcess[str]) -> None:
    assert "telemetry: out.jsonl " in done.stdout
    assert "\nthe same report again: otel-itl report out.jsonl\n" in done.stdout


@pytest.mark.slow
def test_traces_metrics_and_logs_are_in_the_file(done: subprocess.CompletedProcess[str], place: Path) -> None:
    assert done.returncode == 0
    signals = {next(iter(json.loads(line))) for line in (place / "out.jsonl").read_text("utf-8").splitlines()}
    assert signals == {"resourceSpans", "resourceMetrics", "resourceLogs"}


@pytest.mark.slow
def test_the_file_is_for_its_owner_alone(done: subprocess.CompletedProcess[str], place: Path) -> None:
    assert done.returncode == 0
    assert stat.S_IMODE((place / "out.jsonl").stat().st_mode) == 0o600


@pytest.mark.slow
def test_quiet_is_the_report_and_nothing_else(tmp_path: Path) -> None:
    shown = run("demo", "--seconds", "0", "--quiet", cwd=tmp_path).stdout
    assert shown == run("report", "otel-itl-demo.jsonl", cwd=tmp_path).stdout


@pytest.mark.slow
def test_without_a_name_an_existing_file_is_kept_and_the_next_gets_a_number(tmp_path: Path) -> None:
    earlier = tmp_path / "otel-itl-demo.jsonl"
    earlier.write_text("kept\n")
    done = run("demo", "--seconds", "0", cwd=tmp_path)
    assert (earlier.read_text(), "report otel-itl-demo-2.jsonl" in done.stdout) == ("kept\n", True)


@pytest.mark.slow
def test_telemetry_goes_where_the_environment_directs_it(tmp_path: Path) -> None:
    exporters = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("METRICS", "LOGS")}
    env = {**exporters, "OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    done = run("demo", "--seconds", "0", cwd=tmp_path, env=env)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])
    assert '"gen_ai.request.model": "stalling-1"' in done.stdout
    assert (
        "telemetry: exported as configured by OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER, OTEL_LOGS_EXPORTER\n"
        in done.stdout
    )
    assert re.search(r"^  stalling-1 .* 1 completed$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_a_named_output_wins_over_the_environment(tmp_path: Path) -> None:
    env = {"OTEL_TRACES_EXPORTER": "console"}
    done = run("demo", "--seconds", "0", "--output", "here.jsonl", "--quiet", cwd=tmp_path, env=env)
    assert ('"name"' in done.stdout, (tmp_path / "here.jsonl").exists()) == (False, True)


@pytest.mark.slow
def test_ctrl_c_ends_with_what_was_measured_so_far(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("demo", "--seconds", "60"),
        cwd=tmp_path,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        # The first spans are written when their batch is due, five seconds after the start at the latest.
        deadline = time.monotonic() + 30
        file = tmp_path / "otel-itl-demo.jsonl"
        while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, err) == (130, "")
    assert "interrupted: what was measured so far" in out
    assert re.search(r"^  smooth-1 .*\b1 closed\b", out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "env"), [(0, {}), (8, {"FORCE_COLOR": "1"})], ids=["at once", "in colours"])
def test_a_reader_that_leaves_is_no_error(lines: int, env: Mapping[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(
        command("demo", "--seconds", "0"),
        cwd=tmp_path,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for _ in range(lines):
            running.stdout.readline()
        running.stdout.close()
        assert (running.stderr.read(), running.wait(40)) == ("", 0)


@pytest.mark.slow
def test_a_stall_reaches_a_pipe_while_it_lasts(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("demo", "--seconds", "0"), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        found = any(line.startswith("stalled now: anthropic stalling-1, ") for line in running.stdout)
        assert (running.poll(), found) == (None, True)
        running.stdout.read()


def test_a_port_in_use_is_exit_code_2_and_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("demo", "--port", str(port), cwd=tmp_path)
    sentence = f"otel-itl demo: port {port} is in use: give --port another one, or 0 for any that is free.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_named_output_that_exists_is_exit_code_2_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("kept\n")
    done = run("demo", "--output", "mine.jsonl", cwd=tmp_path)
    sentence = "otel-itl demo: mine.jsonl exists and is left as it is: give --output a new name.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
    assert (tmp_path / "mine.jsonl").read_text() == "kept\n"


def test_an_output_that_cannot_be_made_is_exit_code_2_and_one_sentence(tmp_path: Path) -> None:
    done = run("demo", "--output", "no/such/folder.jsonl", cwd=tmp_path)
    sentence = (
        "otel-itl demo: no/such/folder.jsonl cannot be written to (No such file or directory): give --output a place.\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.slow
def test_measuring_that_is_switched_off_is_one_sentence(tmp_path: Path) -> None:
    done = run("demo", "--seconds", "0", cwd=tmp_path, env={"OTEL_SDK_DISABLED": "true"})
    sentence = "otel-itl demo: no stream was measured: OTEL_* variables switch it off.\n"
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (1, sentence, [])


@pytest.mark.slow
def test_streams_without_token_events_are_counted_in_one_sentence(tmp_path: Path) -> None:
    done = run("demo", "--seconds", "0", cwd=tmp_path, env={"OTEL_ITL_TOKEN_EVENTS": "none"})
    sentence = "otel-itl demo: no stream was measured: 14 streams are without token events.\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.slow
def test_the_recording_split_in_two_has_an_answer(tmp_path: Path) -> None:
    # Two scripted models, one token every 15.6 ms and one every 24.4: whatever this machine adds, that is slower.
    run("demo", "--seconds", "10", "--sdk", "anthropic,google-genai", "--output", "out.jsonl", "--quiet", cwd=tmp_path)
    done = run("compare", "--json", "--by", "gen_ai.request.model=smooth-2,smooth-3", "out.jsonl", cwd=tmp_path)
    data = json.loads(done.stdout)
    assert (done.returncode, data["answer"].startswith("B is slower in "), data["a"]["streams"] > 0) == (1, True, True)
