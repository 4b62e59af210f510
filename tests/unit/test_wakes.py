"""How late the watchdog wakes up: pauses of the process, and the turns that its threads wait for."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial

import pytest

from otel_itl.core.timeline import SECOND
from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.turns import Turns
from otel_itl.recording.evidence.wakes import MAX_PAUSES, PAUSE_NS, TURNS_PER_CHUNK, WAKES_PER_WAIT, Wakes
from otel_itl.recording.evidence.windows import Window

MS = 1_000_000


def idle() -> int:
    """The CPU time of a process that does nothing."""
    return 0


def woken(*late_ms: float, host_ms: float = 0.0, read_cpu: Callable[[], int] = idle) -> Wakes:
    """The wakes of a thread that sleeps for 100 ms each time and wakes up this late, `host_ms` of it by the host."""
    readings = iter(index for wake in range(len(late_ms)) for index in (wake, wake + 1))
    return sleep_and_wake(Wakes(lambda: turns_of(next(readings), host_ms), read_cpu), *late_ms)


def turns_of(wakes: int, host_ms: float, number: int = 1) -> Turns:
    """The turns of a thread after so many wakes, in each of which the host delayed it."""
    return Turns(round(wakes * host_ms * MS), wakes * number)


def sleep_and_wake(wakes: Wakes, *late_ms: float) -> Wakes:
    for number, late in enumerate(late_ms):
        wakes.begin_sleep(number * SECOND, 0.1)
        wakes.end_sleep(woke := number * SECOND + 100 * MS + int(late * MS))
        wakes.rest(woke)
    return wakes


# --- What threads of the process wait for ---------------------------------------------------------------------------


def filled(*late_ms: float) -> tuple[float, ...]:
    """As many wakes as show what is waited for, the others of them in time."""
    return (*late_ms, *[0.1] * (WAKES_PER_WAIT - len(late_ms)))


def test_where_wakes_are_late_a_chunk_may_be_late_by_the_second_latest_for_each_of_its_turns() -> None:
    end = (WAKES_PER_WAIT - 1) * SECOND + 100 * MS + MS // 10
    assert woken(*filled(4, 3)).find_waits(0) == [Window(0, end, TURNS_PER_CHUNK * 3 * MS, 0.0)]


def test_it_is_shown_by_the_first_wakes_already() -> None:
    assert [wait.excess for wait in woken(4, 0.1, 3).find_waits(0)] == [TURNS_PER_CHUNK * 3 * MS]


def test_one_wake_that_is_very_late_shows_when_nothing_ran() -> None:
    wakes = woken(0.1, 50, 0.1)
    assert (wakes.find_gil_holds(0, 0), wakes.find_waits(0)) == ([Lag(1_100 * MS, 1_150 * MS, ran_at=1_000 * MS)], [])


def test_what_the_host_added_to_a_wake_is_no_wait_for_other_threads() -> None:
    assert [wait.excess for wait in woken(*[5] * WAKES_PER_WAIT, host_ms=3).find_waits(0)] == [TURNS_PER_CHUNK * 2 * MS]


def test_what_readers_waited_for_a_cpu_shows_in_their_own_windows() -> None:
    wakes = Wakes(lambda: Turns(0, 0), idle)
    for number in range(WAKES_PER_WAIT):
        wakes.begin_sleep(number * SECOND, 0.1)
        wakes.end_sleep(number * SECOND + 104 * MS, readers_delay=2 * MS)
    assert [wait.excess for wait in wakes.find_waits(0)] == [TURNS_PER_CHUNK * 2 * MS]


def test_where_the_share_of_the_host_is_not_known_nothing_is() -> None:
    assert sleep_and_wake(Wakes(lambda: None), 9, 9, 9).find_waits(0) == []


@pytest.mark.parametrize("late_ms", [filled(9), (0.9,) * 40], ids=["one wake alone is late", "all are, by little"])
def test_wakes_that_are_late_as_on_a_quiet_machine_delay_no_chunk(late_ms: tuple[float, ...]) -> None:
    assert woken(*late_ms).find_waits(0) == []


def busy(share: float) -> Callable[[], int]:
    """The CPU time of a process that is on a CPU for this share of each second, in which there is a sleep."""
    return partial(next, itertools.count(0, round(share * SECOND)))


def test_one_late_wake_is_no_custom_in_a_busy_process_either() -> None:
    assert woken(*filled(78), read_cpu=busy(0.6)).find_waits(0) == []


def test_in_a_process_that_computes_all_the_time_each_turn_waits_for_the_interpreter() -> None:
    (wait,) = woken(*filled(), read_cpu=busy(0.95)).find_waits(0)
    assert wait.excess == TURNS_PER_CHUNK * round(sys.getswitchinterval() * SECOND)


# --- Pauses of the process ------------------------------------------------------------------------------------------


@pytest.fixture
def wake() -> Callable[[int], Wakes]:
    """Sleep from 0 s to 1 s, and wake up at a moment (ns)."""

    def woken_at(now: int) -> Wakes:
        wakes = Wakes(lambda: None)
        wakes.begin_sleep(0, 1.0)
        wakes.end_sleep(now)
        wakes.rest(now)
        return wakes

    return woken_at


def test_a_round_that_is_a_little_late_is_no_pause(wake: Callable[[int], Wakes]) -> None:
    assert wake(SECOND + PAUSE_NS).find_pauses(0, 5 * SECOND) == []


def test_a_round_that_is_late_is_a_pause_from_when_it_was_due_that_may_have_begun_with_the_sleep(
    wake: Callable[[int], Wakes],
) -> None:
    assert wake(5 * SECOND).find_pauses(0, 5 * SECOND) == [Lag(SECOND, 5 * SECOND, ran_at=0)]


def test_what_the_watchdog_does_itself_is_no_pause(wake: Callable[[int], Wakes]) -> None:
    assert wake(SECOND).find_pauses(0, 31 * SECOND) == []


def test_a_pause_is_found_before_the_watchdog_wakes_up() -> None:
    wakes = Wakes(lambda: None)
    wakes.begin_sleep(0, 1.0)
    assert wakes.find_pauses(0, 5 * SECOND) == [Lag(SECOND, 5 * SECOND, ran_at=0)]


@pytest.mark.parametrize("go_on", [Wakes.rest, partial(Wakes.begin_sleep, seconds=9.0)], ids=["rests", "sleeps again"])
def test_what_takes_long_after_a_wake_is_a_pause_while_it_lasts_and_afterwards(
    go_on: Callable[[Wakes, int], object],
) -> None:
    wakes = Wakes(lambda: None)
    wakes.begin_sleep(0, 1.0)
    wakes.end_sleep(SECOND)
    before = wakes.find_pauses(0, 5 * SECOND)
    go_on(wakes, 6 * SECOND)
    assert (before, wakes.find_pauses(0, 9 * SECOND)) == ([Lag(SECOND, 5 * SECOND)], [Lag(SECOND, 6 * SECOND)])


def test_a_pause_between_a_wake_and_a_round_is_found_once() -> None:
    wakes = Wakes(lambda: None)
    wakes.begin_sleep(0, 1.0)
    for moment in (SECOND, 5 * SECOND):  # the end of a nap, and the round after it
        wakes.end_sleep(moment)
    wakes.rest(5 * SECOND)
    assert wakes.find_pauses(0, 9 * SECOND) == [Lag(SECOND, 5 * SECOND)]


def test_a_pause_is_found_once(wake: Callable[[int], Wakes]) -> None:
    assert len(wake(5 * SECOND).find_pauses(0, 6 * SECOND)) == 1


def test_pauses_are_forgotten_in_the_end() -> None:
    wakes = sleep_and_wake(Wakes(lambda: None), *[500] * 2 * MAX_PAUSES)
    assert len(wakes.find_pauses(0, 0)) == MAX_PAUSES


def test_after_a_fork_no_pause_is_known(wake: Callable[[int], Wakes]) -> None:
    wakes = wake(5 * SECOND)
    wakes.forget_after_fork()
    assert wakes.find_pauses(0, 9 * SECOND) == []


@pytest.mark.parametrize(("took_ms", "expected"), [(5, []), (6, [Lag(20 * MS, 26 * MS)])])
def test_a_watchdog_that_took_long_for_its_work_may_have_held_the_interpreter(
    took_ms: int, expected: list[Lag]
) -> None:
    wakes = Wakes(lambda: None)
    wakes.begin_sleep(0, 0.02)
    wakes.end_sleep(20 * MS)
    wakes.begin_sleep((20 + took_ms) * MS, 0.02)
    assert wakes.find_gil_holds(0, 0) == expected


def test_waits_for_a_cpu_while_the_interpreter_is_held_are_part_of_the_hold() -> None:
    readings = iter([Turns(0, 0), Turns(20 * MS, 10)])
    wakes = sleep_and_wake(Wakes(lambda: next(readings), idle), 30)
    assert wakes.find_gil_holds(0, 0) == [Lag(104 * MS, 130 * MS, ran_at=0)]


def test_a_hold_may_last_when_a_reader_gets_its_turn_before_the_watchdog() -> None:
    wakes = Wakes(lambda: None)
    wakes.begin_sleep(0, 0.02)
    found = [wakes.find_gil_holds(0, now * MS) for now in (25, 26)]
    assert found == [[], [Lag(20 * MS, 26 * MS, ran_at=0)]]
