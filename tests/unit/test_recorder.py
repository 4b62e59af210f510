"""The recorder of one stream: which moments it records, and that it ends once, whichever way the stream ends."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from otel_itl.core.chunk_code import chunk_code
from otel_itl.core.request import Request
from otel_itl.core.stream import FinishedStream
from otel_itl.core.timeline import Kind, Outcome
from otel_itl.recording import chunk_log, finalizer
from otel_itl.recording.evidence.lags import Lag
from otel_itl.recording.evidence.loops import LoopLag
from otel_itl.recording.recorder import StreamRecorder

MS = 1_000_000

# --- What a chunk carried, as one integer --------------------------------------------------------------------------


def test_a_kind_alone_is_its_own_code() -> None:
    assert chunk_code(Kind.ANSWER) == Kind.ANSWER


def test_a_code_holds_kind_tokens_and_choice(record: Any) -> None:
    recording = record()
    recording.chunk_after(1, chunk_code(Kind.TOOL | Kind.FINISH, 5, 3))
    timeline = recording.timeline_so_far
    assert (timeline.kinds, timeline.tokens, timeline.choices) == (b"\x44", array("I", [5]), b"\x03")


@pytest.mark.parametrize(("tokens", "held"), [((1 << 24) - 1, (1 << 24) - 1), (1 << 24, (1 << 24) - 1)])
def test_tokens_beyond_24_bits_do_not_run_over(record: Any, tokens: int, held: int) -> None:
    recording = record()
    recording.chunk_after(1, chunk_code(Kind.ANSWER, tokens))
    timeline = recording.timeline_so_far
    assert (timeline.tokens[0], timeline.kinds, timeline.choices) == (held, b"\2", b"")


@pytest.mark.parametrize(("choice", "held"), [(255, 255), (256, 255), (100_000, 255)])
def test_a_choice_beyond_one_byte_does_not_run_over(record: Any, choice: int, held: int) -> None:
    recording = record()
    recording.chunk_after(1, chunk_code(Kind.ANSWER, 1, choice))
    assert recording.timeline_so_far.choices == bytes([held])


# --- Moments -------------------------------------------------------------------------------------------------------


def test_moments_are_counted_from_the_request(record: Any) -> None:
    recording = record()
    recording.clock.advance(0.1)
    recording.chunk_after(50)
    recording.chunk_after(20)
    timeline = recording.timeline_so_far
    assert (timeline.asked, timeline.arrived) == (array("q", [100 * MS, 150 * MS]), array("q", [150 * MS, 170 * MS]))


def test_moments_are_rounded_down_to_whole_microseconds(record: Any) -> None:
    recording = record()
    recording.clock.advance_ns(1_999)
    recording.chunk_after(0.0025)
    timeline = recording.timeline_so_far
    assert (timeline.asked[0], timeline.arrived[0]) == (1_000, 4_000)


def test_the_wall_time_of_the_request_is_kept(record: Any) -> None:
    assert record().timeline_so_far.request_unix_ns == 1_700_000_000_000_000_000


def test_the_headers_are_there_when_the_request_returns(record: Any) -> None:
    recording = record()
    recording.clock.advance(0.19)
    recording.recorder.record_headers(2)
    timeline = recording.timeline_so_far
    assert (timeline.headers, timeline.attempts) == (190 * MS, 2)


@pytest.mark.requirement("R40")
def test_attempts_that_were_not_counted_are_unknown(record: Any) -> None:
    recording = record()
    recording.recorder.record_headers(None)
    assert recording.timeline_so_far.attempts is None


def test_a_chunk_that_was_asked_for_and_never_came_is_none(record: Any) -> None:
    recording = record()
    recording.chunk_after(10)
    recording.recorder.log.asked.append(recording.clock())
    assert len(recording.timeline_so_far) == 1


def test_tokens_that_the_provider_never_counts_are_left_out(record: Any) -> None:
    recording = record()
    recording.chunk_after(10)
    assert recording.timeline_so_far.tokens == array("I")


def test_a_single_choice_is_left_out(record: Any) -> None:
    recording = record()
    recording.chunk_after(10, chunk_code(Kind.ANSWER, 4))
    assert recording.timeline_so_far.choices == b""


def test_the_usage_of_the_answer_is_on_the_timeline(record: Any) -> None:
    recording = record()
    answer = recording.recorder.response
    answer.input_tokens, answer.output_tokens, answer.reasoning_tokens = 20, 14, 3
    timeline = recording.timeline_so_far
    assert (timeline.input_tokens, timeline.output_tokens, timeline.reasoning_tokens) == (20, 14, 3)


@pytest.mark.requirement("R54")
def test_a_chunk_takes_less_than_40_bytes(record: Any) -> None:
    recording = record()
    for _ in range(100_000):
        recording.chunk_after(0, chunk_code(Kind.ANSWER, 9, 1))
    held = (recording.recorder.log.asked, recording.recorder.log.arrived, recording.recorder.log.codes)
    assert sum(moments.__sizeof__() for moments in held) / 100_000 < 40


# --- Pings ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R31")
def test_a_ping_that_the_sdk_swallows_parts_the_wait_for_the_next_chunk(record: Any) -> None:
    # Asked at 0; a ping at 40; the chunk at 100.
    recording = record()
    recording.recorder.log.asked.append(recording.clock())
    recording.clock.advance(0.04)
    recording.recorder.record_swallowed(Kind.PING)
    recording.clock.advance(0.06)
    recording.recorder.log.arrived.append(recording.clock())
    recording.recorder.log.codes.append(Kind.ANSWER)
    timeline = recording.timeline_so_far
    assert (timeline.kinds, timeline.waits) == (bytes([Kind.PING, Kind.ANSWER]), array("q", [40 * MS, 60 * MS]))


def test_a_ping_without_a_waiting_reader_is_not_recorded(record: Any) -> None:
    recording = record()
    recording.chunk_after(10)
    recording.recorder.record_swallowed(Kind.PING)
    assert len(recording.timeline_so_far) == 1


def test_a_ping_beyond_the_limit_is_not_taken_down(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_log, "MAX_CHUNKS", 2)
    recording = record()
    recording.chunk_after(10)
    recording.recorder.log.asked.append(recording.clock())
    for _ in range(5):
        recording.recorder.record_swallowed(Kind.PING)
    assert len(recording.timeline_so_far) == 2


# --- Outcomes ------------------------------------------------------------------------------------------------------


class RateLimitError(Exception):
    """Of an SDK."""


def exhausted(recording: Any) -> None:
    recording.recorder.end_exhausted()


def failed(recording: Any) -> None:
    recording.recorder.end_failed(RateLimitError("you said: hello"))


def cancelled(recording: Any) -> None:
    recording.recorder.end_failed(asyncio.CancelledError())


def closed(recording: Any) -> None:
    recording.recorder.end_closed()


def thrown(recording: Any) -> None:
    recording.recorder.end_thrown(ValueError())


def orphaned(recording: Any) -> None:
    recording.recorder.abandon_from_gc()


ENDS: dict[Callable[[Any], None], str] = {
    exhausted: "completed",
    failed: "error",
    cancelled: "cancelled",
    closed: "closed",
    thrown: "closed",
    orphaned: "abandoned",
}


def test_an_exhausted_stream_whose_provider_said_that_it_was_done_is_completed(record: Any) -> None:
    recording = record()
    recording.recorder.has_reader = True
    recording.recorder.response.add_finish_reason("stop")
    recording.recorder.end_exhausted()
    assert recording.outcome == "completed"


def test_an_exhausted_stream_with_a_terminator_is_completed(record: Any) -> None:
    recording = record()
    recording.recorder.has_reader = True
    recording.recorder.response.is_terminated = True
    recording.recorder.end_exhausted()
    assert recording.outcome == "completed"


@pytest.mark.requirement("R52")
def test_an_exhausted_stream_without_a_finish_or_a_terminator_is_truncated(record: Any) -> None:
    recording = record()
    recording.recorder.has_reader = True
    recording.recorder.end_exhausted()
    assert recording.outcome == "truncated"


@pytest.mark.requirement("R6")
def test_bytes_that_were_read_to_their_end_are_completed(record: Any) -> None:
    # A reader of bytes passes on no finish reason.
    recording = record()
    recording.recorder.end_exhausted()
    assert recording.outcome == "completed"


@pytest.mark.requirement("R21")
def test_an_exhausted_stream_whose_provider_reported_a_failure_is_an_error_of_that_type(record: Any) -> None:
    recording = record()
    recording.recorder.response.error_type = "server_error"
    recording.recorder.end_exhausted()
    assert (recording.outcome, recording.finished[0].error_type) == ("error", "server_error")


@pytest.mark.requirement("R21")
def test_an_exception_of_the_sdk_is_an_error_of_its_class(record: Any) -> None:
    recording = record()
    failed(recording)
    assert (recording.outcome, recording.finished[0].error_type) == ("error", "RateLimitError")


@pytest.mark.requirement("R68")
def test_the_text_of_an_exception_is_in_no_report(record: Any) -> None:
    recording = record()
    failed(recording)
    assert "hello" not in repr(recording.finished)


@pytest.mark.requirement("R20")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit()])
def test_an_interrupted_wait_is_cancelled_and_no_error(record: Any, error: BaseException) -> None:
    recording = record()
    recording.recorder.end_failed(error)
    assert (recording.outcome, recording.finished[0].error_type) == ("cancelled", None)


def test_a_wait_that_is_thrown_away_is_abandoned(record: Any) -> None:
    recording = record()
    recording.recorder.end_failed(GeneratorExit())
    assert recording.outcome == "abandoned"


@pytest.mark.requirement("R20")
def test_a_closed_stream_is_closed_and_no_error(record: Any) -> None:
    recording = record()
    recording.recorder.end_closed()
    assert (recording.outcome, recording.finished[0].error_type) == ("closed", None)


@pytest.mark.requirement("R20")
def test_an_exception_of_the_caller_is_the_caller_s_leaving(record: Any) -> None:
    recording = record()
    recording.recorder.end_thrown(ValueError())
    assert (recording.outcome, recording.finished[0].error_type) == ("closed", None)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_an_interruption_between_two_chunks_is_cancelled(record: Any, error: BaseException) -> None:
    recording = record()
    recording.recorder.end_thrown(error)
    assert recording.outcome == "cancelled"


def test_a_close_while_a_chunk_is_awaited_waits_for_the_end_of_the_wait(record: Any) -> None:
    recording = record()
    recording.recorder.log.asked.append(recording.clock())
    recording.recorder.end_closed()
    assert recording.outcome == "open"


def test_a_close_while_bytes_are_awaited_waits_for_the_end_of_the_wait(record: Any) -> None:
    recording = record()
    recording.recorder.log.is_waiting = True
    recording.recorder.end_closed()
    assert recording.outcome == "open"


class Owner:
    """What a stream lives as long as."""


@pytest.mark.requirement("R25")
def test_a_close_of_what_is_being_collected_is_no_doing_of_the_caller(record: Any) -> None:
    recording = record()
    owner = Owner()
    recording.recorder.add_owner(owner)
    del owner
    recording.recorder.end_closed()
    assert recording.outcome == "abandoned"


@pytest.mark.requirement("R25")
def test_a_close_of_what_is_being_collected_is_not_reported_on_the_spot(record: Any) -> None:
    recording = record()
    owner = Owner()
    recording.recorder.add_owner(owner)
    del owner
    recording.recorder.end_closed()
    assert recording.finished == []


def test_a_close_while_the_owner_lives_is_the_caller_s(record: Any) -> None:
    recording = record()
    owner = Owner()
    recording.recorder.add_owner(owner)
    recording.recorder.end_closed()
    assert recording.outcome == "closed"


def test_a_probe_keeps_no_owner_alive(record: Any) -> None:
    recording = record()
    owner = Owner()
    recording.recorder.add_owner(owner)
    watched = weakref.ref(owner)
    del owner
    assert watched() is None


# --- Once ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R27")
@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1].__name__}") for pair in product(ENDS, ENDS)],
)
def test_a_stream_ends_once_and_the_first_end_counts(
    record: Any, first: Callable[[Any], None], second: Callable[[Any], None]
) -> None:
    recording = record()
    first(recording)
    second(recording)
    recording.machinery.finalizer.finalize_pending()
    assert [ended.timeline.outcome for ended in recording.finished] == [Outcome(ENDS[first])]


@pytest.mark.requirement("R27")
def test_the_end_is_the_moment_of_the_first_end(record: Any) -> None:
    recording = record()
    recording.clock.advance(0.3)
    recording.recorder.end_closed()
    recording.clock.advance(5)
    recording.recorder.end_exhausted()
    assert recording.timeline.end == 300 * MS


def test_the_end_of_a_dropped_stream_is_the_moment_of_its_dropping(record: Any) -> None:
    recording = record()
    recording.clock.advance(0.3)
    recording.recorder.abandon_from_gc()
    recording.clock.advance(5)
    recording.machinery.finalizer.finalize_pending()
    assert recording.timeline.end == 300 * MS


@pytest.mark.requirement("R27")
def test_of_many_threads_that_end_a_stream_one_does(record: Any) -> None:
    recording = record()
    together = threading.Barrier(8)

    def end() -> None:
        together.wait()
        recording.recorder.end_closed()

    threads = [threading.Thread(target=end) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(recording.finished) == 1


def test_the_report_names_the_request_and_what_the_response_said(record: Any) -> None:
    request = Request(operation="chat", provider="groq", model="x")
    recording = record(request=request)
    answer = recording.recorder.response
    recording.recorder.end_closed()
    assert (recording.finished[0].request, recording.finished[0].response is answer) == (request, True)


# --- Dropped -------------------------------------------------------------------------------------------------------


def drop(recording: Any) -> None:
    """Let go of the one reference to a probe."""
    del recording.recorder


@pytest.mark.requirement("R19")
def test_a_dropped_stream_is_abandoned(record: Any) -> None:
    recording = record()
    drop(recording)
    assert recording.outcome == "abandoned"


@pytest.mark.requirement("R25")
def test_a_finaliser_reports_nothing(record: Any) -> None:
    recording = record()
    drop(recording)
    assert recording.finished == []


@pytest.mark.requirement("R42")
def test_a_dropped_stream_keeps_its_partial_timing(record: Any) -> None:
    recording = record()
    recording.chunk_after(10)
    drop(recording)
    recording.machinery.finalizer.finalize_pending()
    assert recording.timeline.arrived == array("q", [10 * MS])


def test_a_stream_that_ended_is_not_reported_again_when_it_is_dropped(record: Any) -> None:
    recording = record()
    recording.recorder.end_closed()
    drop(recording)
    recording.machinery.finalizer.finalize_pending()
    assert len(recording.finished) == 1


def test_a_disowned_stream_is_never_reported(record: Any) -> None:
    recording = record()
    recording.recorder.end_unreported()
    recording.recorder.end_closed()
    drop(recording)
    recording.machinery.finalizer.finalize_pending()
    assert recording.finished == []


# --- Failures of our own -------------------------------------------------------------------------------------------


def fail(finished: FinishedStream) -> None:
    message = "no report"
    raise RuntimeError(message)


@pytest.mark.requirement("R16")
def test_a_report_that_fails_does_not_reach_the_caller(machinery: Any) -> None:
    machinery.open(fail).end_closed()
    assert machinery.errors.counts == {"stream.end": 2}  # it is tried twice


@pytest.mark.requirement("R16")
def test_a_report_that_fails_is_logged_once(machinery: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        machinery.open(fail).end_closed()
    assert [(record.name, record.levelno) for record in caplog.records] == [("otel_itl", logging.WARNING)]


@pytest.mark.requirement("R68")
def test_the_log_of_a_failure_names_the_place_and_not_the_text(
    machinery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machinery.open(fail).end_closed()
    (logged,) = caplog.messages
    assert ("RuntimeError" in logged, __file__ in logged, "no report" in logged) == (True, True, False)


@pytest.mark.requirement("R16")
def test_a_report_that_fails_once_is_made_by_the_next_flush(machinery: Any) -> None:
    finished: list[FinishedStream] = []
    failures = [RuntimeError()]

    def report(stream: FinishedStream) -> None:
        if failures:
            raise failures.pop()
        finished.append(stream)

    machinery.open(report).end_closed()
    machinery.finalizer.finalize_pending()
    assert [stream.timeline.outcome for stream in finished] == [Outcome.CLOSED]


@pytest.mark.requirement("R16")
def test_a_report_that_fails_twice_is_given_up(machinery: Any) -> None:
    machinery.open(fail).end_closed()
    for _ in range(3):
        machinery.finalizer.finalize_pending()
    assert (machinery.errors.counts, machinery.finalizer.pending) == ({"stream.end": 2}, 0)


# --- The event loop that a stream is awaited on --------------------------------------------------------------------


class CountingLag:
    """The lag of a loop that counts its streams."""

    def __init__(self) -> None:
        self.streams = 0

    def add_stream(self, stream: int, growing: object) -> None:
        self.streams += 1

    def remove_stream(self, stream: int) -> None:
        self.streams -= 1

    def since_including_current(self, moment: int, now: int) -> list[Lag]:
        return []

    def find_own_blocks(self, moment: int) -> list[Lag]:
        return []

    def find_waits(self, moment: int) -> list[Lag]:
        return []

    def add_block(self, start: int, end: int) -> None:
        pass


def streams_on(recorder: StreamRecorder, *loops: Any) -> list[int]:
    for loop in loops:
        recorder.set_loop(loop)
    return [loop.streams for loop in loops]


def test_a_loop_that_the_request_and_the_stream_are_awaited_on_has_the_stream_once(record: Any) -> None:
    loop = CountingLag()
    assert streams_on(record().recorder, loop, loop) == [1, 1]


def test_a_stream_that_is_read_on_another_loop_leaves_the_one_of_its_request(record: Any) -> None:
    assert streams_on(record().recorder, CountingLag(), CountingLag()) == [0, 1]


def test_a_stream_that_ended_is_on_no_loop(record: Any) -> None:
    recorder = record().recorder
    recorder.end_exhausted()
    assert streams_on(recorder, CountingLag()) == [0]


def test_an_ended_stream_has_left_its_loop(record: Any) -> None:
    recorder, loop = record().recorder, CountingLag()
    recorder.set_loop(loop)
    recorder.end_exhausted()
    assert loop.streams == 0


# --- Long streams on an event loop ---------------------------------------------------------------------------------


@pytest.fixture
def long(record: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A recording that is too long to be finalized on its event loop, and may be deferred; no thread finalizes it."""
    monkeypatch.setattr(finalizer, "LONG_STREAM", 3)
    recording = record(may_be_deferred=True)
    thread = recording.machinery.finalizer.thread
    monkeypatch.setattr(thread, "hurry", lambda: None)
    monkeypatch.setattr(thread, "_claims", [])  # it runs, as far as one can see
    recording.recorder.has_reader = True
    loop = asyncio.new_event_loop()
    recording.recorder.set_loop(LoopLag(loop, recording.machinery.errors))
    for moment in (10, 20, 30):
        recording.chunk_after(moment)
    yield recording
    recording.machinery.finalizer.finalize_pending()
    loop.close()


class Stalled:
    """Stands in for the monitor of a stream that has stalled."""

    is_stalled, threshold = True, 1.0

    def finish(self, *, is_over: bool) -> tuple[Any, ...]:
        return ()

    def deliver_reports(self) -> None:
        """There are none."""


@pytest.mark.requirement("R55")
def test_a_long_stream_that_ends_on_an_event_loop_is_not_reported_there(long: Any) -> None:
    long.recorder.end_closed()
    assert long.finished == []


@pytest.mark.requirement("R55")
def test_it_is_reported_by_the_next_flush_with_the_moment_of_its_end(long: Any) -> None:
    long.recorder.end_closed()
    end = long.clock() - long.recorder.requested
    long.clock.advance(5)
    long.machinery.finalizer.finalize_pending()
    assert (long.timeline.end, long.timeline.outcome) == (end // 1_000 * 1_000, Outcome.CLOSED)


def test_it_is_among_the_open_streams_no_more(long: Any) -> None:
    long.recorder.end_closed()
    assert len(long.machinery.open_streams) == 0


def test_where_too_many_long_streams_wait_the_next_is_reported_where_it_ends(
    long: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finalizer, "MAX_DEFERRED", 0)
    long.recorder.end_closed()
    assert len(long.finished) == 1


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda recorder: setattr(recorder, "may_be_deferred", False), id="that no flush reaches"),
        pytest.param(lambda recorder: recorder.set_loop(None), id="off a loop"),
        pytest.param(lambda recorder: recorder.log.codes.pop(), id="that is short"),
        pytest.param(lambda recorder: setattr(recorder, "stall_monitor", Stalled()), id="that has stalled"),
    ],
)
def test_a_stream_is_reported_where_it_ends(long: Any, alter: Callable[[Any], object]) -> None:
    alter(long.recorder)
    long.recorder.end_closed()
    assert len(long.finished) == 1


@pytest.mark.parametrize("outcome", ["error", "truncated"])
def test_an_end_that_emits_log_events_is_reported_at_once(long: Any, outcome: str) -> None:
    if outcome == "error":
        failed(long)
    else:
        long.recorder.end_exhausted()
    assert [finished.timeline.outcome.value for finished in long.finished] == [outcome]
