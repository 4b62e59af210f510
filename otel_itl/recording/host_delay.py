"""How long the thread that reads a stream was ready to run and got no CPU: the host's share in its latencies.

Linux counts it per thread (`schedstat`): time on a run queue, with neighbours on the CPU or the cgroup throttled. Where
that is not to be had, the throttling of the cgroups (`cpu.stat`) that have a quota stands in for it. Elsewhere it is
not known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import get_native_id
from typing import Final, NamedTuple

from otel_itl.conventions import Where
from otel_itl.recording.internal_errors import InternalErrors, never_raises
from otel_itl.recording.loop_lag import Lag
from otel_itl.recording.wake_lateness import WakeLateness

SCHEDSTAT: Final = "/proc/thread-self/schedstat"
THREADS: Final = "/proc/self/task"
SCHEDSTAT_OF: Final = f"{THREADS}/{{}}/schedstat"
"""Time on a CPU, time on a run queue (both ns) and number of turns, of the thread that reads it."""
CGROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
MAX_BYTES: Final = 4_096

ORDINARY_DELAY_NS: Final = 100_000
"""What a thread of an SDK may wait at each of its turns: it is woken for each chunk of all streams."""

ReadDelay = Callable[[], int]
"""Returns the nanoseconds that this thread has been delayed by since some moment in the past."""


class Turns(NamedTuple):
    """How often a thread got a CPU, and for how long it was ready before."""

    delay: int
    """Nanoseconds."""
    number: int


class HostClock:
    """Reads the delay of the current thread, from the best source that the system has; chosen with the first reading.

    Args:
        errors: where failures of our own are reported.
        find_reader: returns what reads the delay; None: the system does not show it.
    """

    def __init__(self, errors: InternalErrors, find_reader: Callable[[], ReadDelay | None] | None = None) -> None:
        self.errors = errors
        self._find_reader = find_reader or find_delay_reader
        self.wake_lateness = WakeLateness(self.read)
        """What other threads of this process delay any of its threads by; the watchdog measures it."""
        self._read: ReadDelay | None = None
        self._is_chosen = False
        self._last_of, self._last_delay = (-1, -1), 0

    def read_of(self, thread: int, now: int) -> int | None:
        """Return the delay (ns) of another thread so far, given its native id; None: not known, or it has ended.

        Called by the watchdog for each stream of a round: those that one thread reads share a reading.

        Args:
            thread: native id of the thread.
            now: the moment of the round.
        """
        if self._read is not read_schedstat:
            return None
        if self._last_of != (thread, now):
            try:
                self._last_of, self._last_delay = (thread, now), read_schedstat(SCHEDSTAT_OF.format(thread))
            except (OSError, ValueError):
                return None
        return self._last_delay

    @never_raises(Where.STREAM_READ, None)
    def read(self) -> int | None:
        """Return the delay of this thread so far (ns); None: not known."""
        if not self._is_chosen:
            self._read, self._is_chosen = self._find_reader(), True
        return None if self._read is None else self._read()

    @never_raises(Where.STREAM_READ, None)
    def read_of_each(self) -> dict[str, Turns] | None:
        """Return the delay of every thread of this process so far, by its native id; None: not known."""
        if self._read is not read_schedstat:
            return None
        return {thread: _read_turns(thread) for thread in os.listdir(THREADS)}  # noqa: PTH208 - quicker


class HostDelay:
    """The delay by the host of one stream: one reading at its start and one at its end, in the thread that reads it.

    Where the request was sent in another thread than the stream is read in, the first pull is the start.

    Args:
        clock: reads the delay of the current thread; None: it is not known.
    """

    __slots__ = ("_clock", "_mark", "_reader", "_start", "_start_of_each", "_wakes", "delay", "process_delay")

    def __init__(self, clock: HostClock | None = None) -> None:
        self._clock = clock
        self._reader = get_native_id()
        self._mark: tuple[int, int] | None = None
        """The moment since which `find_host_pause` measures, and the delay then (ns)."""
        self._start = self._read()
        self._start_of_each: dict[str, Turns] | None = None
        self.delay: int | None = None
        """Nanoseconds, from request to end; None: the stream goes on, the reader changed, or it is not known."""
        self._wakes = 0 if clock is None else clock.wake_lateness.count
        self.process_delay: int | None = None
        """Nanoseconds that a thread of this process typically waited for its turn meanwhile; None: not known."""

    def mark(self, now: int) -> None:
        """Note the delay up to `now` (ns): `find_host_pause` measures from here. Called by the watchdog."""
        delay = None if self._clock is None or self._start is None else self._clock.read_of(self._reader, now)
        self._mark = None if delay is None else (now, delay)

    def find_host_pause(self, now: int) -> list[Lag]:
        """Return the interval from the mark to `now` (ns) if the host delayed the reader for most of it, else `[]`.

        Called by the watchdog when a silence becomes a stall, to find its cause. It marks `now`.
        """
        before = self._mark
        self.mark(now)
        after = self._mark
        if before is None or after is None or 2 * (after[1] - before[1]) <= now - before[0]:
            return []
        return [Lag(before[0], now)]

    def begin_reading(self) -> None:
        """Start anew if this is not the thread of the request. Called when the first chunk is about to be pulled."""
        thread = get_native_id()
        if thread != self._reader:
            self._reader, self._start = thread, self._read()

    def watch_all_threads(self) -> None:
        """Have `delay` be that of the thread of this process that is delayed most, from now on.

        Called where the chunks pass through threads of the SDK: when these get no CPU, the reader is late as well.
        """
        self._start_of_each = None if self._clock is None else self._clock.read_of_each()

    def stop(self) -> None:
        """Take the reading at the end. Called in the thread in which the stream ended."""
        self.process_delay = None if self._clock is None else self._clock.wake_lateness.since(self._wakes)
        delays = [self._read_delay(), self._read_longest_delay()]
        self.delay = max((delay for delay in delays if delay is not None), default=None)

    def _read_delay(self) -> int | None:
        """Return the delay of this thread since the start (ns); None: not known, or it is not the reader."""
        if self._start is None or get_native_id() != self._reader:
            return None
        end = self._read()
        return None if end is None else max(end - self._start, 0)

    def _read_longest_delay(self) -> int | None:
        """Return the delay of the thread that was delayed most since `watch_all_threads` (ns); None: not known."""
        if self._start_of_each is None or self._clock is None:
            return None
        ends = self._clock.read_of_each() or {}
        return max((_delay_between(self._start_of_each.get(one), end) for one, end in ends.items()), default=None)

    def _read(self) -> int | None:
        return None if self._clock is None else self._clock.read()


def find_delay_reader() -> ReadDelay | None:
    """Return what reads the delay of the current thread; None where this system does not show it."""
    if sys.platform != "linux":
        return None
    try:
        read_schedstat()
    except (OSError, ValueError):
        counters = list(find_throttling_counters(MEMBERSHIP, CGROUPS))
        return (lambda: sum(map(read_throttled, counters))) if counters else None
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
    _, delay, number = map(int, _read_file(path).split()[:3])
    return Turns(delay, number)


def _read_turns(thread: str) -> Turns:
    """Return the turns of a thread of this process, given by its native id; none where it has ended."""
    try:
        return _parse_schedstat(SCHEDSTAT_OF.format(thread))
    except (OSError, ValueError):
        return Turns(0, 0)


def _delay_between(start: Turns | None, end: Turns) -> int:
    """Return the delay (ns) of a thread, less what is ordinary at each turn; without a start it began meanwhile."""
    before = start or Turns(0, 0)
    return max(end.delay - before.delay - (end.number - before.number) * ORDINARY_DELAY_NS, 0)


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
