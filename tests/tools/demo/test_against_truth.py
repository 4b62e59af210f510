"""The comparison of what was measured with what was sent."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest

from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.testing import Event, Exchange, Sent
from otel_itl.testing.exchange import Progress
from otel_itl.tools.demo.truth import compare_with_truth
from otel_itl.tools.report.reading.streams import StoredStream

MS = 1_000_000


def measured(
    number: int, *moments: float, model: str = "smooth-1", outcome: Outcome = Outcome.COMPLETED
) -> StoredStream:
    arrived = array("q", [round(moment * MS) for moment in moments])
    timeline = Timeline(
        request_unix_ns=number,
        asked=array("q", [0, *arrived[:-1]]),
        arrived=arrived,
        kinds=bytes([Kind.ANSWER]) * len(arrived),
        end=arrived[-1],
        outcome=outcome,
    )
    return StoredStream(
        provider="openai",
        model=model,
        operation="chat",
        trace_id="",
        span_id="",
        where="",
        timeline=timeline,
        measures=measure(timeline),
    )


def exchange(number: int, *moments: float, model: str = "smooth-1") -> Exchange:
    arrived = number * 1_000 * MS
    sent = [
        Sent(step, Event("answer", tokens=1), complete_ns=arrived + round(moment * MS))
        for step, moment in enumerate(moments)
    ]
    progress = Progress(sent=sent)
    path, wire = "/v1/chat/completions", "chat"
    return Exchange("POST", path, {}, b"", arrived, number, 0, reused=False, wire=wire, model=model, last=progress)


def test_the_largest_differences_are_found() -> None:
    gaps = list(accumulate([100, *[20] * 10]))
    late = [moment + 3 for moment in gaps]
    streams = [measured(1, *late), measured(2, *gaps[:-1], gaps[-1] + 10)]
    found = compare_with_truth(streams, [exchange(1, *gaps), exchange(2, *gaps)], {"smooth-1"})
    assert found is not None
    assert (found.streams, found.time_to_first_token) == (2, pytest.approx(0.003))
    # The last of ten gaps is 30 ms instead of 20: rank 0.99 * 9 = 8.91 of the sorted gaps.
    assert found.itl_p99 == pytest.approx(0.91 * 0.010)


def test_streams_are_matched_by_the_order_of_their_requests() -> None:
    quick, slow = [100, 110, 120], [500, 600, 700]
    found = compare_with_truth(
        [measured(2, *slow), measured(1, *quick)], [exchange(1, *quick), exchange(2, *slow)], {"smooth-1"}
    )
    assert found is not None
    assert (found.time_to_first_token, found.itl_p99) == pytest.approx((0, 0))


def test_other_models_do_not_count() -> None:
    one = [100, 120, 140]
    assert compare_with_truth([measured(1, *one, model="bursty-1")], [exchange(1, *one)], {"smooth-1"}) is None


def test_streams_that_were_not_completed_do_not_count() -> None:
    one = [100, 120, 140]
    assert compare_with_truth([measured(1, *one, outcome=Outcome.CLOSED)], [exchange(1, *one)], {"smooth-1"}) is None
