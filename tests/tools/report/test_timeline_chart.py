"""A stream drawn over time, to the column."""

from __future__ import annotations

from typing import Any

import pytest

from otel_itl.core.timeline import Kind
from otel_itl.tools.report.render.timeline_chart import ASCII, UNICODE, Drawing, Mark, Scale, draw_timeline

MS = 1_000_000


def drawn(timeline: Any, columns: int, milliseconds: int, *marks: Mark, glyphs: Any = ASCII, start: int = 0) -> Drawing:
    return draw_timeline(timeline, Scale(start * MS, milliseconds * MS, columns), marks, glyphs)


def cells(drawing: Drawing, lane: str) -> str:
    return dict(drawing.lanes)[lane]


def test_a_stall_is_drawn_as_wide_as_it_is_long(made: Any) -> None:
    # 10 ms a column: tokens at 100, 120, … 400 ms, silence, tokens at 912, 932, … ms.
    timeline = made.timeline(*[20] * 15, 512, *[20] * 3, first=100)
    row = cells(drawn(timeline, 100, 1_000), "answer")
    assert row == " " * 10 + ": " * 15 + ":" + " " * 50 + ": : : :  "


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_share_of_a_stall_is_the_same_at_any_width(made: Any, columns: int) -> None:
    timeline = made.timeline(*[2] * 100, 500, *[2] * 150, first=0)
    row = cells(drawn(timeline, columns, 1_000), "answer")
    assert abs(row.count(" ") - columns / 2) <= 1


def test_each_kind_of_output_has_a_lane(made: Any) -> None:
    kinds = [Kind.ROLE, Kind.REASONING, Kind.ANSWER, Kind.TOOL | Kind.FINISH, Kind.USAGE]
    lanes = drawn(made.timeline(100, 100, 100, 100, first=100, kinds=kinds), 6, 600).lanes
    assert lanes == [("reasoning", "  :   "), ("answer", "   :  "), ("tool", "    : ")]


def test_a_column_is_fuller_the_more_chunks_came(made: Any) -> None:
    timeline = made.timeline(100, *[1] * 1, 99, *[1] * 3, first=0)
    assert cells(drawn(timeline, 3, 300), "answer") == ".:#"


def test_eight_levels_show_eight_densities(made: Any) -> None:
    gaps = [gap for chunks in range(2, 9) for gap in (100 - (chunks - 2), *[1] * (chunks - 1))]
    assert cells(drawn(made.timeline(*gaps, first=0), 8, 800, glyphs=UNICODE), "answer") == "▁▂▃▄▅▆▇█"


def test_a_gap_is_labelled_under_the_columns_that_are_empty(made: Any) -> None:
    timeline = made.timeline(*[20] * 15, 512, *[20] * 3, first=100)
    mark = Mark("longest gap", 400 * MS, 912 * MS, "512 ms")
    drawing = drawn(timeline, 100, 1_000, mark)
    ((label,),) = drawing.labels
    row = cells(drawing, "answer")
    assert (label.column, len(label.text)) == (row.index(" " * 40), 50)
    assert label.text == "|" + " 512 ms ".center(48, "-") + "|"


def test_a_label_that_does_not_fit_into_its_bracket_stands_beside_it(made: Any) -> None:
    mark = Mark("longest gap", 100 * MS, 160 * MS, "60 ms")
    ((label,),) = drawn(made.timeline(60, first=100), 50, 500, mark).labels
    assert (label.column, label.text) == (11, "|---| 60 ms")


def test_a_gap_without_a_column_of_its_own_is_pointed_at(made: Any) -> None:
    mark = Mark("longest gap", 100 * MS, 104 * MS, "4 ms")
    ((label,),) = drawn(made.timeline(4, first=100), 50, 500, mark).labels
    assert (label.column, label.text) == (10, "^ 4 ms")


def test_a_label_at_the_right_edge_goes_to_the_left(made: Any) -> None:
    mark = Mark("longest gap", 480 * MS, 494 * MS, "14 ms")
    ((label,),) = drawn(made.timeline(14, first=480), 50, 500, mark).labels
    assert (label.column, label.text) == (43, "14 ms ^")


def test_labels_that_would_overlap_go_into_rows_of_their_own(made: Any) -> None:
    marks = [Mark("first token", 0, 20 * MS, "TTFT 20 ms"), Mark("longest gap", 30 * MS, 80 * MS, "50 ms")]
    drawing = drawn(made.timeline(10, 50, first=20), 50, 500, *marks)
    assert [[label.text for label in row] for row in drawing.labels] == [["|| TTFT 20 ms"], ["|--| 50 ms"]]


def test_ticks_stand_at_round_moments(made: Any) -> None:
    drawing = drawn(made.timeline(500, first=100), 50, 1_000)
    assert drawing.unit == "ms"
    assert drawing.rule == "+---------" * 5
    assert drawing.ticks == "0         200       400       600       800       "


def test_long_streams_have_ticks_in_seconds(made: Any) -> None:
    drawing = drawn(made.timeline(30_000, first=100), 40, 40_000)
    assert (drawing.unit, drawing.ticks.split()) == ("s", ["0", "10", "20", "30"])


def test_part_of_a_stream_can_be_drawn(made: Any) -> None:
    timeline = made.timeline(*[100] * 9, first=100)
    drawing = drawn(timeline, 40, 600, start=400)
    assert cells(drawing, "answer").count(":") == 3
    assert drawing.ticks.split() == ["400", "450", "500", "550"]


@pytest.mark.parametrize("columns", [1, 7, 80])
@pytest.mark.parametrize("gaps", [(), (0.001,), (3_600_000,), (5,) * 300])
def test_every_row_has_the_width_that_was_asked_for(made: Any, columns: int, gaps: tuple[float, ...]) -> None:
    timeline = made.timeline(*gaps)
    drawing = draw_timeline(timeline, Scale(0, timeline.end, columns))
    assert {len(row) for row in (drawing.rule, drawing.ticks, *(row for _, row in drawing.lanes))} == {columns}


def test_a_stream_without_any_length_can_be_drawn(made: Any) -> None:
    assert drawn(made.timeline(first=0, after=0), 10, 0).lanes == [("answer", ":         ")]
