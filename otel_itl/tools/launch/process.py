"""Runs a program: forwards signals to it, and ends this process by the same exit code or signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from otel_itl.tools.launch.command import CANNOT_EXECUTE, CannotLaunchError, Command
from otel_itl.tools.launch.group_witness import GroupWitness, run_witness

_NOT_FORWARDED: Final = (
    *("SIGKILL", "SIGSTOP"),  # which no process gets to see
    *("SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"),  # of job control: they stop and continue this process, too
    *("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"),  # of a fault of this process
    *("SIGCHLD", "SIGPIPE", "SIGXFSZ"),  # of what this process does itself
)
_SENT_BY_KERNEL: Final = 0x80
"""`si_code` of a signal that the terminal sends: the program, which is in our process group, has it already."""


def run_program(command: Command, environ: Mapping[str, str], *, stdout: int | None = None) -> int:
    """Run a program to its end, with our standard streams, and forward the signals that we get.

    A signal that reaches our whole process group (Ctrl-C, a resized window, `kill -- -PGID`, the stop of a service)
    reaches the program without us. As process 1 of a container, we also reap the orphans.

    Args:
        command: the program.
        environ: its environment.
        stdout: the file descriptor that its standard output goes to; None: ours.

    Returns:
        Its exit code; -n where signal n ended it.

    Raises:
        CannotLaunchError: it cannot be executed.
    """
    try:
        if sys.platform == "win32":
            return _run_on_windows(command, environ, stdout)
        return _run_on_posix(command, environ, stdout)
    except OSError as error:
        raise CannotLaunchError(
            f"{command.arguments[0]} cannot be executed: {error.strerror or error}.", CANNOT_EXECUTE
        ) from error


def end_like(exit_code: int) -> int:
    """End this process by the signal that ended the program, if one did; else return the exit code.

    Where the signal does not end us (we are process 1), 128 + n is returned, as shells do. Call it last.
    """
    if exit_code >= 0:
        return exit_code
    number = -exit_code
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its core already
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError, ValueError):
        os.kill(os.getpid(), number)
    return 128 + number


def _run_on_windows(command: Command, environ: Mapping[str, str], stdout: int | None) -> int:
    """Run a program where the console sends Ctrl-C to both."""
    program = subprocess.Popen(  # noqa: S603 - what the caller named
        command.arguments, executable=command.executable, env=dict(environ), stdout=stdout, close_fds=False
    )
    while True:
        with suppress(KeyboardInterrupt):
            return program.wait()


def _run_on_posix(command: Command, environ: Mapping[str, str], stdout: int | None) -> int:
    """Run a program with our signals blocked, so that none is lost between its start and our waiting for it."""
    forwarded = {
        int(number)
        for number in signal.valid_signals() - {getattr(signal, name) for name in _NOT_FORWARDED}
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code
    former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*forwarded, signal.SIGCHLD})
    try:
        with run_witness(forwarded) as witness:
            pid = os.posix_spawn(
                command.executable,
                command.arguments,
                dict(environ),
                file_actions=[] if stdout is None else [(os.POSIX_SPAWN_DUP2, stdout, 1)],
                setsigmask=former_mask,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
            return _forward_until_end(pid, forwarded, witness)
    finally:
        # One that came too late for the program: without us, it would have reached nothing.
        while late := forwarded.intersection(signal.sigpending()):
            signal.sigwait(late)
        signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)


def _forward_until_end(pid: int, forwarded: set[int], witness: GroupWitness | None) -> int:
    """Forward signals to a process until it ends; returns its exit code, or -n for signal n."""
    while True:
        if witness is not None:
            witness.forget_but(signal.sigpending())
        number, is_from_terminal = _wait_for_signal({*forwarded, signal.SIGCHLD})
        if number == signal.SIGCHLD:
            exit_code = _reap(pid)
            if exit_code is not None:
                return exit_code
        elif not is_from_terminal and not (witness is not None and witness.has_got(number)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _wait_for_signal(numbers: set[int]) -> tuple[int, bool]:
    """Wait for one of these signals; returns it, and whether the terminal sent it to our whole process group."""
    if hasattr(signal, "sigwaitinfo"):
        info = signal.sigwaitinfo(numbers)
        return info.si_signo, info.si_code == _SENT_BY_KERNEL
    number = signal.sigwait(numbers)
    return number, number != signal.SIGTERM and _is_in_foreground()


def _is_in_foreground() -> bool:
    """Return whether our process group is the one that the terminal sends its signals to."""
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False


def _reap(pid: int) -> int | None:
    """Reap every process that has ended; returns how `pid` ended, None while it runs."""
    ended = None
    with suppress(ChildProcessError):
        while True:
            found, status = os.waitpid(-1, os.WNOHANG)
            if found == 0:
                break
            if found == pid:
                ended = os.waitstatus_to_exitcode(status)
    return ended
