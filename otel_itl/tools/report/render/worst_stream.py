"""Renders the worst stream: its facts, and its chunks drawn over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.certainty import find_error, format_with_error
from otel_itl.tools.report.render.number_format import format_duration, make_printable
from otel_itl.tools.report.render.other_tool_tables import figures_line
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import TICK_COLUMNS, Drawing, Mark, Scale, draw_timeline
from otel_itl.tools.report.worst_stream import WorstStream

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL_WIDTH = 10
"""Columns left of a drawing, for the names of its lanes."""
_MIN_GAP_WIDTH = 8
"""A gap that is no wider than this is drawn a second time, enlarged."""
_ENLARGED_MARGIN = 2
"""How many times the gap's own length is shown on either side of it then."""


def worst_stream_parts(worst: WorstStream, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the title, the facts and the drawings of the worst stream."""
    timeline = worst.stream.timeline
    yield from _facts(worst)
    yield Text()
    width = max(terminal.console.width - _LABEL_WIDTH - 1, TICK_COLUMNS)
    whole = Scale(0, max(timeline.end, timeline.arrived[-1]), width)
    yield from _drawing_lines(draw_timeline(timeline, whole, _marks(worst), terminal.glyphs))
    enlarged = _zoom_on_gap(worst, whole)
    if enlarged is not None:
        yield Text()
        yield Text("the longest gap, enlarged:", style=STYLES["head"])
        yield Text()
        yield from _drawing_lines(draw_timeline(timeline, enlarged, _marks(worst)[-1:], terminal.glyphs))


def _facts(worst: WorstStream) -> Iterator[Text]:
    """Yield lines with the longest wait, the model, the outcome, and the ids of the stream."""
    stream = worst.stream
    title = Text()
    title.append("longest wait for a token: ", style=STYLES["head"])
    below, above = find_error(stream.measures, "itl_max"), find_error(stream.measures, "itl_max", is_above=True)
    title.append(format_with_error(worst.longest, below, above), style=STYLES["longest gap"])
    title.append(f", {make_printable(stream.provider)} ")
    title.append(make_printable(stream.model), style=STYLES["provider"])
    if worst.gap is not None:
        title.append(f", before chunk {worst.gap.position:,} of {stream.measures.output_chunk_count:,}")
    yield title
    end = f"{stream.timeline.outcome.value} after {format_duration(stream.measures.duration)}"
    yield Text(f"{make_printable(stream.operation)}, {end}", style=STYLES["head"])
    if stream.span_id:
        ids = f"trace {make_printable(stream.trace_id)}, span {make_printable(stream.span_id)}"
        yield Text(ids, style=STYLES["head"])
    if worst.figures is not None:
        yield figures_line(worst.figures)


def _marks(worst: WorstStream) -> list[Mark]:
    """Return the labels of a drawing: TTFT (in a report of our own figures), and last the longest gap."""
    marks = []
    measures = worst.stream.measures
    ttft = measures.time_to_first_token
    if ttft is not None and worst.figures is None:
        shown = format_with_error(ttft, find_error(measures, "time_to_first_token"))
        marks.append(Mark("first token", 0, round(ttft * SECOND), f"TTFT {shown}"))
    if worst.gap is not None:
        start, end, _ = worst.gap
        marks.append(Mark("longest gap", start, end, format_duration((end - start) / SECOND)))
    return marks


def _zoom_on_gap(worst: WorstStream, whole: Scale) -> Scale | None:
    """Return a scale on which the gap is wide; None where it is wide enough on that of the whole stream."""
    if worst.gap is None:
        return None
    start, end, _ = worst.gap
    if whole.column(end) - whole.column(start) > _MIN_GAP_WIDTH:
        return None
    margin = _ENLARGED_MARGIN * (end - start)
    return Scale(max(start - margin, 0), min(end + margin, whole.end), whole.width)


def _drawing_lines(drawing: Drawing) -> Iterator[Text]:
    """Yield the lines of a drawing from top to bottom."""
    for name, cells in drawing.lanes:
        yield _line(name, Text(cells, style=STYLES[name]))
    yield _line("", Text(drawing.rule, style=STYLES["head"]))
    yield _line(drawing.unit, Text(drawing.ticks, style=STYLES["head"]))
    for labels in drawing.labels:
        line = Text()
        for label in labels:
            line.append(" " * (label.column - len(line)))
            line.append(label.text, style=STYLES[label.name])
        yield _line("", line)


def _line(name: str, cells: Text) -> Text:
    return Text.assemble((f"{name:>{_LABEL_WIDTH - 1}} ", STYLES["head"]), cells, no_wrap=True, overflow="crop")
