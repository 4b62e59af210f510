"""The checks of the soak: each passes for a sound run, and fails alone for what it is there to find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from bench.lateness import LatenessMeter
from bench.soak.busy import busy_processes
from bench.soak.checks import Run, Soak, verdicts
from bench.soak.ledger import Held, growth_mb
from bench.soak.stalls import Report, Silence, StallLog

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000
OUTCOMES = Counter(completed=90, error=10)
BARE = Run(seconds=10, in_time=100, expected=OUTCOMES, surprises=Counter(), cpu_seconds=1)
HELD = Held(memory_mb=100, threads=3, files=9)
SILENCE = Silence("stalling-1", 0, 5 * SECOND)
SOUND = Soak(
    bare=BARE,
    measured=BARE,
    spans=OUTCOMES,
    counted=OUTCOMES,
    open_streams=0,
    own_errors=Counter(),
    memory_mb=[100.0] * 8,
    silences=1,
    reports=[Report(SILENCE, delay=0.3, overdue=0.1)],
    before=HELD,
    after=HELD,
)


def failed(**changes: Any) -> list[str]:
    return [verdict.name for verdict in verdicts(replace(SOUND, **changes)) if not verdict.is_ok]


def test_a_sound_run_passes_every_check() -> None:
    assert failed() == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"spans": Counter(completed=89, error=10)}, "books"),
        ({"counted": Counter(completed=90, error=11)}, "books"),
        ({"spans": Counter(completed=91, error=9)}, "books"),
        ({"open_streams": 1.0}, "books"),
        ({"own_errors": Counter({"ending a stream": 1})}, "own errors"),
        ({"memory_mb": [100.0] * 6 + [117.0] * 2}, "memory"),
        ({"reports": []}, "stalls"),
        ({"silences": 0, "reports": []}, "stalls"),
        ({"reports": [Report(SILENCE, delay=0.36, overdue=0.1)]}, "stalls"),
        ({"measured": replace(BARE, surprises=Counter(APITimeoutError=1))}, "timeouts"),
        ({"measured": replace(BARE, in_time=49)}, "streams"),
        ({"after": HELD._replace(threads=6)}, "threads"),
        ({"after": HELD._replace(files=10)}, "files"),
    ],
)
def test_a_fault_fails_its_check_alone(changes: dict[str, Any], name: str) -> None:
    assert failed(**changes) == [name]


def test_as_many_timeouts_as_without_measuring_are_accepted() -> None:
    slow = replace(BARE, surprises=Counter(APITimeoutError=2))
    assert failed(bare=slow, measured=slow) == []


def test_a_verdict_is_one_line_with_its_figures() -> None:
    assert str(verdicts(SOUND)[0]) == "ok   books: 100 streams opened, 100 counted, 100 spans, 0 still open"


def test_outcomes_that_differ_are_named() -> None:
    books = verdicts(replace(SOUND, spans=Counter(completed=90, error=9, closed=1)))[0]
    assert str(books).endswith("they differ for closed, error")


def test_growth_is_between_the_medians_of_the_second_and_the_last_quarter() -> None:
    assert growth_mb([10, 50, 101, 103, 104, 200, 107, 117]) == 112 - 102


def test_a_wait_below_the_threshold_is_no_stall() -> None:
    log = StallLog()
    log.record_wait("stalling-1", 0, 2 * SECOND - 1)
    assert log.silences == []


def test_the_delay_of_a_report_counts_from_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StallLog()
    log.record_wait("stalling-1", SECOND, 6 * SECOND)
    monkeypatch.setattr("bench.soak.stalls.perf_counter_ns", lambda: 3 * SECOND + SECOND // 4)
    log.on_stall(SimpleNamespace(request=SimpleNamespace(model="stalling-1")))  # type: ignore[arg-type]
    (report,) = log.reports(lambda *_: 0.125)
    assert (report.delay, report.overdue) == (0.25, 0.125)


def test_a_stall_of_another_stream_is_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StallLog()
    log.record_wait("stalling-1", 0, 5 * SECOND)
    monkeypatch.setattr("bench.soak.stalls.perf_counter_ns", lambda: 3 * SECOND)
    log.on_stall(SimpleNamespace(request=SimpleNamespace(model="stalling-2")))  # type: ignore[arg-type]
    assert log.reports(lambda *_: 0.0) == []


def test_lateness_is_that_of_the_sleeps_between_two_moments() -> None:
    meter = LatenessMeter()
    meter._woken = [(at * SECOND, late * SECOND) for at, late in [(1, 0), (5, 3), (7, 1), (20, 8)]]
    worst = [meter.worst(begin * SECOND, end * SECOND) for begin, end in [(5, 8), (6, 8), (8, 9)]]
    assert worst == [3.0, 1.0, 0.0]


def test_a_thread_is_overdue_for_the_parts_of_its_late_sleeps_that_lie_between_two_moments() -> None:
    meter = LatenessMeter()
    meter._woken = [(at * SECOND, late * SECOND) for at, late in [(1, 0), (5, 3), (7, 1), (20, 8)]]
    overdue = [meter.overdue(begin * SECOND, end * SECOND) for begin, end in [(3, 8), (0, 30), (8, 9), (15, 16)]]
    assert overdue == [3.0, 12.0, 0.0, 1.0]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A process that has ended is listed until its parent asks for its exit code.
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text(encoding="ascii")


def test_busy_processes_are_killed_whatever_ends_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), busy_processes(2) as processes:
        raise KeyboardInterrupt
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_busy_process_ends_when_its_parent_is_killed() -> None:
    code = (
        "import time; from bench.soak.busy import busy_processes\n"
        "with busy_processes(1) as (process,): print(process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    busy = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20
    while is_alive(busy) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(busy)
