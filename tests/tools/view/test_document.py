from __future__ import annotations

import sys
from array import array
from importlib.util import find_spec
from itertools import accumulate
from runpy import run_path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_itl.core.chunk_code import choice_byte, choices_in
from otel_itl.core.measures import measure
from otel_itl.core.timeline import MICROSECOND, Kind, Timeline
from otel_itl.tools.report import json_text
from otel_itl.tools.report.reading.span_facts import SLOFacts, SpanFacts
from otel_itl.tools.report.reading.streams import StoredStream
from otel_itl.tools.view.document import describe_page, describe_stream
from otel_itl.tools.view.moments import HIDDEN, UNMEASURED, draw_chunks
from otel_itl.tools.view.packing import encode_runs, pack_chunks

MS = 1_000_000


def timeline(*chunks: tuple[float, float, int], **more: Any) -> Timeline:
    """A timeline of chunks: hold and wait before each in ms, and its kind."""
    asked, arrived, now = array("q"), array("q"), 0
    for hold, wait, _ in chunks:
        asked.append(now + round(hold * MS))
        now = asked[-1] + round(wait * MS)
        arrived.append(now)
    kinds = bytes(kind for _, _, kind in chunks)
    return Timeline(request_unix_ns=1, asked=asked, arrived=arrived, kinds=kinds, end=now + 1, headers=0, **more)


def samples_of(drawn_from: Timeline) -> list[float]:
    """The ITL samples (ns) by the rule that `draw_chunks` documents, ascending."""
    drawn, last, samples = draw_chunks(drawn_from), dict[int, float](), []
    for index, (moment, code, share) in enumerate(zip(drawn.moments, drawn.codes, drawn.shares, strict=True)):
        if not code & 7:
            continue
        for choice in choices_in(drawn_from.choices[index] if drawn_from.choices else 0):
            if not code & UNMEASURED and choice in last:
                samples += [(moment - last[choice]) / share] * share
            last[choice] = moment
    return sorted(samples)


CHUNK = st.tuples(
    st.sampled_from([0.0, 0.01, 3.0, 40.0]),
    st.sampled_from([0.0, 0.02, 0.5, 5.0, 20.0, 700.0]),
    st.sampled_from([int(Kind.ANSWER), int(Kind.REASONING), int(Kind.TOOL), int(Kind.PING), 0]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CHUNK, max_size=60), st.data())
def test_the_distances_between_drawn_chunks_are_the_samples_of_the_report(
    chunks: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    size = len(chunks)
    counted = data.draw(st.booleans())
    tokens = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)) if counted else []
    parallel = data.draw(st.booleans())
    choices = data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) if parallel else []
    made = timeline(*chunks, tokens=array("I", tokens), choices=bytes(choices))
    expected = measure(made).itl_samples.nanoseconds
    assert sum(expected) == pytest.approx(sum(samples_of(made)), abs=1)
    assert len(expected) == len(samples_of(made))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(1.0, 50.0), st.sets(st.integers(0, 3), min_size=1)), max_size=30))
def test_a_chunk_of_several_choices_has_a_sample_for_each(chunks: list[tuple[float, set[int]]]) -> None:
    made = timeline(*[(0, gap, 2) for gap, _ in chunks], choices=bytes(choice_byte(several) for _, several in chunks))
    expected = measure(made).itl_samples.nanoseconds
    assert (sum(samples_of(made)), len(samples_of(made))) == (pytest.approx(sum(expected), abs=1), len(expected))


def test_a_hidden_arrival_is_hollow_and_shares_the_time_between_the_observed_ones() -> None:
    made = timeline(*[(0, 20, 2)] * 4, (30, 0.0, 2), (0, 30, 2), *[(0, 20, 2)] * 3)
    drawn = draw_chunks(made)
    hollow = [index for index, code in enumerate(drawn.codes) if code & HIDDEN]
    assert (hollow, round(drawn.moments[4] / MS)) == ([4], 110)


def test_packed_moments_are_those_of_the_chunks_in_microseconds() -> None:
    made = timeline((0, 200, 8), (0, 20, 2), (5, 0.3, 2), (0, 2_000, 2))
    drawn = draw_chunks(made)
    assert list(accumulate(pack_chunks(drawn)["d"])) == [round(moment / MICROSECOND) for moment in drawn.moments]


def test_a_hold_of_the_caller_is_packed_with_its_start_and_its_length() -> None:
    assert pack_chunks(draw_chunks(timeline((0, 20, 2), (7, 20, 2))))["h"] == [20_000, 7_000]


def stored(late_ms: float = 0, *, first: float = 510, host_delay: float | None = None) -> StoredStream:
    """A stream judged by the objective `chat` (TTFT 500 ms), whose first chunk may have come earlier."""
    made = timeline(
        (0, first, 2), (0, 20, 2), (0, 20, 2), lateness=array("q", [round(late_ms * MS), 0, 0]), output_tokens=3
    )
    facts = SpanFacts(slo=SLOFacts("chat", None, None, None, None), host_delay=host_delay)
    identity = {"provider": "p", "model": "m", "operation": "chat", "trace_id": "a", "span_id": "b", "where": "x:1"}
    return StoredStream(**identity, timeline=made, measures=measure(made), span_facts=facts)


def test_a_figure_has_by_how_much_it_may_be_less_and_why() -> None:
    described = describe_stream(stored(30, host_delay=1.0))
    assert (described["errors"]["time_to_first_token"], described["why"]) == (0.03, "its machine was busy")


def test_a_figure_that_is_not_known_to_half_of_itself_is_not_pooled() -> None:
    assert describe_stream(stored(300))["left_out"] == ["TTFT"]


def test_a_figure_has_by_how_much_it_may_be_more() -> None:
    assert describe_stream(stored(30))["above"]["time_per_output_token"] == 0.015


def test_an_objective_within_the_bounds_is_neither_met_nor_missed() -> None:
    assert describe_stream(stored(30))["slo"] == {"profile": "chat", "verdict": "not known"}


def test_a_stream_that_is_known_has_no_errors() -> None:
    described = describe_stream(stored())
    assert [key for key in ("errors", "why", "left_out") if key in described] == []


def test_equal_codes_are_one_run() -> None:
    assert encode_runs(b"\x02\x02\x01") == [2, 2, 1, 1]


@pytest.mark.parametrize("has_orjson", [True, False])
def test_what_is_no_number_in_json_is_null(monkeypatch: pytest.MonkeyPatch, has_orjson: bool) -> None:
    if not has_orjson:
        monkeypatch.setitem(sys.modules, "orjson", None)
    elif find_spec("orjson") is None:
        pytest.skip("orjson is not installed")
    text = run_path(json_text.__file__)["encode_json"]({"ratio": float("nan"), "all": [float("inf"), 1.5]})
    assert text == b'{"ratio":null,"all":[null,1.5]}'


def test_nan_is_not_read_as_json_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)
    with pytest.raises(ValueError, match="NaN is not JSON"):
        run_path(json_text.__file__)["parse_json"](b'{"ratio": NaN}')


def test_sides_of_one_name_and_the_same_stream_on_both_stay_distinct() -> None:
    stream = {"id": "t-s-1", "start": 1}
    page = describe_page([stream | {"side": side} for side in (0, 1)], "a and a", {"sides": ["a", "a"]})
    assert (page["sides"], [stream["id"] for stream in page["streams"]]) == (["a (1)", "a (2)"], ["0.t-s-1", "1.t-s-1"])
