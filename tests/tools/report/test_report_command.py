"""`otel-itl report`: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_itl.cli import main


@pytest.fixture
def good(made: Any) -> dict[str, Any]:
    document: dict[str, Any] = made.spans(made.span(made.timeline(20, 512, 20)))
    return document


def run(*arguments: str, stdin: str = "", code: str = "from otel_itl.cli import main") -> Any:
    program = [sys.executable, "-c", f"{code}\nimport sys; sys.exit(main(sys.argv[1:]))", *arguments]
    return subprocess.run(program, input=stdin, capture_output=True, text=True, timeout=30, check=False)


def test_a_report_is_printed(write: Any, good: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", write(good)])
    printed = capsys.readouterr()
    assert (code, printed.err, "longest wait for a token: 512 ms, openai gpt-4o" in printed.out) == (0, "", True)


def test_json_is_printed(write: Any, good: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--json", write(good)])
    report = json.loads(capsys.readouterr().out)
    row = report["rows"][0]
    assert (code, report["schema"], row["inter_token_latency"]["max"]) == (0, "otel-itl.report.v1", 0.512)


def test_json_does_not_need_orjson(
    write: Any, good: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(good)
    main(["report", "--json", file])
    expected = json.loads(capsys.readouterr().out)
    monkeypatch.setitem(sys.modules, "orjson", None)
    main(["report", "--json", file])
    assert json.loads(capsys.readouterr().out) == expected


def test_another_tools_figures_are_printed(write: Any, good: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--as", "vllm", write(good)])
    printed = capsys.readouterr()
    assert (code, printed.err, "vllm 0.33.0" in printed.out) == (0, "", True)


def test_another_tools_figures_are_printed_as_json(write: Any, good: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--json", "--as", "vllm", write(good)])
    report = json.loads(capsys.readouterr().out)
    # Gaps of 20, 512 and 20 ms.
    assert (code, report["as"], report["rows"][0]["figures"]["mean_itl_ms"]) == (0, "vllm", 184)


def test_one_session_is_printed(made: Any, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spans = [made.span(made.timeline(20, 30), **{"session.id": session}) for session in ("agent-7", "chat-1")]
    code = main(["report", "--session", "agent-7", write(made.spans(*spans))])
    printed = capsys.readouterr()
    assert (code, printed.err, "session agent-7, 1 request" in printed.out, "chat-1" in printed.out) == (
        *(0, "", True, False),
    )


def test_one_session_is_printed_as_json(made: Any, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(made.spans(made.span(made.timeline(20, 30), **{"session.id": "agent-7"})))
    code = main(["report", "--json", "--session", "agent-7", file])
    session = json.loads(capsys.readouterr().out)["session"]
    assert (code, session["session"], session["requests"][0]["itl_p50"]) == (0, "agent-7", 0.025)


@pytest.mark.parametrize(("slo", "met"), [("500ms/50ms", True), ("0.5/0.02", False)])
def test_the_requests_of_a_session_are_judged_by_a_given_slo(
    slo: str, met: bool, made: Any, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(made.spans(made.span(made.timeline(20, 30), **{"session.id": "agent-7"})))
    main(["report", "--json", "--session", "agent-7", "--slo", slo, file])
    request = json.loads(capsys.readouterr().out)["session"]["requests"][0]
    main(["report", "--session", "agent-7", "--slo", slo, file])
    shown = [line.split()[-2:] for line in capsys.readouterr().out.splitlines() if line.endswith("completed")]
    assert (request["slo_met"], shown) == (met, [["met" if met else "missed", "completed"]])


def test_without_an_slo_the_requests_of_a_session_have_no_verdict(
    made: Any, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(made.spans(made.span(made.timeline(20, 30), **{"session.id": "agent-7"})))
    main(["report", "--session", "agent-7", file])
    assert "SLO" not in capsys.readouterr().out


def test_an_unknown_session_is_exit_code_2_and_one_sentence(
    made: Any, write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(made.spans(made.span(made.timeline(20), **{"session.id": "agent-7"})))
    code = main(["report", "--session", "agnt-7", file])
    printed = capsys.readouterr()
    sentence = "otel-itl report: there is no session 'agnt-7': did you mean 'agent-7'?\n"
    assert (code, printed.out, printed.err) == (2, "", sentence)


def test_streams_are_judged_by_a_given_slo(write: Any, good: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["report", "--json", "--slo", "0.5/0.05@0.9", write(good)])
    (slo,) = json.loads(capsys.readouterr().out)["slo"]
    # Gaps of 20, 512 and 20 ms.
    assert (code, slo["target"], slo["gaps"], slo["gaps_met"], slo["streams_met"]) == (0, 0.9, 3, 2, 0)


def test_standard_input_is_read(good: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(good).encode())))
    assert (main(["report", "-"]), "gpt-4o" in capsys.readouterr().out) == (0, True)


def test_a_pipe_is_read(good: Any) -> None:
    assert run("report", "-", stdin=json.dumps(good)).returncode == 0


def test_several_files_make_one_report(made: Any, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(made.spans(made.span(made.timeline(20, 30))), name=f"{number}.jsonl") for number in range(3)]
    main(["report", "--json", *files])
    assert json.loads(capsys.readouterr().out)["streams"] == 3


def test_broken_lines_are_described_on_standard_error(
    write: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("oops\n", good)
    code = main(["report", "--json", file])
    printed = capsys.readouterr()
    assert (code, json.loads(printed.out)["skipped_input"]["not_json"]) == (0, 1)
    assert printed.err.startswith(f"{file}:1: not JSON: ")


def test_characters_that_control_the_terminal_are_not_printed(
    made: Any, write: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    span = made.span(made.timeline(20, 30)) | {"spanId": "\x1b[2J", "events": [{"name": "itl.tokens"}]}
    main(["report", write(made.spans(span), good)])
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "{file} is empty."),
        (["oops\n"], "no usable stream: {file}:1: not JSON: it cannot be parsed from column 1 on."),
        (
            ['{"resourceSpans": []}\n'],
            "no usable stream in {file}: no span and no log record in it carries token events.",
        ),
        (
            ['{"resourceSp'],
            "no usable stream: {file}:1: half-written last line: it cannot be parsed from column 13 on.",
        ),
    ],
    ids=["empty", "not JSON", "no token events", "half-written"],
)
def test_a_file_without_a_stream_is_exit_code_2_and_one_sentence(
    write: Any, capsys: pytest.CaptureFixture[str], lines: list[str], sentence: str
) -> None:
    file = write(*lines)
    code = main(["report", file])
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err) == (2, "", f"otel-itl report: {sentence.format(file=file)}\n")


@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["report", "--explain"],
        ["report", "--html", "out"],
        ["report", "--perfetto", "out"],
        ["compare", "{file}"],
        ["sweep", "http://localhost:1", "--model", "m", "--from"],
    ],
    ids=" ".join,
)
def test_an_empty_file_has_one_exit_code_and_one_sentence(
    command: list[str], write: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write()
    code = main([*(word.format(file=file) for word in command), file])
    printed = capsys.readouterr()
    last = printed.err.splitlines()[-1]
    assert (code, printed.out, last.startswith(f"otel-itl {command[0]}: "), (tmp_path / "out").exists()) == (
        2,
        "",
        True,
        False,
    )


def test_an_slo_for_no_model_of_the_input_is_exit_code_2_and_one_sentence(
    write: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["report", "--slo", "llama*=chat", write(good)])
    expected = "otel-itl report: --slo is for 'llama*', which is no model of the input: it has gpt-4o.\n"
    assert (code, capsys.readouterr().err) == (2, expected)


def test_an_empty_file_beside_a_good_one_is_described(
    write: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write(name="empty.jsonl")
    code = main(["report", empty, write(good)])
    assert (code, capsys.readouterr().err) == (0, f"{empty}: empty\n")


def test_a_file_that_cannot_be_read_is_exit_code_2_and_one_sentence(
    tmp_path: Path, write: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["report", write(good), str(tmp_path / "nothing")])
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err) == (2, "", f"otel-itl report: {tmp_path / 'nothing'} does not exist.\n")


def test_without_rich_one_sentence_names_what_to_install(write: Any, good: Any) -> None:
    done = run("report", write(good), code="import sys; sys.modules['rich'] = None; from otel_itl.cli import main")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "otel-itl needs rich for this: pip install 'otel-itl[tools]'\n"


def test_without_rich_json_is_printed(write: Any, good: Any) -> None:
    code = "import sys; sys.modules['rich'] = None; from otel_itl.cli import main"
    assert run("report", "--json", write(good), code=code).returncode == 0


@pytest.mark.parametrize("models", [1, 3_000], ids=["that fits the pipe", "that does not"])
def test_a_reader_that_leaves_a_report_is_no_error(models: int, made: Any, write: Any) -> None:
    spans = [made.span(made.timeline(20, 30), model=f"model-{number}") for number in range(models)]
    file = write(made.spans(*spans))
    program = "import sys; from otel_itl.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, "report", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reporting:
        assert reporting.stdout is not None
        assert reporting.stderr is not None
        if models > 1:
            reporting.stdout.readline()
        reporting.stdout.close()
        assert (reporting.stderr.read(), reporting.wait(30)) == (b"", 0)


@pytest.mark.requirement("R61")
def test_the_command_loads_no_renderer_before_it_needs_one() -> None:
    done = run("--version", code="import sys; from otel_itl.cli import main as m; main = lambda a: print(*sys.modules)")
    loaded = {name.partition(".")[0] for name in done.stdout.split()} & {"rich", "orjson", "openai", "anthropic"}
    assert loaded == set()


def test_the_package_itself_runs(write: Any, good: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "otel_itl", "report", write(good)], capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0
