"""How late each chunk may have been recorded, given what kept its reader away."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.lateness import Delays, find_lateness
from otel_itl.recording.evidence.windows import Window

MS = 1_000_000


def moments(*milliseconds: float) -> array[int]:
    return array("q", (round(moment * MS) for moment in milliseconds))


def lag(start: float, end: float, ran_at: float | None = None) -> Lag:
    return Lag(round(start * MS), round(end * MS), None if ran_at is None else round(ran_at * MS))


def window(start: float, end: float, excess: float, busy: float = 0.4) -> Window:
    return Window(round(start * MS), round(end * MS), round(excess * MS), busy)


def late(asked: array[int], arrived: array[int], *delays: Lag | Window, **options: Any) -> list[float]:
    """By how many milliseconds each chunk may have come earlier; the request was at 0."""
    lags = [delay for delay in delays if isinstance(delay, Lag)]
    windows = [delay for delay in delays if isinstance(delay, Window)]
    return [one / MS for one in find_lateness(asked, arrived, 0, Delays(lags, windows, **options))]


# --- Lags of the event loop, and pauses of the process ---------------------------------------------------------------


def test_without_a_delay_nothing_is_late() -> None:
    assert late(moments(0, 10), moments(10, 20)) == []


def test_a_chunk_that_came_right_after_a_block_may_have_come_since_it_began() -> None:
    assert late(moments(0, 10), moments(10, 312), lag(20, 310)) == [0, 292]


def test_a_block_may_have_begun_when_the_loop_last_ran() -> None:
    assert late(moments(0, 10), moments(10, 312), lag(20, 310, ran_at=12)) == [0, 300]


def test_a_loop_may_have_had_the_chunk_that_it_was_asked_for() -> None:
    assert late(moments(0, 115), moments(10, 232), lag(20, 110), lag(110, 230)) == [0, 212]


def test_a_chunk_that_came_long_after_a_block_is_not_late() -> None:
    assert late(moments(0, 10), moments(10, 500), lag(20, 310)) == []


def test_a_chunk_that_came_while_a_long_block_is_caught_up_with_is_late() -> None:
    assert late(moments(0, 10), moments(10, 320), lag(20, 310)) == [0, 300]


def test_a_loop_with_many_streams_catches_up_for_as_long_as_its_lag_says() -> None:
    block = lag(100, 130)._replace(catch_up=11 * MS)
    assert late(moments(90), moments(138), block) == [38]


def test_chunks_that_are_handed_out_right_after_a_late_one_may_have_come_with_it() -> None:
    asked, arrived = moments(0, 10, 312.1, 340, 360), moments(10, 312, 312.2, 340.1, 380)
    assert late(asked, arrived, lag(20, 310)) == [0, 292, 292.2, 320.1, 0]


def test_a_backlog_ends_where_a_chunk_was_waited_for() -> None:
    asked, arrived = moments(0, 10, 312.1, 330, 350), moments(10, 312, 327, 349, 350.1)
    assert late(asked, arrived, lag(20, 310)) == [0, 292, 0, 0, 0]


def test_a_backlog_of_a_stream_without_waits_ends_in_time() -> None:
    ticks = [312 + index for index in range(1000)]
    asked, arrived = moments(0, 10, *ticks[:-1]), moments(10, *ticks)
    lateness = late(asked, arrived, lag(20, 310))
    assert (sum(one > 0 for one in lateness), lateness[-1]) == (293, 0)


def test_a_chunk_that_came_before_the_block_is_not_late() -> None:
    assert late(moments(0), moments(10), lag(20, 310)) == []


def test_no_chunk_came_before_the_one_before_it() -> None:
    assert late(moments(0, 30), moments(30, 312), lag(20, 310, ran_at=0)) == [30, 312]


def test_no_chunk_came_before_the_request() -> None:
    assert late(moments(5), moments(312), lag(-100, 310)) == [312]


# --- Windows of the run queue ----------------------------------------------------------------------------------------


def test_a_chunk_may_be_late_by_what_its_thread_waited_for_a_cpu_in_the_same_window() -> None:
    assert late(moments(0, 10, 110), moments(10, 110, 210), window(100, 200, 30)) == [0, 30, 0]


def test_a_chunk_is_not_late_by_a_wait_before_the_thread_slept() -> None:
    windows = (window(0, 100, 60), window(200, 300, 20))
    assert late(moments(0), moments(250), *windows) == [20]


def test_a_thread_that_never_slept_may_have_had_the_chunk_all_the_time() -> None:
    windows = (window(0, 100, 90, busy=1.0), window(100, 200, 90, busy=1.0), window(200, 300, 20))
    assert late(moments(0), moments(205), *windows) == [205]


def test_a_wait_that_began_before_its_window_counts_in_full() -> None:
    assert late(moments(0, 10), moments(10, 505), window(15, 510, 500)) == [0, 495]


def test_a_wait_after_a_run_of_which_nothing_was_slept_adds_to_one_before() -> None:
    assert late(moments(0, 10), moments(10, 100), window(40, 70, 6), window(65, 105, 40, busy=1.0)) == [0, 46]


def test_a_wait_for_other_threads_that_fills_its_interval_may_have_begun_in_the_one_before() -> None:
    waits = (window(20, 40, 12), window(40, 60, 20))
    assert late(moments(0, 10), moments(10, 50), waits=waits) == [0, 32]


def test_what_filled_many_intervals_is_not_followed_further() -> None:
    waits = tuple(window(20 * index, 20 * index + 20, 20) for index in range(1, 40))
    assert late(moments(0, 10), moments(10, 790), waits=waits) == [0, 40]


def test_a_wait_for_a_cpu_may_have_gone_before_a_wait_for_the_interpreter() -> None:
    assert late(moments(0, 10), moments(10, 100), lag(80, 99), window(50, 81, 30)) == [0, 50]


def test_the_waits_of_a_long_silence_are_not_added_up() -> None:
    """Of 5 s in which 94 of every 100 ms were waited for a CPU, with a sleep in each window."""
    windows = [window(100 * index, 100 * index + 100, 80) for index in range(50)]
    assert max(late(moments(0, 100), moments(100, 4_990), *windows)) <= 160


def test_a_burst_after_a_wait_may_have_come_at_any_time_of_it() -> None:
    arrived = moments(10, 1_010, 1_011, 1_012)
    assert late(moments(0, 10, 1_010, 1_011), arrived, window(11, 1_015, 1_000, busy=1.0)) == [0, 1000, 1001, 1002]


@pytest.mark.parametrize("arrived", [99, 206], ids=["before", "after"])
def test_a_window_delays_no_chunk_outside_of_it(arrived: float) -> None:
    assert late(moments(0), moments(arrived), window(100, 200, 30)) == []


def test_a_thread_that_is_busy_by_itself_is_not_late() -> None:
    """What its caller computes is a hold."""
    assert late(moments(0, 10), moments(10, 150), window(100, 200, 0, busy=1.0)) == []


# --- A loop, which reads other streams as well -----------------------------------------------------------------------


@pytest.mark.parametrize(("excess", "expected"), [(12, 12), (80, 25)], ids=["a wait", "a longer wait is a lag"])
def test_a_chunk_on_a_loop_may_be_late_by_a_wait_that_its_timer_does_not_show(excess: float, expected: float) -> None:
    assert late(moments(0, 10), moments(10, 350), window(200, 400, excess), is_on_loop=True) == [0, expected]


def test_a_loop_that_never_sleeps_takes_some_iterations_for_a_chunk() -> None:
    busy, lags = window(100, 400, 0, busy=0.95), (lag(200, 230), lag(250, 260))
    assert late(moments(0, 10), moments(10, 380), busy, is_on_loop=True) == [0, 50]
    assert late(moments(0, 10), moments(10, 380), busy, *lags, is_on_loop=True) == [0, 90]


def test_a_loop_that_never_sleeps_and_iterates_fast_takes_little_for_a_chunk() -> None:
    busy = [window(100 + 20 * index, 120 + 20 * index, 0, busy=0.95) for index in range(15)]
    passages = (window(100, 400, 6),)
    assert late(moments(0, 10), moments(10, 380), *busy, passages=passages, is_on_loop=True) == [0, 6]


def test_a_loop_that_slept_before_it_was_busy_had_no_chunk_then() -> None:
    busy, long = window(100, 400, 0, busy=0.95), lag(150, 320)
    assert late(moments(0, 10), moments(10, 380), busy, long, is_on_loop=True) == [0, 220]


def test_a_loop_that_lags_all_the_time_needs_several_iterations_for_a_chunk() -> None:
    lags = [lag(20 + 50 * index, 50 + 50 * index, ran_at=50 * index) for index in range(10)]
    assert late(moments(0, 1), moments(1, 501), *lags, is_on_loop=True) == [0, 201]


# --- The GIL ----------------------------------------------------------------------------------------------------------


def test_where_threads_wait_for_the_gil_a_chunk_may_be_late_by_its_turns() -> None:
    assert late(moments(0, 50), moments(50, 100), waits=(window(90, 300, 15),)) == [0, 15]


# --- A connection that several streams read by turns -----------------------------------------------------------------


def test_what_happened_within_a_lag_is_no_further_lag() -> None:
    lags = [Lag(0, 40 * MS), Lag(20 * MS, 21 * MS), Lag(30 * MS, 31 * MS), Lag(41 * MS, 79 * MS)]
    assert late(moments(0), moments(80), *lags) == [80]
