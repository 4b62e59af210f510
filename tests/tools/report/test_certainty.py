"""The words and the format for how well figures are known."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import Kind, Outcome, Timeline
from otel_itl.tools.report.certainty import (
    REMEDIES,
    Cause,
    Flag,
    Known,
    KnownCollector,
    Uncertain,
    describe_known,
    describe_remedies,
    find_cause,
    format_error,
    format_milliseconds_with_error,
    format_with_error,
)

MS = 1_000_000


def late(first: float, lateness: float) -> Measures:
    """The measures of a stream whose first chunk may have come earlier (ms)."""
    arrived = [first, first + 20, first + 40]
    return measure(
        Timeline(
            request_unix_ns=1,
            asked=array("q", [0, *(round(moment * MS) for moment in arrived[:-1])]),
            arrived=array("q", (round(moment * MS) for moment in arrived)),
            kinds=bytes([Kind.ANSWER] * 3),
            end=round(arrived[-1] * MS),
            outcome=Outcome.COMPLETED,
            lateness=array("q", [round(lateness * MS), 0, 0]),
        )
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
    known = Known(9, (Uncertain(Cause.CONSUMER, 3, 0.01),))
    assert describe_known(known) == ["3 of 9 known to 10 ms only: the caller was busy"]


def test_streams_that_are_left_out_are_counted_with_their_cause() -> None:
    assert describe_known(Known(7, (), {"host": 2})) == ["of 7 streams, 2 more not known: its machine was busy"]


def test_each_cause_has_one_line() -> None:
    known = Known(9, (Uncertain(Cause.HOST, 4, 0.2), Uncertain(Cause.CONSUMER, 3, 0.01)), {"host": 2})
    assert describe_known(known) == [
        "4 of 9 known to 200 ms only, 2 more not known: its machine was busy",
        "3 of 9 known to 10 ms only: the caller was busy",
    ]


def test_what_is_known_of_several_models_is_added_by_cause() -> None:
    one = Known(9, (Uncertain(Cause.HOST, 4, 0.2),), {"host": 2})
    assert one + Known(3, (Uncertain(Cause.HOST, 1, 0.3),)) == Known(12, (Uncertain(Cause.HOST, 5, 0.3),), {"host": 2})


def test_nothing_is_said_of_a_figure_that_is_known() -> None:
    assert describe_known(Known(9)) == []


def test_a_figure_that_is_not_known_to_half_of_itself_is_left_out() -> None:
    collector = KnownCollector("time_to_first_token")
    added = [collector.add(late(200, lateness), None) for lateness in (0, 30, 10, 120)]
    expected = Known(3, (Uncertain(Cause.CONSUMER, 2, 0.03),), {"consumer": 1})
    assert (added, collector.summary()) == ([True, True, True, False], expected)


@pytest.mark.parametrize(
    ("host_delay", "expected"), [(None, Cause.CONSUMER), (0.014, Cause.CONSUMER), (0.016, Cause.HOST)]
)
def test_the_cause_is_the_host_where_it_delayed_the_reader_by_most_of_the_error(
    host_delay: float | None, expected: Cause
) -> None:
    assert expected is find_cause(late(200, 30), host_delay, "time_to_first_token")


def test_every_flag_has_one_sentence_of_what_to_do() -> None:
    assert [flag for flag in Flag if REMEDIES[flag].count(".") != 1 or not REMEDIES[flag].endswith(".")] == []


def test_the_documentation_has_what_to_do_about_each_flag() -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    assert [flag for flag in Flag if f"| {flag.value} | {flag.remedy} |" not in page] == []


def test_the_glossary_has_what_to_do_about_each_flag() -> None:
    page = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    wanted = {flag: f"What to do: {flag.remedy[0].lower()}{flag.remedy[1:]}" for flag in {*Flag} - {Flag.NOT_KNOWN}}
    assert [flag for flag, sentence in wanted.items() if sentence not in page] == []


CALLER = "caller-bound: Read the stream in a task or a thread that does nothing else."
HOST = "host-bound: Give the process more CPU."


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({Flag.HOST_BOUND: 1, Flag.CALLER_BOUND: 1}, [HOST]),
        ({Flag.HOST_BOUND: 71, Flag.CALLER_BOUND: 72}, [HOST]),
        ({Flag.HOST_BOUND: 1, Flag.CALLER_BOUND: 3}, [CALLER, HOST]),
        ({Flag.CALLER_BOUND: 1, Flag.IMPUTED: 30, Flag.EXCLUDED: 40}, [CALLER]),
        ({Flag.IMPUTED: 30}, [f"imputed: {REMEDIES[Flag.IMPUTED]}"]),
    ],
)
def test_one_thing_is_to_be_done_about_a_stream(counts: dict[Flag, int], expected: list[str]) -> None:
    assert describe_remedies(counts) == expected
