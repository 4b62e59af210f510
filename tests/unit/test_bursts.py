"""Whether a stream was buffered, and its pace from burst to burst, against numbers worked out by hand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.measures import Measures, measure
from otel_itl.core.timeline import Kind, Timeline

MS = 1_000_000
DECODE = 0.05
"""What a chunk that is there already takes to be handed over, in milliseconds."""
quick = settings(max_examples=150, deadline=None)


def handed_over(released: Sequence[float], **facts: Any) -> Timeline:
    """What a consumer that never holds the stream sees of chunks released at these milliseconds after the request."""
    arrived = list(accumulate(released, lambda before, moment: max(before + DECODE, moment)))
    moments = [round(moment * MS) for moment in arrived]
    defaults = {"request_unix_ns": 0, "kinds": bytes([Kind.ANSWER] * len(moments)), "end": max(moments, default=0)}
    return Timeline(
        asked=array("q", [0, *moments[:-1]][: len(moments)]), arrived=array("q", moments), **defaults | facts
    )


def bursts(*sizes: int, pause: float = 100) -> Timeline:
    """As many chunks as each size says, released together, with a pause (ms) between the bursts."""
    return handed_over([100 + pause * index for index, size in enumerate(sizes) for _ in range(size)])


def released_with(gaps: Sequence[float]) -> Timeline:
    """Chunks released with these milliseconds between them."""
    return handed_over(list(accumulate(gaps, initial=100)))


# --- Whether a stream is buffered ----------------------------------------------------------------------------------


@pytest.mark.requirement("R37")
@pytest.mark.parametrize(
    ("timeline", "expected"),
    [
        pytest.param(bursts(3, 3, 3, 3), True, id="8 of 11 gaps are inside bursts"),
        pytest.param(bursts(2, 2, 2, 2, 2), True, id="5 of 9 gaps are"),
        pytest.param(bursts(1, 3, 1), False, id="2 of 4 gaps are: half is not most"),
        pytest.param(bursts(1, 1, 1, 1, 6), True, id="5 of 9 gaps are, at the end"),
        pytest.param(bursts(1, 1, 1, 1, 1, 5), False, id="4 of 9 gaps are, at the end"),
        pytest.param(bursts(3, 1, 1, 1, 1, 1, 1), False, id="the first half takes 200 ms, half of the second's 400"),
        pytest.param(bursts(4, 1, 1, 1, 1, 1), True, id="the first half takes 100 ms, the second 400"),
        pytest.param(bursts(1, 4, 1, 1, 1, 1), True, id="likewise, the backlog is behind the first chunk"),
        pytest.param(bursts(1, 1, 1, 1, 1, 4), False, id="the same at the end: the second half is the faster one"),
        pytest.param(released_with([0.5, 0.6, 0.7, 9] * 4), True, id="most chunks 0.5 to 0.7 ms apart, with pauses"),
        pytest.param(released_with([0.5, 0.6, 0.7, 0.9] * 4), False, id="a fast model: 0.5 to 0.9 ms apart"),
        pytest.param(released_with([1.5, 1.6, 1.7, 9] * 4), False, id="most chunks were waited for"),
        pytest.param(
            handed_over([*range(100, 110), *range(130, 330, 20)]), True, id="a backlog that is released 1 ms apart"
        ),
        pytest.param(handed_over([*range(100, 200, 10), *range(220, 520, 30)]), False, id="a model that became slower"),
        pytest.param(handed_over([*range(100, 300, 20), *range(1300, 1500, 20)]), False, id="a stall in the middle"),
        pytest.param(bursts(20), True, id="all came at once"),
        pytest.param(bursts(1, 1, 1, 1, pause=18), False, id="each came alone"),
        pytest.param(bursts(1), False, id="one chunk"),
        pytest.param(bursts(), False, id="no chunk"),
    ],
)
def test_a_stream_is_buffered_if_most_gaps_are_inside_bursts_or_if_it_began_with_a_backlog(
    timeline: Timeline, expected: bool
) -> None:
    assert measure(timeline).is_buffered is expected


def test_whatever_comes_between_two_chunks_of_a_burst_belongs_to_it() -> None:
    kinds = bytes([Kind.ANSWER, Kind.PING, Kind.ANSWER, Kind.ANSWER])
    assert measure(handed_over([100, 100, 100, 300], kinds=kinds)).is_buffered


def test_a_pause_between_two_chunks_ends_a_burst_whatever_comes_in_it() -> None:
    kinds = bytes([Kind.ANSWER, Kind.PING, Kind.ANSWER, Kind.PING, Kind.ANSWER])
    assert not measure(handed_over([100, 200, 200, 300, 300], kinds=kinds)).is_buffered


def test_a_first_token_that_came_with_the_role_chunk_is_no_gap_inside_a_burst() -> None:
    kinds = bytes([Kind.ROLE, Kind.ANSWER, Kind.ANSWER, Kind.ANSWER])
    assert not measure(handed_over([100, 100, 120, 140], kinds=kinds)).is_buffered


def test_choices_that_take_turns_are_not_buffered() -> None:
    # Each step of the model makes a chunk of both choices: half of the chunks come with the one before.
    measures = measure(handed_over([100, 100, 120, 120, 140, 140], choices=bytes([0, 1] * 3)))
    assert (measures.burst_ratio, measures.is_buffered) == (0.5, False)


def test_chunks_that_a_thinned_timeline_left_out_of_a_burst_were_in_it() -> None:
    # Five chunks are left: of the 10 gaps that there were, the first 6 are inside a burst.
    timeline = handed_over([100, 100, 120, 140, 160], skipped=array("I", [0, 5, 0, 1, 0]))
    assert measure(timeline).is_buffered


def test_a_backlog_that_the_consumer_caused_is_no_buffer_of_a_proxy() -> None:
    # The consumer works for 200 ms on the first chunk, and finds the next four when it asks for them.
    asked, arrived = [20, 300, 300.1, 300.2, 300.3, 300.4], [100, 300.1, 300.2, 300.3, 300.4, 340]
    nanoseconds = [array("q", [round(moment * MS) for moment in moments]) for moments in (asked, arrived)]
    timeline = Timeline(request_unix_ns=0, asked=nanoseconds[0], arrived=nanoseconds[1], kinds=bytes([2] * 6))
    assert (measure(timeline).is_buffered, measure(timeline).is_consumer_bound) == (False, True)


BUSY_PROXY = [
    0.34,
    0.11,
    0.08,
    0.07,
    0.07,
    0.07,
    0.26,
    0.07,
    0.37,
    0.52,
    0.47,
    0.54,
    0.46,
    0.52,
    3.9,
    0.78,
    0.52,
    0.49,
    0.87,
]
"""The gaps of another one's, in ms, on a busy machine."""
COLD_PROXY = [824.32, 824.41, 824.48, 824.56, 824.62, 824.69, 824.76, 824.83, 831.27, 850.35]
"""A gateway's first response, in ms: it was loading modules while its upstream sent a token every 18 ms."""


def test_the_first_stream_of_a_cold_gateway_is_buffered() -> None:
    measures = measure(handed_over(COLD_PROXY))
    assert measures.is_buffered
    assert measures.itl_mean == pytest.approx(0.0029, abs=0.0001)  # the figure that the flag is for


def test_a_backlog_that_a_busy_gateway_hands_over_slowly_is_buffered() -> None:
    measures = measure(released_with(BUSY_PROXY))
    assert measures.is_buffered
    assert measures.itl_p50 == pytest.approx(0.00046, abs=0.00005)  # of an upstream with a token every 18 ms


# --- The pace from burst to burst ----------------------------------------------------------------------------------


def test_the_pace_of_a_buffered_stream_leaves_out_the_chunks_of_its_first_burst() -> None:
    # A token every 20 ms, released eight at a time: 7 pauses of 160 ms. The mean divides them by 63, the pace by 56.
    measures = measure(bursts(*[8] * 8, pause=160))
    assert measures.buffered_pace == pytest.approx(0.020, abs=1e-5)
    assert measures.itl_mean == pytest.approx(1.12 / 63, abs=1e-5)


def test_the_pace_of_a_stream_that_only_began_buffered_is_that_of_the_rest() -> None:
    # 12 chunks at once, then 10 every 18 ms.
    assert measure(bursts(12, *[1] * 10, pause=18)).buffered_pace == pytest.approx(0.018, abs=1e-5)


@pytest.mark.parametrize(
    "timeline",
    [
        pytest.param(bursts(*[1] * 20, pause=18), id="not buffered"),
        pytest.param(bursts(20), id="all came at once"),
        pytest.param(bursts(13, *[1] * 7, pause=18), id="seven chunks after the first burst"),
        pytest.param(bursts(20, 20, 20, 20), id="three bursts after the first: one release may come in pieces"),
        pytest.param(bursts(*[30] * 6, pause=10), id="a burst that was released in pieces"),
        pytest.param(
            handed_over([100] * 4 + [101.7, 103.4, 105.1, 106.8] + [124, 142, 160, 178]),
            id="a backlog released slowly, then the pace of the upstream",
        ),
        pytest.param(handed_over([100, 100] * 2 + [200] * 20, choices=bytes([0, 1] * 12)), id="two choices"),
        pytest.param(bursts(), id="no chunk"),
    ],
)
def test_a_stream_has_no_pace_where_it_cannot_be_known(timeline: Timeline) -> None:
    assert measure(timeline).buffered_pace is None


# --- What holds of every even upstream behind every buffer ---------------------------------------------------------


@st.composite
def behind_a_buffer(draw: st.DrawFn) -> tuple[float, Measures]:
    """The gap (s) of an even upstream, and what is measured behind a buffer that releases at moments of its own.

    From the last such moment on, the buffer passes on what it gets at once; it is flushed when the stream ends.
    """
    gap, count = draw(st.integers(5, 40)), draw(st.integers(2, 80))
    made = [100 + gap * index for index in range(count)]
    releases = list(accumulate(draw(st.lists(st.integers(1, 400), max_size=20)), initial=90))
    released = [next((release for release in releases if release >= moment), moment) for moment in made]
    if released[-1] > made[-1]:
        released = [min(moment, made[-1]) for moment in released]
    return gap / 1_000, measure(handed_over(released))


@given(behind_a_buffer())
@quick
def test_the_mean_of_a_stream_that_is_not_buffered_is_three_quarters_of_the_gap_at_least(
    stream: tuple[float, Measures],
) -> None:
    gap, measures = stream
    if not measures.is_buffered and measures.itl_mean is not None:
        lost = gap / (measures.output_chunk_count - 1)
        assert 0.75 * gap - lost - 1e-4 <= measures.itl_mean <= gap + 1e-4


@given(behind_a_buffer())
@quick
def test_the_median_of_a_stream_that_is_not_buffered_is_no_time_to_decode(stream: tuple[float, Measures]) -> None:
    _, measures = stream
    if not measures.is_buffered and measures.itl_p50 is not None:
        assert measures.itl_p50 > 2 * DECODE / 1_000


@given(behind_a_buffer())
@quick
def test_the_pace_from_burst_to_burst_is_the_gap_or_up_to_an_eighth_less(stream: tuple[float, Measures]) -> None:
    gap, measures = stream
    if measures.buffered_pace is not None:
        assert 7 / 8 * gap - 1e-4 <= measures.buffered_pace <= gap + 1e-3
