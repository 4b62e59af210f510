"""The telemetry file itself: whole lines of several processes, rotation by size, and nothing but a file of its own."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from otel_itl.core.file_path import find_obstacle
from otel_itl.export.file import telemetry_file
from otel_itl.export.file.telemetry_file import TelemetryFile

WRITER = """
import json, os, sys
from otel_itl.export.file.telemetry_file import TelemetryFile

path, name, count, max_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if name == "fork":
    name = "parent" if os.fork() else "child"
file = TelemetryFile(path, max_bytes=max_bytes, max_rotated=100)
for number in range(count):
    line = json.dumps({"writer": name, "number": number, "padding": "x" * (37 * number % 5_000)})
    file.append(line.encode() + b"\\n")
if name == "parent":
    os.wait()
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "otel-itl.jsonl"


def test_processes_that_fork_and_that_do_not_write_whole_lines_and_lose_none_when_they_rotate(path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "150", "100000"])
        for name in ("fork", "first", "second")
    ]
    assert [process.wait(timeout=50) for process in started] == [0, 0, 0]
    files = list(path.parent.iterdir())
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    expected = Counter((name, number) for name in ("parent", "child", "first", "second") for number in range(150))
    assert Counter((line["writer"], line["number"]) for line in lines) == expected
    assert (len(files) > 3, max(file.stat().st_size for file in files) <= 100_000) == (True, True)
    assert {mode(file) for file in files} == {0o600}


def test_the_file_is_readable_by_its_owner_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        TelemetryFile(str(path)).append(b"{}\n")
    finally:
        os.umask(before)
    assert mode(path) == 0o600


def test_the_oldest_of_the_rotated_files_is_replaced(path: Path) -> None:
    file = TelemetryFile(str(path), max_bytes=4, max_rotated=2)
    for line in (b"1\n", b"2\n", b"3\n", b"4\n", b"5\n", b"6\n", b"7\n"):
        file.append(line)
    assert {name.name: name.read_text() for name in path.parent.iterdir()} == {
        "otel-itl.jsonl": "7\n",
        "otel-itl.jsonl.1": "5\n6\n",
        "otel-itl.jsonl.2": "3\n4\n",
    }


def test_a_line_that_is_larger_than_a_file_may_be_is_written_all_the_same(path: Path) -> None:
    TelemetryFile(str(path), max_bytes=4).append(b"0123456789\n")
    assert path.read_text() == "0123456789\n"


def test_a_file_that_cannot_be_renamed_grows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    file = TelemetryFile(str(path), max_bytes=4)
    for line in (b"123\n", b"456\n"):
        file.append(line)
    assert path.read_text() == "123\n456\n"


def test_a_file_that_was_moved_away_is_made_again(path: Path) -> None:
    file = TelemetryFile(str(path))
    file.append(b"1\n")
    path.rename(path.with_suffix(".old"))
    file.append(b"2\n")
    assert path.read_text() == "2\n"


def test_a_line_that_a_killed_process_left_half_written_takes_no_other_with_it(path: Path) -> None:
    path.write_text('{"half":')
    TelemetryFile(str(path)).append(b"{}\n")
    assert path.read_text() == '{"half":\n{}\n'


def test_a_write_that_fails_midway_leaves_no_half_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("1\n")
    write = os.write

    def fill_the_disk(descriptor: int, data: memoryview) -> int:
        if len(data) < 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:4])

    monkeypatch.setattr(os, "write", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        TelemetryFile(str(path)).append(b"12345678\n")
    assert path.read_text() == "1\n"


def test_a_symbolic_link_in_place_of_the_file_is_not_followed(path: Path) -> None:
    target = path.with_name("target")
    target.touch()
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        TelemetryFile(str(path)).append(b"{}\n")
    assert target.read_text() == ""


def test_a_named_pipe_in_place_of_the_file_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        TelemetryFile(str(path)).append(b"{}\n")


def test_a_lock_that_is_never_released_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_file, "MAX_LOCK_WAIT", 0.05)
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="keeps the file locked"):
            TelemetryFile(str(path)).append(b"{}\n")


def test_on_a_file_system_without_locks_lines_are_appended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    TelemetryFile(str(path)).append(b"{}\n")
    assert path.read_text() == "{}\n"


# --- What may be named as the file ---------------------------------------------------------------------------------


def test_a_file_that_exists_and_one_that_is_still_to_be_made_have_no_obstacle(path: Path) -> None:
    path.touch()
    assert (find_obstacle(path), find_obstacle(path.with_name("new"))) == (None, None)


def test_every_obstacle_is_named(path: Path) -> None:
    path.symlink_to(path.parent)
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    found = [find_obstacle(each) for each in (path.parent, path, pipe, path.parent / "none" / "x", Path("a\0b"))]
    assert found == [
        "it is a directory",
        "it is a symbolic link",
        "it is no regular file",
        f"there is no directory {str(path.parent / 'none')!r}",
        "it holds a null character",
    ]


def test_what_may_not_be_written_is_an_obstacle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may write everywhere
    found = [find_obstacle(path), find_obstacle(path.with_name("new"))]
    assert found == ["it may not be written", f"the directory {str(path.parent)!r} may not be written"]
