"""What is read of stored streams to explain them, and what follows from the other streams."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from otel_itl.core import conventions as names
from otel_itl.tools.explain.candidates import find_changes
from otel_itl.tools.explain.facts import Facts, lay_out
from otel_itl.tools.explain.findings import Change, Driver, Target
from otel_itl.tools.explain.observations import Observation, Observations, observe_streams
from otel_itl.tools.report.certainty import describe_known
from otel_itl.tools.report.reading.skipped_input import SkippedInput
from otel_itl.tools.report.reading.streams import read_streams
from tests.tools.report.conftest import Made, made, write

__all__ = ["made", "write"]

SECOND = 1_000_000_000


def observed(path: str) -> Observations:
    return observe_streams(read_streams([path], SkippedInput()))


@pytest.fixture
def stored(made: Made, write: Callable[..., str]) -> Callable[..., Observation]:
    """Write one stream with these attributes, and read its observation."""

    def read(*gaps: float, **attributes: Any) -> Observation:
        (one,) = observed(write(made.spans(made.span(made.timeline(*gaps or [20] * 40), **attributes)))).used
        return one

    return read


def streams(*moments: tuple[float, float], **facts: Any) -> list[Observation]:
    """Streams that start and end at these seconds."""
    return [
        Observation(
            model="openai / gpt",
            session=f"{number}",
            start_ns=round(start * SECOND),
            duration=end - start,
            tokens=10,
            ttft=0.0,
            **facts,
        )
        for number, (start, end) in enumerate(moments)
    ]


def laid_out(*moments: tuple[float, float]) -> Facts:
    return lay_out(streams(*moments), timezone.utc)


def test_who_answered_is_read_from_the_span(stored: Callable[..., Observation]) -> None:
    one = stored(**{names.SERVER_ADDRESS: "llm.local", names.SERVER_PORT: 8000, names.RESPONSE_MODEL: "gpt-4o-2"})
    assert (one.server, one.response_model) == ("llm.local:8000", "gpt-4o-2")


def test_tokens_from_the_cache_are_read_apart(stored: Callable[..., Observation]) -> None:
    assert stored(**{names.USAGE_CACHE_READ_TOKENS: 700}).cached_tokens == 700


def test_the_session_is_read_from_the_span(stored: Callable[..., Observation]) -> None:
    assert stored(**{names.SESSION_ID: "abc"}).session == "abc"


def test_the_typical_gap_leaves_the_longest_out(stored: Callable[..., Observation]) -> None:
    assert stored(*[20.0] * 39, 5_000.0).itl == pytest.approx(0.02)


def test_the_parts_of_an_answer_have_their_positions_and_gaps(stored: Callable[..., Observation]) -> None:
    parts = np.array(stored(*[20.0] * 16, *[30.0] * 16).parts)
    assert parts == pytest.approx(np.array([(8.0, 0.02), (24.0, 0.03)]))


def test_a_short_answer_has_no_parts(stored: Callable[..., Observation]) -> None:
    assert stored(*[20.0] * 31).parts == ()


def test_a_stream_of_a_slow_caller_is_used_with_the_least_that_it_can_be(made: Made, write: Callable[..., str]) -> None:
    timeline = replace(made.timeline(*[20] * 40), lateness=array("q", [50_000_000, *[0] * 40]))
    span = made.span(timeline, **{names.CONSUMER_BOUND: True})
    found = observed(write(made.spans(span)))
    (one,) = found.used
    assert (one.ttft, one.bounds and one.bounds[0].ttft) == (0.2, 0.15)


def test_the_parts_of_an_answer_are_shortened_and_lengthened_against_each_other(
    made: Made, write: Callable[..., str]
) -> None:
    """The chunk in the middle of 33 may have come 80 ms earlier: the first part took less, the second more."""
    timeline = replace(made.timeline(*[20] * 32), lateness=array("q", [*[0] * 16, 80_000_000, *[0] * 16]))
    (one,) = observed(write(made.spans(made.span(timeline)))).used
    assert one.bounds is not None
    gaps = [[round(gap * 1_000, 3) for _, gap in bound.parts] for bound in one.bounds]
    assert gaps == [[20.0, 20.0], [18.75, 21.25]]


def test_an_answer_whose_gaps_blocks_of_the_loop_hid_has_no_parts(made: Made, write: Callable[..., str]) -> None:
    timeline = replace(made.timeline(*[20] * 32), lateness=array("q", [*[0] * 16, *[15_000_000, 0] * 8, 0]))
    (one,) = observed(write(made.spans(made.span(timeline)))).used
    assert one.parts == ()


def test_streams_that_are_uncertain_are_counted_with_their_cause(made: Made, write: Callable[..., str]) -> None:
    timeline = replace(made.timeline(*[20] * 40), lateness=array("q", [50_000_000, *[0] * 40]))
    found = observed(write(made.spans(made.span(timeline), made.span(made.timeline(20)))))
    note = describe_known(found.known["openai / gpt-4o"][Target.TTFT].summary())
    assert note == ["1 of 2 known to 50 ms only: its loop or process was blocked"]


def test_processes_are_counted_by_their_instance_id(made: Made, write: Callable[..., str]) -> None:
    documents = []
    for instance in ("a", "b", "b"):
        document = made.spans(made.span(made.timeline(20)))
        attribute = {"key": "service.instance.id", "value": {"stringValue": instance}}
        document["resourceSpans"][0]["resource"]["attributes"].append(attribute)
        documents.append(document)
    assert observed(write(*documents)).instances == {"a", "b"}


def test_silence_is_counted_from_the_end_of_the_last_stream() -> None:
    assert laid_out((0, 100), (10, 20), (160, 170)).idle_before.tolist() == [0, 0, 60]


def test_own_load_counts_the_streams_of_all_sessions() -> None:
    assert laid_out((0, 10), (1, 11), (2, 12), (50, 60)).load_at_start.tolist() == pytest.approx([1, 2, 3, 1])


def test_streams_that_are_set_aside_count_for_the_own_load() -> None:
    rows = [*streams((0, 10)), *streams((5, 15))]
    facts = lay_out([replace(rows[0], ttft=None), rows[1]], timezone.utc)
    assert facts.load_at_start.tolist() == pytest.approx([1, 2])


def test_a_slow_hour_does_not_raise_the_own_load() -> None:
    """Every stream meets one other; in the slow half both are open for four times as long, and overlap for longer."""
    usual = [(start, start + 10.0) for start in range(0, 400, 8)]
    slow = [(start, start + 40.0) for start in range(1_000, 1_200, 8)]
    facts = laid_out(*usual, *slow)
    assert np.median(facts.load_at_start[-20:]) == pytest.approx(np.median(facts.load_at_start[10:40]))


def test_hours_and_weekdays_are_those_of_the_time_zone() -> None:
    monday_23_utc = 1_772_492_400
    facts = lay_out(streams((monday_23_utc, monday_23_utc + 1)), timezone(timedelta(hours=2)))
    assert (facts.weekday.tolist(), facts.hour.tolist()) == ([1], [1])


def answered(*values: str) -> Facts:
    rows = [
        Observation(model="m", session=f"{at}", start_ns=at * SECOND, duration=1, tokens=1, response_model=value)
        for at, value in enumerate(values)
    ]
    return lay_out(rows, timezone.utc)


def test_a_silent_switch_has_the_moment_of_the_first_new_answer() -> None:
    (found,) = find_changes(answered(*["a"] * 30, *["b"] * 20))
    assert (found.driver, found.change) == (Driver.RESPONSE_MODEL, Change("a", "b", 30 * SECOND))


def test_models_that_answer_side_by_side_have_no_moment() -> None:
    (found,) = find_changes(answered(*["a", "a", "b"] * 20))
    assert found.change == Change("a", "b", None)


def test_switches_follow_each_other() -> None:
    found = find_changes(answered(*["a"] * 20, *["b"] * 20, *["c"] * 20))
    assert [one.change[:2] for one in found] == list(pairwise("abc"))


def test_a_value_that_hardly_occurs_is_no_change() -> None:
    assert find_changes(answered(*["a"] * 100, "b", "b")) == []


def test_a_buffered_stream_has_the_first_token_and_no_pace(made: Made, write: Callable[..., str]) -> None:
    """Ten tokens at a time come as one burst: the pace is the buffer's, the first token is the caller's wait."""
    bursts = made.timeline(*([0.05] * 9 + [200.0]) * 6)
    found = observed(write(made.spans(made.span(bursts))))
    (one,) = found.used
    known = found.known[one.model]
    assert (one.ttft, one.itl, one.parts) == (0.2, None, ())
    assert (known[Target.TTFT].summary().left_out, known[Target.ITL].summary().left_out) == (None, {"buffered": 1})
