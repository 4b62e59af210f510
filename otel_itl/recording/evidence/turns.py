"""For how long a thread was ready to run and got no CPU, as Linux counts it.

It is counted per thread (`schedstat`): time on a run queue, with neighbours on the CPU or the cgroup throttled. Where
that is not to be had, the throttling of the cgroups (`cpu.stat`) that have a quota stands in for it. Elsewhere it is
not known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

if sys.platform != "win32":
    from resource import RUSAGE_SELF, getrusage

THREAD: Final = "/proc/thread-self"
SCHEDSTAT: Final = f"{THREAD}/schedstat"
"""Time on a CPU, time on a run queue (both ns) and number of turns, of the thread that reads it."""
THREADS: Final = "/proc/self/task"
SCHEDSTAT_OF: Final = f"{THREADS}/{{}}/schedstat"
"""The same of a thread of this process, by its native id."""
CGROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
MAX_BYTES: Final = 4_096


class Turns(NamedTuple):
    """How often a thread got a CPU, and for how long it was ready before."""

    delay: int
    """Nanoseconds."""
    number: int
    on_cpu: int = 0
    """Nanoseconds on a CPU."""

    def since(self, before: Turns) -> Turns:
        """Return the turns since an earlier reading."""
        return Turns(*(max(now - then, 0) for now, then in zip(self, before, strict=True)))


ReadTurns = Callable[[], Turns]
"""Returns the turns of a thread since some moment in the past; where these are not counted, the delay alone."""


class ThrottledTime:
    """Reads for how long the cgroups of this process have been throttled, given the `cpu.stat` of each."""

    def __init__(self, counters: list[str]) -> None:
        self._counters = counters

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return sum(map(read_throttled, self._counters))


def make_turns_reader(read: Callable[[], int]) -> ReadTurns:
    """Return what reads the turns of this thread, and may be called in any, given what reads its delay."""
    if read is read_schedstat:
        # Its id is another one where `/proc` is that of another namespace, as in some containers.
        return partial(_parse_schedstat, f"/proc/{os.readlink(THREAD)}/schedstat")  # noqa: PTH115 - quicker
    return lambda: Turns(read(), 0)


def find_delay_source() -> Callable[[], int] | None:
    """Return what reads the delay of the current thread; None where this system does not show it."""
    if sys.platform != "linux":
        return None
    try:
        read_schedstat()
    except (OSError, ValueError):
        counters = list(find_throttling_counters(MEMBERSHIP, CGROUPS))
        return ThrottledTime(counters) if counters else None
    return read_schedstat


def read_schedstat(path: str = SCHEDSTAT) -> int:
    """Return for how long a thread, this one by default, has waited on a run queue, in nanoseconds.

    Raises:
        OSError, ValueError: the kernel does not count it.
    """
    turns = _parse_schedstat(path)
    if not turns.number:  # a thread that reads this has had one; its time on the CPU may still be 0
        raise ValueError("nothing is counted")
    return turns.delay


def _parse_schedstat(path: str) -> Turns:
    on_cpu, delay, number = map(int, _read_file(path).split()[:3])
    return Turns(delay, number, on_cpu)


def read_own_turns(read: Callable[[], int]) -> Turns:
    """Return the turns of this thread so far; the delay alone, where `read`, which reads it, is not `read_schedstat`.

    Raises:
        OSError, ValueError: the kernel does not count them.
    """
    return _parse_schedstat(SCHEDSTAT) if read is read_schedstat else Turns(read(), 0)


def count_displacements() -> int:
    """Return how often a thread of this process has lost its CPU to another one. Not to be had on Windows."""
    return getrusage(RUSAGE_SELF).ru_nivcsw


def read_turns_of(thread: str) -> Turns:
    """Return the turns of a thread of this process, given by its native id; none where it has ended."""
    try:
        return _parse_schedstat(SCHEDSTAT_OF.format(thread))
    except (OSError, ValueError):
        return Turns(0, 0)


def find_throttling_counters(membership: Path, mounted: Path) -> Iterable[str]:
    """Yield the `cpu.stat` of each cgroup of this process that has a quota: its own, and those that contain it.

    Args:
        membership: the file with the cgroups of this process.
        mounted: where cgroups are mounted.
    """
    for line in membership.read_text().splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            root, has_quota = mounted, _has_quota_v2
        elif "cpu" in controllers.split(","):
            root, has_quota = mounted / controllers, _has_quota_v1
        else:
            continue
        # In a container the path may be that outside of it: then what is mounted is the container's own.
        folder = root / path.strip("/")
        folder = folder if folder.is_dir() else root
        for one in (folder, *folder.parents):
            if has_quota(one) and (one / "cpu.stat").is_file():
                yield str(one / "cpu.stat")
            if one == root:
                break


def read_throttled(counter: str) -> int:
    """Return for how long a cgroup has been throttled, in nanoseconds, from its `cpu.stat` of version 1 or 2."""
    fields = dict(line.split() for line in _read_file(counter).splitlines())
    if b"throttled_usec" in fields:
        return int(fields[b"throttled_usec"]) * 1_000
    return int(fields[b"throttled_time"])


def _has_quota_v2(folder: Path) -> bool:
    try:
        return not (folder / "cpu.max").read_text().startswith("max")
    except OSError:
        return False


def _has_quota_v1(folder: Path) -> bool:
    try:
        return int((folder / "cpu.cfs_quota_us").read_text()) > 0
    except (OSError, ValueError):
        return False


def _read_file(path: str) -> bytes:
    """Return the content of a small file; `open()` takes twice as long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
