"""Renders the tables of a report with a line for each model or each SLO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.tools.report.model_summary import Distribution, ModelSummary
from otel_itl.tools.report.render.model_notes import MARK
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
from otel_itl.tools.report.render.tables import INDENT, Column, NamedTable, count_column, fit_columns, time_column
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.slo import SLOSummary
from otel_itl.tools.report.stalls import DEFAULT_POLICY
from otel_itl.tools.report.too_few import has_too_few, mark_if

if TYPE_CHECKING:
    from rich.console import RenderableType

_MIN_OUTCOMES_WIDTH = 12
MIN_HISTOGRAM_WIDTH: Final = 14
"""Fewer columns do not show the shape of a distribution, and have no room for both of its edges."""


def _count_all(summary: SLOSummary) -> int:
    return summary.streams + summary.streams_not_known


def _format_met(summary: SLOSummary) -> Text:
    """Format the share of streams that met an SLO: `62.5 %`, or between which two it is: `38 to 75 %`."""
    least, most, streams = summary.streams_met, summary.streams_met + summary.streams_not_known, _count_all(summary)
    if not streams:
        return Text(ABSENT)
    bounds = f"{100 * least / streams:.0f} to {100 * most / streams:.0f} %"
    is_missed = summary.target is not None and most < summary.target * streams
    return Text(format_share(least, streams) if least == most else bounds, style=STYLES["outcome"] if is_missed else "")


def _sample_column(name: str, field: str, group: str) -> Column:
    """Return a column of a figure of a `Distribution`, given its field; one of too few samples is marked.

    Of one sample there is one figure, its median.
    """

    def show(row: ModelSummary) -> str:
        """Return the cell of a model."""
        found: Distribution = getattr(row, field)
        if found.count == 1 and name != "p50":
            return ABSENT
        return mark_if(format_milliseconds(getattr(found, name)), is_of_too_few=name in found.too_few)

    return Column(name, 6, group=group, cell=show)


_LATENCIES: Final = (
    *(_sample_column(name, "time_to_first_token", "TTFT, ms") for name in ("p50", "p95", "p99")),
    *(
        _sample_column(name, "inter_token_latency", "inter-token latency, ms")
        for name in ("p50", "p95", "p99", "max", "mean")
    ),
    time_column("ms", "time_per_output_token", above="TPOT"),
    Column("tok/s", 6, above="speed", cell=lambda row: format_rate(row.output_speed)),
)
_COUNTS: Final = (
    count_column("streams", "streams", 8),
    count_column("tokens", "output_tokens", 7),
    count_column("chunks", "output_chunks", 7),
    count_column("imputed", "imputed", 8, above="gaps"),
    count_column("excluded", "excluded", 9, above="gaps"),
    count_column("bound", "consumer_bound", 8, above="caller-"),
    count_column("bound", "host_bound", 7, above="host-"),
)
_BY_SERVER: Final = {
    "load": "load",
    "prompt": "prompt",
    "decode": "decode",
    "byte 1": "first_byte",
    "total": "total",
}
_MEASURED: Final = {"TTFT": "time_to_first_token", "decode": "decode_time", "total": "duration"}


def _server_column(name: str, field: str, group: str) -> Column:
    """Return a column of medians of `ServerTimes`, given its field; those of too few streams are marked."""

    def show(row: ModelSummary) -> str:
        """Return the cell of a model that has server times."""
        seconds, streams = getattr(row.server, field), row.server.streams if row.server else 0
        return mark_if(
            format_milliseconds(seconds), is_of_too_few=seconds is not None and has_too_few(50, streams, streams)
        )

    return Column(name, 7, group=group, cell=show)


_SERVER: Final = (
    count_column("streams", "server.streams", 8),
    *(_server_column(name, field, "by the server, ms") for name, field in _BY_SERVER.items()),
    *(_server_column(name, field, "measured here, ms") for name, field in _MEASURED.items()),
)
_STALLS: Final = (
    Column("  phase", 0, kind="text", cell=lambda group: _words(group.phase)),
    Column("  cause", 0, kind="text", cell=lambda group: _words(group.cause)),
    count_column("count", "count", 7),
    Column("total", 7, cell=lambda group: format_duration(group.duration)),
    Column("longest", 8, cell=lambda group: Text(format_duration(group.longest), style=STYLES["longest gap"])),
)
_SLO: Final = (
    Column("", 0, kind="text", cell=lambda slo: "  " + _objectives(slo)),
    Column("streams", 8, cell=lambda slo: format_count(_count_all(slo))),
    Column("met", 7, cell=_format_met),
    Column("gaps", 6, cell=lambda slo: ABSENT if slo.gaps is None else format_count(slo.gaps)),
    Column("met", 8, cell=lambda slo: format_share(slo.gaps_met or 0, slo.gaps) if slo.gaps else ABSENT),
    Column("fluidity", 10, cell=lambda slo: ABSENT if slo.fluidity is None else f"{slo.fluidity:.3f}"),
)


def latency_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the latencies of each model; where there is room, with a histogram of its ITL."""
    table = NamedTable(map(mark_model, rows), terminal, fit_columns(_LATENCIES, rows))
    buckets = _buckets_to_show(rows, table.room - INDENT)

    def draw(row: ModelSummary) -> Text:
        """Draw the histogram of a model."""
        return Text(_histogram(row.latency_buckets, buckets, terminal.glyphs), style=STYLES["answer"])

    if buckets:
        histogram = Column(histogram_head(buckets), len(buckets) + 1, group="ITL", cell=draw)
        table.add_columns(Column("", INDENT - 1, cell=lambda _: ""), histogram)
    table.add_models(rows, mark_model)
    return table


def stream_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the counts and the outcomes of the streams of each model."""
    table = NamedTable((row.name for row in rows), terminal, fit_columns(_COUNTS, rows), reserved=_MIN_OUTCOMES_WIDTH)
    room = table.room

    def describe(row: ModelSummary) -> Padding:
        """Return the outcomes of a model."""
        return Padding(_outcomes(row, room - 1), (0, 0, 0, 1))

    table.add_columns(Column(" outcomes", room, kind="fold", cell=describe))
    table.add_models(rows)
    return table


def server_table(rows: Sequence[ModelSummary], terminal: Terminal) -> NamedTable:
    """Return a table with the medians of what servers report of their own work, beside those that were measured."""
    rows = [row for row in rows if row.server is not None]
    table = NamedTable((row.name for row in rows), terminal, fit_columns(_SERVER, rows))
    table.add_models(rows)
    return table


def stall_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each phase and cause of each model that stalled, and its footnote."""
    rows = [row for row in rows if row.stalls]
    columns = fit_columns(_STALLS, [group for row in rows for group in row.stalls])
    table = NamedTable((row.name for row in rows), terminal, columns, "stalls")
    table.add_models(rows, lines=lambda row: row.stalls)
    yield table
    if any(row.streams_with_derived_stalls and group.cause is None for row in rows for group in row.stalls):
        first_token, next_token = f"{DEFAULT_POLICY.first_token:g} s", f"{DEFAULT_POLICY.next_token:g} s"
        pace = f"{DEFAULT_POLICY.relative:g} times the stream's own pace"
        thresholds = f"{first_token} (first token, reasoning) or {next_token} and {pace} (answer)"
        yield Text(f"cause {ABSENT}: judged from the timeline, {thresholds}", style=STYLES["head"])


def _words(name: str | None) -> str:
    """Return the words of a phase or a cause for a column of text."""
    return f"  {make_printable((name or ABSENT).replace('_', ' '))}"


def mark_model(row: ModelSummary) -> str:
    """Return the name of a model, marked if any of its streams is buffered."""
    return row.name if row.buffered is None else row.name + MARK


def _buckets_to_show(rows: Sequence[ModelSummary], room: int) -> range:
    """Return the buckets that hold samples of any row; none where there is no room for them."""
    used = [index for row in rows for index, count in enumerate(row.latency_buckets) if count]
    if not used:
        return range(0)
    first = max(min(*used, max(used) + 1 - MIN_HISTOGRAM_WIDTH), 0)
    shown = range(first, max(max(used) + 1, first + MIN_HISTOGRAM_WIDTH))
    return shown if len(shown) <= room else range(0)


def histogram_head(buckets: range) -> str:
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
    """Yield a table with a line for each SLO."""
    columns = fit_columns(_SLO, summaries)
    table = NamedTable((summary.profile for summary in summaries), terminal, columns, "objectives")
    table.add_rows(summaries, lambda summary: summary.profile)
    yield table
    yield Text(
        "met: streams by TTFT, stalls and gaps, as on spans; the metric itl.client.slo.streams does without the gaps",
        style=STYLES["head"],
    )
    unknown = [
        f"{summary.streams_not_known:,} of {pluralize(_count_all(summary), 'stream')} by {summary.profile}"
        for summary in summaries
        if summary.streams_not_known
    ]
    if unknown:
        yield Text(f"not known, as their bounds contain the objective: {make_printable(', '.join(unknown))}")


def _objectives(summary: SLOSummary) -> str:
    """Return the objectives in words: `TTFT 500 ms, ITL 100 ms, 99 %`."""
    times = [f"{name} {format_edge(time)}" for name, time in (("TTFT", summary.ttft), ("ITL", summary.itl)) if time]
    words = ", ".join(times) or ABSENT
    return make_printable(words if summary.target is None else f"{words}, {100 * summary.target:.6g} %")
