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

from otel_itl.core import private_file
from otel_itl.core.file_path import find_obstacle, resolve_file_path
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


# --- A file that is not its owner's alone ----------------------------------------------------------------------------


@pytest.fixture
def of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists, and that another user has made."""
    path.write_text("{}\n")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    return path


@pytest.mark.parametrize("given", [0o666, 0o644, 0o640, 0o622, 0o777])
def test_a_file_that_others_may_read_or_write_is_restricted_to_its_owner(path: Path, given: int) -> None:
    path.touch()
    path.chmod(given)
    TelemetryFile(str(path)).append(b"{}\n")
    assert (mode(path), path.read_text()) == (given & 0o700, "{}\n")


def test_rotated_files_that_others_may_read_are_restricted_as_well(path: Path) -> None:
    file = TelemetryFile(str(path), max_bytes=4)
    for number in (1, 2):
        rotated = path.with_name(f"{path.name}.{number}")
        rotated.write_text("older\n")
        rotated.chmod(0o666)
    for line in (b"1\n", b"2\n", b"3\n"):
        file.append(line)
    assert {name.name: mode(name) for name in path.parent.iterdir()} == {
        "otel-itl.jsonl": 0o600,
        "otel-itl.jsonl.1": 0o600,
        "otel-itl.jsonl.2": 0o600,
        "otel-itl.jsonl.3": 0o600,
    }


def test_a_file_of_another_user_is_refused(of_another_user: Path) -> None:
    with pytest.raises(PermissionError, match="it belongs to another user"):
        TelemetryFile(str(of_another_user)).append(b"{}\n")
    assert (find_obstacle(of_another_user), of_another_user.read_text()) == ("it belongs to another user", "{}\n")


def test_a_file_with_a_second_name_is_refused(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_text("ssh-rsa AAAA\n")
    elsewhere.chmod(0o644)
    os.link(elsewhere, path)
    with pytest.raises(PermissionError, match="it has another name"):
        TelemetryFile(str(path)).append(b"{}\n")
    assert (elsewhere.read_text(), mode(elsewhere)) == ("ssh-rsa AAAA\n", 0o644)


def test_permissions_that_cannot_be_changed_are_a_reason_to_refuse(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path.touch()
    path.chmod(0o644)
    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError, match="others have access to it, and its permissions cannot be changed"):
        TelemetryFile(str(path)).append(b"{}\n")
    assert path.read_text() == ""


def test_a_file_system_without_permissions_of_its_own_is_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    path.chmod(0o644)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    TelemetryFile(str(path)).append(b"{}\n")
    assert path.read_text() == "{}\n"


def test_a_refused_file_leaves_no_descriptor_open(of_another_user: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("this system does not list the open descriptors of a process")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        with pytest.raises(PermissionError):
            TelemetryFile(str(of_another_user)).append(b"{}\n")
    assert len(list(folder.iterdir())) == before


def test_a_link_is_refused_where_the_system_cannot_open_without_following(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = path.with_name("target")
    target.touch()
    path.symlink_to(target)
    monkeypatch.delattr(os, "O_NOFOLLOW")
    monkeypatch.setattr(private_file, "_FLAGS", 0)
    with pytest.raises(PermissionError, match="it is a symbolic link"):
        TelemetryFile(str(path)).append(b"{}\n")
    assert target.read_text() == ""


def test_a_file_that_is_always_replaced_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_file, "MAX_LOCK_WAIT", 0.05)
    monkeypatch.setattr(TelemetryFile, "_is_current", lambda *_: False)
    with pytest.raises(TimeoutError, match="it is replaced again and again"):
        TelemetryFile(str(path)).append(b"{}\n")


def test_the_permissions_of_a_file_that_holds_something_else_are_left_alone(path: Path) -> None:
    path.write_text("import os\n")
    path.chmod(0o644)
    assert (find_obstacle(path), mode(path)) == ("it holds something else than OTLP JSON lines", 0o644)


def test_a_named_pipe_that_takes_the_place_of_the_file_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    was_regular = path.lstat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(type(path), "lstat", lambda *_: was_regular)
    assert find_obstacle(path) == "it cannot be read: it is no regular file"


def test_a_url_is_no_file_and_no_part_of_it_is_in_the_reason() -> None:
    with pytest.raises(ValueError, match=r"^it is a URL$"):
        resolve_file_path("https://user:secret@example.com/v1/traces")
