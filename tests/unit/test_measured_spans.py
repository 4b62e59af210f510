"""The record of the spans that are measured already: bounded, and used by many threads at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from otel_itl.export.measured_spans import MAX_MEASURED_SPANS, MeasuredSpans


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads that take turns as often as the interpreter can make them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_a_span_that_was_marked_is_known() -> None:
    spans = MeasuredSpans()
    spans.mark(5)
    assert (5 in spans, 6 in spans) == (True, False)


@pytest.mark.requirement("R26")
def test_the_oldest_spans_are_forgotten() -> None:
    spans = MeasuredSpans()
    for span_id in range(MAX_MEASURED_SPANS + 100):
        spans.mark(span_id)
    kept = [span_id for span_id in range(MAX_MEASURED_SPANS + 100) if span_id in spans]
    assert kept == list(range(100, MAX_MEASURED_SPANS + 100))


def test_a_span_that_is_marked_twice_takes_one_place() -> None:
    spans = MeasuredSpans(limit=2)
    for span_id in (1, 1, 2, 1):
        spans.mark(span_id)
    assert [span_id in spans for span_id in (1, 2)] == [True, True]


@pytest.mark.usefixtures("frequent_switches")
def test_many_threads_may_mark_at_once() -> None:
    spans, failures, together = MeasuredSpans(limit=8), list[BaseException](), Barrier(8)

    def mark(first: int) -> None:
        together.wait()
        try:
            for span_id in range(first, first + 5_000):
                spans.mark(span_id)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=mark, args=(number * 10_000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert (failures, len(spans) <= 8) == ([], True)
