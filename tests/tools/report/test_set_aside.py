"""Which streams are set aside from a figure, in every tool: those whose figure is the caller's or a buffer's."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest

from otel_itl.core.measures import measure
from otel_itl.core.timeline import Timeline
from otel_itl.tools.report.certainty import Cause, Known, describe_known
from otel_itl.tools.report.reading.span_facts import SpanFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import KnownCollector, find_set_aside_cause

BURSTS = [*[0.1] * 7, 159.3] * 8
"""The gaps (ms) of bursts of eight, one every 160 ms."""
MANY_BURSTS = BURSTS * 2
"""The same for twice as long: the chunks of the first burst hardly matter to the mean."""
FIGURES = ("time_to_first_token", "itl_p99", "time_per_output_token")


def stored(timeline: Timeline, **facts: Any) -> StoredStream:
    """The stream, with these facts on its span."""
    names = {
        "provider": "openai",
        "model": "m",
        "operation": "chat",
        "trace_id": "1",
        "span_id": "2",
        "where": "file:1",
    }
    return StoredStream(**names, timeline=timeline, measures=measure(timeline), span_facts=SpanFacts(**facts))


def late(timeline: Timeline, milliseconds: float) -> Timeline:
    """The stream, whose first chunk may have come earlier."""
    lateness = [round(milliseconds * 1_000_000), *[0] * (len(timeline) - 1)]
    return replace(timeline, lateness=array("q", lateness))


def causes(stream: StoredStream) -> list[Cause | None]:
    """Why it is set aside from TTFT, ITL and TPOT."""
    return [find_set_aside_cause(stream, figure) for figure in FIGURES]


def test_a_stream_that_is_known_is_in_every_figure(made: Any) -> None:
    assert causes(stored(made.timeline(*[20] * 20))) == [None, None, None]


def test_a_stream_is_set_aside_from_the_one_figure_that_is_not_known_to_half_of_itself(made: Any) -> None:
    assert causes(stored(late(made.timeline(*[20] * 40), 150))) == [Cause.BLOCKED, None, None]


def test_of_a_buffered_stream_the_time_to_the_first_token_remains(made: Any) -> None:
    assert causes(stored(made.timeline(*BURSTS))) == [None, Cause.BUFFERED, Cause.BUFFERED]


def test_the_time_per_token_remains_where_it_is_the_pace_from_burst_to_burst(made: Any) -> None:
    assert causes(stored(made.timeline(*MANY_BURSTS))) == [None, Cause.BUFFERED, None]


def test_of_an_answer_in_one_burst_no_pace_remains(made: Any) -> None:
    assert causes(stored(made.timeline(*[0.1] * 40))) == [None, Cause.BUFFERED, Cause.BUFFERED]


@pytest.mark.parametrize("figure", ["itl_p50", "itl_max", "itl_mean", "itl_stddev"])
def test_every_figure_of_the_gaps_has_the_same_rule(made: Any, figure: str) -> None:
    assert find_set_aside_cause(stored(made.timeline(*BURSTS)), figure) is Cause.BUFFERED


def test_a_span_that_is_caller_bound_without_bounds_is_in_no_figure(made: Any) -> None:
    assert causes(stored(made.timeline(*[20] * 20), is_consumer_bound=True)) == [Cause.BLOCKED] * 3


def test_what_is_set_aside_is_counted_by_its_cause(made: Any) -> None:
    collector = KnownCollector("itl_p99")
    pooled = [collector.add(stored(made.timeline(*gaps))) for gaps in (BURSTS, [20] * 20, BURSTS)]
    known = collector.summary()
    assert (pooled, known.streams, known.left_out) == ([False, True, False], 1, {"buffered": 2})


def test_what_is_set_aside_has_a_line() -> None:
    assert describe_known(Known(7, (), {"buffered": 2})) == ["2 of 9 set aside: a proxy or server buffered it"]


def test_the_share_that_is_set_aside_is_of_all_streams_with_the_figure() -> None:
    assert Known(6, (), {"buffered": 1, "host": 1}).share_set_aside == 0.25
