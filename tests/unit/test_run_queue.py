"""The host's share in a stream's latencies: how it is read, and when it decides the figures."""

from __future__ import annotations

import gc
import sys
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from otel_itl.core.host_bound import is_host_bound
from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import Kind, Timeline
from otel_itl.recording.evidence import run_queue
from otel_itl.recording.evidence.host_delay import HostDelay
from otel_itl.recording.evidence.of_process import NAP_SECONDS, ProcessEvidence
from otel_itl.recording.evidence.run_queue import MAX_THREADS_PER_NAP, RunQueues
from otel_itl.recording.evidence.turns import (
    Turns,
    find_delay_source,
    find_throttling_counters,
    read_schedstat,
    read_throttled,
)
from otel_itl.recording.evidence.windows import Look, OrdinaryDelay, ReaderThread, Window
from otel_itl.recording.internal_errors import InternalErrors

MS = 1_000_000


def queues_of(*readings: int) -> RunQueues:
    """What gives these readings, one after the other."""
    return RunQueues(InternalErrors(), lambda: iter(readings).__next__)


# --- One stream -----------------------------------------------------------------------------------------------------


def test_the_delay_is_the_difference_between_the_end_and_the_start() -> None:
    delay = HostDelay(queues_of(5 * MS, 47 * MS))
    delay.stop()
    assert delay.delay == 42 * MS


def test_it_is_not_known_while_the_stream_goes_on() -> None:
    assert HostDelay(queues_of(5)).delay is None


def run_in_other_thread(function: Callable[[], None]) -> None:
    other = threading.Thread(target=function)
    other.start()
    other.join()


def test_it_is_not_known_where_the_reader_changed() -> None:
    delay = HostDelay(queues_of(0, MS))
    run_in_other_thread(delay.stop)
    assert delay.delay is None


def test_it_counts_from_the_first_pull_where_the_request_was_sent_in_another_thread() -> None:
    delay = HostDelay(queues_of(0, 5 * MS, 47 * MS))

    def read() -> None:
        delay.begin_reading()
        delay.stop()

    run_in_other_thread(read)
    assert delay.delay == 42 * MS


class OfEach(RunQueues):
    """Given readings of every thread, and none of the current one."""

    def __init__(self, *readings: dict[str, Turns]) -> None:
        super().__init__(InternalErrors(), lambda: None)
        self._readings = iter(readings)

    def read_turns_by_thread(self) -> dict[str, Turns]:
        return next(self._readings)


def test_where_chunks_pass_through_threads_of_the_sdk_the_one_that_was_delayed_most_counts() -> None:
    before = {"1": Turns(5 * MS, 8), "2": Turns(100 * MS, 8), "3": Turns(900 * MS, 8)}
    after = {"1": Turns(47 * MS, 8), "2": Turns(110 * MS, 8), "4": Turns(30 * MS, 0)}
    delay = HostDelay(OfEach(before, after))
    delay.watch_all_threads()
    delay.stop()
    assert delay.delay == 42 * MS


def test_what_a_thread_of_the_sdk_ordinarily_waits_at_each_turn_is_no_delay() -> None:
    delay = HostDelay(OfEach({"1": Turns(0, 0)}, {"1": Turns(5 * MS, 30)}))
    delay.watch_all_threads()
    delay.stop()
    assert delay.delay == 2 * MS


def test_the_delay_of_each_thread_contains_that_of_this_one() -> None:
    clock = RunQueues(InternalErrors())
    alone = clock.read()
    if alone is None:
        pytest.skip("this system does not count it for each thread")
    of_each = clock.read_turns_by_thread()
    assert of_each is not None
    assert of_each[str(threading.get_native_id())].delay >= alone


def test_it_is_not_known_where_the_system_does_not_show_it() -> None:
    delay = HostDelay(RunQueues(InternalErrors(), lambda: None))
    delay.stop()
    assert delay.delay is None


def test_a_reading_that_fails_is_counted_and_not_known() -> None:
    errors = InternalErrors()

    def fail() -> int:
        raise OSError("gone")

    delay = HostDelay(RunQueues(errors, lambda: fail))
    delay.stop()
    assert (delay.delay, sum(errors.counts.values())) == (None, 1)


# --- Where it is read -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="the files are Linux's")
def test_linux_counts_it_for_each_thread() -> None:
    assert find_delay_source() is read_schedstat
    assert read_schedstat() >= 0


@pytest.mark.parametrize("on_cpu", [0, 8_000])
def test_the_delay_of_a_thread_that_has_just_started_is_read(tmp_path: Path, on_cpu: int) -> None:
    # Its time on the CPU is 0 until the kernel adds up its first turn.
    counted = tmp_path / "schedstat"
    counted.write_text(f"{on_cpu} 66479 1\n")
    assert read_schedstat(str(counted)) == 66_479


def test_a_kernel_that_counts_nothing_has_no_delay_to_read(tmp_path: Path) -> None:
    counted = tmp_path / "schedstat"
    counted.write_text("0 0 0\n")
    with pytest.raises(ValueError, match="nothing is counted"):
        read_schedstat(str(counted))


def group(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_the_throttling_of_version_2_is_that_of_every_group_with_a_quota(tmp_path: Path) -> None:
    group(tmp_path, cpu_max="max 100000\n", cpu_stat="throttled_usec 1\n")
    pod = group(tmp_path / "pod", cpu_max="20000 100000\n", cpu_stat="nr_throttled 3\nthrottled_usec 1500\n")
    group(pod / "container", cpu_max="max 100000\n", cpu_stat="throttled_usec 9\n")
    membership = tmp_path / "membership"
    membership.write_text("0::/pod/container\n")
    counters = list(find_throttling_counters(membership, tmp_path))
    assert counters == [str(pod / "cpu.stat")]
    assert read_throttled(counters[0]) == 1_500_000


def test_the_throttling_of_version_1_is_in_nanoseconds(tmp_path: Path) -> None:
    one = group(tmp_path / "cpu,cpuacct" / "pod")
    (one / "cpu.cfs_quota_us").write_text("20000\n")
    (one / "cpu.stat").write_text("nr_periods 5\nthrottled_time 1500\n")
    (tmp_path / "membership").write_text("4:memory:/x\n3:cpu,cpuacct:/pod\n0::/\n")
    counters = list(find_throttling_counters(tmp_path / "membership", tmp_path))
    assert [read_throttled(counter) for counter in counters] == [1_500]


def test_in_a_container_the_group_is_what_is_mounted(tmp_path: Path) -> None:
    group(tmp_path, cpu_max="20000 100000\n", cpu_stat="throttled_usec 2\n")
    (tmp_path / "membership").write_text("0::/path/outside\n")
    assert list(find_throttling_counters(tmp_path / "membership", tmp_path)) == [str(tmp_path / "cpu.stat")]


# --- Whether it decides the figures ---------------------------------------------------------------------------------


def late(*late_ms: float, gap_ms: int = 20) -> Measures:
    """The measures of a stream with equal gaps, each chunk of which may have come that much earlier."""
    arrived = array("q", [100 * MS + gap_ms * MS * index for index in range(len(late_ms))])
    return measure(
        Timeline(
            request_unix_ns=0,
            asked=array("q", [0, *arrived[:-1]]),
            arrived=arrived,
            kinds=bytes([Kind.ANSWER]) * len(arrived),
            lateness=array("q", [round(each * MS) for each in late_ms]),
            end=arrived[-1],
        )
    )


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        (late(0, 1.9, 0, 0, gap_ms=40), False),  # a tenth of 40 ms is allowed
        (late(0, 5, 0, 0, gap_ms=40), True),
        (late(2.2, 0), True),  # more than a tenth of the only gap
        (late(9), False),  # a tenth of a time to first token of 100 ms is allowed
        (late(11), True),
    ],
)
def test_a_stream_is_host_bound_by_how_late_its_chunks_may_be(measures: Measures, expected: bool) -> None:
    assert is_host_bound(10.0, measures) is expected


def test_a_delay_that_made_no_chunk_late_is_no_bound() -> None:
    assert not is_host_bound(10.0, late(0, 0, 0))


def test_what_is_late_beyond_the_delay_of_the_host_is_not_its_own() -> None:
    assert [is_host_bound(delay, late(0, 30, 0, gap_ms=40)) for delay in (0.0011, 0.03)] == [False, True]


def test_what_is_not_known_is_no_bound() -> None:
    assert not is_host_bound(None, late(0, 30, 0))


# --- Windows of a thread --------------------------------------------------------------------------------------------


class Schedule:
    """A thread whose turns are what a test sets, on a clock of the test's own; times are milliseconds."""

    def __init__(self) -> None:
        self.now = self.delay = self.on_cpu = 0.0
        self.turns = 0
        self.ordinary = OrdinaryDelay()
        self.thread = ReaderThread(self.read_turns, self.ordinary, lambda: round(self.now * MS))

    def read_turns(self) -> Turns:
        return Turns(round(self.delay * MS), self.turns, round(self.on_cpu * MS))

    def run(self, length: float = 100, delay: float = 0, turns: int = 1, on_cpu: float = 1) -> None:
        """Let a window pass, without its end."""
        self.now += length
        self.delay += delay
        self.turns += turns
        self.on_cpu += on_cpu

    def end(self, *arguments: float) -> None:
        """Let a window pass, and end it."""
        self.run(*arguments)  # type: ignore[arg-type]
        self.thread.end_window()

    @property
    def windows(self) -> list[tuple[float, float, float, float]]:
        return [(one.start / MS, one.end / MS, one.excess / MS, round(one.busy, 2)) for one in self.thread.since(-1)]


def test_a_window_has_all_that_a_thread_waited_where_it_was_more_than_ordinary() -> None:
    schedule = Schedule()
    schedule.end(100, 0.02, 1)
    schedule.end(100, 30.02, 1, 10)
    schedule.end(100, 0.02, 1)
    assert schedule.windows == [(100, 200, 30.02, 0.4)]


def test_the_window_that_is_not_over_counts_as_well() -> None:
    schedule = Schedule()
    schedule.run(50, 30.02, 1, 10)
    assert schedule.windows == [(0, 50, 30.02, 0.8)]


def test_a_wait_that_is_over_in_a_window_may_have_begun_before_it() -> None:
    schedule = Schedule()
    schedule.end(100)
    schedule.end(100, 0, 0, 0)
    schedule.end(100, 250.02, 1, 0)
    assert [(start, end) for start, end, _, _ in schedule.windows] == [(49.98, 300)]


def test_a_thread_that_computes_all_the_time_is_noted_without_a_wait() -> None:
    schedule = Schedule()
    schedule.end(100, 0, 1, 95)
    assert schedule.windows == [(0, 100, 0, 0.95)]


def test_ordinary_waits_never_add_up() -> None:
    schedule = Schedule()
    for _ in range(200):
        schedule.end(100, 40 * 0.05, 40)
    late = [window for window in schedule.windows if window[0] > 2_000]
    assert (late, schedule.ordinary.ns) == ([], 50_000)


def test_what_is_ordinary_is_no_more_than_a_turn_of_a_quiet_machine_waits() -> None:
    schedule = Schedule()
    for _ in range(200):
        schedule.end(100, 40 * 2, 40)
    assert len(schedule.windows) == 200


def test_a_thread_that_has_ended_has_its_last_windows() -> None:
    queues = RunQueues(InternalErrors())
    if queues.read() is None:
        pytest.skip("this system does not count it for each thread")
    followed: list[ReaderThread | None] = []
    run_in_other_thread(lambda: followed.append(queues.follow_thread()[0]))
    time.sleep(0.01)
    queues.end_windows()
    assert followed[0] is not None
    assert followed[0].since(0) == []


def test_the_watchdog_naps_shortly_while_a_thread_reads_streams_and_each_nap_ends_a_window() -> None:
    evidence = ProcessEvidence(InternalErrors())
    queues = evidence.run_queues
    assert queues is not None
    if queues.read() is None:
        pytest.skip("this system does not count it for each thread")
    before = evidence.begin_nap(0.2)
    followed, _ = queues.follow_thread()
    assert followed is not None
    began = followed._last[0]
    nap = evidence.begin_nap(0.2)
    evidence.end_nap()
    assert (before, nap, followed._last[0] > began) == (0.2, NAP_SECONDS, True)


def test_a_thread_is_followed_as_long_as_a_stream_of_it_is_there() -> None:
    queues = RunQueues(InternalErrors())
    if queues.read() is None:
        pytest.skip("this system does not count it for each thread")
    first, second = HostDelay(queues), HostDelay(queues)
    assert (first._threads == second._threads, len(queues._threads)) == (True, 1)
    first.forget_threads()
    del second
    gc.collect()
    assert len(queues._threads) == 0


def test_of_many_threads_each_nap_reads_some() -> None:
    queues = RunQueues(InternalErrors())
    read: list[int] = []

    class Thread:
        is_active = True

        def __init__(self, number: int) -> None:
            self.number = number

        def end_window(self) -> Look:
            read.append(self.number)
            return Look(0, Turns(0, 0), Turns(0, 0), None)

    threads = [Thread(number) for number in range(MAX_THREADS_PER_NAP + 6)]
    for thread in threads:
        queues._threads[thread.number] = thread  # type: ignore[assignment]
    queues.end_windows()
    first = list(read)
    queues.end_windows()
    assert (len(first), len(set(read))) == (MAX_THREADS_PER_NAP, len(threads))


def make_naps(*excesses_ms: float | None, threads: int = 2) -> list[tuple[float, float]]:
    """Windows of 100 ms of several threads, one in each nap; of each of the worst, its end and its excess (ms)."""
    now = [0]
    queues = RunQueues(InternalErrors(), clock=lambda: now[0])
    found: list[Window | None] = []
    kept = [ScriptedThread(found) for _ in range(threads)]
    for number, thread in enumerate(kept):
        queues._threads[number] = thread  # type: ignore[assignment]
    for excess_ms in excesses_ms:
        now[0] += 100 * MS
        window = None if excess_ms is None else Window(now[0] - 100 * MS, now[0], round(excess_ms * MS), 0.5)
        found[:] = [window, *[None] * (threads - 1)]
        queues.end_windows()
    now[0] += 50 * MS
    return [(window.end / MS, window.excess / MS) for window in queues.find_process_windows(0)]


class ScriptedThread:
    """A thread whose windows are what a test sets."""

    is_active = True

    def __init__(self, windows: list[Window | None]) -> None:
        self._windows = windows

    def end_window(self) -> Look:
        return Look(0, Turns(0, 0), Turns(0, 0), self._windows.pop(0))


def test_the_longest_wait_of_any_thread_is_that_of_each_as_one_may_have_held_the_interpreter() -> None:
    assert make_naps(30, None, 20, None, None) == [(100, 30), (300, 20)]


def test_threads_that_wait_for_a_cpu_may_have_held_the_interpreter_one_after_the_other() -> None:
    now, found = [0], [Window(0, 100 * MS, 30 * MS, 0.5), Window(0, 100 * MS, 20 * MS, 0.5), None]
    queues = RunQueues(InternalErrors(), clock=lambda: now[0])
    kept = [ScriptedThread(found) for _ in found]  # type: ignore[arg-type]
    for number, thread in enumerate(kept):
        queues._threads[number] = thread  # type: ignore[assignment]
    queues.end_windows()
    assert queues.find_process_windows(0)[0] == Window(0, 100 * MS, 50 * MS, 0.0)


def test_the_wait_of_the_last_nap_stands_for_the_time_since_then() -> None:
    assert make_naps(30) == [(100, 30), (150, 30)]


def test_a_single_thread_waits_for_no_other() -> None:
    assert make_naps(30, threads=1) == []


# --- Stops ----------------------------------------------------------------------------------------------------------


def stops_of(*windows: Window) -> list[tuple[int, int]]:
    delay = HostDelay()
    delay._threads = (SimpleNamespace(since=lambda *_: list(windows)),)  # type: ignore[assignment]
    return [(stop.start, stop.end) for stop in delay.find_stops(0)]


def test_windows_in_which_a_thread_never_slept_and_mostly_waited_are_one_stop() -> None:
    windows = (Window(0, 100, 94, 1.0), Window(99, 200, 94, 1.0), Window(300, 400, 94, 1.0))
    assert stops_of(*windows) == [(0, 200), (300, 400)]


@pytest.mark.parametrize(("excess", "busy"), [(94, 0.8), (30, 1.0)], ids=["it slept", "it computed"])
def test_a_thread_that_slept_or_computed_has_not_stopped(excess: int, busy: float) -> None:
    assert stops_of(Window(0, 100, excess, busy)) == []


# --- Threads that read streams, and those whose streams are silent ----------------------------------------------------


@pytest.mark.parametrize(("every_ms", "is_active"), [(20, True), (60, True), (100, False), (400, False)])
def test_a_thread_is_active_if_it_runs_again_and_again_and_not_for_the_timer_of_a_silent_loop(
    every_ms: int, *, is_active: bool
) -> None:
    moments = iter(range(0, 10_000 * MS, 20 * MS))
    now = 0

    def clock() -> int:
        return now

    thread = ReaderThread(lambda: Turns(0, now // (every_ms * MS)), OrdinaryDelay(), clock)
    seen = set()
    for moment in moments:
        now = moment
        thread.end_window()
        seen.add(thread.is_active) if moment > 1_000 * MS else None
    assert (True in seen) == is_active


@pytest.mark.parametrize(
    ("displaced", "on_cpu", "expected"),
    [([1, 2], 5 * MS, [(100, 30)]), ([1, 2], MS // 2, []), ([1, 1], 5 * MS, [])],
    ids=["a thread that computes lost its CPU", "one that was woken up did", "none did"],
)
def test_a_thread_that_reads_no_stream_may_have_held_the_interpreter_when_it_lost_its_cpu(
    displaced: list[int], on_cpu: int, expected: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, readings = [0], iter((Turns(0, 1, 0), Turns(30 * MS, 2, on_cpu)))
    counts = iter(displaced)
    queues = RunQueues(InternalErrors(), find_source=lambda: run_queue.read_schedstat, clock=lambda: now[0])
    monkeypatch.setattr(queues, "_read", run_queue.read_schedstat)
    monkeypatch.setattr(run_queue, "count_displacements", lambda: next(counts))
    monkeypatch.setattr(run_queue, "read_turns_of", lambda _: next(readings))
    monkeypatch.setattr(run_queue.os, "listdir", lambda _: ["1"])
    for _ in range(2):
        queues.end_windows()
        now[0] += 100 * MS
    found = queues.find_process_windows(0)
    assert [(round(one.end / MS), round(one.excess / MS)) for one in found[:1]] == expected


class Relaying(RunQueues):
    """Run queues with one thread that reads no stream, which has waited for this long at each reading (ms)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *waited_ms: int) -> None:
        self.now = 0
        super().__init__(InternalErrors(), lambda: read_schedstat, lambda: self.now)
        self.read()
        waits = iter(waited_ms)
        monkeypatch.setattr(run_queue, "count_displacements", lambda: 0)
        monkeypatch.setattr(run_queue, "read_turns_of", lambda _: Turns(next(waits) * MS, 1))
        monkeypatch.setattr(run_queue.os, "listdir", lambda _: ["1"])

    def nap(self) -> None:
        self.now += 20 * MS
        self.end_windows()

    @property
    def relays(self) -> list[tuple[float, float, float]]:
        return [(one.start / MS, one.end / MS, one.excess / MS) for one in self.find_relay_windows(0)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it for each thread")
def test_what_threads_wait_while_chunks_pass_through_them_is_read_at_each_nap(monkeypatch: pytest.MonkeyPatch) -> None:
    queues, stream = Relaying(monkeypatch, 0, 0, 8, 8), RunQueues(InternalErrors())
    queues.follow_relays(stream)
    queues.nap()
    queues.nap()
    assert queues.relays == [(20, 40, 8), (40, 40, 0)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it for each thread")
def test_what_they_wait_in_a_nap_that_is_not_over_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    queues, stream = Relaying(monkeypatch, 0, 0, 8), RunQueues(InternalErrors())
    queues.follow_relays(stream)
    queues.nap()
    queues.now += 10 * MS
    assert queues.relays == [(20, 30, 8)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it for each thread")
def test_they_are_read_no_longer_when_no_chunk_passes_through_them(monkeypatch: pytest.MonkeyPatch) -> None:
    queues, stream = Relaying(monkeypatch, 0, 0, 8), RunQueues(InternalErrors())
    queues.follow_relays(stream)
    queues.forget_relays(stream)
    for _ in range(9):
        queues.nap()
    assert queues.relays == [(180, 180, 0)]
