"""Sessions: which of them became slower, and each request of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from otel_itl.core.baseline import BASELINE_REQUESTS
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.report.render.number_format import (
    ABSENT,
    counted,
    duration,
    milliseconds,
    plural,
    printable,
    three_digits,
)
from otel_itl.report.render.styles import STYLES
from otel_itl.report.render.tables import INDENT, add_figures, folded, named_table
from otel_itl.report.render.terminal import Screen
from otel_itl.report.render.timeline_chart import Glyphs
from otel_itl.report.sessions import SessionRequest, SessionRow

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_SHOWN = 20
"""Sessions in a terminal: a fleet has thousands. JSON has them all."""
_FIGURES = (("requests", 9), ("p50", 6), ("p99", 6), ("decode", 9), ("stalls", 7), ("ratio", 6))
_DEGRADED = 12
_MOST_COLUMNS, _LEAST_COLUMNS = 32, 6
"""Of the picture of a session: no more requests are told apart, and fewer columns are no picture."""
_TOWERING = 3.0
"""A request so many times slower than is usual fills its column: one stall is not to flatten the others."""
_REQUEST_FIGURES = (("TTFT", 7), ("p50", 6), ("p99", 6), ("stalls", 7), ("ratio", 6))
_TIME, _NUMBER, _OUTCOME = 12, 4, 11
_FAILURES = {Outcome.ERROR.value, Outcome.TRUNCATED.value}


def session_table(rows: Sequence[SessionRow], to: Screen) -> Iterable[RenderableType]:
    """A line for each of the worst sessions, with its latency drawn from request to request."""
    shown = rows[:MOST_SHOWN]
    rest = sum(width for _, width in _FIGURES) + _DEGRADED
    table, width = named_table((row.session for row in shown), to, rest, "sessions")
    add_figures(table, *_FIGURES)
    table.add_column("  degraded", width=_DEGRADED, no_wrap=True, overflow="crop")
    most = max(len(row.requests) for row in shown)
    columns = min(to.console.width - width - rest - INDENT, _MOST_COLUMNS, max(most, len("by request")))
    columns = columns if columns >= _LEAST_COLUMNS else 0
    if columns:
        table.add_column("  by request"[: columns + INDENT], width=columns + INDENT, no_wrap=True, overflow="crop")
    for row in shown:
        drawn = [Text("  " + _drawn(row, columns, to.glyphs), style=STYLES["answer"])] if columns else []
        table.add_row(
            folded(row.session, width),
            counted(len(row.requests)),
            milliseconds(row.itl_p50),
            milliseconds(row.itl_p99),
            duration(row.decode_time),
            counted(row.stalls) if row.stalls else ABSENT,
            _ratio(row.latency_ratio, degraded=row.degraded_since is not None and row.degraded_until is None),
            Text("  " + _degraded(row)),
            *drawn,
        )
    above = " " * (width + _FIGURES[0][1]) + " " + " ITL, ms ".center(11, to.glyphs.rule)
    yield Text(above, style=STYLES["head"], no_wrap=True, overflow="crop")
    yield table
    if len(rows) > len(shown):
        yield Text(f"... and {plural(len(rows) - len(shown), 'session')} more", style=STYLES["head"])


def request_table(row: SessionRow, to: Screen) -> Iterable[RenderableType]:
    """A session in a sentence, and a line for each of its requests."""
    title = Text.assemble(("session ", STYLES["head"]), (printable(row.session), STYLES["provider"]))
    title.append(f", {plural(len(row.requests), 'request')}, tokens for {duration(row.decode_time)}")
    if row.degraded_since is not None:
        title.append(f", degraded {_degraded(row)}", style=STYLES["outcome"])
    yield title
    yield Text()
    rest = _NUMBER + _TIME + sum(width for _, width in _REQUEST_FIGURES) + _OUTCOME
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    add_figures(table, ("#", _NUMBER))
    table.add_column("  time, UTC", width=_TIME, no_wrap=True, overflow="crop")
    models = max(len(printable(request.model)) for request in row.requests) + INDENT
    width = max(min(models, to.console.width - rest), _TIME)
    table.add_column("  model", width=width, overflow="fold")
    add_figures(table, *_REQUEST_FIGURES)
    table.add_column("  outcome", width=_OUTCOME, no_wrap=True, overflow="crop")
    for date, requests in groupby(row.requests, key=lambda request: f"{_moment(request):%Y-%m-%d}"):
        table.add_row("", Text(f"  {date}", style=STYLES["provider"]))
        for request in requests:
            table.add_row(*_cells(request, width))
    above = " " * (_NUMBER + _TIME + width) + "     ms  " + " ITL, ms ".center(11, to.glyphs.rule)
    yield Text(above, style=STYLES["head"], no_wrap=True, overflow="crop")
    yield table


def _cells(request: SessionRequest, width: int) -> Iterable[RenderableType]:
    failed = request.outcome in _FAILURES
    yield f"{request.request_index:,}"
    yield Text(f"  {_moment(request):%H:%M:%S}")
    yield folded(request.model, width)
    yield from map(milliseconds, (request.time_to_first_token, request.itl_p50, request.itl_p99))
    yield counted(request.stalls) if request.stalls else ABSENT
    yield _ratio(request.latency_ratio, degraded=request.degraded)
    yield Text("  " + request.outcome, style=STYLES["outcome"] if failed else "")


def _moment(request: SessionRequest) -> datetime:
    return datetime.fromtimestamp(request.request_unix_ns // SECOND, timezone.utc)


def _ratio(ratio: float | None, *, degraded: bool) -> Text:
    return Text(three_digits(ratio), style=STYLES["longest gap"] if degraded else "")


def _degraded(row: SessionRow) -> str:
    if row.degraded_since is None:
        return ABSENT
    if row.degraded_until is None:
        return f"since {row.degraded_since}"
    return f"{row.degraded_since} to {row.degraded_until}"


def _drawn(row: SessionRow, columns: int, glyphs: Glyphs) -> str:
    """The mean ITL of each request, or of each few where there are more requests than columns."""
    means = [request.itl_mean for request in row.requests]
    step = -(-len(means) // columns)
    few = [[mean for mean in means[start : start + step] if mean is not None] for start in range(0, len(means), step)]
    heights = [sum(some) / len(some) if some else None for some in few]
    known = [height for height in heights if height is not None]
    if not known:
        return ""
    # A session that is as fast as it was when it began is drawn at half the height.
    top = max(min(max(known), _TOWERING * median(known)), 2 * median(known[:BASELINE_REQUESTS]))
    per_level = (top or 1.0) / len(glyphs.levels)
    return "".join(" " if height is None else _level(height / per_level, glyphs) for height in heights)


def _level(height: float, glyphs: Glyphs) -> str:
    return glyphs.levels[min(max(round(height), 1), len(glyphs.levels)) - 1]
