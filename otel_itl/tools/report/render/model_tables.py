"""Renders the latency of each model, and how its streams ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from otel_itl.core.conventions import LATENCY_BUCKETS
from otel_itl.core.timeline import Outcome
from otel_itl.tools.report.render.buffering_notes import marked_model
from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_count,
    format_edge,
    format_milliseconds,
    format_rate,
)
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import (
    INDENT,
    NamedTable,
    add_number_columns,
    head_line,
    rows_by_provider,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.summary import ModelSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

_LATENCY_WIDTH = 6
"""Columns of a latency, with the blank before it."""
_MIN_COUNT_WIDTH = 7
_MIN_OUTCOMES_WIDTH = 12
_MIN_HISTOGRAM_WIDTH = 12
"""Fewer columns do not show the shape of a distribution."""

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
_HOST_BOUND = ("host-", "bound")
"""A column that is shown where there are such streams."""
_FAILURES = frozenset({Outcome.ERROR.value, Outcome.TRUNCATED.value})


def latency_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with the latencies of each model; where there is room, with a histogram of its ITL."""
    columns = [column for _, columns in _LATENCIES for column in columns] + [unit for _, unit in _RATES]
    numbers_width = len(columns) * _LATENCY_WIDTH
    table = NamedTable(map(marked_model, rows), terminal, numbers_width)
    above = " " * table.width
    for title, names in _LATENCIES:
        above += " " + f" {title} ".center(len(names) * _LATENCY_WIDTH - 1, terminal.glyphs.rule)
    above += "".join(f"{title:>{_LATENCY_WIDTH}}" for title, _ in _RATES)
    add_number_columns(table, *((column, _LATENCY_WIDTH) for column in columns))
    buckets = _buckets_to_show(rows, terminal.console.width - table.width - numbers_width - INDENT)
    if buckets:
        add_number_columns(table, (_histogram_head(buckets), len(buckets) + INDENT))
        above += " " * INDENT + " ITL ".center(len(buckets), terminal.glyphs.rule)
    for row in rows_by_provider(rows, table.add_head):
        histogram = _histogram(row.latency_buckets, buckets, terminal.glyphs)
        cells = [Text(histogram, style=STYLES["answer"])] if buckets else []
        table.add_row(marked_model(row), *map(Text, _latency_cells(row)), *cells)
    yield head_line(above)
    yield table


def stream_table(rows: Sequence[ModelSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with the counts and the outcomes of the streams of each model."""
    has_host_bound = any(row.host_bound for row in rows)
    columns = (*_COUNTS, _HOST_BOUND) if has_host_bound else _COUNTS
    widths = [max(len(title) + 1, len(name) + 1, _MIN_COUNT_WIDTH) for title, name in columns]
    table = NamedTable((row.model for row in rows), terminal, sum(widths) + _MIN_OUTCOMES_WIDTH)
    outcomes_width = terminal.console.width - table.width - sum(widths) - 1
    above = " " * table.width + "".join(title.rjust(width) for width, (title, _) in zip(widths, columns, strict=True))
    add_number_columns(table, *((name, width) for width, (_, name) in zip(widths, columns, strict=True)))
    table.add_column(" outcomes", overflow="fold", width=outcomes_width + 1)
    for row in rows_by_provider(rows, table.add_head):
        judged = (row.imputed, row.excluded, row.consumer_bound, *((row.host_bound,) if has_host_bound else ()))
        counts = (row.streams, row.output_tokens, row.output_chunks, *judged)
        cells = (Text(format_count(count) if count else ABSENT) for count in counts)
        outcomes = Padding(_outcomes(row, outcomes_width), (0, 0, 0, 1))
        table.add_row(row.model, *cells, outcomes)
    yield head_line(above)
    yield table


def _latency_cells(row: ModelSummary) -> Iterator[str]:
    ttft, itl = row.time_to_first_token, row.inter_token_latency
    yield from map(format_milliseconds, (ttft.p50, ttft.p95, ttft.p99, itl.p50, itl.p95, itl.p99, itl.max, itl.mean))
    yield format_milliseconds(row.time_per_output_token)
    yield format_rate(row.output_speed)


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
        words.append(word, style=STYLES["outcome"] if outcome in _FAILURES else "")
        used += len(word)
    return words
