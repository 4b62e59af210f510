"""`otel-itl sweep`: a run against a real endpoint, consent, Ctrl-C, and bad input."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from otel_itl.cli import main
from otel_itl.cli.arguments import parse_arguments
from otel_itl.testing import ScriptedServer, chat
from otel_itl.tools.sweep import command as sweep
from otel_itl.tools.sweep.budget import Budget
from otel_itl.tools.sweep.from_arguments import make_endpoint, make_plan
from otel_itl.tools.sweep.render.consent import describe_demand
from tests.tools.report.conftest import made, write

__all__ = ["made", "write"]

LOCAL = ["http://127.0.0.1:9/v1", "--model", "m"]
ELSEWHERE = ["https://api.example.com/v1", "--model", "m"]


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str
    folder: Path


def start(url: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "otel_itl", "sweep", url, "--model", "m", "--peak", "2", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "OTEL_ITL_FILE": "off"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The base URL of a server that answers with ten tokens."""
    with ScriptedServer(chat.reply(10, first=0.05, gaps=0.01), process=True) as server:
        yield server.openai_url


def run(*arguments: str, folder: Path) -> Done:
    """Run a sweep in this process, which has the SDK and the statistics loaded."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(["sweep", *arguments])
    return Done(code, out.getvalue(), err.getvalue(), folder)


@pytest.fixture(scope="module")
def done(url: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A sweep of a server on this machine, with every output; of three tries, one without a round that is void."""
    load = ["--model", "m", "--peak", "2", "--levels", "1,2", "--rounds", "1", "--seconds", "1", "--slo", "2/0.5"]
    for _ in range(3):
        folder = tmp_path_factory.mktemp("sweep")
        outputs = ["--json", "--html", str(folder / "page.html"), "--output", str(folder / "streams.jsonl")]
        done = run(url, *load, *outputs, folder=folder)
        if all(level["void"] is None for level in json.loads(done.out)["levels"]):
            break
    return done


def test_a_real_sweep_answers_in_json(done: Done) -> None:
    data = json.loads(done.out)
    assert (data["schema"], data["exit_code"], done.code) == ("otel-itl.sweep.v1", done.code, done.code), done.err
    assert [level["level"] for level in data["levels"]] == [1.0, 2.0]


def test_a_real_sweep_measures_the_endpoint(done: Done) -> None:
    for level in json.loads(done.out)["levels"]:
        if level["is_driver_bound"]:  # on a machine too busy to drive it
            assert level["void"].startswith("this machine could not drive more")
        else:
            figures = {name: figure["value"] for name, figure in level["figures"].items()}
            assert (0.005 < figures["itl_p50"] < 0.05, figures["ttft_p50"] > 0.04) == (True, True), figures


def test_json_keeps_standard_error_quiet(done: Done) -> None:
    assert done.err == ""


def test_a_page_is_written(done: Done) -> None:
    assert (done.folder / "page.html").read_text().startswith("<!doctype html>")


def test_report_reads_the_streams(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--json", str(done.folder / "streams.jsonl")])
    assert (code, json.loads(capsys.readouterr().out)["streams"] >= json.loads(done.out)["requests"]) == (0, True)


def test_compare_splits_the_streams_by_level(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["compare", "--by", "itl.sweep.level=1,2", "--json", str(done.folder / "streams.jsonl")])
    printed = capsys.readouterr()
    levels = json.loads(done.out)["levels"]
    if all(level["void"] is None for level in levels):
        data = json.loads(printed.out)
        assert [data["a"]["streams"], data["b"]["streams"]] == [level["due"] for level in levels]
    else:  # on a machine too busy to drive a level: its streams count for nothing
        assert (code, "no stream" in printed.err) == (2, True)


def test_ctrl_c_ends_a_sweep_with_a_report(url: str, tmp_path: Path) -> None:
    process = start(url, tmp_path, "--levels", "1", "--seconds", "60")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("1x, round 1 of 3"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, "It ended before the last level: interrupted." in out) == (130, True), err


def test_an_endpoint_that_refuses_connections_gets_one_sentence(tmp_path: Path) -> None:
    ended = run(*LOCAL, "--peak", "2", "--json", folder=tmp_path)
    assert (ended.code, ended.err.startswith("otel-itl sweep: "), ended.err.count("\n")) == (2, True, 1)
    assert "requests failed at the expected peak" in ended.err


# --- Consent ---------------------------------------------------------------------------------------------------------


class Stdin:
    """A standard input that answers."""

    def __init__(self, answer: str, *, is_terminal: bool = True) -> None:
        self._answer, self._is_terminal = answer, is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def readline(self) -> str:
        return self._answer


def run_with_answer(monkeypatch: pytest.MonkeyPatch, stdin: Stdin, *arguments: str) -> tuple[int, bool]:
    """The exit code of a sweep of another host, and whether anything was sent."""
    sent = []

    def drive(*_: Any, **__: Any) -> Any:
        sent.append(True)
        raise sweep.CommandError("the test ends here.")

    monkeypatch.setattr(sweep, "_drive", drive)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    return main(["sweep", *ELSEWHERE, "--peak", "2", *arguments]), bool(sent)


@pytest.mark.parametrize(
    ("answer", "is_sent"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_another_host_is_swept_after_a_yes_only(monkeypatch: pytest.MonkeyPatch, answer: str, is_sent: bool) -> None:
    assert run_with_answer(monkeypatch, Stdin(answer)) == (2, is_sent)


def test_without_a_terminal_another_host_needs_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_with_answer(monkeypatch, Stdin("y\n", is_terminal=False))
    assert found == (2, False)
    sentence = "otel-itl sweep: api.example.com is not this machine: with --yes it is swept without a question.\n"
    assert capsys.readouterr().err == sentence


def test_yes_sweeps_another_host_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with_answer(monkeypatch, Stdin("", is_terminal=False), "--yes") == (2, True)


def test_this_machine_is_swept_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_ask_for_consent", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(sys.modules[__name__], "ELSEWHERE", LOCAL)
    assert run_with_answer(monkeypatch, Stdin("", is_terminal=False)) == (2, True)


def test_a_missing_key_is_reported_before_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sweep, "_ask_for_consent", lambda *_: pytest.fail("asked"))
    code = main(["sweep", *ELSEWHERE, "--peak", "2"])
    sentence = "otel-itl sweep: https://api.example.com/v1 needs an API key: set OPENAI_API_KEY.\n"
    assert (code, capsys.readouterr().err) == (2, sentence)


def demand(*arguments: str) -> list[str]:
    given = parse_arguments(["sweep", *ELSEWHERE, "--peak", "4", *arguments])
    endpoint = make_endpoint(given)
    return list(describe_demand(make_plan(given, endpoint), endpoint))


def test_the_question_has_what_the_endpoint_would_get_at_most() -> None:
    lines = demand("--levels", "1,2", "--max-requests", "100", "--max-cost", "5", "--prices", "in=1,out=2")
    assert (lines[3], "tokens at most" in lines[4], lines[5]) == (
        "  at most 100 requests",
        True,
        "  at most 5.00 by --prices",
    )


def test_the_question_has_what_is_planned() -> None:
    lines = demand("--levels", "1,2", "--rounds", "1", "--answer-tokens", "75", "--warm-up", "0", "--seconds", "16")
    assert lines[1:3] == [
        "  planned: 2 rounds, with up to 8 streams at a time",
        "  about 134 requests in 47 s, if one takes 2 s",
    ]


def test_the_question_about_one_round_of_one_stream_is_in_the_singular() -> None:
    assert demand("--peak", "1", "--levels", "1", "--rounds", "1")[1] == (
        "  planned: 1 round, with up to 1 stream at a time"
    )


def test_the_question_counts_tokens_as_the_brake_does() -> None:
    given = parse_arguments(["sweep", *ELSEWHERE, "--peak", "4", "--max-requests", "10"])
    plan = make_plan(given, make_endpoint(given))
    reserved = Budget(plan).reserve(plan.prompts(0))
    assert reserved is not None
    tokens = 10 * (reserved.input_tokens + reserved.output_tokens)
    assert f"  about {tokens:,} tokens at most" in demand("--max-requests", "10")


def test_another_host_gets_a_bounded_number_of_requests_by_default() -> None:
    assert demand()[3] == "  at most 5,000 requests"


# --- Arguments -------------------------------------------------------------------------------------------------------


BAD = [
    (["m"], "argument BASE_URL: 'm' is not a base URL: it takes one such as http://localhost:8000/v1"),
    (["http://h:x/v1", "--model", "m"], "'http://h:x/v1' is not a base URL"),
    (["http://h/v1"], "the following arguments are required: --model"),
    (["http://h/v1", "--modle", "m"], "unrecognized arguments: --modle. Did you mean --model?"),
    (["--modle=m", "http://h/v1"], "unrecognized arguments: --modle=m. Did you mean --model?"),
    ([*LOCAL], "name the expected peak with --peak, or recorded streams with --from."),
    ([*LOCAL, "--peak", "0"], "argument --peak: '0' is not a number of streams: it takes a number above 0, up to"),
    (
        [*LOCAL, "--levels", "1,1"],
        "'1,1' is not a list of levels: it takes different multiples of the peak, as 1,1.5,2",
    ),
    ([*LOCAL, "--levels", "1,x"], "'1,x' is not a list of levels"),
    (
        [*LOCAL, "--peak", "1e6"],
        "a peak of 1,000,000 is 5,000,000 streams at 5x: one process can hold at most 10,000; name a lower --peak",
    ),
    ([*LOCAL, "--rate", "fast"], "argument --rate: invalid choice: 'fast'"),
    ([*LOCAL, "--rate", "poisson", "--closed"], "argument --closed: not allowed with argument --rate"),
    ([*LOCAL, "--max-errors", "2"], "'2' is not a share of errors: it takes one such as 0.1, or 10%"),
    ([*LOCAL, "--peak", "1", "--max-cost", "5"], "--max-cost 5 needs --prices, as in=3,out=15."),
    ([*LOCAL, "--peak", "1", "--prices", "in=1"], "--prices 'in=1' is not accepted: it takes a price of a million"),
    (
        [*LOCAL, "--peak", "1", "--prices", "no.json"],
        "--prices 'no.json' is not accepted: it takes a price of a million",
    ),
    ([*LOCAL, "--peak", "1", "--prompts", "no.txt"], "--prompts no.txt cannot be read (No such file or directory)."),
    ([*LOCAL, "--peak", "1", "--prompts", "no_module:f"], "'no_module:f' cannot be loaded: ModuleNotFoundError"),
    (
        [*LOCAL, "--peak", "1", "--prompts", "x", "--prompt-tokens", "5"],
        "--prompts and --prompt-tokens both set the length of prompts: leave one out.",
    ),
    ([*LOCAL, "--peak", "1", "--slo", "x*=chat"], "--slo has no objective for the model 'm': name one, as *=chat."),
    (
        [*LOCAL, "--peak", "1", "--slo", "500/50"],
        "'500/50' is not an SLO: times are in seconds: did you mean 0.5/0.05?",
    ),
    ([*LOCAL, "--peak", "1", "--header", "secret"], "--header is not accepted: it takes a header in one line"),
    ([*LOCAL, "--peak", "1", "--extra-body", "[1]"], "--extra-body [1] is not accepted: it takes a JSON object"),
    ([*LOCAL, "--peak", "1", "--extra-body", '{"stream": 0}'], "--extra-body sets stream, which the sweep sets itself"),
    ([*LOCAL, "--from", "missing.jsonl"], "missing.jsonl does not exist."),
    ([*LOCAL, "--peak", "1", "--html", "/nowhere/x.html"], "/nowhere/x.html cannot be written to (No such file"),
]


@pytest.mark.parametrize("content", ["", "not OTLP\n", "{}\n"])
def test_a_file_without_requests_gets_a_sentence(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recorded.jsonl"
    file.write_text(content)
    code = main(["sweep", *LOCAL, "--from", str(file)])
    sentence = f"otel-itl sweep: no request is recorded in {file}."
    assert (code, capsys.readouterr().err.splitlines()[-1]) == (2, sentence)


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(arguments[-2:]) for arguments, _ in BAD])
def test_bad_input_gets_one_sentence(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "_drive", lambda *_, **__: pytest.fail("sent"))
    code = main(["sweep", *arguments])
    printed = capsys.readouterr().err
    assert (code, sentence in printed, printed.count("\n")) == (2, True, 1), printed


def plan_of(*arguments: str) -> Any:
    given = parse_arguments(["sweep", *LOCAL, *arguments])
    return make_plan(given, make_endpoint(given))


@pytest.mark.parametrize(
    ("arguments", "sdk"),
    [
        (["https://api.anthropic.com"], "anthropic"),
        (["https://api.openai.com/v1"], "openai"),
        (["http://localhost:8000/v1"], "openai"),
        (["https://notanthropic.com"], "openai"),
        (["http://localhost:8000", "--api", "anthropic"], "anthropic"),
    ],
)
def test_the_api_is_found_by_the_host(arguments: list[str], sdk: str) -> None:
    assert make_endpoint(parse_arguments(["sweep", *arguments, "--model", "m"])).sdk == sdk


def test_the_peak_and_the_lengths_are_those_of_recorded_streams(made: Any, write: Any) -> None:
    usage = {"gen_ai.usage.input_tokens": 300}
    file = write(made.spans(*(made.span(made.timeline(*[20] * 9), **usage) for _ in range(12))))
    plan = plan_of("--from", file)
    assert (plan.peak, plan.prompts(0).max_tokens, plan.arrivals, len(plan.inter_arrivals)) == (
        1.0,
        10,
        "recorded",
        11,
    )


def test_lengths_that_are_given_replace_recorded_ones(made: Any, write: Any) -> None:
    usage = {"gen_ai.usage.input_tokens": 300}
    file = write(made.spans(*(made.span(made.timeline(*[20] * 9), **usage) for _ in range(12))))
    plan = plan_of("--from", file, "--peak", "3", "--answer-tokens", "70")
    assert (plan.peak, plan.prompts(0).max_tokens) == (3.0, 70)


def test_a_file_of_prompts_is_asked_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("one\ntwo\n")
    plan = plan_of("--peak", "1", "--prompts", str(tmp_path / "prompts.txt"))
    assert [plan.prompts(number).messages[0]["content"] for number in range(3)] == ["one", "two", "one"]


def test_an_output_that_exists_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "streams.jsonl"
    file.write_text("mine")
    code = main(["sweep", *LOCAL, "--peak", "1", "--output", str(file)])
    assert (code, file.read_text(), "exists, and is left as it is" in capsys.readouterr().err) == (2, "mine", True)


def test_without_scipy_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None; from otel_itl.cli import main; "
        "sys.exit(main(['sweep', 'http://localhost', '--model', 'm']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (
        2,
        "otel-itl needs scipy for this: pip install 'otel-itl[cli,sweep]'\n",
    )
