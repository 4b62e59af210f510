"""The file of `otel-itl run`: begun anew or added to, where it is one of ours."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from otel_itl.tools.launch.command import CannotLaunchError
from otel_itl.tools.launch.output_file import OutputFile

LINE = '{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"otel_itl"}}]}]}\n'
"""A line of ours."""
OTHER = '{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"an application"}}]}]}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "otel-itl.jsonl"


def test_a_new_file_is_empty_and_its_owners_alone(path: Path) -> None:
    OutputFile(str(path)).begin(append=False)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("", 0o600)


@pytest.mark.parametrize("text", [LINE, OTHER + LINE, '{ "resourceLogs" : ["itl.stall.phase"]}\n'])
def test_the_file_of_an_earlier_run_is_kept_as_the_previous_one(path: Path, text: str) -> None:
    path.write_text(text)
    OutputFile(str(path)).begin(append=False)
    assert (path.read_text(), path.with_name("otel-itl.jsonl.previous").read_text()) == ("", text)


def test_an_empty_file_is_no_earlier_run(path: Path) -> None:
    path.touch()
    OutputFile(str(path)).begin(append=False)
    assert [file.name for file in path.parent.iterdir()] == ["otel-itl.jsonl"]


def test_the_file_of_an_earlier_run_is_put_back_where_nothing_was_written(path: Path) -> None:
    path.write_text(LINE)
    path.with_name("otel-itl.jsonl.1").write_text(LINE * 2)
    file = OutputFile(str(path))
    file.begin(append=False)
    file.finish()
    assert {file.name: file.read_text() for file in path.parent.iterdir()} == {
        "otel-itl.jsonl": LINE,
        "otel-itl.jsonl.1": LINE * 2,
    }


def test_a_file_that_another_run_writes_to_is_refused(path: Path) -> None:
    path.write_text(LINE)
    holding = (
        "import sys; from otel_itl.tools.launch.output_file import OutputFile\n"
        f"file = OutputFile({str(path)!r}); file.begin(append=True); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(CannotLaunchError, match="is being written by another run"):
            OutputFile(str(path)).begin(append=False)
        other.communicate()
    assert path.read_text() == LINE


@pytest.mark.parametrize("name", ["", "-"])
def test_what_is_no_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(CannotLaunchError, match=f"{name!r} is not the name of a file"):
        OutputFile(name).begin(append=False)


def test_a_file_is_added_to_where_that_is_asked_for(path: Path) -> None:
    path.write_text(LINE)
    OutputFile(str(path)).begin(append=True)
    assert path.read_text() == LINE


@pytest.mark.parametrize("text", ["a,b\n", '{"spans": []}', "\n", "{", "\x1f\x8b", OTHER, f"{LINE}# notes\n"])
@pytest.mark.parametrize("append", [False, True])
def test_another_file_is_refused_and_left_as_it_is(path: Path, text: str, append: bool) -> None:
    path.write_text(text)
    with pytest.raises(CannotLaunchError, match=r"holds something else than .*, and is left as it is"):
        OutputFile(str(path)).begin(append=append)
    assert path.read_text() == text


def test_a_link_is_refused(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(CannotLaunchError, match="is not a regular file"):
        OutputFile(str(path)).begin(append=False)


def test_the_file_of_an_earlier_run_that_others_may_read_is_restricted_to_its_owner(path: Path) -> None:
    for part in (path, path.with_name("otel-itl.jsonl.1")):
        part.write_text(LINE)
        part.chmod(0o666)
    OutputFile(str(path)).begin(append=False)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("otel-itl.jsonl", "otel-itl.jsonl.previous", "otel-itl.jsonl.previous.1"), 0o600)


def test_a_file_that_is_added_to_is_restricted_to_its_owner(path: Path) -> None:
    path.write_text(LINE)
    path.chmod(0o666)
    OutputFile(str(path)).begin(append=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(LINE)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(CannotLaunchError, match="it belongs to another user"):
        OutputFile(str(path)).begin(append=False)


def test_a_file_with_a_second_name_is_refused(path: Path) -> None:
    path.write_text(LINE)
    os.link(path, path.with_name("second"))
    with pytest.raises(CannotLaunchError, match="it has another name"):
        OutputFile(str(path)).begin(append=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this platform")
def test_a_pipe_or_a_link_in_the_place_of_a_rotated_file_is_not_read(path: Path) -> None:
    path.write_text(LINE)
    os.mkfifo(path.with_name("otel-itl.jsonl.1"))
    file = OutputFile(str(path))
    file.begin(append=False)
    assert file.parts == [path]


def test_rotated_files_of_an_earlier_run_are_set_aside_and_those_of_others_kept(path: Path) -> None:
    path.write_text(LINE)
    path.with_name("otel-itl.jsonl.1").write_text(LINE)
    path.with_name("otel-itl.jsonl.2").write_text("something else")
    OutputFile(str(path)).begin(append=False)
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "otel-itl.jsonl",
        "otel-itl.jsonl.2",
        "otel-itl.jsonl.previous",
        "otel-itl.jsonl.previous.1",
    ]


def test_the_parts_are_read_from_the_oldest_on(path: Path) -> None:
    for name in ("otel-itl.jsonl", "otel-itl.jsonl.1", "otel-itl.jsonl.2"):
        path.with_name(name).write_text(LINE)
    names = [part.name for part in OutputFile(str(path)).parts]
    assert names == ["otel-itl.jsonl.2", "otel-itl.jsonl.1", "otel-itl.jsonl"]


def test_the_parts_are_named_as_the_file_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    for name in ("otel-itl.jsonl", "otel-itl.jsonl.1"):
        path.with_name(name).write_text(LINE)
    assert OutputFile("./otel-itl.jsonl").part_names == ["./otel-itl.jsonl.1", "./otel-itl.jsonl"]


def test_an_empty_file_is_removed_at_the_end(path: Path) -> None:
    file = OutputFile(str(path))
    file.begin(append=False)
    file.finish()
    assert not path.exists()
