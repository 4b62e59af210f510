"""What caused a silence, given what the connection showed, and when the process or its event loop did not run."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl.core.stall_detector import Silence
from otel_itl.core.stalls import Cause, Evidence, Phase
from otel_itl.recording.evidence.causes import Readings, find_stall_cause
from otel_itl.recording.evidence.connection import Reading
from otel_itl.recording.evidence.frames import FrameEvidence
from otel_itl.recording.evidence.lags import Lag

MS = 1_000_000
THRESHOLD = 2_000
SINCE = 10_000
"""Milliseconds: when each silence begins."""

BY_CONNECTION = (Cause.UPSTREAM, Evidence.CONNECTION)
NOTHING_KNOWN = (Cause.UPSTREAM, Evidence.NONE)
PROCESS_BY_BYTES = (Cause.PROCESS, Evidence.BYTES)
LOOP_BY_BYTES = (Cause.EVENT_LOOP, Evidence.BYTES)
PROCESS_BY_RUN_QUEUE = (Cause.PROCESS, Evidence.RUN_QUEUE)
LOOP_BY_LOOP = (Cause.EVENT_LOOP, Evidence.LOOP)


def reading(moment: float, last_data: float, *, unread: int = 0, received: int = 1_000, segments: int = 10) -> Reading:
    """A reading, its moments in milliseconds after the silence began."""
    return Reading(round((SINCE + moment) * MS), unread, received, segments, round((SINCE + last_data) * MS))


def lags(*bounds: tuple[float, float]) -> list[Lag]:
    return [Lag(round((SINCE + start) * MS), round((SINCE + end) * MS)) for start, end in bounds]


def judge(
    length: float,
    before: Reading | None = None,
    now: Reading | None = None,
    *,
    stopped: tuple[tuple[float, float], ...] = (),
    blocked: tuple[tuple[float, float], ...] = (),
    is_over: bool = False,
    **options: Any,
) -> tuple[Cause, Evidence]:
    """The cause of a silence of so many milliseconds."""
    silence = Silence(
        *(0, Phase.DECODE, SINCE * MS, round((SINCE + length) * MS), round(length * MS), THRESHOLD * MS),
        is_alive=False, is_over=is_over,
    )  # fmt: skip
    options.setdefault("has_chunk", is_over)
    return find_stall_cause(silence, Readings(before, now, **options), lags(*stopped), lags(*blocked))


# --- The connection is the witness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hindrance", ["stopped", "blocked"])
def test_a_silence_in_which_nothing_came_is_the_upstreams_however_starved_the_process(hindrance: str) -> None:
    options: Any = {hindrance: ((0, 2_500),)}
    assert judge(2_500, None, reading(2_500, -5), **options) == BY_CONNECTION


def test_data_that_came_when_the_silence_began_may_have_been_the_chunk_before_it() -> None:
    assert judge(2_500, None, reading(2_500, 19), stopped=((0, 2_500),)) == BY_CONNECTION


def test_bytes_that_waited_all_the_time_are_the_callers() -> None:
    assert judge(2_500, None, reading(2_500, -5, unread=90)) == PROCESS_BY_BYTES


def test_bytes_that_a_blocked_loop_has_not_read_are_the_loops() -> None:
    assert judge(2_500, None, reading(2_500, 300, unread=90), blocked=((100, 2_500),)) == LOOP_BY_BYTES


def test_a_loop_that_did_not_run_as_its_process_did_not_is_no_cause() -> None:
    now = reading(2_500, 300, unread=90)
    assert judge(2_500, None, now, stopped=((200, 2_500),), blocked=((100, 2_500),)) == PROCESS_BY_BYTES


def test_bytes_that_came_at_the_end_of_a_silence_are_the_upstreams() -> None:
    """One segment came since the reading before, so that it came when the last data did."""
    before, now = reading(500, -5), reading(3_000, 2_990, unread=90, segments=11)
    assert judge(3_000, before, now, stopped=((600, 3_000),)) == BY_CONNECTION


def test_bytes_of_several_segments_may_have_come_at_any_time_since_the_reading_before() -> None:
    before, now = reading(500, -5), reading(3_000, 2_990, unread=90, segments=12)
    assert judge(3_000, before, now, stopped=((600, 3_000),)) == PROCESS_BY_BYTES


def test_until_the_reading_before_nothing_had_come() -> None:
    before, now = reading(1_600, -5), reading(3_000, 2_990, unread=90, segments=12)
    assert judge(3_000, before, now, stopped=((600, 3_000),)) == BY_CONNECTION


def test_bytes_that_were_unread_at_both_readings_have_waited_since_the_first() -> None:
    before = reading(500, 490, unread=90, received=1_000)
    now = reading(3_000, 2_990, unread=2_090, received=3_000, segments=30)
    assert judge(3_000, before, now) == PROCESS_BY_BYTES


def test_bytes_that_were_read_between_two_readings_have_not_waited() -> None:
    before = reading(500, 490, unread=90, received=1_000)
    now = reading(3_000, 2_990, unread=90, received=3_000, segments=30)
    assert judge(3_000, before, now) == NOTHING_KNOWN


def test_a_silence_that_a_ping_interrupted_is_the_upstreams() -> None:
    assert judge(2_500, reading(500, -5), reading(2_500, 1_900, segments=13)) == BY_CONNECTION


def test_a_chunk_that_had_come_when_its_silence_began_was_hidden_by_the_caller() -> None:
    assert judge(5_000, None, reading(5_050, 10), is_over=True) == PROCESS_BY_BYTES


def test_an_end_of_the_stream_is_no_data() -> None:
    assert judge(5_000, None, reading(5_050, 10), is_over=True, has_chunk=False) == BY_CONNECTION


def test_a_silence_that_was_over_when_it_was_found_was_quiet_until_the_reading_before() -> None:
    now = reading(6_000, 5_990, segments=60)
    assert judge(5_000, reading(4_000, -5), now, stopped=((4_100, 5_000),), is_over=True) == BY_CONNECTION


def test_on_a_connection_of_several_streams_unread_bytes_show_nothing() -> None:
    assert judge(2_500, None, reading(2_500, 2_490, unread=90), is_shared=True) == NOTHING_KNOWN


def shown(quiet_until: float, came: float | None) -> FrameEvidence:
    """What frames show, its moments in milliseconds after the silence began."""
    return FrameEvidence(round((SINCE + quiet_until) * MS), None if came is None else round((SINCE + came) * MS))


def test_a_frame_that_waits_for_its_reader_makes_the_silence_the_callers() -> None:
    assert judge(3_000, is_shared=True, frames=shown(900, 1_000), blocked=((900, 3_000),)) == LOOP_BY_BYTES


def test_a_frame_that_was_handed_out_long_after_it_came_makes_the_silence_the_callers() -> None:
    found = judge(3_000, is_shared=True, is_over=True, frames=shown(900, 1_000), blocked=((900, 2_990),))
    assert found == LOOP_BY_BYTES


def test_a_connection_that_is_read_without_a_frame_of_the_stream_makes_the_silence_the_upstreams() -> None:
    assert judge(3_000, is_shared=True, frames=shown(2_900, None), blocked=((500, 3_000),)) == BY_CONNECTION


def test_a_connection_that_nobody_has_read_shows_nothing() -> None:
    assert judge(3_000, is_shared=True, frames=shown(100, None), blocked=((100, 3_000),)) == LOOP_BY_LOOP


def test_on_a_connection_of_several_streams_no_data_show_that_nothing_came() -> None:
    now = reading(2_500, -5)
    assert judge(2_500, None, now, blocked=((100, 2_500),), is_shared=True) == BY_CONNECTION


# --- Without the connection ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stopped", "blocked", "expected"),
    [
        ((), (), NOTHING_KNOWN),
        ((), ((1_500, 3_000),), NOTHING_KNOWN),
        ((), ((1_499, 3_000),), LOOP_BY_LOOP),
        (((1_500, 3_000),), (), NOTHING_KNOWN),
        (((1_499, 3_000),), (), PROCESS_BY_RUN_QUEUE),
        (((500, 3_000),), ((500, 3_000),), PROCESS_BY_RUN_QUEUE),
        (((-5_000, 0), (3_000, 9_000)), (), NOTHING_KNOWN),
        (((-5_000, 2_950),), (), PROCESS_BY_RUN_QUEUE),
        ((), ((1_000, 9_000),), LOOP_BY_LOOP),
    ],
)
@pytest.mark.parametrize("is_over", [True, False])
def test_the_cause_is_what_did_not_run_for_most_of_the_silence_up_to_its_end(
    stopped: tuple[tuple[float, float], ...],
    blocked: tuple[tuple[float, float], ...],
    expected: tuple[Cause, Evidence],
    *,
    is_over: bool,
) -> None:
    assert judge(3_000, stopped=stopped, blocked=blocked, is_over=is_over) == expected


def test_many_short_waits_hide_nothing() -> None:
    waits = tuple((100 * index, 100 * index + 94) for index in range(50))
    assert judge(5_000, stopped=waits) == NOTHING_KNOWN


def test_what_did_not_run_and_ran_again_while_the_silence_lasts_has_hidden_nothing() -> None:
    assert judge(3_000, stopped=((0, 2_500),)) == NOTHING_KNOWN


def test_a_connection_that_counts_nothing_shows_whether_bytes_are_unread() -> None:
    some, nothing = Reading((SINCE + 3_000) * MS, 90), Reading((SINCE + 3_000) * MS, 0)
    assert judge(3_000, None, some, blocked=((500, 3_000),)) == LOOP_BY_BYTES
    assert judge(3_000, None, nothing) == BY_CONNECTION


def test_what_the_loop_has_read_and_not_handed_out_is_the_loops() -> None:
    now = reading(2_500, -900)._replace(is_ready=True)
    assert judge(2_500, None, now, blocked=((-500, 2_500),)) == LOOP_BY_BYTES


def test_the_end_of_a_response_that_had_come_before_the_silence_waited_for_the_loop() -> None:
    now = reading(2_500, -900)._replace(is_established=True)
    found = judge(2_500, None, now, blocked=((0, 2_500),), is_over=True, has_chunk=False, is_complete=True)
    assert found == LOOP_BY_BYTES


def test_the_end_of_a_response_that_is_the_end_of_its_connection_came_when_it_was_read() -> None:
    now = reading(2_500, -900)
    found = judge(2_500, None, now, blocked=((2_400, 2_500),), is_over=True, has_chunk=False, is_complete=True)
    assert found == BY_CONNECTION


def test_a_reader_that_gets_no_cpu_right_after_a_stop_goes_on_to_be_stopped() -> None:
    assert judge(2_500, stopped=((100, 2_050), (2_100, 2_480))) == PROCESS_BY_RUN_QUEUE


def test_no_more_than_two_stops_in_a_row_are_one() -> None:
    stopped = tuple((start, start + 450) for start in range(0, 2_500, 500))
    assert judge(2_500, stopped=stopped) == NOTHING_KNOWN


# --- A loop that lags all the time -----------------------------------------------------------------------------------


def test_the_last_lags_of_a_loop_that_lags_all_the_time_are_one() -> None:
    blocked = tuple((start, start + 400) for start in range(0, 2_400, 400))
    assert judge(2_400, blocked=blocked) == LOOP_BY_LOOP


def test_short_lags_hide_nothing_however_many_they_are() -> None:
    blocked = tuple((start, start + 50) for start in range(0, 2_400, 50))
    assert judge(2_400, blocked=blocked) == NOTHING_KNOWN


def test_lags_between_which_the_loop_slept_are_not_one() -> None:
    blocked = tuple((start, start + 400) for start in range(0, 2_400, 480))
    assert judge(2_320, blocked=blocked) == NOTHING_KNOWN
