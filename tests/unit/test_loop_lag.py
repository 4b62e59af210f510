"""How the intervals are found in which an event loop was blocked."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.loops import (
    BEATS_PER_WAIT,
    CLOSE_TIMER_SECONDS,
    FEW_STREAMS,
    HOPS_PER_CHUNK,
    MAX_SHORT_BLOCK_NS,
    TIMER_SECONDS,
    LoopLag,
    LoopLags,
    find_headers_moment,
)
from otel_itl.recording.internal_errors import InternalErrors

MS = 1_000_000


def test_headers_that_came_right_after_a_block_may_have_been_there_from_its_start() -> None:
    assert find_headers_moment(312 * MS, [Lag(20 * MS, 310 * MS)]) == 20 * MS


def test_after_a_long_block_headers_may_be_seen_later() -> None:
    # A twentieth of 290 ms.
    assert find_headers_moment(324 * MS, [Lag(20 * MS, 310 * MS)]) == 20 * MS


@pytest.mark.parametrize("headers", [10, 325], ids=["before", "long after"])
def test_headers_that_came_before_a_block_or_long_after_are_left_alone(headers: int) -> None:
    assert find_headers_moment(headers * MS, [Lag(20 * MS, 310 * MS)]) == headers * MS


def test_a_block_that_ended_as_the_request_was_made_is_none_of_its_own() -> None:
    loop = asyncio.new_event_loop()
    lag = LoopLag(loop, InternalErrors())
    loop.close()
    lag._lags.append(Lag(20 * MS, 310 * MS))
    assert lag.since(308 * MS) == []


def test_no_loop_no_lag() -> None:
    assert LoopLags(InternalErrors()).of_running_loop() is None


def test_a_blocked_loop_is_noticed() -> None:
    async def blocked() -> list[Lag]:
        lag = LoopLags(InternalErrors()).of_running_loop()
        assert lag is not None
        began = time.perf_counter_ns()
        lag.add_stream(1, [])
        await asyncio.sleep(0.05)
        time.sleep(0.2)  # noqa: ASYNC251 - the point
        await asyncio.sleep(0.05)
        lag.remove_stream(1)
        return lag.since(began)

    longest = max(asyncio.run(blocked()), key=lambda lag: lag.end - lag.start)
    assert longest.end - longest.start >= 0.15e9


@pytest.mark.parametrize(("late", "seconds"), [(0, TIMER_SECONDS), (4 * MS, CLOSE_TIMER_SECONDS)])
def test_after_a_block_the_timer_fires_so_often_that_no_other_one_falls_between(late: int, seconds: float) -> None:
    async def blocked() -> tuple[float, list[Lag]]:
        lag = LoopLag(asyncio.get_running_loop(), InternalErrors())
        lag.add_stream(1, [])
        lag._due = time.perf_counter_ns() - late
        lag._fire()
        lag.remove_stream(1)
        return (lag._due - lag._started) / 1e9, list(lag._lags)

    interval, lags = asyncio.run(blocked())
    assert (interval, len(lags)) == (seconds, seconds == CLOSE_TIMER_SECONDS)


@pytest.mark.parametrize(("streams", "milliseconds"), [(1, 5), (8, 8), (40, 11)])
def test_the_more_streams_a_loop_has_the_longer_it_catches_up_after_a_block(streams: int, milliseconds: int) -> None:
    async def blocked() -> Lag:
        lag = LoopLag(asyncio.get_running_loop(), InternalErrors())
        for stream in range(streams):
            lag.add_stream(stream, [])
        lag._due = time.perf_counter_ns() - 30 * MS
        lag._fire()
        for stream in range(streams):
            lag.remove_stream(stream)
        return lag._lags[-1]

    assert asyncio.run(blocked()).catch_up == milliseconds * MS


def test_the_beat_stops_when_no_stream_is_open() -> None:
    async def beaten() -> bool:
        lag = LoopLag(asyncio.get_running_loop(), InternalErrors())
        lag.add_stream(1, [])
        lag.remove_stream(1)
        await asyncio.sleep(0.06)
        return not lag._idle

    assert asyncio.run(beaten()) is False


@pytest.mark.requirement("R26")
def test_a_loop_that_is_done_is_not_kept() -> None:
    async def joined() -> weakref.ref[asyncio.AbstractEventLoop]:
        lag = LoopLags(InternalErrors()).of_running_loop()
        assert lag is not None
        lag.add_stream(1, [])
        lag.remove_stream(1)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(joined())
    gc.collect()
    assert loop() is None


# --- Blocks that the timer does not see one by one -------------------------------------------------------------------


def beaten(*late_ms: float, streams: int = 1) -> LoopLag:
    """A loop whose timer fired this late, one time after the other."""
    loop = asyncio.new_event_loop()
    lag = LoopLag(loop, InternalErrors())
    loop.close()
    lag._growing.update(dict.fromkeys(range(streams), ()))
    for number, late in enumerate(late_ms):
        lag._started = 20 * MS * number
        lag._note_beat(round(late * MS), 20 * MS * (number + 1))
    return lag


def test_a_timer_that_is_sometimes_late_shows_what_chunks_wait_for_meanwhile() -> None:
    (wait,) = beaten(*[0.5] * (BEATS_PER_WAIT - 2), 4, 9).find_waits(0)
    assert (wait.start, wait.end, wait.excess) == (0, 20 * MS * BEATS_PER_WAIT, HOPS_PER_CHUNK * 4 * MS)


def test_it_shows_so_before_all_firings_are_there() -> None:
    (wait,) = beaten(0.5, 9, 4).find_waits(0)
    assert wait.excess == HOPS_PER_CHUNK * 4 * MS


@pytest.mark.parametrize(("streams", "late"), [(FEW_STREAMS, MAX_SHORT_BLOCK_NS), (FEW_STREAMS + 1, 30 * MS)])
def test_long_blocks_are_lags_by_themselves_where_no_other_streams_wait_for_the_loop(streams: int, late: int) -> None:
    (wait,) = beaten(*[0.5] * (BEATS_PER_WAIT - 2), 30, 40, streams=streams).find_waits(0)
    assert wait.excess == HOPS_PER_CHUNK * late


@pytest.mark.parametrize("late_ms", [(30,), (0.5, 30), (30, *[0.5] * (BEATS_PER_WAIT - 1))])
def test_a_timer_that_was_late_once_shows_one_block_alone(late_ms: tuple[float, ...]) -> None:
    assert beaten(*late_ms).find_waits(0) == []


def test_a_timer_that_is_late_as_on_a_quiet_loop_delays_no_chunk() -> None:
    assert beaten(*[1.9] * 2 * BEATS_PER_WAIT).find_waits(0) == []


@pytest.mark.parametrize("late_ms", [(0.5, 4, 1), (0.5, 4, *[1] * (BEATS_PER_WAIT - 2))], ids=["some", "all"])
def test_a_chunk_passes_a_loop_in_some_of_its_longest_iterations(late_ms: tuple[float, ...]) -> None:
    (passage,) = beaten(*late_ms).find_passages(0)
    assert (passage.start, passage.excess) == (0, HOPS_PER_CHUNK * 4 * MS)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([(0, 0.9)], []),
        ([(0, 2)], [(0, 2)]),
        ([(0, 0.9), (1, 1.9), (2, 2.9)], [(0, 2.9)]),
        ([(0, 0.9), (5, 5.9), (9, 11)], [(9, 11)]),
        ([(0, 2), (2.5, 6)], [(0, 6)]),
        ([(0, 2), (4, 6)], [(0, 2), (4, 6)]),
    ],
    ids=["short", "one", "many that are short", "short ones apart", "one after the other", "apart"],
)
def test_what_finishing_streams_takes_is_a_block(
    blocks: list[tuple[float, float]], expected: list[tuple[float, float]]
) -> None:
    lag = beaten()
    for start, end in blocks:
        lag.add_block(round(start * MS), round(end * MS))
    assert [(one.start / MS, one.end / MS) for one in lag.find_own_blocks(0)] == expected
