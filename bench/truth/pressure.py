"""Other work while a benchmark runs: busy processes, a quota of CPU time, a thread that keeps the GIL."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

HOST, CALLER, NONE = "host", "caller", ""
QUOTA, PERIOD_SECONDS = 0.2, 0.1
SETTLE_SECONDS = 0.3
"""Until the other work has begun."""

_BUSY: Final = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: sum(range(1000))"
_STOP_AND_GO: Final = """\
import os, signal, sys, time
pid, run, period = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
while os.getppid() == pid:
    time.sleep(run)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(period - run)
    os.kill(pid, signal.SIGCONT)
"""
_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class Pressure(NamedTuple):
    """One sort of other work."""

    name: str
    cause: str
    """Who does the work: `HOST`; `CALLER`, this process itself; `NONE`: there is no other work."""
    begin: Callable[[], AbstractContextManager[None]]
    """Has the other work done while the context lasts."""


@contextmanager
def _busy_processes(per_core: int) -> Iterator[None]:
    """Keep every core busy with this many processes of ordinary priority."""
    count = per_core * (os.cpu_count() or 1)
    children = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(count)]  # noqa: S603 - ourselves
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


@contextmanager
def _quota() -> Iterator[None]:
    """Give this process a fifth of one core: by a cgroup where one can be made, else by stopping it again and again."""
    group = _make_group()
    if group is None:
        with _stopped_again_and_again():
            yield
        return
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with suppress(OSError):
            group.rmdir()


def _make_group() -> Path | None:
    """Make a cgroup with the quota; None where that is not allowed."""
    period = int(PERIOD_SECONDS * 1e6)
    limits = {
        _V1: {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(int(QUOTA * period))},
        _V2: {"cpu.max": f"{int(QUOTA * period)} {period}"},
    }
    for parent, files in limits.items():
        group = parent / f"bench-truth-{os.getpid()}"
        try:
            group.mkdir()
            for name, text in files.items():
                (group / name).write_text(text)
        except OSError:
            with suppress(OSError):
                group.rmdir()
            continue
        return group
    return None


@contextmanager
def _stopped_again_and_again() -> Iterator[None]:
    """Stop and continue this process, so that it runs for a fifth of the time."""
    times = (str(os.getpid()), str(QUOTA * PERIOD_SECONDS), str(PERIOD_SECONDS))
    child = subprocess.Popen([sys.executable, "-S", "-c", _STOP_AND_GO, *times])  # noqa: S603 - ourselves
    try:
        yield
    finally:
        child.terminate()  # it can only be this process that does it: it is not stopped now
        child.wait()


@contextmanager
def _gil_hog() -> Iterator[None]:
    """Keep the GIL of this process with a thread that computes."""
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            sum(range(10_000))

    thread = threading.Thread(target=compute, name="GIL hog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


QUIET: Final = Pressure("quiet", NONE, nullcontext)
PRESSURES: Final = (
    QUIET,
    *(Pressure(f"{count} busy a core", HOST, partial(_busy_processes, count)) for count in (1, 2, 4, 8)),
    Pressure(f"quota {QUOTA:.0%}", HOST, _quota),
    Pressure("GIL hog", CALLER, _gil_hog),
)


def prioritize(pid: int) -> bool:
    """Give a process real-time priority, so that other work does not delay it; returns False where that is refused."""
    try:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


@contextmanager
def prioritized() -> Iterator[None]:
    """Give this thread real-time priority for a while, where that is allowed, so that other work does not delay it.

    Threads and processes that it starts do not inherit it: they could not be put under a quota later.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
