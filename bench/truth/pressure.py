"""What keeps a process from running while it is measured: busy neighbours, a quota, stops, a GIL that is held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

PERIOD_SECONDS: Final = 0.1
"""Of a quota, as container runtimes set it."""
SETTLE_SECONDS: Final = 0.3
"""Until the other work has begun."""

_BUSY: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(1000))"
_STOP_AND_GO: Final = """\
import os, signal, sys, time
pid, run, stop = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(run)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(stop)
    os.kill(pid, signal.SIGCONT)
"""


class Pressure(NamedTuple):
    """One sort of pressure."""

    name: str
    begin: Callable[[int], AbstractContextManager[None]]
    """Puts the process of this id under pressure while the context lasts."""


@contextmanager
def _busy_processes(count: int, _: int) -> Iterator[None]:
    """Keep this many processes of ordinary priority busy, which share the cores with all others."""
    children = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(count)]  # noqa: S603 - ourselves
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


@contextmanager
def quota(share: float, pid: int) -> Iterator[None]:
    """Give a process this share of one core: by a cgroup where one can be made, else by stopping it again and again."""
    group = _make_group(share)
    if group is None:
        with stops(share * PERIOD_SECONDS, (1 - share) * PERIOD_SECONDS, pid):
            yield
        return
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with suppress(OSError):  # the process may have ended
            (group.parent / "cgroup.procs").write_text(str(pid))
        _remove(group)


def describe_quota() -> str:
    """Return by what means `quota` works on this machine."""
    group = _make_group(1.0)
    if group is None:
        return "SIGSTOP and SIGCONT"
    _remove(group)
    return "a cgroup of version 2" if (group.parent / "cgroup.controllers").exists() else "a cgroup of version 1"


def _make_group(share: float) -> Path | None:
    """Make a cgroup with a quota, of version 2 if possible, else of version 1; None where neither is allowed."""
    period = int(PERIOD_SECONDS * 1e6)
    limit = int(share * period)
    files_of_1 = {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(limit)}
    for parent, files in ((_parent_of_2(), {"cpu.max": f"{limit} {period}"}), (_parent_of_1(), files_of_1)):
        if parent is None:
            continue
        group = parent / f"bench-truth-{os.getpid()}"
        try:
            group.mkdir()
            for name, text in files.items():
                with (group / name).open("r+") as file:  # it has to be there: a plain folder would take any file
                    file.write(text)
        except OSError:
            _remove(group)
            continue
        return group
    return None


def _parent_of_2() -> Path | None:
    """Return the folder of the cgroups of version 2 that share out CPU time; None where there is none."""
    parent = _mounted("cgroup2", "")
    if parent is None:
        return None
    switch = parent / "cgroup.subtree_control"
    try:
        if "cpu" not in switch.read_text().split():
            switch.write_text("+cpu")
    except OSError:
        return None
    return parent


def _parent_of_1() -> Path | None:
    return _mounted("cgroup", "cpu")


def _mounted(kind: str, option: str) -> Path | None:
    """Return where a file system of this kind, with this option, is mounted; None where there is none."""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return None
    mounts = [line.split() for line in lines]
    found = [fields[1] for fields in mounts if fields[2] == kind and (not option or option in fields[3].split(","))]
    return Path(found[0]) if found else None


def _remove(group: Path) -> None:
    """Remove a cgroup, which a process that ends leaves with some delay."""
    for _ in range(20):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)


@contextmanager
def stops(run: float, stop: float, pid: int) -> Iterator[None]:
    """Let a process run and stop it in turns, for these many seconds each."""
    command = [sys.executable, "-S", "-c", _STOP_AND_GO, str(pid), str(run), str(stop)]
    child = subprocess.Popen(command)  # noqa: S603 - ourselves
    prioritize(child.pid)
    try:
        yield
    finally:
        child.kill()
        child.wait()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def gil_hog() -> Iterator[None]:
    """Keep the GIL of this process busy with a thread that computes."""
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


QUIET: Final = Pressure("quiet", lambda _: nullcontext())
BUSY: Final = tuple(Pressure(f"{count} busy", partial(_busy_processes, count)) for count in (1, 2, 4, 8))
QUOTAS: Final = tuple(Pressure(f"quota {share:.0%}", partial(quota, share)) for share in (0.05, 0.1, 0.2, 0.5))
STOPS: Final = Pressure("stopped for 3 s", partial(stops, 1.0, 3.0))


def prioritize(pid: int) -> bool:
    """Give a process real-time priority, so that other work does not delay it; returns False where that is refused.

    It holds for the threads that the process has, and for those that they start later.
    """
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
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
