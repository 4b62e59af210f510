"""`otel-itl compare`: sides, forms, exit codes, and bad input."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from otel_itl.cli import main
from otel_itl.core import conventions as names
from tests.tools.report.conftest import REQUESTED

Write = Callable[..., str]


@pytest.fixture
def slower(session_file: Write) -> list[str]:
    return [session_file("before", 20), session_file("after.", 40)]


def test_a_slower_side_is_named_first(
    slower: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code = main(["compare", *slower])
    printed = capsys.readouterr()
    first = printed.out.splitlines()[0]
    assert (code, first.startswith("B is slower in 4 of the 5 rows that decide: "), "of openai / gpt-4o" in first) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize(("sessions", "late"), [("abcdefgh", 0), ("abcdefgh", 150), ("a", 150)])
def test_the_same_file_on_both_sides_is_the_same(
    sessions: str, late: float, session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = session_file("one", 20, sessions=sessions, late=late)
    code = main(["compare", "--json", file, file])
    data = json.loads(capsys.readouterr().out)
    assert (code, data["answer"], {row["answer"] for row in data["rows"]}) == (
        0,
        "Both sides have the same streams.",
        {"same"},
    )


def test_every_column_is_whole_in_a_narrow_terminal(
    session_file: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["compare", session_file("one", 20, first=400, late=150), session_file("two", 20, first=400, late=190)])
    lines = capsys.readouterr().out.splitlines()
    assert (lines.count("openai / gpt-4o"), max(map(len, lines)) <= 80) == (2, True)
    heading = next(line for line in lines if "95 % interval" in line)
    row = next(number for number, line in enumerate(lines) if line.split()[:4] == ["TTFT", "p50,", "ms", "401"])
    assert heading.split() == ["A", "B", "B", "/", "A", "95", "%", "interval", "p", "answer"]
    assert " ".join(lines[row].split()) == "TTFT p50, ms 401 401 1.00 1.00 to 1.00 1.00 machine decides"
    assert lines[row + 1].split() == ["(-150)", "(-190)"]


def test_what_is_missing_for_the_same_reason_is_one_note(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", session_file("one", 20, sessions="a"), session_file("two", 20, sessions="b")])
    notes = " ".join(capsys.readouterr().out.partition("What is missing")[2].split())
    assert "7 rows, such as TTFT p50 of openai / gpt-4o: a single session or request has no spread." in notes


def test_streams_of_other_sessions_are_left_out_where_some_are_selected(
    slower: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", "--json", "--session", "* a", *slower])
    selected = json.loads(capsys.readouterr().out)
    main(["compare", "--json", *slower])
    whole = json.loads(capsys.readouterr().out)
    assert [side["clusters"] for data in (selected, whole) for side in (data["a"], data["b"])] == [1, 1, 8, 8]


def test_a_side_of_which_no_stream_is_selected_is_one_sentence(
    slower: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", "--model", "another", *slower])
    assert (code, capsys.readouterr().err.partition(slower[0])[2]) == (
        2,
        " that is selected by --model another: there is nothing to compare.\n",
    )


def test_json_has_the_answers(slower: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "--json", *slower])
    data = json.loads(capsys.readouterr().out)
    row = next(row for row in data["rows"] if row["quantity"] == "itl_p50")
    assert (data["schema"], data["exit_code"], row["answer"], row["interval"][0] > 1.05) == (
        "otel-itl.compare.v1",
        1,
        "slower",
        True,
    )


def test_markdown_is_a_table_for_a_pull_request(slower: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "--markdown", *slower])
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if line.startswith("| ITL p50, ms |")]
    assert (lines[0].startswith("**B is slower"), len(table), table[0].count("|")) == (True, 1, 8)


def test_one_file_is_split_by_an_attribute(
    session_file: Write, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [session_file("a", 20, version="1.0"), session_file("bb", 40, version="1.1")]
    both = write("".join(Path(part).read_text() for part in parts), name="both")
    code = main(["compare", "--by", "version", "--json", both])
    data = json.loads(capsys.readouterr().out)
    assert (code, data["a"]["name"], data["b"]["name"]) == (1, "1.0", "1.1")


def test_the_sides_of_an_attribute_are_chosen(session_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    files = [session_file("x" * (1 + number), 20 + number, version=f"{number}") for number in range(3)]
    main(["compare", "--by", "version=2,0", "--json", *files])
    data = json.loads(capsys.readouterr().out)
    assert (data["a"]["name"], data["b"]["name"]) == ("2", "0")


def test_one_file_is_split_by_time(session_file: Write, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    both = write(
        "".join(Path(part).read_text() for part in (session_file("a", 20), session_file("bb", 40))), name="both"
    )
    second = REQUESTED // 1_000_000_000
    main(["compare", "--before", str(second + 49), "--json", both])
    data = json.loads(capsys.readouterr().out)
    assert (data["a"]["streams"] + data["b"]["streams"], data["b"]["streams"] > 0) == (48, True)


def test_streams_that_their_machine_held_up_are_compared(
    made: Any, session_file: Write, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = made.spans(made.span(made.timeline(*[20] * 30), **{"itl.host.bound": True}))
    file = session_file("one", 20)
    both = write(Path(file).read_text(), bound, name="both")
    main(["compare", "--json", file, both])
    data = json.loads(capsys.readouterr().out)
    assert (data["a"]["streams"], data["b"]["streams"]) == (24, 25)


def test_a_side_says_how_many_streams_are_uncertain_and_why(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", session_file("one", 20), session_file("two", 20, late=50)])
    lines = capsys.readouterr().out.splitlines()
    assert "   TTFT: 24 of 24 known to 50 ms only: its loop or process was blocked" in lines


def test_the_callers_machine_decides_where_the_answer_depends_on_it(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [session_file("one", 20), session_file("two", 20, first=300, late=100)]
    code = main(["compare", "--json", "--fail-on", "ttft_p50", *sides])
    data = json.loads(capsys.readouterr().out)
    row = next(row for row in data["rows"] if row["quantity"] == "ttft_p50")
    assert (code, row["answer"], row["lowest"]["answer"], row["lowest"]["sides"]) == (
        3,
        "machine decides",
        "same",
        ["B"],
    )
    assert [row["b"]["value"], row["b"]["lowest"]] == pytest.approx([0.30115, 0.20115])
    assert data["answer"].startswith("The caller's machine decides whether B is slower: TTFT p50 of openai / gpt-4o is")


def test_a_side_that_is_slower_with_and_without_its_error_is_slower(
    session_file: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    sides = [session_file("one", 20), session_file("two", 20, first=460, late=50)]
    code = main(["compare", "--fail-on", "ttft_p50", *sides])
    printed = capsys.readouterr().out
    assert (code, printed.startswith("B is slower: TTFT p50"), "461 (-50)" in printed) == (1, True, True)


def test_stalls_of_the_caller_make_no_side_slower(session_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """B's event loop was blocked for three seconds in each stream, which says nothing of its upstream."""
    files = [session_file("one", 20), session_file("two", 20)]
    document = json.loads(Path(files[1]).read_text())
    cause = {
        names.STALL_CAUSE: {"stringValue": "event_loop"},
        names.STALL_DURATION: {"doubleValue": 3.0},
        names.STALL_PHASE: {"stringValue": "tokens"},
    }
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["attributes"].append({"key": names.STALL_COUNT, "value": {"intValue": "1"}})
        event = {"name": names.STALL_EVENT, "timeUnixNano": "1"}
        span["events"].append(event | {"attributes": [{"key": key, "value": value} for key, value in cause.items()]})
    Path(files[1]).write_text(json.dumps(document))
    main(["compare", "--json", *files])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert "stalls" not in {row["quantity"] for row in rows}


BAD = [
    (["FILE"], "name two files, A and B, or split one with --by, --before or --after: got 1."),
    (["--by", "service.version", "FILE"], "no stream has the attribute 'service.version', neither on its span nor"),
    (["--by", "service.name", "FILE"], "all streams have the same service.name: 'shop' (24 streams)."),
    (["--by", "session.id", "FILE"], "session.id has 8 values, 'one a' (3 streams)"),
    (["--by", "session.id=one a,x", "FILE"], "no stream has session.id='x'."),
    (["--by", "=1,2", "FILE"], "--by '=1,2' is not accepted: it takes an attribute, or ATTRIBUTE=A,B."),
    (["--by", "a", "--before", "1", "FILE"], "--by and --before or --after both split the input: leave one out."),
    (["--before", "2", "--after", "1", "FILE"], "--before is later than --after: a stream would be on both sides."),
    (["FILE", "missing"], "missing does not exist."),
    (["--slo", "x*=chat", "FILE", "FILE"], "--slo is for 'x*', which is no model of the input: it has gpt-4o."),
    (
        ["--html", "/nowhere/x.html", "FILE", "FILE"],
        "/nowhere/x.html cannot be written to (No such file",
    ),
    (["--a", "FILE"], "--a and --b name the files of both sides: give both, and no other files."),
    ([], "name two files, A and B, or --a FILE ... --b FILE ...: got none."),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input_gets_one_sentence(
    arguments: list[str], sentence: str, session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = session_file("one", 20)
    code = main(["compare", *(file if word == "FILE" else word for word in arguments)])
    printed = capsys.readouterr().err
    assert (code, printed.startswith(f"otel-itl compare: {sentence}"), printed.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--margin", "5", "'5' is not a margin: it takes a share such as 0.05, or 5%"),
        ("--fail-on", "itl_p90", "'itl_p90' is not a row: it takes ttft_p50,"),
        ("--before", "noon", "'noon' is not a time: it takes ISO 8601, such as 2026-11-01T12:00Z, or Unix seconds"),
    ],
)
def test_a_bad_option_gets_one_sentence(
    option: str, value: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", option, value, "a", "b"])
    assert (code, sentence in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_an_input_is_never_overwritten(
    option: str, session_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = session_file("one", 20)
    (tmp_path / "link").symlink_to(file)
    before = Path(file).read_text()
    code = main(["compare", option, str(tmp_path / "link"), file, file])
    assert (code, "is an input, and is left as it is" in capsys.readouterr().err) == (2, True)
    assert Path(file).read_text() == before


def test_a_side_without_streams_is_bad_input(
    session_file: Write, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write("{}", name="empty")
    code = main(["compare", session_file("one", 20), empty])
    said = capsys.readouterr().err.splitlines()[-1]
    assert (code, said) == (2, f"otel-itl compare: no usable stream in {empty}: there is nothing to compare.")


def test_without_numpy_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; from otel_itl.cli import main; sys.exit(main(['compare', 'a', 'b']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "otel-itl needs numpy for this: pip install 'otel-itl[tools]'\n",
    )


def test_models_that_were_asked_for_are_compared_to_each_other(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [session_file("a", 20), session_file("bb", 20, **{"gen_ai.request.model": "other"})]
    code = main(["compare", "--by", "gen_ai.request.model=gpt-4o,other", "--fail-on", "itl_p50", "--json", *files])
    data = json.loads(capsys.readouterr().out)
    assert (code, {row["model"] for row in data["rows"]}) == (0, {"openai / gpt-4o → openai / other"})


def test_files_without_a_common_model_say_so_and_are_never_fine(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [session_file("a", 20), session_file("bb", 20, **{"gen_ai.request.model": "other"})]
    code = main(["compare", "--fail-on", "itl_p50", "--json", *files])
    said = json.loads(capsys.readouterr().out)["answer"]
    expected = "The sides have no model in common: openai / gpt-4o of A is compared with openai / other of B."
    assert (code, said.endswith(expected)) == (3, True)


def test_a_model_that_one_side_lacks_is_said_and_never_fine(
    session_file: Write, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = session_file("a", 20), session_file("bb", 20, **{"gen_ai.request.model": "other"})
    both = write(Path(file).read_text(), Path(other).read_text(), name="both")
    code = main(["compare", "--fail-on", "itl_p50", "--json", file, both])
    said = json.loads(capsys.readouterr().out)["answer"]
    assert (code, said.endswith("Not all is compared: openai / other is in B alone.")) == (3, True)


def test_the_exit_code_survives_a_reader_that_goes(slower: list[str]) -> None:
    command = f"{sys.executable} -m otel_itl compare --json {' '.join(slower)} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_page_has_the_streams_of_both_sides(slower: list[str], tmp_path: Path) -> None:
    main(["compare", "--html", str(tmp_path / "out.html"), *slower])
    page = (tmp_path / "out.html").read_text()
    packed = page.partition('id="data">')[2].partition("<")[0]
    document = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert (document["sides"], Counter(stream["side"] for stream in document["streams"])) == (slower, {0: 24, 1: 24})


def test_junit_fails_for_the_rows_that_are_slower(slower: list[str], tmp_path: Path) -> None:
    main(["compare", "--junit", str(tmp_path / "out.xml"), "--fail-on", "itl_p50", *slower])
    cases = ET.fromstring((tmp_path / "out.xml").read_text()).findall(".//testcase")  # noqa: S314 - our own
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert (failed, len(cases) > 1) == (["ITL p50"], True)


def test_junit_is_red_where_a_model_is_missing(session_file: Write, tmp_path: Path) -> None:
    files = [session_file("a", 20), session_file("bb", 20, **{"gen_ai.request.model": "other"})]
    main(["compare", "--junit", str(tmp_path / "out.xml"), "--fail-on", "itl_p50", *files])
    errors = ET.fromstring((tmp_path / "out.xml").read_text()).findall(".//testcase[@classname='sides']/error")  # noqa: S314 - our own
    assert len(errors) == 1


def test_runs_are_compared_as_wholes(session_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [session_file(f"run {number}", 20 + number % 2) for number in range(6)]
    main(["compare", "--json", "--a", *runs[:3], "--b", *runs[3:]])
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert (row["a"]["clusters"], row["b"]["clusters"], row["a"]["samples"]) == (3, 3, 72)


def test_a_side_of_which_too_many_streams_are_set_aside_is_not_known(
    session_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", "--json", session_file("one", 20), session_file("two", 20, late=190)])
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert (row["quantity"], row["answer"], row["why"]) == (
        "ttft_p50",
        "machine decides",
        "side B: 24 of 24 set aside: its loop or process was blocked",
    )


@pytest.mark.parametrize("late", [0, 150])
def test_a_baseline_stands_for_the_file_that_it_was_made_of(
    late: float, session_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, baseline = [session_file("one", 20, late=late), session_file("two", 24)], str(tmp_path / "baseline.jsonl")
    saved = main(["compare", "--save-baseline", baseline, files[0]])
    found = []
    for a in (files[0], baseline):
        main(["compare", "--json", a, files[1]])
        found.append(json.loads(capsys.readouterr().out.replace(a, "A")))
    assert (saved, found[0]) == (0, found[1])


def test_the_baseline_of_two_sides_is_b(slower: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = str(tmp_path / "baseline.jsonl")
    main(["compare", "--save-baseline", baseline, *slower])
    capsys.readouterr()
    main(["compare", baseline, slower[1]])
    assert capsys.readouterr().out.startswith("Both sides have the same streams.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "x", "BASE", "FILE"], "BASE is a baseline, of which no streams are selected any more: select"),
        (["--html", "PAGE", "BASE", "FILE"], "BASE is a baseline, which a page cannot show: leave --html out."),
        (["--by", "version", "BASE"], "BASE is a baseline, which is a whole side: give it as A or as B."),
        (["OLD", "FILE"], "OLD is no baseline that this version reads: write it anew."),
    ],
)
def test_what_a_baseline_cannot_do_is_one_sentence(
    arguments: list[str],
    sentence: str,
    session_file: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = {name: str(tmp_path / name) for name in ("BASE", "OLD", "PAGE")} | {"FILE": session_file("one", 20)}
    Path(paths["OLD"]).write_text('{"otel-itl.baseline.v0": {}}\n{"a": 1}\n')
    main(["compare", "--save-baseline", paths["BASE"], paths["FILE"]])
    code = main(["compare", *(paths.get(word, word) for word in arguments)])
    said = capsys.readouterr().err
    for name, path in paths.items():
        said = said.replace(path, name)
    assert (code, said.startswith(f"otel-itl compare: {sentence}"), said.count("\n")) == (2, True, 1)
