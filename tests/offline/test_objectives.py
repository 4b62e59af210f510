"""Objectives in a report: those that spans name, or one that is given."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl import conventions as names
from otel_itl.config import load
from otel_itl.core.timeline import Outcome, Timeline
from otel_itl.report.slo import Attainment
from otel_itl.report.summary import summarise


def attained(read: Any, made: Any, *spans: Any, slo: str | None = None) -> list[Attainment]:
    objectives = None if slo is None else load({"slo": slo}, {}).slo
    return list(summarise(read(made.spans(*spans)).streams, objectives=objectives).slo)


def told(profile: str, *, missed: bool = False, **objective: float) -> dict[str, Any]:
    """What a span says of its objective."""
    if not missed:
        return {names.SLO_PROFILE: profile}
    times = {f"itl.slo.{name}": seconds for name, seconds in objective.items()}
    return {names.SLO_PROFILE: profile, names.SLO_MET: False, names.SLO_MISSED_TOKENS: 1, **times}


def test_nothing_is_said_where_no_span_names_an_objective(read: Any, made: Any) -> None:
    assert attained(read, made, made.span(made.timeline(20, 20))) == []


def test_streams_and_gaps_of_a_profile_are_counted(read: Any, made: Any) -> None:
    # 100 ms is within the ITL objective of `chat`, 101 ms is not.
    good = made.span(made.timeline(20, 100, 20), **told("chat"))
    bad = made.span(made.timeline(20, 101), **told("chat", missed=True, ttft=0.5, itl=0.1))
    assert attained(read, made, good, bad) == [
        Attainment(profile="chat", ttft=0.5, itl=0.1, target=0.99, streams=2, streams_met=1, gaps=5, gaps_met=4)
    ]


def test_an_objective_of_ones_own_is_known_from_a_stream_that_missed_it(read: Any, made: Any) -> None:
    good = made.span(made.timeline(20, 40), **told("custom"))
    bad = made.span(made.timeline(20, 90), **told("custom", missed=True, itl=0.03))
    assert attained(read, made, good, bad) == [
        Attainment(profile="custom", ttft=None, itl=0.03, target=None, streams=2, streams_met=1, gaps=4, gaps_met=2)
    ]


def test_gaps_are_unknown_where_no_stream_missed_an_objective_of_ones_own(read: Any, made: Any) -> None:
    (row,) = attained(read, made, made.span(made.timeline(20, 40), **told("custom")))
    assert (row.streams, row.streams_met, row.gaps, row.gaps_met) == (1, 1, None, None)


def test_what_asks_for_nothing_is_not_shown(read: Any, made: Any) -> None:
    assert attained(read, made, made.span(made.timeline(20, 40), **told("batch"))) == []


def test_a_given_objective_is_held_against_every_stream(read: Any, made: Any) -> None:
    spans = (
        made.span(made.timeline(*[20] * 200, 60), **told("chat")),  # 1 of 201 gaps is over: within the target
        made.span(made.timeline(*[20] * 9, 60)),  # 1 of 10 is not
        made.span(made.timeline(20, first=600)),  # late
    )
    assert attained(read, made, *spans, slo="0.5/0.05") == [
        Attainment(profile="custom", ttft=0.5, itl=0.05, target=0.99, streams=3, streams_met=1, gaps=212, gaps_met=210)
    ]


def test_a_stall_misses_a_given_objective_unless_it_was_our_own(read: Any, made: Any) -> None:
    def span(cause: str) -> Any:
        timeline = made.timeline(20)
        carried = made.span(timeline, **{names.STALL_COUNT: 1})
        attributes = [
            {"key": names.STALL_CAUSE, "value": {"stringValue": cause}},
            {"key": names.STALL_DURATION, "value": {"doubleValue": 3.0}},
        ]
        event = {"name": names.STALL_EVENT, "timeUnixNano": str(timeline.request_unix_ns), "attributes": attributes}
        return carried | {"events": [event, *carried["events"]]}

    (row,) = attained(read, made, span("upstream"), span("process"), slo="chat")
    assert (row.streams, row.streams_met) == (2, 1)


def test_a_stream_that_nothing_can_be_judged_of_does_not_count(read: Any, made: Any) -> None:
    left = Timeline(request_unix_ns=1, end=5_000_000, outcome=Outcome.CLOSED)
    assert attained(read, made, made.span(left), slo="chat") == []


@pytest.mark.parametrize(("model", "profiles"), [("gpt-4o", ["chat"]), ("o3", [])])
def test_an_objective_may_be_given_for_some_models(read: Any, made: Any, model: str, profiles: list[str]) -> None:
    rows = attained(read, made, made.span(made.timeline(20, 20), model=model), slo="gpt*=chat")
    assert [row.profile for row in rows] == profiles
