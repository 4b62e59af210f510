"""Arithmetic on whole columns gives what arithmetic on each number gives, and refuses what does not fit."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core import conventions as names
from otel_itl.core import measures as measures_module
from otel_itl.core.arrivals import NEGLIGIBLE_HOLD, find_all_observed, find_arrivals, judge_arrivals
from otel_itl.core.chunk_code import chunk_code, unpack_codes
from otel_itl.core.columns import FEW, MAX_NUMBER, Columns, LaneError, find_differences
from otel_itl.core.encoding import encode
from otel_itl.core.fluidity import Deadlines, count_deadlines
from otel_itl.core.gaps import find_gaps
from otel_itl.core.measures import measure
from otel_itl.core.timeline import Kind, Timeline
from otel_itl.recording.finished import build_timeline
from tests.unit import chunk_by_chunk
from tests.unit.conftest import Machinery

MS = 1_000_000
quick = settings(max_examples=40, deadline=None)
numbers = st.one_of(st.integers(0, 2_000), st.integers(0, 1 << 40), st.integers((1 << 53) - 3, (1 << 53) - 1))


def few_or_many(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    """Lists that are computed one by one, and lists that are computed as columns."""
    return st.one_of(st.lists(numbers, max_size=9), st.lists(numbers, min_size=FEW + 1, max_size=FEW + 9))


@given(left=st.lists(numbers, max_size=9), divisor=st.integers(1, 1_023))
@quick
def test_a_column_is_divided_as_each_of_its_numbers(left: list[int], divisor: int) -> None:
    columns = Columns(len(left))
    divided = columns.unpack(columns.divide(columns.pack(array("q", left)), divisor))
    assert divided.tolist() == [number // divisor for number in left]


@given(pairs=st.lists(st.tuples(numbers, numbers), max_size=9))
@quick
def test_a_column_is_subtracted_number_by_number(pairs: list[tuple[int, int]]) -> None:
    columns = Columns(len(pairs))
    high, low = (array("q", map(choose, pairs)) for choose in (max, min))
    difference = columns.unpack(columns.subtract(columns.pack(high), columns.pack(low)))
    assert difference.tolist() == [max(pair) - min(pair) for pair in pairs]


@given(values=st.lists(numbers, min_size=1, max_size=9), bound=numbers)
@quick
def test_bounds_of_a_column_are_those_of_its_extremes(values: list[int], bound: int) -> None:
    columns = Columns(len(values))
    column = columns.pack(array("q", values))
    found = (columns.is_at_least(column, bound), columns.is_at_most(column, bound), columns.sum(column))
    assert found == (min(values) >= bound, max(values) <= bound, sum(values))


@given(values=st.lists(numbers, min_size=1, max_size=9), first=numbers)
@quick
def test_a_shifted_column_holds_what_stands_before_each_number(values: list[int], first: int) -> None:
    columns = Columns(len(values))
    shifted = columns.unpack(columns.shift(columns.pack(array("q", values)), first))
    assert shifted.tolist() == [first, *values[:-1]]


@given(values=few_or_many(st.integers(-(1 << 40), 1 << 40)))
@quick
def test_differences_are_those_of_neighbours(values: list[int]) -> None:
    assert find_differences(array("q", values)) == [after - before for before, after in pairwise(values)]


REFUSED: dict[str, Callable[[], object]] = {
    "a negative number": lambda: Columns(2).pack(array("q", [1, -1])),
    "another length": lambda: Columns(2).pack(array("q", [1])),
    "narrow numbers": lambda: Columns(1).pack(array("i", [1])),
    "a negative difference": lambda: Columns(2).subtract(Columns(2).pack(array("q", [5, 1])), Columns(2).repeat(2)),
    "a large dividend": lambda: Columns(1).divide(1 << 53, 1_000),
    "a negative bound": lambda: Columns(1).is_at_least(1, -1),
    "a large number": lambda: Columns(1).repeat(MAX_NUMBER + 1),
    "a negative first number": lambda: Columns(1).shift(1, -1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    with pytest.raises(LaneError):
        REFUSED[case]()


# --- What the end of a stream does with them -------------------------------------------------------------------------


@given(
    codes=st.one_of(
        few_or_many(st.builds(chunk_code, st.integers(0, 255), st.integers(0, 1 << 25), st.integers(0, 300))),
        few_or_many(st.integers(0, 255)),
    )
)
@quick
def test_chunk_codes_are_unpacked_as_one_by_one(codes: list[int]) -> None:
    assert tuple(unpack_codes(array("Q", codes))) == chunk_by_chunk.unpack(codes)


@given(moments=few_or_many(st.integers(0, 1 << 45)), requested=st.integers(0, 1 << 45))
@quick
def test_moments_are_rounded_as_one_by_one(moments: list[int], requested: int) -> None:
    # Moments before the request included, which no clock gives.
    recorder = Machinery().open()
    recorder.requested = requested
    for moment in moments:
        recorder.log.asked.append(moment)
        recorder.log.arrived.append(moment + 7)
        recorder.log.codes.append(int(Kind.ANSWER))
    timeline = build_timeline(recorder)
    recorder.end_unreported()
    later = [moment + 7 for moment in moments]
    expected = tuple(chunk_by_chunk.round_offsets(each, requested) for each in (moments, later))
    assert (timeline.asked, timeline.arrived) == expected


@st.composite
def read_streams(draw: st.DrawFn) -> Timeline:
    """Timelines of streams that are read with and without holds, with and without waits."""
    holds = st.sampled_from([0, 1_000, 60_000, NEGLIGIBLE_HOLD, NEGLIGIBLE_HOLD + 1_000, 8 * MS])
    waits = st.sampled_from([0, 30_000, MS - 1_000, MS, 3 * MS, 5 * MS, 20 * MS, 700 * MS])
    steps = draw(st.lists(st.tuples(holds, waits), max_size=12)) * draw(st.sampled_from([1, 3]))
    opened = draw(st.sampled_from([0, 300 * MS]))
    moments = list(accumulate((step for pair in steps for step in pair), initial=opened))[1:]
    kinds = draw(st.lists(st.sampled_from([2, 2, 2, 1, 0, 32]), min_size=len(steps), max_size=len(steps)))
    return Timeline(
        request_unix_ns=0,
        asked=array("q", moments[::2]),
        arrived=array("q", moments[1::2]),
        kinds=bytes(kinds),
        headers=draw(st.sampled_from([None, opened, opened + 2_000])),
        end=moments[-1] if moments else opened,
        output_tokens=draw(st.sampled_from([None, len(steps)])),
    )


@pytest.mark.parametrize("chunks", [1, 8, FEW + 1])
def test_a_stream_that_was_waited_for_is_not_judged_chunk_by_chunk(chunks: int) -> None:
    moments = [number * 20 * MS for number in range(1, chunks + 1)]
    asked = array("q", [moment - 19 * MS for moment in moments])
    kinds = bytes([Kind.ANSWER] * chunks)
    timeline = Timeline(request_unix_ns=0, asked=asked, arrived=array("q", moments), kinds=kinds)
    found = find_all_observed(timeline)
    assert found is not None
    assert found.gaps.tolist()[1:] == [20 * MS] * (chunks - 1)


@given(timeline=read_streams())
@settings(max_examples=100, deadline=None)
def test_the_arrivals_of_a_stream_that_was_waited_for_are_those_judged_chunk_by_chunk(timeline: Timeline) -> None:
    found = find_all_observed(timeline)
    judged = judge_arrivals(timeline)
    assert found is None or found._replace(gaps=judged.gaps) == judged


@given(timeline=read_streams())
@settings(max_examples=100, deadline=None)
def test_its_gaps_are_those_measured_choice_by_choice(timeline: Timeline) -> None:
    arrivals = find_arrivals(timeline)
    one_by_one = arrivals._replace(gaps=array("q"))
    assert list(find_gaps(timeline, arrivals)) == list(find_gaps(timeline, one_by_one))


@given(timeline=read_streams())
@settings(max_examples=100, deadline=None)
def test_measures_are_those_without_a_shortcut(timeline: Timeline) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures_module, "find_arrivals", judge_arrivals)
        expected = measure(timeline)
    assert measure(timeline) == expected


@given(timeline=read_streams(), ttft=st.sampled_from([1, 400 * MS, 10_000 * MS]), itl=st.sampled_from([MS, 30 * MS]))
@settings(max_examples=100, deadline=None)
def test_deadlines_are_counted_as_chunk_by_chunk(timeline: Timeline, ttft: int, itl: int) -> None:
    found = count_deadlines(timeline, ttft, itl)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otel_itl.core.fluidity._has_no_late_gap", lambda *_: False)
        expected: Deadlines | None = count_deadlines(timeline, ttft, itl)
    # The shortcut also judges streams of which not every arrival is known.
    assert expected in {found, None}


@given(timeline=read_streams())
@quick
def test_token_events_hold_what_is_computed_chunk_by_chunk(timeline: Timeline) -> None:
    packed = [event.attributes for event in encode(timeline)]
    found = tuple(
        [number for attributes in packed for number in attributes.get(name, ())]
        for name in (names.TOKENS_OFFSETS, names.TOKENS_WAITS)
    )
    assert found == chunk_by_chunk.to_microseconds(timeline)


@given(gaps=st.lists(st.integers(0, 10**10), min_size=2, max_size=40))
@quick
def test_the_standard_deviation_is_that_of_exact_sums(gaps: list[int]) -> None:
    samples = sorted(gaps)
    found = measures_module._summarize(samples)["itl_stddev"]
    assert found == pytest.approx(chunk_by_chunk.stddev(samples) / 1e9, rel=1e-9, abs=1e-12)
