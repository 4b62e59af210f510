"""Whether the truth lies within the bounds of every figure, and how close the bounds are."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.intervals import find_straightest_path
from otel_itl.core.measures import Measures, measure
from otel_itl.core.percentiles import percentile
from otel_itl.core.timeline import OUTPUT, SECOND, Kind, Timeline

MS = 1_000_000
ROUNDING = 1e-9
"""Of sums and divisions in floating point, as a share and in seconds."""
often = settings(max_examples=80, deadline=None)

# --- The truth, and what a consumer sees of it -----------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """A stream as it was, and as it was recorded."""

    arrived: list[int]
    """When each chunk truly came (ns after the request)."""
    timeline: Timeline

    @property
    def true_samples(self) -> list[float]:
        """The true ITL samples, ascending."""
        kinds = self.timeline.kinds
        moments = [moment for moment, kind in zip(self.arrived, kinds, strict=True) if kind & OUTPUT]
        tokens = [count for count, kind in zip(self.timeline.tokens, kinds, strict=False) if kind & OUTPUT]
        counts = tokens[1:] or [1] * (len(moments) - 1)
        gaps = [after - before for before, after in pairwise(moments)]
        return sorted(gap / (count or 1) for gap, count in zip(gaps, counts, strict=True) for _ in range(count or 1))

    def true_figures(self) -> dict[str, float]:
        """Every figure that has bounds, by definition (s)."""
        kinds, samples = self.timeline.kinds, self.true_samples
        outputs = [moment for moment, kind in zip(self.arrived, kinds, strict=True) if kind & OUTPUT]
        figures: dict[str, float] = {"time_to_first_chunk": self.arrived[0]}
        if outputs:
            figures |= {"time_to_first_token": outputs[0], "time_to_last_token": outputs[-1]}
            figures["decode_time"] = outputs[-1] - outputs[0]
        answers = [moment for moment, kind in zip(self.arrived, kinds, strict=True) if kind & OUTPUT & ~Kind.REASONING]
        if answers:
            figures["time_to_first_answer_token"] = answers[0]
        if len(outputs) > 1:
            figures["time_per_output_chunk"] = (outputs[-1] - outputs[0]) / (len(outputs) - 1)
            figures["time_per_output_token"] = (outputs[-1] - outputs[0]) / ((self.timeline.output_tokens or 2) - 1)
        if len(samples) > 1:
            figures |= {f"itl_p{q}": percentile(samples, q) for q in (50, 90, 95, 99)}
            figures |= {"itl_max": samples[-1], "itl_mean": fmean(samples)}
        return {name: nanoseconds / SECOND for name, nanoseconds in figures.items()}


def read(
    arrived: Sequence[int],
    holds: Sequence[int],
    delays: Sequence[int],
    doubts: Sequence[int],
    *,
    headers: int = 0,
    headers_delay: int = 0,
    **facts: Any,
) -> Read:
    """Read a stream: ns for each chunk.

    Args:
        arrived: when it came.
        holds: how long the consumer worked before it asked for it.
        delays: for how long it lay there before this process, which was waiting for it or asked for it, could go on.
        doubts: what the evidence shows beyond that delay: it is never less than the truth.
        headers: when the headers came.
        headers_delay: for how long they lay there, which is part of the lateness of the first chunk.
        facts: further fields of the timeline.
    """
    asked, returned, lateness, free = [], [], [], headers + headers_delay
    for came, hold, delay, doubt in zip(arrived, holds, delays, doubts, strict=True):
        ask = free + hold
        now = max(ask, came) + delay
        before, first_delay = (returned[-1], 0) if returned else (0, headers_delay)
        asked.append(ask)
        returned.append(now)
        lateness.append(min(delay + doubt + first_delay, now - before))
        free = now
    timeline = Timeline(
        request_unix_ns=0,
        asked=array("q", asked),
        arrived=array("q", returned),
        lateness=array("q", lateness if any(lateness) else ()),
        headers=headers + headers_delay,
        end=free,
        **{"kinds": bytes([Kind.ANSWER] * len(asked)), **facts},
    )
    return Read(list(arrived), timeline)


some = st.one_of(st.just(0), st.integers(2, 400))
"""Milliseconds: nothing at all, or more than counts as nothing."""


@st.composite
def streams(draw: st.DrawFn, *, has_holds: bool = True, has_delays: bool = True) -> Read:
    """A stream beside a consumer of any temper on a machine with any load."""
    paces = st.one_of(st.integers(0, 400), st.integers(10, 30), st.sampled_from([0, 20, 20, 20]))
    count = draw(st.integers(1, 25))
    headers = draw(st.sampled_from([0, 80, 300]))
    gaps = draw(st.lists(paces, min_size=count, max_size=count))
    arrived = [MS * moment for moment in accumulate(gaps, initial=headers)][1:]
    if draw(st.booleans()):  # the first came with the headers
        arrived = [moment - arrived[0] + headers * MS for moment in arrived]

    def drawn(strategy: st.SearchStrategy[int], *, is_there: bool) -> list[int]:
        if not is_there or not draw(st.booleans()):
            return [0] * count
        return [MS * each for each in draw(st.lists(strategy, min_size=count, max_size=count))]

    delays = drawn(some, is_there=has_delays)
    doubts = [doubt if delay else 0 for doubt, delay in zip(drawn(some, is_there=has_delays), delays, strict=True)]
    kinds = st.sampled_from([Kind.ANSWER, Kind.ANSWER, Kind.ANSWER, Kind.REASONING, Kind.PING, Kind.TOOL])
    return read(
        arrived,
        drawn(some, is_there=has_holds),
        delays,
        doubts,
        headers=MS * headers,
        headers_delay=MS * draw(st.sampled_from([0, 0, 40]) if has_delays else st.just(0)),
        kinds=bytes(draw(st.lists(kinds, min_size=count, max_size=count))),
        tokens=array("I", draw(st.one_of(st.just([]), st.lists(st.integers(0, 4), min_size=count, max_size=count)))),
        output_tokens=draw(st.integers(2, 100)),
    )


def outside(stream: Read, measures: Measures) -> dict[str, Any]:
    """The figures whose truth is not within their bounds: the truth and the bounds."""
    found = {}
    for name, true in stream.true_figures().items():
        bounds = measures.find_bounds(name)
        slack = ROUNDING * (1 + true)
        if bounds is None or not bounds.lowest - slack <= true <= bounds.highest + slack:
            found[name] = (true, bounds)
    return found


@often
@given(streams(has_delays=False))
def test_the_truth_is_within_the_bounds_beside_a_consumer_that_holds(stream: Read) -> None:
    assert outside(stream, measure(stream.timeline)) == {}


@often
@given(streams(has_holds=False))
def test_the_truth_is_within_the_bounds_on_a_machine_that_is_late(stream: Read) -> None:
    assert outside(stream, measure(stream.timeline)) == {}


@settings(max_examples=200, deadline=None)
@given(streams())
def test_the_truth_is_within_the_bounds_whatever_comes_together(stream: Read) -> None:
    assert outside(stream, measure(stream.timeline)) == {}


@often
@given(streams())
def test_every_figure_is_within_its_own_bounds(stream: Read) -> None:
    measures = measure(stream.timeline)
    beyond = {
        name: (getattr(measures, name), bounds)
        for name, bounds in measures.bounds.items()
        if getattr(measures, name) is not None
        and not bounds.lowest - ROUNDING <= getattr(measures, name) <= bounds.highest + ROUNDING
    }
    assert beyond == {}


@often
@given(streams())
def test_a_stream_with_output_has_a_first_token_and_a_time_per_token(stream: Read) -> None:
    measures = measure(stream.timeline)
    outputs = measures.output_chunk_count
    found = (measures.time_to_first_token is not None, measures.time_per_output_token is not None)
    assert found == (outputs > 0, outputs > 1)


@often
@given(streams(has_holds=False, has_delays=False))
def test_what_nothing_delays_has_no_bounds(stream: Read) -> None:
    assert measure(stream.timeline).bounds == {}


# --- How close they are ----------------------------------------------------------------------------------------------


def late(*late_ms: float, gap_ms: int = 20, **facts: Any) -> Timeline:
    """A stream with an even pace that was waited for, each chunk of which may have come that much earlier."""
    arrived = [MS * (100 + gap_ms * index) for index in range(len(late_ms))]
    asked = [0, *arrived[:-1]]
    return Timeline(
        **{
            "request_unix_ns": 0,
            "asked": array("q", asked),
            "arrived": array("q", arrived),
            "lateness": array("q", [round(MS * each) for each in late_ms]),
            "kinds": bytes([Kind.ANSWER] * len(arrived)),
            "end": arrived[-1],
            **facts,
        }
    )


HELD = read([100 * MS, 105 * MS, 110 * MS, 160 * MS], [0, 45 * MS, 0, 0], [0] * 4, [0] * 4).timeline
"""Two chunks that were found waiting at 145 ms, between two that were waited for: 60 ms for three gaps."""


HELD_TO_THE_END = read([100 * MS, 105 * MS, 110 * MS], [0, 400 * MS, 400 * MS], [0] * 3, [0] * 3).timeline
"""A caller that works for 400 ms on each chunk."""


def test_a_chunk_that_may_be_late_came_no_earlier_than_that() -> None:
    assert measure(late(3, 0)).bounds["time_to_first_token"] == (0.097, 0.1)


def test_no_chunk_came_before_the_one_before_it() -> None:
    # The second may be 20 ms late, the third, which was not waited for, all of that and its own gap.
    measures = measure(late(0, 20, 20))
    assert measures.bounds["time_to_last_token"] == (0.1, 0.14)


def test_a_gap_between_two_late_chunks_is_known_to_what_both_are_late() -> None:
    assert measure(late(2, 3)).bounds["itl_max"] == pytest.approx((0.017, 0.022))


def test_what_chunks_between_the_first_and_the_last_are_late_is_not_in_the_mean() -> None:
    assert measure(late(2, 9, 9, 9, 3)).bounds["itl_mean"] == pytest.approx((0.077 / 4, 0.082 / 4))


def test_of_gaps_between_two_known_moments_the_longest_may_take_all_the_time() -> None:
    # It takes a third of it at the least, and ends with the wait of 15 ms in any case.
    assert measure(HELD).bounds["itl_max"] == pytest.approx((0.02, 0.06))


def test_of_gaps_between_two_known_moments_the_second_longest_may_take_half_of_the_time() -> None:
    # The median of three is the second longest.
    assert measure(HELD).bounds["itl_p50"] == pytest.approx((0, 0.03))


def test_the_mean_between_two_known_moments_is_known() -> None:
    assert "itl_mean" not in measure(HELD).bounds


def test_a_stall_that_was_waited_for_after_a_hold_is_certain() -> None:
    stream = read([100 * MS, 110 * MS, 1_100 * MS], [0, 100 * MS, 0], [0] * 3, [0] * 3)
    assert measure(stream.timeline).bounds["itl_max"] == pytest.approx((0.9, 1.0))


def test_late_chunks_of_an_even_stream_keep_its_pace() -> None:
    # The string is straight where the intervals allow it.
    assert list(measure(late(0, 3, 0, 5, 2, 0)).itl_samples) == pytest.approx([0.02] * 5)


def test_a_chunk_that_was_late_itself_is_put_where_the_pace_is_even() -> None:
    # Delivered at 100, 155 and 180 ms, the second may have come at 140 already: the gaps are 40 and 40, not 55 and 25.
    stream = read([100 * MS, 140 * MS, 180 * MS], [0] * 3, [0, 15 * MS, 0], [0] * 3)
    assert list(measure(stream.timeline).itl_samples) == pytest.approx([0.04, 0.04])


def test_chunks_that_lay_there_while_the_process_did_not_run_are_not_a_burst_of_the_upstream() -> None:
    stream = read(
        [MS * moment for moment in (100, 120, 140, 160, 180, 260)], [0] * 6, [0, 60 * MS, 0, 0, 0, 0], [0] * 6
    )
    assert measure(stream.timeline).burst_ratio == 0


@pytest.mark.parametrize(
    ("late_ms", "gap_ms", "exact"),
    [((0, 1, 0), 20, 2), ((0, 1.1, 0), 20, 0), ((0, 1.1, 0), 22, 2), ((0.6, 0.6), 20, 0)],
)
def test_a_gap_is_exact_within_1_ms_or_5_percent(late_ms: Sequence[float], gap_ms: int, exact: int) -> None:
    assert measure(late(*late_ms, gap_ms=gap_ms)).exact == exact


def test_a_first_token_that_is_known_neither_to_1_ms_nor_to_a_tenth_binds_the_stream() -> None:
    assert [measure(late(late_ms)).is_consumer_bound for late_ms in (10, 10.1)] == [False, True]


def test_figures_of_a_short_stream_that_is_known_to_2_of_20_ms_are_recorded() -> None:
    measures = measure(late(2, 2))
    assert (measures.is_known("time_to_first_token"), list(measures.upstream_samples)) == (True, [0.02])


@pytest.mark.parametrize(("late_ms", "is_known"), [(99, True), (100, False)])
def test_a_first_token_is_recorded_if_it_is_known_to_half_of_itself_or_to_a_tenth_of_a_second(
    late_ms: float, is_known: bool
) -> None:
    assert measure(late(late_ms)).is_known("time_to_first_token") is is_known


def test_gaps_that_lateness_leaves_open_are_recorded_by_their_estimate() -> None:
    measures = measure(late(60, 20))
    assert (list(measures.upstream_samples), measures.is_uncertain("time_to_first_token")) == ([0.02], True)


def test_gaps_that_holds_leave_open_are_not_recorded() -> None:
    assert list(measure(HELD_TO_THE_END).upstream_samples) == []


def test_what_is_next_to_nothing_is_no_uncertainty() -> None:
    found = [measure(late(late_ms)).ttft_uncertainty for late_ms in (0.9, 1, 1.5)]
    assert found == [None, None, pytest.approx(0.0015)]


def test_the_highest_p99_is_there_where_the_estimate_is_no_upper_bound() -> None:
    # Estimated as 20 ms each; if one takes 60, the p99 of three is 59.2: 0.98 of the way from the second.
    measures = measure(HELD)
    assert measures.itl_p99_highest == pytest.approx(0.03 + 0.98 * 0.03)


@pytest.mark.parametrize(
    ("hold_ms", "late_ms", "share"), [(0, 10, 1.0), (30, 10, 0.25), (30, 0, 0.0)], ids=["late", "both", "held"]
)
def test_lateness_and_holds_share_what_is_uncertain(hold_ms: int, late_ms: int, share: float) -> None:
    stream = read([MS * moment for moment in (100, 105, 200)], [0, hold_ms * MS, 0], [0, 0, late_ms * MS], [0] * 3)
    assert measure(stream.timeline).late_share == pytest.approx(share)


# --- The straightest path --------------------------------------------------------------------------------------------


@st.composite
def corridors(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Intervals whose ends rise, and how far apart they are."""
    count = draw(st.integers(2, 30))
    latest = list(accumulate(draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))))
    widths = draw(st.lists(st.integers(0, 90), min_size=count, max_size=count))
    earliest = list(accumulate((late - width for late, width in zip(latest, widths, strict=True)), max))
    return earliest, latest, draw(st.lists(st.integers(1, 4), min_size=count - 1, max_size=count - 1))


@given(corridors())
def test_the_path_stays_within_the_intervals(corridor: tuple[list[int], list[int], list[int]]) -> None:
    earliest, latest, shares = corridor
    steps = [slope * share for slope, share in zip(find_straightest_path(*corridor), shares, strict=True)]
    path = list(accumulate(steps, initial=float(latest[0])))
    inner = zip(earliest[1:-1], path[1:-1], latest[1:-1], strict=True)
    assert all(low - 1e-6 <= moment <= high + 1e-6 for low, moment, high in inner)
    assert path[-1] == pytest.approx(latest[-1])


@given(corridors())
def test_the_path_turns_only_where_an_interval_makes_it(corridor: tuple[list[int], list[int], list[int]]) -> None:
    earliest, latest, shares = corridor
    slopes = find_straightest_path(*corridor)
    path = list(accumulate((slope * share for slope, share in zip(slopes, shares, strict=True)), initial=latest[0]))
    for index in range(1, len(shares)):
        before, after = slopes[index - 1], slopes[index]
        # Pulled taut, it turns upwards around the upper end of an interval, and downwards around the lower end.
        if after > before + 1e-9:
            assert path[index] == pytest.approx(latest[index])
        elif after < before - 1e-9:
            assert path[index] == pytest.approx(earliest[index])


def test_a_path_of_many_turns_takes_time_in_proportion() -> None:
    # Each pull takes longer than the one before, so that every moment is a corner.
    latest = [index * index for index in range(20_000)]
    slopes = find_straightest_path([0] * len(latest), latest, [1] * (len(latest) - 1))
    assert slopes == [2 * index + 1 for index in range(len(latest) - 1)]
