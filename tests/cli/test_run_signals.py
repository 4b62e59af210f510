"""Signals under `otel-itl run`: the program gets each of them once, and its end is the end of the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Launch, Launched

pytest.importorskip("rich")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to forward")

COUNTING = """
import os, signal, sys, time

def count(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())  # print() must not interrupt itself
    if number == signal.SIGTERM:
        sys.exit(7)

for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"):
    signal.signal(getattr(signal, name), count)
print("ready", flush=True)
until = time.monotonic() + 40
while time.monotonic() < until:
    time.sleep(0.05)
"""
SLEEPING = """
import time
print("ready", flush=True)
for _ in range(800):
    time.sleep(0.05)  # a signal that comes just before a sleep begins does not end it
"""
OUTPUT = ("run", "--quiet", "app.py")


def wait_until_ready(launched: Launched) -> None:
    """Wait for the first line of the program."""
    assert read_line(launched.process.stdout) == "ready"


def read_line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().strip()


def test_signals_to_the_command_are_forwarded_once_and_the_exit_code_is_the_programs(launch: Launch) -> None:
    running = launch(*OUTPUT, files={"app.py": COUNTING})
    wait_until_ready(running)
    lines = []
    for name in ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTERM"):
        running.process.send_signal(getattr(signal, name))
        lines.append(read_line(running.process.stdout))
    ended = running.end()
    assert lines == ["got SIGINT", "got SIGHUP", "got SIGUSR1", "got SIGUSR2", "got SIGWINCH", "got SIGTERM"]
    assert (ended.exit_code, ended.stdout, ended.stderr) == (7, b"", "")


@pytest.fixture
def in_a_group(plain_environ: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The counting program under the command, in a process group of their own; it is ready."""
    (tmp_path / "app.py").write_text(COUNTING.replace("signal.SIGTERM:", "signal.SIGUSR2:"))
    process = subprocess.Popen(
        [sys.executable, "-m", "otel_itl", *OUTPUT],
        cwd=tmp_path,
        env=plain_environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_signal_to_the_whole_process_group_reaches_the_program_once(in_a_group: subprocess.Popen[str]) -> None:
    expected = []
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGWINCH"):
        os.killpg(in_a_group.pid, getattr(signal, name))
        time.sleep(0.3)  # a second one would have arrived by then
        in_a_group.send_signal(getattr(signal, name))  # is forwarded: what the group got before is forgotten
        time.sleep(0.3)
        expected += [f"got {name}"] * 2
    os.killpg(in_a_group.pid, signal.SIGKILL)
    assert in_a_group.communicate(timeout=50)[0].splitlines() == expected


def test_signals_to_the_group_in_quick_succession_leave_nothing_that_keeps_a_later_one_back(
    in_a_group: subprocess.Popen[str],
) -> None:
    assert in_a_group.stdout is not None
    for _ in range(50):
        os.killpg(in_a_group.pid, signal.SIGUSR1)
    lines = [in_a_group.stdout.readline().rstrip()]  # else the first ones and the later one may be one
    time.sleep(0.5)
    in_a_group.send_signal(signal.SIGUSR1)
    time.sleep(0.3)
    in_a_group.send_signal(signal.SIGHUP)
    while "got SIGHUP" not in lines or lines.count("got SIGUSR1") < 2:  # one that is kept back never comes
        lines.append(in_a_group.stdout.readline().rstrip())
    os.killpg(in_a_group.pid, signal.SIGKILL)
    in_a_group.communicate(timeout=50)
    assert lines.count("got SIGUSR1") in range(2, 52)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_of_the_group_outlives_the_command(in_a_group: subprocess.Popen[str], end: signal.Signals) -> None:
    children = Path(f"/proc/{in_a_group.pid}/task/{in_a_group.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    started = [int(pid) for pid in children.read_text().split()]
    os.kill(started[-1], signal.SIGKILL)  # the program: the other one is the witness
    if end == signal.SIGKILL:
        os.kill(in_a_group.pid, end)
    in_a_group.wait(50)
    until = time.monotonic() + 50
    while any(
        Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text() for pid in started
    ):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert len(started) == 2


def test_a_witness_that_was_killed_keeps_no_signal_back(in_a_group: subprocess.Popen[str]) -> None:
    children = Path(f"/proc/{in_a_group.pid}/task/{in_a_group.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    time.sleep(0.2)
    in_a_group.send_signal(signal.SIGUSR2)
    assert in_a_group.stdout is not None
    assert in_a_group.stdout.readline() == "got SIGUSR2\n"
    assert in_a_group.wait(50) == 7


@pytest.mark.parametrize("name", ["SIGALRM", "SIGVTALRM", "SIGRTMIN"])
def test_any_other_signal_is_forwarded_as_well(launch: Launch, name: str) -> None:
    if not hasattr(signal, name):
        pytest.skip(f"this system has no {name}")
    running = launch(*OUTPUT, files={"app.py": SLEEPING})
    wait_until_ready(running)
    running.process.send_signal(getattr(signal, name))
    assert running.end().exit_code == -getattr(signal, name)


def test_ctrl_c_before_the_program_has_started_ends_the_command_by_it(
    plain_environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("print('started')")
    code = (
        "import sys, os, signal, otel_itl.cli.arguments as arguments\n"
        "arguments.parse_arguments = lambda _: os.kill(os.getpid(), signal.SIGINT)\n"
        "from otel_itl.cli import main\n"
        "sys.argv = ['otel-itl', 'run', 'app.py']\n"
        "sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=plain_environ, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "otel-itl: interrupted.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_that_ends_the_program_ends_the_command(launch: Launch, number: signal.Signals) -> None:
    running = launch(*OUTPUT, files={"app.py": SLEEPING})
    wait_until_ready(running)
    running.process.send_signal(number)
    assert running.end().exit_code == -number


def test_a_program_that_is_killed_ends_the_command_likewise(launch: Launch) -> None:
    running = launch(*OUTPUT, "sh", files={"app.py": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"})
    assert running.end().exit_code == -signal.SIGKILL


def test_an_ignored_signal_stays_ignored_in_the_program(plain_environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)")
    command = f'trap "" HUP; exec "{sys.executable}" -m otel_itl run --quiet app.py'
    ran = subprocess.run(["/bin/sh", "-c", command], env=plain_environ, cwd=tmp_path, capture_output=True, check=True)
    assert ran.stdout == b"True\n"


# --- On a terminal ----------------------------------------------------------------------------------------------------

SHELL = """
import os, pty, signal, sys, time

# What a shell does with a job: a process group of its own, in the foreground of the terminal.
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, setpgroup=0, setsigdef=[signal.SIGTTOU])
os.tcsetpgrp(0, job)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    print("stopped by", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
os.tcsetpgrp(0, os.getpgrp())
print("ended with", os.waitstatus_to_exitcode(status), flush=True)
"""


class OnTerminal:
    """A command as the foreground job of a terminal."""

    def __init__(self, folder: Path, program: str, environ: Mapping[str, str]) -> None:
        import pty

        (folder / "shell.py").write_text(SHELL)
        (folder / "app.py").write_text(textwrap.dedent(program))
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            command = [sys.executable, "shell.py", sys.executable, "-m", "otel_itl", *OUTPUT]
            os.execve(sys.executable, command, dict(environ))  # noqa: S606 - the command under test
        self._read = b""

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def wait_for(self, text: str) -> None:
        """Read until the text is printed."""
        until = time.monotonic() + 50
        while text.encode() not in self._read:
            assert time.monotonic() < until, self._read
            self._read += os.read(self._terminal, 1024)

    def read_to_end(self) -> str:
        """Return all that was printed, once the shell has ended."""
        while True:
            try:
                chunk = os.read(self._terminal, 1024)
            except OSError:  # Linux: the other side of the terminal is closed
                chunk = b""
            if not chunk:
                return self._read.decode()
            self._read += chunk

    def close(self) -> None:
        os.close(self._terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def on_terminal(tmp_path: Path, plain_environ: dict[str, str]) -> Iterator[Callable[[str], OnTerminal]]:
    started: list[Any] = []

    def start(program: str) -> OnTerminal:
        started.append(OnTerminal(tmp_path, program, plain_environ))
        return started[-1]

    yield start
    for running in started:
        running.close()


def test_ctrl_c_reaches_the_program_once(on_terminal: Callable[[str], OnTerminal]) -> None:
    running = on_terminal(COUNTING.replace("signal.SIGTERM:", "signal.SIGUSR2:"))
    running.wait_for("ready")
    running.type(b"\x03")
    running.wait_for("got SIGINT")
    time.sleep(0.3)  # a second one would arrive now
    running.type(b"\x1c")  # Ctrl-\, which the program does not handle
    printed = running.read_to_end()
    assert printed.count("got SIGINT") == 1
    assert f"ended with -{signal.SIGQUIT.value}" in printed


def test_ctrl_z_stops_the_job_and_it_goes_on_in_the_foreground(on_terminal: Callable[[str], OnTerminal]) -> None:
    running = on_terminal(COUNTING)
    running.wait_for("ready")
    running.type(b"\x1a")
    running.wait_for("stopped by SIGTSTP")
    running.type(b"\x03")
    running.wait_for("got SIGINT")


# --- As process 1 of a container --------------------------------------------------------------------------------------

REAPING = """
import ctypes, os, sys
from otel_itl.tools.launch.command import Command
from otel_itl.tools.launch.process import run_program

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become our children, as those of process 1
code = "import subprocess, time; subprocess.run(['sh', '-c', 'sleep 0.2 &']); time.sleep(0.6)"
print(run_program(Command(sys.executable, (sys.executable, "-c", code)), os.environ))
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child is left")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets another process than 1 adopt orphans")
def test_orphans_are_reaped(plain_environ: dict[str, str]) -> None:
    ran = subprocess.run([sys.executable, "-c", REAPING], env=plain_environ, capture_output=True, check=True)
    assert ran.stdout == b"0\nno child is left\n"
