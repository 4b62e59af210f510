"""Which of the streams of a background response reports its usage."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_itl.core.request import Request
from otel_itl.core.stream import ALONE, FinishedStream, ResponseInfo
from otel_itl.core.timeline import Timeline
from otel_itl.export.usage_reports import UsageReports


def stream(
    response_id: str | None = "r", *, fetch: bool = False, resumed: bool = False, usage: bool = True
) -> FinishedStream:
    response = ResponseInfo()
    response.set_identity(response_id, None)
    response.is_background = not fetch
    response.output_tokens = 7 if usage else None
    request = Request(operation="fetch_response" if fetch else "chat", provider="x", is_resumed=resumed)
    return FinishedStream(request, response, Timeline(request_unix_ns=0), ALONE, None)


BEGUN, CUT = stream(), stream(usage=False)
FETCHED, RESUMED = stream(fetch=True), stream(fetch=True, resumed=True)
RESUMED_AND_CUT = stream(fetch=True, resumed=True, usage=False)


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ([BEGUN], [True]),
        ([FETCHED], [False]),
        ([RESUMED], [True]),
        ([BEGUN, RESUMED, FETCHED], [True, False, False]),
        ([CUT, FETCHED, FETCHED], [True, True, False]),
        ([CUT, RESUMED_AND_CUT, RESUMED, RESUMED], [True, True, True, False]),
        ([RESUMED, BEGUN], [True, False]),
        ([BEGUN, BEGUN, RESUMED], [True, True, False]),  # a server that gives every response one id
        ([stream("a"), stream("b", fetch=True, resumed=True)], [True, True]),
        ([stream(None, fetch=True, resumed=True)], [False]),
        ([stream(None)], [True]),
    ],
)
def test_the_first_stream_that_has_the_usage_reports_it(streams: list[FinishedStream], expected: list[bool]) -> None:
    reports = UsageReports()
    assert list(map(reports.claim, streams)) == expected


FETCHES = st.lists(st.sampled_from([CUT, FETCHED, RESUMED, RESUMED_AND_CUT]), max_size=12)


@given(FETCHES, FETCHES)
def test_a_usage_is_reported_at_most_once(before: list[FinishedStream], after: list[FinishedStream]) -> None:
    reports, streams = UsageReports(), [*before, BEGUN, *after]
    reported = [each for each in streams if reports.claim(each) and each.response.output_tokens is not None]
    assert len(reported) <= 1


def test_of_threads_that_end_streams_of_one_response_one_reports() -> None:
    reports = UsageReports()
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(reports.claim, [RESUMED] * 200)) == 1


def test_no_more_responses_than_the_limit_are_remembered() -> None:
    reports = UsageReports(limit=3)
    for number in range(10):
        reports.claim(stream(f"r{number}"))
    assert [reports.claim(stream(f"r{number}", fetch=True, resumed=True)) for number in (9, 8, 7, 0)] == [False] * 3 + [
        True
    ]
