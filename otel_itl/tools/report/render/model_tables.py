"""Renders the tables of a report with a line for each model or each SLO, and the notes below them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.tools.report.certainty import Flag, Known, describe_figures, describe_remedies
from otel_itl.tools.report.model_summary import ModelSummary
from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_count,
    format_duration,
    format_edge,
    format_milliseconds,
    format_rate,
    format_share,
    make_printable,
    pluralize,
)
from otel_itl.tools.report.render.styles import FAILURES, STYLES
from otel_itl.tools.report.render.tables import INDENT, Column, NamedTable
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.slo import SLOSummary
from otel_itl.tools.report.stalls import DEFAULT_POLICY

if TYPE_CHECKING:
    from rich.console import RenderableType

_MIN_OUTCOMES_WIDTH = 12
_MIN_HISTOGRAM_WIDTH = 12
"""Fewer columns do not show the shape of a distribution."""
_MARK = "*"
"""Stands behind the name of a model whose figures have a note."""

_LATENCIES: Final = (
    *(Column(name, 6, group="TTFT, ms") for name in ("p50", "p95", "p99")),
    *(Column(name, 6, group="inter-token latency, ms") for name in ("p50", "p95", "p99", "max", "mean")),
    Column("ms", 6, above="TPOT"),
    Column("tok/s", 6, above="speed"),
)
_COUNTS: Final = (
    Column("streams", 8),
    Column("tokens", 7),
    Column("chunks", 7),
    Column("imputed", 8, above="gaps"),
    Column("excluded", 9, above="gaps"),
    Column("bound", 8, above="caller-"),
)
_HOST_BOUND: Final = Column("bound", 7, above="host-")
"""A column that is shown where there are such streams."""
_SERVER: Final = (
    Column("streams", 8),
    *(Column(name, 7, group="by the server, ms") for name in ("load", "prompt", "decode", "byte 1", "total")),
    *(Column(name, 7, group="measured here, ms") for name in ("TTFT", "decode", "total")),
)
_STALLS: Final = (
    *(Column(name, 13, kind="text") for name in ("  phase", "  cause")),
    *(Column("count", 7), Column("total", 9), Column("longest", 9)),
)
_SLO: Final = (Column("streams", 9), Column("met", 13), Column("gaps", 9), Column("met", 8))
_FLUIDITY: Final = Column("fluidity", 10)
_TITLES: Final = {"time_to_first_token": "TTFT", "inter_token_latency": "ITL p99", "time_per_output_token": "TPOT"}


def latency_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the latencies of each model; where there is room, with a histogram of its ITL."""
    table = NamedTable(map(mark_model, rows), terminal, _LATENCIES)
    buckets = _buckets_to_show(rows, table.room - INDENT)
    if buckets:
        table.add_columns(Column("", INDENT - 1), Column(_histogram_head(buckets), len(buckets) + 1, group="ITL"))

    def make_line(row: ModelSummary) -> Iterator[tuple[str, Sequence[RenderableType]]]:
        """Yield the line of a model."""
        ttft, itl = row.time_to_first_token, row.inter_token_latency
        seconds = (*(ttft.p50, ttft.p95, ttft.p99), *(itl.p50, itl.p95, itl.p99, itl.max, itl.mean))
        cells: list[RenderableType] = [format_milliseconds(time) for time in (*seconds, row.time_per_output_token)]
        cells.append(format_rate(row.output_speed))
        if buckets:
            histogram = _histogram(row.latency_buckets, buckets, terminal.glyphs)
            cells += ["", Text(histogram, style=STYLES["answer"])]
        yield mark_model(row), cells

    table.add_models(rows, make_line)
    return table


def stream_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the counts and the outcomes of the streams of each model."""
    has_host_bound = any(row.host_bound for row in rows)
    columns = (*_COUNTS, _HOST_BOUND) if has_host_bound else _COUNTS
    table = NamedTable((row.model for row in rows), terminal, columns, reserved=_MIN_OUTCOMES_WIDTH)
    room = table.room
    table.add_columns(Column(" outcomes", room, kind="fold"))

    def make_line(row: ModelSummary) -> Iterator[tuple[str, Sequence[RenderableType]]]:
        """Yield the line of a model."""
        judged = (row.imputed, row.excluded, row.consumer_bound, *((row.host_bound,) if has_host_bound else ()))
        counts = (row.streams, row.output_tokens, row.output_chunks, *judged)
        cells = (format_count(count) if count else ABSENT for count in counts)
        yield row.model, [*cells, Padding(_outcomes(row, room - 1), (0, 0, 0, 1))]

    table.add_models(rows, make_line)
    return table


def server_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the medians of what servers report of their own work, beside those that were measured."""
    rows = [row for row in rows if row.server is not None]
    table = NamedTable((row.model for row in rows), terminal, _SERVER)

    def make_line(row: ModelSummary) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the line of a model."""
        if row.server is not None:
            streams, *seconds = astuple(row.server)
            yield row.model, [format_count(streams), *map(format_milliseconds, seconds)]

    table.add_models(rows, make_line)
    return table


def stall_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each phase and cause of each model that stalled, and its footnote."""
    rows = [row for row in rows if row.stalls]
    table = NamedTable((row.model for row in rows), terminal, _STALLS, "stalls")

    def make_lines(row: ModelSummary) -> Iterator[tuple[str, Sequence[RenderableType]]]:
        """Yield the lines of a model, the first with its name."""
        for index, group in enumerate(row.stalls):
            words = [f"  {make_printable((word or ABSENT).replace('_', ' '))}" for word in (group.phase, group.cause)]
            longest = Text(format_duration(group.longest), style=STYLES["longest gap"])
            yield (
                "" if index else row.model,
                [*words, format_count(group.count), format_duration(group.duration), longest],
            )

    table.add_models(rows, make_lines)
    yield table
    if any(row.streams_with_derived_stalls and group.cause is None for row in rows for group in row.stalls):
        first_token, next_token = f"{DEFAULT_POLICY.first_token:g} s", f"{DEFAULT_POLICY.next_token:g} s"
        thresholds = f"{first_token} (first token, reasoning) or {next_token} (answer)"
        yield Text(f"cause {ABSENT}: judged from the timeline, {thresholds}", style=STYLES["head"])


def mark_model(row: ModelSummary) -> str:
    """Return the name of a model, marked if any of its streams is buffered."""
    return row.model if row.buffered is None else row.model + _MARK


def buffering_notes(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each model with buffered streams: its pace is a proxy's."""
    for row in rows:
        if row.buffered is None:
            continue
        share = format_share(round(row.buffered.burst_ratio * 1_000), 1_000)
        note = Text()
        note.append(f"{_MARK} {make_printable(row.provider)} ", style=STYLES["head"])
        note.append(make_printable(row.model), style=STYLES["provider"])
        if row.buffered.streams < row.streams:
            note.append(f", {row.buffered.streams:,} of {row.streams:,} streams")
        note.append(f": {share} of the chunks came in bursts: the pace is the proxy's")
        if row.buffered.pace is not None:
            note.append(f", {format_duration(row.buffered.pace)} a chunk from burst to burst")
        yield note


def known_notes(known: Mapping[str, Known]) -> Iterator[Text]:
    """Yield a line for each figure and cause: of how many streams of all models it is uncertain, and by how much."""
    yield from map(Text, describe_figures({title: known[figure] for figure, title in _TITLES.items()}))


def remedies(rows: Sequence[ModelSummary]) -> Iterator[Text]:
    """Yield a line for each flag that something has to be done about."""
    for line in describe_remedies(sum((row.flags for row in rows), Counter[Flag]())):
        yield Text(line, style=STYLES["head"])


def _buckets_to_show(rows: Sequence[ModelSummary], room: int) -> range:
    """Return the buckets that hold samples of any row; none where there is no room for them."""
    used = [index for row in rows for index, count in enumerate(row.latency_buckets) if count]
    if not used:
        return range(0)
    first = max(min(*used, max(used) + 1 - _MIN_HISTOGRAM_WIDTH), 0)
    shown = range(first, max(max(used) + 1, first + _MIN_HISTOGRAM_WIDTH))
    return shown if len(shown) <= room else range(0)


def _histogram_head(buckets: range) -> str:
    """Return the lower edge of the first bucket and the upper edge of the last."""
    lower = format_edge(LATENCY_BUCKETS[buckets.start - 1]) if buckets.start else "0"
    upper = format_edge(LATENCY_BUCKETS[buckets.stop - 1]) if buckets.stop <= len(LATENCY_BUCKETS) else "more"
    return lower + upper.rjust(len(buckets) - len(lower))


def _histogram(counts: Sequence[int], buckets: range, glyphs: Glyphs) -> str:
    """Draw the buckets. Heights grow with the square root, so that one stall among hundreds of tokens is visible."""
    most = max(counts) or 1
    levels = glyphs.levels
    heights = [round((counts[index] / most) ** 0.5 * (len(levels) - 1)) for index in buckets]
    return "".join(levels[height] if counts[index] else " " for index, height in zip(buckets, heights, strict=True))


def _outcomes(row: ModelSummary, room: int) -> Text:
    """Return the outcomes in words, wrapped between them at this width."""
    words, used = Text(overflow="fold"), 0
    for outcome, count in row.outcomes.items():
        word = f"{count:,} {outcome}"
        if used:
            fits = used + len(", ") + len(word) < room  # a comma may follow
            words.append(", " if fits else ",\n")
            used = used + len(", ") if fits else 0
        words.append(word, style=STYLES["outcome"] if outcome in FAILURES else "")
        used += len(word)
    return words


def slo_table(summaries: Sequence[SLOSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each SLO; where there is room, with the fluidity index."""
    objectives = [_objectives(summary) for summary in summaries]
    widest = max(map(len, objectives)) + INDENT
    names_width = max(len(summary.profile) for summary in summaries) + INDENT
    columns = [Column("", widest, kind="fold"), *_SLO]
    has_fluidity = any(summary.fluidity is not None for summary in summaries)
    if has_fluidity and names_width + sum(one.width for one in (*columns, _FLUIDITY)) <= terminal.console.width:
        columns.append(_FLUIDITY)
    table = NamedTable((summary.profile for summary in summaries), terminal, columns, "objectives")
    for summary, objective in zip(summaries, objectives, strict=True):
        cells = ["  " + objective, *_cells(summary)]
        table.add_row(summary.profile, *cells[: len(columns)])
    yield table
    unknown = [
        f"{summary.streams_not_known:,} of {pluralize(_count_all(summary), 'stream')} by {summary.profile}"
        for summary in summaries
        if summary.streams_not_known
    ]
    if unknown:
        yield Text(f"not known, as their bounds contain the objective: {make_printable(', '.join(unknown))}")


def _cells(summary: SLOSummary) -> Iterator[RenderableType]:
    """Yield the numbers of an SLO's line, the fluidity index last."""
    streams, most = _count_all(summary), summary.streams_met + summary.streams_not_known
    is_missed = summary.target is not None and most < summary.target * streams
    yield format_count(streams)
    yield Text(_format_met(summary.streams_met, most, streams), style=STYLES["outcome"] if is_missed else "")
    yield ABSENT if summary.gaps is None else format_count(summary.gaps)
    yield format_share(summary.gaps_met or 0, summary.gaps) if summary.gaps else ABSENT
    yield ABSENT if summary.fluidity is None else f"{summary.fluidity:.3f}"


def _count_all(summary: SLOSummary) -> int:
    return summary.streams + summary.streams_not_known


def _format_met(least: int, most: int, streams: int) -> str:
    """Format the share of streams that met an SLO: `62.5 %`, or between which two it is: `38 to 75 %`."""
    if not streams:
        return ABSENT
    return (
        format_share(least, streams)
        if least == most
        else f"{100 * least / streams:.0f} to {100 * most / streams:.0f} %"
    )


def _objectives(summary: SLOSummary) -> str:
    """Return the objectives in words: `TTFT 500 ms, ITL 100 ms, 99 %`."""
    times = [f"{name} {format_edge(time)}" for name, time in (("TTFT", summary.ttft), ("ITL", summary.itl)) if time]
    words = ", ".join(times) or ABSENT
    return make_printable(words if summary.target is None else f"{words}, {100 * summary.target:.6g} %")
