"""The file of `otel-itl run`: begun anew or added to, where it is one of ours."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from otel_itl.cli.launch.command import CannotLaunchError
from otel_itl.cli.launch.output_file import OutputFile

LINE = '{"resourceSpans":[]}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "otel-itl.jsonl"


def test_a_new_file_is_empty_and_its_owners_alone(path: Path) -> None:
    OutputFile(str(path)).begin(append=False)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("", 0o600)


@pytest.mark.parametrize("line", [LINE, '{"resourceMetrics":[]}\n', '{ "resourceLogs" : []}\n', ""])
def test_the_file_of_an_earlier_run_is_replaced(path: Path, line: str) -> None:
    path.write_text(line)
    OutputFile(str(path)).begin(append=False)
    assert path.read_text() == ""


def test_a_file_is_added_to_where_that_is_asked_for(path: Path) -> None:
    path.write_text(LINE)
    OutputFile(str(path)).begin(append=True)
    assert path.read_text() == LINE


@pytest.mark.parametrize("text", ["a,b\n", '{"spans": []}', "\n", "{", "\x1f\x8b"])
@pytest.mark.parametrize("append", [False, True])
def test_another_file_is_refused_and_left_as_it_is(path: Path, text: str, append: bool) -> None:
    path.write_text(text)
    with pytest.raises(CannotLaunchError, match="holds something else than OTLP JSON lines, and is left as it is"):
        OutputFile(str(path)).begin(append=append)
    assert path.read_text() == text


def test_a_link_is_refused(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(CannotLaunchError, match="is not a regular file"):
        OutputFile(str(path)).begin(append=False)


def test_rotated_files_of_an_earlier_run_are_removed_and_those_of_others_kept(path: Path) -> None:
    path.write_text(LINE)
    path.with_name("otel-itl.jsonl.1").write_text(LINE)
    path.with_name("otel-itl.jsonl.2").write_text("something else")
    OutputFile(str(path)).begin(append=False)
    assert sorted(file.name for file in path.parent.iterdir()) == ["otel-itl.jsonl", "otel-itl.jsonl.2"]


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
    file.remove_if_empty()
    assert not path.exists()
