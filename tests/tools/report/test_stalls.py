"""Stalls in a report: those on spans, or those found in timelines."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest

from otel_itl.core import conventions as names
from otel_itl.core.encoding import TokenEvent, encode
from otel_itl.core.timeline import Kind, Timeline
from otel_itl.tools.report.stalls import StallGroup
from otel_itl.tools.report.summary import summarize

MS = 1_000_000


def stall_event(timeline: Timeline, phase: str = "decode", cause: str = "upstream", duration: float = 3.0) -> Any:
    attributes = {names.STALL_PHASE: phase, names.STALL_CAUSE: cause, names.STALL_DURATION: duration}
    return TokenEvent(names.STALL_EVENT, timeline.request_unix_ns + 5 * MS, attributes)


def groups(read: Any, made: Any, *spans: Any) -> list[StallGroup]:
    (row,) = summarize(read(made.spans(*spans)).streams).rows
    return list(row.stalls)


def group(count: int, duration: float, longest: float, phase: str | None, cause: str | None) -> StallGroup:
    return StallGroup(phase=phase, cause=cause, count=count, duration=duration, longest=longest)


def test_stalls_are_summed_up_by_phase_and_cause_the_costliest_first(read: Any, made: Any) -> None:
    timeline, other = made.timeline(20, 20), made.timeline(20, 20)
    events = [stall_event(timeline), stall_event(timeline, duration=2.5), stall_event(timeline, cause="process")]
    spans = (
        made.span(events=[*events, *encode(timeline)], **{names.STALL_COUNT: 3}),
        made.span(events=[stall_event(other, "first_token", duration=11.0), *encode(other)], **{names.STALL_COUNT: 1}),
    )
    assert groups(read, made, *spans) == [
        group(1, 11.0, 11.0, "first_token", "upstream"),
        group(2, 5.5, 3.0, "decode", "upstream"),
        group(1, 3.0, 3.0, "decode", "process"),
    ]


def test_stalls_beyond_those_with_an_event_have_no_cause(read: Any, made: Any) -> None:
    timeline = made.timeline(20, 20)
    counted = {names.STALL_COUNT: 4, names.STALL_TOTAL_DURATION: 12.0, names.STALL_MAX: 5.0}
    span = made.span(events=[stall_event(timeline), *encode(timeline)], **counted)
    # One of 3 s has an event; of the remaining 9 s, one of the other three took 5.
    assert groups(read, made, span) == [group(3, 9.0, 5.0, None, None), group(1, 3.0, 3.0, "decode", "upstream")]


def test_a_span_that_counts_no_stall_has_none_whatever_its_timeline_shows(read: Any, made: Any) -> None:
    assert groups(read, made, made.span(made.timeline(20, 5_000), **{names.STALL_COUNT: 0})) == []


def test_stalls_of_a_span_without_a_count_are_found_in_its_timeline(read: Any, made: Any) -> None:
    assert groups(read, made, made.span(made.timeline(20, 5_000, 1_990))) == [group(1, 5.0, 5.0, "decode", None)]


def test_streams_whose_stalls_were_found_in_timelines_are_counted(read: Any, made: Any) -> None:
    spans = made.span(made.timeline(20)), made.span(made.timeline(20), **{names.STALL_COUNT: 0})
    (row,) = summarize(read(made.spans(*spans)).streams).rows
    assert row.streams_with_derived_stalls == 1


def test_the_time_before_the_first_token_is_a_phase_of_its_own(read: Any, made: Any) -> None:
    span = made.span(made.timeline(20, first=12_000))
    assert groups(read, made, span) == [group(1, 12.0, 12.0, "first_token", None)]


def test_a_pause_of_the_caller_is_no_stall(read: Any, made: Any) -> None:
    timeline = made.timeline(20, 5_000, 20)
    late = replace(
        timeline, asked=array("q", [0, *timeline.arrived[:1], timeline.arrived[2] - MS, timeline.arrived[2]])
    )
    assert groups(read, made, made.span(late)) == []


def test_a_gap_that_contains_thinned_out_chunks_is_no_stall(read: Any, made: Any) -> None:
    timeline = replace(made.timeline(20, 5_000, 20), skipped=array("I", [0, 0, 90, 0]))
    assert groups(read, made, made.span(timeline)) == []


def test_pings_do_not_end_a_silence(read: Any, made: Any) -> None:
    timeline = made.timeline(1_500, 1_500, kinds=[Kind.ANSWER, Kind.PING, Kind.ANSWER])
    assert groups(read, made, made.span(timeline)) == [group(1, 3.0, 3.0, "decode", None)]


@pytest.mark.parametrize("count", ["3", True, None])
def test_a_count_of_another_type_is_ignored(read: Any, made: Any, count: Any) -> None:
    attributes = {} if count is None else {names.STALL_COUNT: count}
    (stream,) = read(made.spans(made.span(made.timeline(20), **attributes))).streams
    assert stream.span_facts.stalls is None


def test_stalls_are_read_from_a_span_whose_token_events_are_in_logs(read: Any, made: Any) -> None:
    timeline = made.timeline(20, 20)
    span = made.span(events=[stall_event(timeline)], **{names.STALL_COUNT: 1, names.STREAM_OUTCOME: "completed"})
    (row,) = summarize(read(made.logs(*encode(timeline), of=span), made.spans(span)).streams).rows
    assert list(row.stalls) == [group(1, 3.0, 3.0, "decode", "upstream")]


def test_of_two_streams_on_one_span_the_last_has_its_attributes(read: Any, made: Any) -> None:
    first, last = made.timeline(20, 20), made.timeline(20, 20)
    events = [stall_event(first), stall_event(last, cause="process"), *encode(first), *encode(last)]
    streams = read(made.spans(made.span(events=events, **{names.STALL_COUNT: 1}))).streams
    causes = [
        None if stream.span_facts.stalls is None else [stall.cause for stall in stream.span_facts.stalls]
        for stream in streams
    ]
    assert causes == [None, ["process"]]
