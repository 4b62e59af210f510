"""Sessions in a report: which there are, their state, and one of them request by request."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from otel_itl.core import conventions as names
from otel_itl.tools.report.render.json import report_to_data
from otel_itl.tools.report.sessions import SessionSummary, UnknownSessionError, find_session
from otel_itl.tools.report.summary import summarize

PACES = (20, 20, 20, 20, 20, 60, 60, 60)
"""Milliseconds between the tokens of eight requests: from the sixth on three times as long."""


@pytest.fixture
def sessions(read: Any, made: Any) -> Callable[..., list[SessionSummary]]:
    """The sessions of a file with these spans."""
    return lambda *spans: list(summarize(read(made.spans(*spans)).streams).sessions)


@pytest.fixture
def requests(made: Any) -> Callable[..., list[Any]]:
    """A span for each pace, with 40 gaps of it, of one session."""

    def spans(*paces: float, session: str = "agent-7", key: str = names.SESSION_ID, **attributes: Any) -> list[Any]:
        return [made.span(made.timeline(*[pace] * 40), **{key: session, **attributes}) for pace in paces]

    return spans


def state(index: int, ratio: float | None = None, *, degraded: bool = False) -> dict[str, Any]:
    attributes = {names.SESSION_REQUEST_INDEX: index, names.SESSION_DEGRADED: degraded}
    return attributes if ratio is None else {**attributes, names.SESSION_LATENCY_RATIO: ratio}


def test_streams_without_a_session_make_none(sessions: Any, made: Any) -> None:
    assert sessions(made.span(made.timeline(20))) == []


@pytest.mark.parametrize("key", ["session.id", "gen_ai.conversation.id"])
def test_a_session_is_found_by_either_attribute(sessions: Any, requests: Any, key: str) -> None:
    (row,) = sessions(*requests(20, 20, key=key))
    assert (row.session, len(row.requests)) == ("agent-7", 2)


def test_figures_are_of_all_its_gaps(sessions: Any, requests: Any) -> None:
    # 40 gaps of 20 ms and 40 of 60: the median lies in between, the p99 has rank 78.21.
    (row,) = sessions(*requests(20, 60))
    assert (row.itl_p50, row.itl_p99, row.decode_time) == pytest.approx((0.04, 0.06, 3.2))


def test_a_state_that_is_on_no_span_is_derived(sessions: Any, requests: Any) -> None:
    (row,) = sessions(*requests(*PACES))
    degraded = [request.state.request_index for request in row.requests if request.state.degraded]
    assert (degraded, row.degraded_since, row.degraded_until) == ([7, 8], 7, None)
    assert row.latency_ratio == pytest.approx(3, rel=0.1)


def test_requests_count_in_order_of_time_whatever_their_order_in_the_file(sessions: Any, requests: Any) -> None:
    (forward,), (backward,) = sessions(*(spans := requests(*PACES))), sessions(*reversed(spans))
    assert forward == backward
    assert [request.state.request_index for request in backward.requests] == [*range(1, 9)]


def test_a_state_on_spans_is_used(sessions: Any, requests: Any, made: Any) -> None:
    spans = [
        *requests(20, **state(1)),
        *requests(20, **state(2, 1.9, degraded=True)),
        *requests(20, **state(3, 0.8)),
    ]
    (row,) = sessions(*spans)
    assert [(request.state.request_index, request.state.latency_ratio) for request in row.requests] == [
        (1, None),
        (2, 1.9),
        (3, 0.8),
    ]
    assert (row.degraded_since, row.degraded_until, row.latency_ratio) == (2, 2, 0.8)


def test_the_worst_session_comes_first(sessions: Any, requests: Any) -> None:
    spans = [
        *requests(20, session="even", **state(1, 1.0)),
        *requests(20, session="slower", **state(1, 1.4)),
        *requests(20, session="recovered", **state(1, 2.0, degraded=True)),
        *requests(20, session="recovered", **state(2, 1.1)),
        *requests(20, session="degraded", **state(1, 2.2, degraded=True)),
    ]
    assert [row.session for row in sessions(*spans)] == ["degraded", "recovered", "slower", "even"]


def test_a_request_whose_caller_was_too_slow_has_no_latency_ratio(sessions: Any, made: Any, requests: Any) -> None:
    attentive, timeline = requests(20, 20), made.timeline(*[60] * 40)
    # The caller is busy until each chunk is there.
    asked = [0, *(moment - 10_000 for moment in timeline.arrived[1:])]
    slow = made.span(replace(timeline, asked=array("q", asked)), **{names.SESSION_ID: "agent-7"})
    (row,) = sessions(*attentive, slow)
    assert [(request.measures.itl_p50, request.state.latency_ratio) for request in row.requests] == [
        (0.02, None),
        (0.02, 1.0),
        (0.06, None),
    ]


def test_a_session_counts_the_stalls_of_its_requests(sessions: Any, made: Any) -> None:
    spans = [made.span(made.timeline(20, 3_000), **{names.SESSION_ID: "a"}) for _ in range(2)]
    (row,) = sessions(*spans)
    assert (row.stalls, [request.stalls for request in row.requests]) == (2, [1, 1])


def test_an_id_of_another_type_is_ignored(sessions: Any, made: Any) -> None:
    assert sessions(made.span(made.timeline(20), **{names.SESSION_ID: 7})) == []


def test_a_session_is_found_by_its_id(sessions: Any, requests: Any) -> None:
    rows = sessions(*requests(20), *requests(20, session="other"))
    assert find_session(rows, "other").session == "other"


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ([], "there is no session 'agent': no stream belongs to any."),
        (["agent-1", "chat"], "there is no session 'agent': did you mean 'agent-1'?"),
        (["zz"], "there is no session 'agent': there is one, 'zz'."),
        (["yy", "zz"], "there is no session 'agent': there are 2, such as 'yy'."),
    ],
)
def test_an_unknown_session_is_one_sentence(sessions: Any, requests: Any, known: list[str], sentence: str) -> None:
    rows = sessions(*(span for session in known for span in requests(20, session=session)))
    with pytest.raises(UnknownSessionError) as raised:
        find_session(rows, "agent")
    assert str(raised.value) == sentence


def test_the_data_has_the_requests_of_one_session_alone(read: Any, made: Any, requests: Any) -> None:
    report = summarize(read(made.spans(*requests(20, 60))).streams)
    data = report_to_data(report, find_session(report.sessions, "agent-7"))
    assert (data["sessions"][0]["requests"], len(data["session"]["requests"])) == (2, 2)
    assert data["sessions"][0]["itl_mean_by_request"] == pytest.approx([0.02, 0.06])
