"""SLOs in a report: those on spans, or one that is given."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest

from otel_itl.config import load
from otel_itl.core import conventions as names
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.tools.report.slo import SLOSummary
from otel_itl.tools.report.summary import summarize


def slo_summaries(read: Any, made: Any, *spans: Any, slo: str | None = None) -> list[SLOSummary]:
    objectives = None if slo is None else load({"slo": slo}, {}).slo
    return list(summarize(read(made.spans(*spans)).streams, slo=objectives).slo)


def on_span(profile: str, *, missed: bool = False, **objective: float) -> dict[str, Any]:
    """The attributes of a span that was judged by an SLO."""
    if not missed:
        return {names.SLO_PROFILE: profile}
    times = {f"itl.slo.{name}": seconds for name, seconds in objective.items()}
    return {names.SLO_PROFILE: profile, names.SLO_MET: False, names.SLO_MISSED_TOKENS: 1, **times}


def test_there_is_no_result_where_no_span_has_an_slo(read: Any, made: Any) -> None:
    assert slo_summaries(read, made, made.span(made.timeline(20, 20))) == []


def test_streams_and_gaps_of_a_profile_are_counted(read: Any, made: Any) -> None:
    # 100 ms is within the ITL objective of `chat`, 101 ms is not.
    good = made.span(made.timeline(20, 100, 20), **on_span("chat"))
    bad = made.span(made.timeline(20, 101), **on_span("chat", missed=True, ttft=0.5, itl=0.1))
    assert slo_summaries(read, made, good, bad) == [
        SLOSummary(profile="chat", ttft=0.5, itl=0.1, target=0.99, streams=2, streams_met=1, gaps=5, gaps_met=4)
    ]


def test_a_custom_slo_is_known_from_a_stream_that_missed_it(read: Any, made: Any) -> None:
    good = made.span(made.timeline(20, 40), **on_span("custom"))
    bad = made.span(made.timeline(20, 90), **on_span("custom", missed=True, itl=0.03))
    assert slo_summaries(read, made, good, bad) == [
        SLOSummary(profile="custom", ttft=None, itl=0.03, target=None, streams=2, streams_met=1, gaps=4, gaps_met=2)
    ]


def test_a_gap_whose_bounds_contain_a_custom_slo_is_not_counted(read: Any, made: Any) -> None:
    uncertain = replace(made.timeline(20, 90, 20), lateness=array("q", [0, 0, 80_000_000, 0]))
    (row,) = slo_summaries(read, made, made.span(uncertain, **on_span("custom", missed=True, itl=0.03)))
    assert (row.gaps, row.gaps_met) == (1, 1)


def test_gaps_are_unknown_where_no_stream_missed_a_custom_slo(read: Any, made: Any) -> None:
    (row,) = slo_summaries(read, made, made.span(made.timeline(20, 40), **on_span("custom")))
    assert (row.streams, row.streams_met, row.gaps, row.gaps_met) == (1, 1, None, None)


def test_an_slo_without_objectives_has_no_result(read: Any, made: Any) -> None:
    assert slo_summaries(read, made, made.span(made.timeline(20, 40), **on_span("batch"))) == []


def test_every_stream_is_judged_by_a_given_slo(read: Any, made: Any) -> None:
    spans = (
        made.span(made.timeline(*[20] * 200, 60), **on_span("chat")),  # 1 of 201 gaps is over: within the target
        made.span(made.timeline(*[20] * 9, 60)),  # 1 of 10 is not
        made.span(made.timeline(20, first=600)),  # late
    )
    assert slo_summaries(read, made, *spans, slo="0.5/0.05") == [
        SLOSummary(profile="custom", ttft=0.5, itl=0.05, target=0.99, streams=3, streams_met=1, gaps=212, gaps_met=210)
    ]


def test_a_stall_misses_a_given_slo_unless_the_process_caused_it(read: Any, made: Any) -> None:
    def span(cause: str) -> Any:
        timeline = made.timeline(20)
        carried = made.span(timeline, **{names.STALL_COUNT: 1})
        attributes = [
            {"key": names.STALL_CAUSE, "value": {"stringValue": cause}},
            {"key": names.STALL_DURATION, "value": {"doubleValue": 3.0}},
        ]
        event = {"name": names.STALL_EVENT, "timeUnixNano": str(timeline.request_unix_ns), "attributes": attributes}
        return carried | {"events": [event, *carried["events"]]}

    (row,) = slo_summaries(read, made, span("upstream"), span("process"), slo="chat")
    assert (row.streams, row.streams_met) == (2, 1)


def test_a_stream_that_cannot_be_judged_is_counted_as_such(read: Any, made: Any) -> None:
    left = Timeline(request_unix_ns=1, end=5_000_000, outcome=Outcome.CLOSED)
    (row,) = slo_summaries(read, made, made.span(made.timeline(20, 40)), made.span(left), slo="chat")
    assert (row.streams, row.streams_met, row.streams_not_judged) == (1, 1, 1)


@pytest.mark.parametrize(("model", "profiles"), [("gpt-4o", ["chat"]), ("o3", [])])
def test_an_slo_may_be_given_for_some_models(read: Any, made: Any, model: str, profiles: list[str]) -> None:
    rows = slo_summaries(read, made, made.span(made.timeline(20, 20), model=model), slo="gpt*=chat")
    assert [row.profile for row in rows] == profiles


def test_the_fluidity_index_of_an_slo_is_the_mean_of_its_spans(read: Any, made: Any) -> None:
    spans = [
        made.span(made.timeline(20, 20), **on_span("chat"), **fluidity)
        for fluidity in ({names.SLO_FLUIDITY: 0.5}, {names.SLO_FLUIDITY: 1.0}, {})
    ]
    (row,) = slo_summaries(read, made, *spans)
    assert (row.streams, row.fluidity) == (3, 0.75)


def test_there_is_no_fluidity_index_of_a_given_slo(read: Any, made: Any) -> None:
    span = made.span(made.timeline(20, 20), **on_span("chat"), **{names.SLO_FLUIDITY: 0.5})
    (row,) = slo_summaries(read, made, span, slo="code")
    assert row.fluidity is None
