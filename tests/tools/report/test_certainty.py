"""The words and the format for how well figures are known."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.certainty import (
    Cause,
    Flag,
    Known,
    Uncertain,
    describe_known,
    describe_remedies,
    find_uncertainty_cause,
    format_error,
    format_milliseconds_with_error,
    format_with_error,
    is_blocked,
)
from otel_itl.tools.report.reading.span_facts import SpanFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.report.set_aside import KnownCollector

MS = 1_000_000


def late(first: float, lateness: float, host_delay: float | None = None) -> StoredStream:
    """A stream whose first chunk may have come earlier (ms), and whose reader waited for a CPU (s)."""
    arrived = [first, first + 20, first + 40]
    timeline = Timeline(
        request_unix_ns=1,
        asked=array("q", [0, *(round(moment * MS) for moment in arrived[:-1])]),
        arrived=array("q", (round(moment * MS) for moment in arrived)),
        kinds=bytes([Kind.ANSWER] * 3),
        end=round(arrived[-1] * MS),
        outcome=Outcome.COMPLETED,
        lateness=array("q", [round(lateness * MS), 0, 0]),
    )
    return StoredStream(
        provider="openai",
        model="m",
        operation="chat",
        trace_id="1",
        span_id="2",
        where="file:1",
        timeline=timeline,
        measures=measure(timeline),
        span_facts=SpanFacts(host_delay=host_delay),
    )


@pytest.mark.parametrize(
    ("seconds", "error", "expected"),
    [
        (0.655, 0.12, "655 ms (-120)"),
        (0.655, None, "655 ms"),
        (1.86, 0.12, "1.86 s (-0.12)"),
        (0.957, 0.957, "957 ms (-957)"),
        (1.234, 1.2339, "1.23 s (-1.23)"),
        (0.0239, 0.00103, "23.9 ms (-1.1)"),
        (2.0, 1.001, "2.00 s (-1.1)"),
        (None, None, "-"),
    ],
)
def test_a_figure_is_shown_with_what_it_may_be_less_by(seconds: Any, error: Any, expected: str) -> None:
    assert expected == format_with_error(seconds, error)


@pytest.mark.parametrize(
    ("seconds", "error", "expected"),
    [(0.655, 0.12, "655 (-120)"), (12.34, 0.118, "12.3s (-0.12)"), (0.2, None, "200"), (None, None, "-")],
)
def test_in_a_column_of_milliseconds_it_has_no_unit(seconds: Any, error: Any, expected: str) -> None:
    assert expected == format_milliseconds_with_error(seconds, error)


def test_a_figure_is_shown_with_what_it_may_be_more_by() -> None:
    shown = [format_with_error(0.012, None, 0.0013), format_milliseconds_with_error(0.012, 0.0005, 0.0013)]
    assert shown == ["12.0 ms (+1.3)", "12.0 (-0.5 +1.3)"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.01, "10 ms"), (0.00101, "1.1 ms"), (0.0996, "100 ms"), (0.0995, "100 ms"), (1.81, "1.9 s"), (0.1201, "130 ms")],
)
def test_an_error_is_rounded_up_to_two_digits(seconds: float, expected: str) -> None:
    assert expected == format_error(seconds)


def test_streams_that_are_uncertain_are_counted_with_their_cause() -> None:
    known = Known(9, (Uncertain(Cause.CONSUMER, 3, 0.01, 0.01),))
    assert describe_known(known) == ["3 of 9 known to 10 ms only: the caller was busy"]


def test_what_most_streams_are_known_to_is_said_beside_the_worst() -> None:
    known = Known(9, (Uncertain(Cause.BLOCKED, 3, 0.004, 0.053),))
    assert describe_known(known) == ["3 of 9 known to 4 ms (median), 53 ms (worst): its loop or process was blocked"]


def test_streams_that_are_left_out_are_counted_among_the_uncertain_ones() -> None:
    known = Known(7, (Uncertain(Cause.HOST, 3, 0.2, 0.2),), {"host": 2})
    assert describe_known(known) == ["3 of 9 known to 200 ms only, 2 set aside: its machine was busy"]


def test_nothing_is_said_of_a_figure_that_is_known() -> None:
    assert describe_known(Known(9)) == []


def test_a_figure_that_is_not_known_to_half_of_itself_is_left_out() -> None:
    collector = KnownCollector("time_to_first_token")
    added = [collector.add(late(200, lateness)) for lateness in (0, 30, 10, 120)]
    known = collector.summary()
    assert added == [True, True, True, False]
    assert (known.streams, known.left_out) == (3, {"blocked": 1})
    assert (known.uncertain[0].median, known.uncertain[0].error) == pytest.approx((0.03, 0.12))


def test_what_is_known_of_several_models_is_put_together() -> None:
    one, other, both = (KnownCollector("time_to_first_token") for _ in range(3))
    one.add(late(200, 30))
    other.add(late(200, 10))
    both.add_all(one)
    both.add_all(other)
    (uncertain,) = both.summary().uncertain
    assert (uncertain.streams, uncertain.median, uncertain.error) == pytest.approx((2, 0.02, 0.03))


@pytest.mark.parametrize(
    ("host_delay", "expected"), [(None, Cause.BLOCKED), (0.007, Cause.BLOCKED), (0.008, Cause.HOST)]
)
def test_the_cause_is_the_host_where_the_reader_got_no_cpu_and_had_to_catch_up(
    host_delay: float | None, expected: Cause
) -> None:
    assert expected is find_uncertainty_cause(late(200, 30, host_delay))


@pytest.mark.parametrize(("host_delay", "expected"), [(None, True), (0.007, True), (0.008, False)])
def test_a_stream_is_blocked_whose_chunks_are_late_without_a_wait_for_a_cpu(
    host_delay: float | None, expected: bool
) -> None:
    assert expected is is_blocked(late(200, 30, host_delay))


def test_every_flag_has_one_sentence_of_what_to_do() -> None:
    assert [flag for flag in Flag if flag.remedy.count(".") != 1 or not flag.remedy.endswith(".")] == []


def test_the_documentation_has_what_to_do_about_each_flag() -> None:
    page = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    assert [flag for flag in Flag if f"| {flag.value} | {flag.remedy} |" not in page] == []


def test_the_glossary_has_what_to_do_about_each_flag() -> None:
    page = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
    wanted = {flag: f"What to do: {flag.remedy[0].lower()}{flag.remedy[1:]}" for flag in {*Flag} - {Flag.NOT_KNOWN}}
    assert [flag for flag, sentence in wanted.items() if sentence not in page] == []


BLOCKED = f"blocked: {Flag.BLOCKED.remedy}"
CALLER = "caller-bound: Read the stream in a task or a thread that does nothing else."
HOST = "host-bound: Give the process more CPU."


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({Flag.HOST_BOUND: 1, Flag.CALLER_BOUND: 1}, [HOST]),
        ({Flag.HOST_BOUND: 71, Flag.CALLER_BOUND: 72}, [HOST]),
        ({Flag.HOST_BOUND: 1, Flag.CALLER_BOUND: 3}, [CALLER, HOST]),
        ({Flag.BLOCKED: 9, Flag.HOST_BOUND: 12, Flag.CALLER_BOUND: 12}, [BLOCKED]),
        ({Flag.BLOCKED: 9, Flag.HOST_BOUND: 30, Flag.CALLER_BOUND: 30}, [BLOCKED, HOST]),
        ({Flag.CALLER_BOUND: 1, Flag.IMPUTED: 30, Flag.EXCLUDED: 40}, [CALLER]),
        ({Flag.IMPUTED: 30}, [f"imputed: {Flag.IMPUTED.remedy}"]),
    ],
)
def test_one_thing_is_to_be_done_about_a_stream(counts: dict[Flag, int], expected: list[str]) -> None:
    assert describe_remedies(counts) == expected
