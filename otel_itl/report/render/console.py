"""The report in a terminal: tables, and the worst stream drawn over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from otel_itl.conventions import LATENCY_BUCKETS
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.report.render import timeline_chart as strip
from otel_itl.report.render.figures_as import figures_of, in_words_of
from otel_itl.report.render.number_format import ABSENT, counted, duration, edge, milliseconds, printable, rate
from otel_itl.report.render.sessions import request_table, session_table
from otel_itl.report.render.slo import objective_table
from otel_itl.report.render.stalls import stall_table
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.tables import INDENT, folded, named_table
from otel_itl.report.render.terminal import Screen, put
from otel_itl.report.render.timeline_chart import Drawing, Glyphs, Mark, Scale
from otel_itl.report.sessions import SessionRow
from otel_itl.report.summary import Report, Row, Worst

if TYPE_CHECKING:
    from rich.table import Table

_GUTTER = 10
"""Columns left of a drawing, for the names of its lanes."""
_CELL = 6
"""Columns of a latency, the blank before it included."""
_COUNT = 8
"""Columns of a count at least, likewise."""
_OUTCOMES = 14
"""Columns for how the streams ended, at least."""
_SHAPE = 12
"""Fewer columns are no picture of a distribution."""
_CLEAR = 8
"""A gap narrower than this is drawn a second time, closer."""
_CLOSER = 2
"""How many times its own length is shown on either side of it then."""

_LATENCIES = (("TTFT, ms", ("p50", "p95", "p99")), ("inter-token latency, ms", ("p50", "p95", "p99", "max", "mean")))
_RATES = (("TPOT", "ms"), ("speed", "tok/s"))
_COUNTS = (
    ("", "streams"),
    ("", "tokens"),
    ("", "chunks"),
    ("gaps", "imputed"),
    ("gaps", "excluded"),
    ("caller-", "bound"),
)


def show(report: Report, to: Screen) -> None:
    """Print a report."""
    put(Group(*_parts(report, to)), to)


def show_session(session: SessionRow, to: Screen) -> None:
    """Print one session: its requests in order of time."""
    put(Group(Text(), *request_table(session, to)), to)


def _parts(report: Report, to: Screen) -> Iterable[RenderableType]:
    yield Text()
    if report.tool is None:
        yield from _latency_table(report.rows, to)
    else:
        yield from in_words_of(report.tool, report.rows)
    yield Text()
    yield from _stream_table(report.rows, to)
    if any(row.stalls for row in report.rows):
        yield Text()
        yield from stall_table(report.rows, to)
    if report.slo:
        yield Text()
        yield objective_table(report.slo, to)
    if report.sessions:
        yield Text()
        yield from session_table(report.sessions, to)
    if report.worst is not None:
        yield Text()
        yield from _worst(report.worst, to)


def _latency_table(rows: Sequence[Row], to: Screen) -> Iterable[RenderableType]:
    columns = [name for _, names in _LATENCIES for name in names]
    rest = (len(columns) + len(_RATES)) * _CELL
    table, name_width = named_table(_names(rows), to, rest)
    above = " " * name_width
    for title, names in _LATENCIES:
        above += " " + f" {title} ".center(len(names) * _CELL - 1, to.glyphs.rule)
    above += "".join(f"{title:>{_CELL}}" for title, _ in _RATES)
    for column in (*columns, *(unit for _, unit in _RATES)):
        table.add_column(column, width=_CELL, justify="right", no_wrap=True, overflow="crop")
    shown = _shown_buckets(rows, to.console.width - name_width - rest - INDENT)
    if shown:
        table.add_column(_shape_edges(shown), width=len(shown) + INDENT, justify="right", no_wrap=True, overflow="crop")
        above += " " * INDENT + " ITL ".center(len(shown), to.glyphs.rule)
    for row in _by_provider(rows, table):
        shape = [Text(_shape(row.latency_buckets, shown, to.glyphs), style=STYLES["answer"])] if shown else []
        table.add_row(folded(row.model, name_width), *map(Text, _numbers(row)), *shape)
    yield Text(above, style=STYLES["head"], no_wrap=True, overflow="crop")
    yield table


def _stream_table(rows: Sequence[Row], to: Screen) -> Iterable[RenderableType]:
    widths = [max(len(name) + 1, _COUNT) for _, name in _COUNTS]
    table, name_width = named_table(_names(rows), to, sum(widths) + _OUTCOMES)
    room = to.console.width - name_width - sum(widths) - 1
    above = " " * name_width
    for width, (title, name) in zip(widths, _COUNTS, strict=True):
        above += title.rjust(width)
        table.add_column(name, width=width, justify="right", no_wrap=True, overflow="crop")
    table.add_column(" outcomes", overflow="fold")
    for row in _by_provider(rows, table):
        counts = (row.streams, row.output_tokens, row.output_chunks, row.imputed, row.excluded, row.consumer_bound)
        numbers = (Text(counted(count) if count else ABSENT) for count in counts)
        table.add_row(folded(row.model, name_width), *numbers, Padding(_outcomes(row, room), (0, 0, 0, 1)))
    yield Text(above, style=STYLES["head"], no_wrap=True, overflow="crop")
    yield table


def _names(rows: Sequence[Row]) -> Iterable[str]:
    return (name for row in rows for name in (row.model, row.provider))


def _by_provider(rows: Sequence[Row], table: Table) -> Iterable[Row]:
    """The rows, with a line for each provider before its own."""
    for provider, of_provider in groupby(rows, key=lambda row: row.provider):
        table.add_row(Text(printable(provider), style=STYLES["provider"]))
        yield from of_provider


def _numbers(row: Row) -> Iterable[str]:
    ttft, itl = row.time_to_first_token, row.inter_token_latency
    yield from map(milliseconds, (ttft.p50, ttft.p95, ttft.p99, itl.p50, itl.p95, itl.p99, itl.max, itl.mean))
    yield milliseconds(row.time_per_output_token)
    yield rate(row.output_speed)


def _shown_buckets(rows: Sequence[Row], room: int) -> range:
    """The buckets that hold samples of any row, if there is room for a picture of them."""
    held = [index for row in rows for index, count in enumerate(row.latency_buckets) if count]
    if not held:
        return range(0)
    first = max(min(*held, max(held) + 1 - _SHAPE), 0)
    shown = range(first, max(max(held) + 1, first + _SHAPE))
    return shown if len(shown) <= room else range(0)


def _shape_edges(shown: range) -> str:
    """From where to where the picture of a distribution goes."""
    lower = edge(LATENCY_BUCKETS[shown.start - 1]) if shown.start else "0"
    upper = edge(LATENCY_BUCKETS[shown.stop - 1]) if shown.stop <= len(LATENCY_BUCKETS) else "more"
    return lower + upper.rjust(len(shown) - len(lower))


def _shape(counts: Sequence[int], shown: range, glyphs: Glyphs) -> str:
    """Heights grow with the square root: one stall among hundreds of tokens is to be seen."""
    most = max(counts) or 1
    levels = glyphs.levels
    heights = [round((counts[index] / most) ** 0.5 * (len(levels) - 1)) for index in shown]
    return "".join(levels[height] if counts[index] else " " for index, height in zip(shown, heights, strict=True))


def _outcomes(row: Row, room: int) -> Text:
    failures = {Outcome.ERROR.value, Outcome.TRUNCATED.value}
    words, used = Text(overflow="fold"), 0
    for outcome, count in row.outcomes.items():
        word = f"{count:,} {outcome}"
        if used:
            fits = used + len(", ") + len(word) <= room
            words.append(", " if fits else ",\n")
            used = used + len(", ") if fits else 0
        words.append(word, style=STYLES["outcome"] if outcome in failures else "")
        used += len(word)
    return words


def _worst(worst: Worst, to: Screen) -> Iterable[RenderableType]:
    stream, timeline = worst.stream, worst.stream.timeline
    width = max(to.console.width - _GUTTER - 1, strip.TICK_COLUMNS)
    title = Text()
    title.append("longest wait for a token: ", style=STYLES["head"])
    title.append(duration(worst.longest), style=STYLES["longest gap"])
    title.append(f", {printable(stream.provider)} ")
    title.append(printable(stream.model), style=STYLES["provider"])
    if worst.gap is not None:
        title.append(f", before chunk {worst.gap.position:,} of {stream.measures.output_chunk_count:,}")
    yield title
    ending = f"{timeline.outcome.value} after {duration(stream.measures.duration)}"
    yield Text(f"{printable(stream.operation)}, {ending}", style=STYLES["head"])
    if stream.span_id:
        yield Text(f"trace {printable(stream.trace_id)}, span {printable(stream.span_id)}", style=STYLES["head"])
    if worst.figures is not None:
        yield figures_of(worst.figures)
    yield Text()
    latest = max(timeline.end, timeline.arrived[-1])
    whole = Scale(0, latest, width)
    yield from _drawn(strip.draw(timeline, whole, _marks(worst), to.glyphs))
    closer = _closer(worst, whole)
    if closer is not None:
        yield Text()
        yield Text("around it, closer:", style=STYLES["head"])
        yield Text()
        yield from _drawn(strip.draw(timeline, closer, _marks(worst)[-1:], to.glyphs))


def _marks(worst: Worst) -> list[Mark]:
    marks = []
    ttft = worst.stream.measures.time_to_first_token
    if ttft is not None and worst.figures is None:
        marks.append(Mark("first token", 0, round(ttft * SECOND), f"TTFT {duration(ttft)}"))
    if worst.gap is not None:
        start, end, _ = worst.gap
        marks.append(Mark("longest gap", start, end, duration((end - start) / SECOND)))
    return marks


def _closer(worst: Worst, whole: Scale) -> Scale | None:
    """A scale on which the gap fills a good part of the width, where it does not on that of the whole stream."""
    if worst.gap is None:
        return None
    start, end, _ = worst.gap
    if whole.column(end) - whole.column(start) > _CLEAR:
        return None
    around = _CLOSER * (end - start)
    return Scale(max(start - around, 0), min(end + around, whole.end), whole.width)


def _drawn(drawing: Drawing) -> Iterable[Text]:
    for name, cells in drawing.lanes:
        yield _row(name, Text(cells, style=STYLES[name]))
    yield _row("", Text(drawing.rule, style=STYLES["head"]))
    yield _row(drawing.unit, Text(drawing.ticks, style=STYLES["head"]))
    for labels in drawing.labels:
        line = Text()
        for label in labels:
            line.append(" " * (label.column - len(line)))
            line.append(label.text, style=STYLES[label.name])
        yield _row("", line)


def _row(name: str, cells: Text) -> Text:
    return Text.assemble((f"{name:>{_GUTTER - 1}} ", STYLES["head"]), cells, no_wrap=True, overflow="crop")
