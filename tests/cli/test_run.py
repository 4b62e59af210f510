"""`otel-itl run`: programs in processes of their own are measured, and do not notice."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_itl.cli import main

if TYPE_CHECKING:
    from conftest import Ended, Launch, Launched

pytest.importorskip("openai")
pytest.importorskip("rich")

STREAM = """
def stream(model="gpt-4o"):
    import openai
    client = openai.OpenAI(http_client=openai.DefaultHttpxClient(verify=False))
    asked = [{"role": "user", "content": "hello"}]
    for chunk in client.chat.completions.create(model=model, messages=asked, stream=True):
        pass
"""
SCRIPT = """
import sys
from streaming import stream

stream()
sys.stdout.buffer.write(repr(sys.argv[1:]).encode() + bytes([0, 255, 13, 10]) + sys.stdin.buffer.read())
sys.stderr.write("its own error output")
sys.exit(3)
"""
CHILDREN = """
import multiprocessing, subprocess, sys
from streaming import stream

if __name__ == "__main__":
    stream("parent")
    child = multiprocessing.get_context("spawn").Process(target=stream, args=("spawned",))
    child.start()
    child.join()
    subprocess.run([sys.executable, "-c", "from streaming import stream; stream('subprocess')"], check=True)
"""
ENVIRONMENT = """
import json, os, sys
import sitecustomize
print(json.dumps({"environ": dict(os.environ), "sitecustomize": sitecustomize.__file__}))
"""
OWN_OPTIONS = """
import otel_itl
from streaming import stream

otel_itl.instrument(slo="chat")
stream()
"""
FILES = {"streaming.py": STREAM, "app.py": SCRIPT}
EARLIER = '{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"otel_itl"},"spans":[{"name":"earlier"}]}]}]}\n'
ARGUMENTS = ("-o", "x", "--quiet", "-m", "--", "--help")


@pytest.fixture(scope="module")
def launched(launch: Launch) -> dict[str, Launched]:
    """Every program of this page, started at once."""
    quiet_file = {"streaming.py": STREAM, "app.py": SCRIPT}
    return {
        "script": launch("run", "app.py", *ARGUMENTS, files={**FILES, "otel-itl.jsonl": EARLIER}),
        "quiet": launch("run", "--quiet", "-o", "quiet.jsonl", "app.py", files=quiet_file),
        "children": launch(
            *("run", "--append", "-m", "work.children"),
            files={
                "otel-itl.jsonl": EARLIER,
                "streaming.py": STREAM,
                "work/__init__.py": "",
                "work/children.py": CHILDREN,
            },
        ),
        "sitecustomize": launch(
            *("run", "--quiet", "app.py"),
            files={"app.py": ENVIRONMENT, "theirs/sitecustomize.py": "import sys; sys.stderr.write('theirs ran')"},
            PYTHONPATH=f"{Path(__file__).parents[2]}{os.pathsep}{{folder}}/theirs",
            UNTOUCHED="1",
        ),
        "broken": launch(
            *("run", "sh", "-c", f'PYTHONPATH="$PYTHONPATH:$BROKEN" exec "{sys.executable}" app.py'),
            files={**FILES, "broken/wrapt.py": "raise RuntimeError('broken on purpose')"},
            BROKEN="{folder}/broken",
        ),
        "no stream": launch("run", "app.py", files={"app.py": "print('nothing')"}),
        "raises": launch("run", "app.py", files={"app.py": "import sys\nint('x')"}),
        "isolated": launch("run", sys.executable, "-I", "-c", "pass"),
        "options": launch("run", "app.py", files={"streaming.py": STREAM, "app.py": OWN_OPTIONS}),
    }


@pytest.fixture(scope="module")
def ended(launched: dict[str, Launched]) -> dict[str, Ended]:
    """How each of them ended."""
    return {name: process.end(b"its own input") for name, process in launched.items()}


def spans_in(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the spans of a telemetry file."""
    for line in file.read_text(encoding="utf-8").splitlines():
        for resource in json.loads(line).get("resourceSpans", ()):
            for scope in resource["scopeSpans"]:
                yield from scope["spans"]


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    return {attribute["key"]: next(iter(attribute["value"].values())) for attribute in span["attributes"]}


# --- The program does not notice --------------------------------------------------------------------------------------


def test_arguments_input_and_output_pass_through_byte_by_byte(ended: dict[str, Ended]) -> None:
    assert ended["script"].stdout == repr([*ARGUMENTS]).encode() + b"\x00\xff\r\nits own input"


def test_the_exit_code_passes_through(ended: dict[str, Ended]) -> None:
    assert [ended[name].exit_code for name in ("script", "quiet", "children")] == [3, 3, 0]


def test_the_environment_of_the_program_has_three_variables_more(
    ended: dict[str, Ended], launched: dict[str, Launched], plain_environ: dict[str, str]
) -> None:
    seen = json.loads(ended["sitecustomize"].stdout)["environ"]
    path = seen["PYTHONPATH"].split(os.pathsep)
    changed = {name for name, value in seen.items() if plain_environ.get(name) != value} - {"LC_CTYPE", "PWD", "_"}
    assert changed == {"PYTHONPATH", "OTEL_ITL_FILE", "_OTEL_ITL_NOTES", "UNTOUCHED"}
    assert seen["OTEL_ITL_FILE"] == str(launched["sitecustomize"].folder / "otel-itl.jsonl")
    assert (Path(path[0]).name, path[2:]) == ("startup", [str(launched["sitecustomize"].folder / "theirs")])


def test_an_existing_sitecustomize_runs_and_keeps_its_place(
    ended: dict[str, Ended], launched: dict[str, Launched]
) -> None:
    imported = json.loads(ended["sitecustomize"].stdout)["sitecustomize"]
    # Once in the command's own Python, and once in that of the program.
    expected = (str(launched["sitecustomize"].folder / "theirs" / "sitecustomize.py"), "theirs ran" * 2)
    assert (imported, ended["sitecustomize"].stderr) == expected


def test_a_failure_of_ours_does_not_keep_the_program_from_starting(ended: dict[str, Ended]) -> None:
    assert ended["broken"].exit_code == 3
    assert b"its own input" in ended["broken"].stdout
    assert "otel_itl cannot start in" in ended["broken"].stderr
    assert "(RuntimeError: broken on purpose)" in ended["broken"].stderr


def test_options_of_the_programs_own_instrument_call_count(
    ended: dict[str, Ended], launched: dict[str, Launched]
) -> None:
    (span,) = spans_in(launched["options"].folder / "otel-itl.jsonl")
    assert attributes_of(span)["itl.slo.profile"] == "chat"
    assert "instrument() was called before" not in ended["options"].stderr


# --- What is measured -------------------------------------------------------------------------------------------------


def test_the_report_follows_the_programs_error_output(ended: dict[str, Ended]) -> None:
    own, _, report = ended["script"].stderr.partition("its own error output")
    assert own == ""
    assert "inter-token latency" in report
    assert "gpt-4o" in report
    assert report.endswith(
        "\ntelemetry: otel-itl.jsonl (OTLP JSON lines); the same report: otel-itl report otel-itl.jsonl\n"
    )


def test_a_quiet_run_writes_the_file_and_prints_nothing(ended: dict[str, Ended], launched: dict[str, Launched]) -> None:
    names = [span["name"] for span in spans_in(launched["quiet"].folder / "quiet.jsonl")]
    assert (ended["quiet"].stderr, names) == ("its own error output", ["chat gpt-4o"])


def test_the_file_is_readable_by_its_owner_only(ended: dict[str, Ended], launched: dict[str, Launched]) -> None:
    assert ended["script"].exit_code == 3
    assert stat.S_IMODE((launched["script"].folder / "otel-itl.jsonl").stat().st_mode) == 0o600


def test_child_processes_are_measured(ended: dict[str, Ended], launched: dict[str, Launched]) -> None:
    names = {span["name"] for span in spans_in(launched["children"].folder / "otel-itl.jsonl")}
    assert (names - {"earlier"}, ended["children"].exit_code) == ({"chat parent", "chat spawned", "chat subprocess"}, 0)


def test_a_run_begins_a_new_file_unless_it_is_to_append(ended: dict[str, Ended], launched: dict[str, Launched]) -> None:
    begun, appended = (
        [span["name"] for span in spans_in(launched[name].folder / "otel-itl.jsonl")] for name in ("script", "children")
    )
    assert (ended["script"].exit_code, begun, appended[0]) == (3, ["chat gpt-4o"], "earlier")


# --- Where nothing is measured ----------------------------------------------------------------------------------------


def test_a_run_without_a_stream_is_one_sentence_with_a_remedy(ended: dict[str, Ended]) -> None:
    expected = (
        "otel-itl run: no stream was measured: no supported SDK was asked for a stream (stream=True), or the program "
        "names a file of its own, or it ended without cleaning up (os._exit, kill -9). To see why: otel-itl doctor "
        "app.py\n"
    )
    assert (ended["no stream"].stderr, ended["no stream"].stdout) == (expected, b"nothing\n")


def test_a_run_without_a_stream_leaves_no_file(ended: dict[str, Ended], launched: dict[str, Launched]) -> None:
    assert ended["no stream"].exit_code == 0
    assert not (launched["no stream"].folder / "otel-itl.jsonl").exists()


def test_an_exception_before_any_stream_is_the_reason_that_none_was_measured(
    ended: dict[str, Ended], launched: dict[str, Launched]
) -> None:
    where = launched["raises"].folder / "app.py"
    expected = (
        "otel-itl run: no stream was measured: the program has ended with exit code 1 by ValueError in "
        f"{where}, line 2. To see why: otel-itl doctor app.py"
    )
    assert ended["raises"].stderr.splitlines()[-1] == expected


def test_a_program_that_ignores_the_environment_is_named_as_a_reason(ended: dict[str, Ended]) -> None:
    assert "no Python process was started, or only with -I, -E or -S" in ended["isolated"].stderr


# --- Programs that cannot be started ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "name a program: app.py, -m module, or any command (see otel-itl run --help)."),
        (["-m"], 2, "argument -m: expected one argument"),
        (["missing.py"], 2, "missing.py does not exist."),
        (["no-such-command", "x"], 127, "there is no command 'no-such-command' on PATH."),
        (["./nowhere/tool"], 127, "./nowhere/tool does not exist."),
        (["data"], 127, "there is no command 'data' on PATH; the file of that name here is ./data."),
        (["./data"], 126, "./data is not executable: chmod +x ./data, or name the program that runs it."),
        (["./folder"], 126, "./folder is a directory: name a command, or a Python file in it."),
        (["./unknown"], 126, "./unknown cannot be executed: Exec format error."),
        (["--outptu", "x", "app.py"], 2, "unrecognized arguments: --outptu"),
        (
            ["-o", "data", "app.py"],
            2,
            "data exists, holds something else than the telemetry of earlier runs, and is",
        ),
        (
            ["--append", "-o", "data", "app.py"],
            2,
            "data exists, holds something else than the telemetry of earlier runs",
        ),
        (["-o", "-", "app.py"], 2, "'-' is not the name of a file: give --output one."),
        (["-m", "no_such_module.app"], 2, "there is no module 'no_such_module' in the environment of "),
        (["-o", "folder", "app.py"], 2, "folder is not a regular file: give --output a new name."),
        (["-o", "none/x.jsonl", "app.py"], 2, "none/x.jsonl cannot be written to (No such file or directory): give"),
    ],
)
def test_what_cannot_be_run_is_one_sentence_and_the_code_of_shells(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("a,b\n")
    (tmp_path / "app.py").write_text("")
    (tmp_path / "unknown").write_bytes(b"\x01\x02\x03")
    (tmp_path / "unknown").chmod(0o700)
    (tmp_path / "folder").mkdir()
    found = main(["run", *arguments])
    printed = capsys.readouterr()
    assert (found, printed.out, printed.err.count("\n")) == (code, "", 1)
    assert sentence in printed.err


def test_without_rich_one_sentence_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("otel_itl.cli.commands.find_spec", lambda _: None)
    (tmp_path / "app.py").write_text("")
    assert (main(["run", "app.py"]), capsys.readouterr().err) == (
        2,
        "otel-itl needs rich for this: pip install 'otel-itl[tools]'\n",
    )


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_standard_stream_changes_neither_exit_code_nor_output(
    closed: str, launch: Launch, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    to_output = ("2>", "1>&-") if closed == "stdout" else ("1>", "2>&-")
    command = f'"{sys.executable}" -m otel_itl run {to_output[0]}"{output}" {to_output[1]} app.py'
    ended = launch("run", "--quiet", "sh", "-c", command, files={"app.py": "import sys; sys.exit(3)"}).end()
    printed = output.read_text().replace(command, "")
    assert (ended.exit_code, "Traceback" in printed, closed == "stdout" or printed == "") == (3, False, True)
