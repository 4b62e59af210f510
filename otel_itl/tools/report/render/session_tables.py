"""Renders sessions: a line for each of the worst, and one session request by request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from otel_itl.core.baseline import BASELINE_REQUESTS
from otel_itl.core.timeline import SECOND, Outcome
from otel_itl.tools.report.certainty import format_milliseconds_with_error
from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_count,
    format_duration,
    format_milliseconds,
    format_three_digits,
    make_printable,
    pluralize,
)
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.tables import (
    INDENT,
    NamedTable,
    add_number_columns,
    add_text_column,
    head_line,
    wrap_name,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.sessions import RequestSummary, SessionSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SESSIONS = 20
"""Sessions shown in a terminal: a fleet has thousands. JSON has them all."""
_COLUMNS = (("requests", 9), ("p50", 6), ("p99", 6), ("decode", 9), ("stalls", 7), ("ratio", 6))
_DEGRADED_WIDTH = 12
_MAX_CHART_WIDTH, _MIN_CHART_WIDTH = 32, 6
"""Columns of the chart of a session: further requests share columns; a narrower chart is left out."""
_FULL_HEIGHT = 3.0
"""A request that is this many times slower than usual fills its column: one stall must not flatten the others."""
_WIDTHS: Final = {"TTFT": 7, "p50": 6, "p99": 6, "stalls": 7, "ratio": 6, "SLO": 8}
"""Columns of a request → their least width."""
_TIME_WIDTH, _INDEX_WIDTH, _OUTCOME_WIDTH = 12, 4, 11
_FAILURES = frozenset({Outcome.ERROR.value, Outcome.TRUNCATED.value})


def session_table(sessions: Sequence[SessionSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each of the first sessions, with a chart of its latency from request to request."""
    shown = sessions[:MAX_SESSIONS]
    other_columns = sum(width for _, width in _COLUMNS) + _DEGRADED_WIDTH
    table = NamedTable((session.session for session in shown), terminal, other_columns, "sessions")
    add_number_columns(table, *_COLUMNS)
    add_text_column(table, "  degraded", _DEGRADED_WIDTH)
    most_requests = max(len(session.requests) for session in shown)
    room = terminal.console.width - table.width - other_columns - INDENT
    chart_width = min(room, _MAX_CHART_WIDTH, max(most_requests, len("by request")))
    has_chart = chart_width >= _MIN_CHART_WIDTH
    if has_chart:
        add_text_column(table, "  by request"[: chart_width + INDENT], chart_width + INDENT)
    for session in shown:
        chart = (
            [Text("  " + _chart(session, chart_width, terminal.glyphs), style=STYLES["answer"])] if has_chart else []
        )
        is_degraded = session.degraded_since is not None and session.degraded_until is None
        table.add_row(
            session.session,
            _requests(session),
            format_milliseconds(session.itl_p50),
            format_milliseconds(session.itl_p99),
            format_duration(session.decode_time),
            format_count(session.stalls) if session.stalls else ABSENT,
            _ratio(session.latency_ratio, degraded=is_degraded),
            Text("  " + _degraded(session)),
            *chart,
        )
    yield head_line(" " * (table.width + _COLUMNS[0][1]) + _itl_head(terminal))
    yield table
    if len(sessions) > len(shown):
        yield Text(f"... and {pluralize(len(sessions) - len(shown), 'session')} more", style=STYLES["head"])


def _requests(session: SessionSummary) -> str:
    """Return how many requests a session has; where its ITL is of fewer, of how many: `7 of 8`."""
    count = format_count(len(session.requests))
    return count if session.itl_requests in {0, len(session.requests)} else f"{session.itl_requests:,} of {count}"


def request_table(session: SessionSummary, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a session in one sentence, and a table with a line for each of its requests."""
    title = Text.assemble(("session ", STYLES["head"]), (make_printable(session.session), STYLES["provider"]))
    title.append(f", {pluralize(len(session.requests), 'request')}, {format_duration(session.decode_time)} of decoding")
    if session.degraded_since is not None:
        title.append(f", degraded {_degraded(session)}", style=STYLES["outcome"])
    yield title
    yield Text()
    columns = _request_columns(session.requests)
    widths = {name: max(_WIDTHS[name], *(len(cell) + 1 for cell in cells)) for name, cells in columns.items()}
    other_columns = _INDEX_WIDTH + _TIME_WIDTH + sum(widths.values()) + _OUTCOME_WIDTH
    table = Table(box=None, padding=0, pad_edge=False, header_style=STYLES["head"])
    add_number_columns(table, ("#", _INDEX_WIDTH))
    add_text_column(table, "  time, UTC", _TIME_WIDTH)
    longest_model = max(len(make_printable(request.model)) for request in session.requests) + INDENT
    width = max(min(longest_model, terminal.console.width - other_columns), min(longest_model, _TIME_WIDTH))
    table.add_column("  model", width=width, overflow="fold")
    add_number_columns(table, *widths.items())
    add_text_column(table, "  outcome", _OUTCOME_WIDTH)
    numbered = enumerate(session.requests)
    for date, requests in groupby(numbered, key=lambda one: f"{_time(one[1]):%Y-%m-%d}"):
        table.add_row("", Text(f"  {date}", style=STYLES["provider"]))
        for number, request in requests:
            cells = (Text(cells[number], style=_style(request, name)) for name, cells in columns.items())
            table.add_row(*_names(request, width), *cells, _outcome(request))
    head = (
        " ms".rjust(widths["TTFT"]) + " " + " ITL, ms ".center(widths["p50"] + widths["p99"] - 1, terminal.glyphs.rule)
    )
    yield head_line(" " * (_INDEX_WIDTH + _TIME_WIDTH + width) + head)
    yield table


def _itl_head(terminal: Terminal) -> str:
    """Return the heading above the columns p50 and p99."""
    return " " + " ITL, ms ".center(11, terminal.glyphs.rule)


def _request_columns(requests: Sequence[RequestSummary]) -> dict[str, list[str]]:
    """Return the cells of each column between model and outcome, by its heading; a column of nothing is left out."""
    columns = {
        "TTFT": [
            format_milliseconds_with_error(one.time_to_first_token, one.time_to_first_token_uncertainty)
            for one in requests
        ],
        "p50": [format_milliseconds(one.itl_p50) for one in requests],
        "p99": [
            format_milliseconds_with_error(one.itl_p99, one.itl_p99_uncertainty, one.itl_p99_uncertainty_above)
            for one in requests
        ],
        "stalls": [format_count(one.stalls) if one.stalls else ABSENT for one in requests],
        "ratio": [format_three_digits(one.latency_ratio) for one in requests],
        "SLO": [one.slo_verdict or ABSENT for one in requests],
    }
    optional = {"stalls", "SLO"}
    return {name: cells for name, cells in columns.items() if name not in optional or {*cells} != {ABSENT}}


def _style(request: RequestSummary, column: str) -> str:
    """Return the style of a request's cell in a column."""
    is_bad = (column == "SLO" and request.slo_met is False) or (column == "ratio" and request.degraded)
    return STYLES["longest gap"] if is_bad else ""


def _names(request: RequestSummary, width: int) -> Iterator[RenderableType]:
    """Yield the first cells of a request's line: its number, its time, and its model."""
    yield f"{request.request_index:,}"
    yield Text(f"  {_time(request):%H:%M:%S}")
    yield wrap_name(request.model, width)


def _outcome(request: RequestSummary) -> Text:
    return Text("  " + request.outcome, style=STYLES["outcome"] if request.outcome in _FAILURES else "")


def _time(request: RequestSummary) -> datetime:
    return datetime.fromtimestamp(request.request_unix_ns // SECOND, timezone.utc)


def _ratio(ratio: float | None, *, degraded: bool) -> Text:
    return Text(format_three_digits(ratio), style=STYLES["longest gap"] if degraded else "")


def _degraded(session: SessionSummary) -> str:
    """Return the requests of the last degradation in words: `since 7`, `3 to 5`, or `-`."""
    if session.degraded_since is None:
        return ABSENT
    if session.degraded_until is None:
        return f"since {session.degraded_since}"
    return f"{session.degraded_since} to {session.degraded_until}"


def _chart(session: SessionSummary, columns: int, glyphs: Glyphs) -> str:
    """Draw the mean ITL of each request; where there are more requests than columns, of several together."""
    means = [request.itl_mean for request in session.requests]
    step = -(-len(means) // columns)
    groups = [
        [mean for mean in means[start : start + step] if mean is not None] for start in range(0, len(means), step)
    ]
    heights = [sum(group) / len(group) if group else None for group in groups]
    known = [height for height in heights if height is not None]
    if not known:
        return ""
    # A session that is as fast as at its beginning is drawn at half the height.
    top = max(min(max(known), _FULL_HEIGHT * median(known)), 2 * median(known[:BASELINE_REQUESTS]))
    per_level = (top or 1.0) / len(glyphs.levels)
    return "".join(" " if height is None else _level(height / per_level, glyphs) for height in heights)


def _level(height: float, glyphs: Glyphs) -> str:
    return glyphs.levels[min(max(round(height), 1), len(glyphs.levels)) - 1]
