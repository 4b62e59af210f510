"""Renders sessions: a line for each of the worst, and one session request by request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.text import Text

from otel_itl.core.baseline import BASELINE_REQUESTS
from otel_itl.core.timeline import SECOND
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
from otel_itl.tools.report.render.styles import FAILURES, STYLES
from otel_itl.tools.report.render.tables import (
    INDENT,
    Column,
    NamedTable,
    head_line,
    make_table,
    wrap_name,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.sessions import RequestSummary, SessionSummary

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SESSIONS = 20
"""Sessions shown in a terminal: a fleet has thousands. JSON has them all."""
_SESSIONS: Final = (
    Column("requests", 9),
    *(Column(name, 6, group="ITL, ms") for name in ("p50", "p99")),
    *(Column("decode", 9), Column("stalls", 7), Column("ratio", 6), Column("  degraded", 12, kind="text")),
)
_MAX_CHART_WIDTH, _MIN_CHART_WIDTH = 32, 6
"""Columns of the chart of a session: further requests share columns; a narrower chart is left out."""
_FULL_HEIGHT = 3.0
"""A request that is this many times slower than usual fills its column: one stall must not flatten the others."""
_REQUESTS: Final = {
    "TTFT": Column("TTFT", 7, above="ms"),
    **{name: Column(name, 6, group="ITL, ms") for name in ("p50", "p99")},
    "stalls": Column("stalls", 7),
    "ratio": Column("ratio", 6),
    "SLO": Column("SLO", 8),
}
"""Columns of a request between its model and its outcome, with their least width."""
_INDEX, _TIME, _OUTCOME = Column("#", 4), Column("  time, UTC", 12, kind="text"), Column("  outcome", 11, kind="text")


def session_table(sessions: Sequence[SessionSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each of the first sessions, with a chart of its latency from request to request."""
    shown = sessions[:MAX_SESSIONS]
    table = NamedTable((session.session for session in shown), terminal, _SESSIONS, "sessions")
    most_requests = max(len(session.requests) for session in shown)
    chart_width = min(table.room - INDENT, _MAX_CHART_WIDTH, max(most_requests, len("by request")))
    has_chart = chart_width >= _MIN_CHART_WIDTH
    if has_chart:
        width = chart_width + INDENT
        table.add_columns(Column("  by request"[:width], width, kind="text"))
    for session in shown:
        chart = Text("  " + _chart(session, chart_width, terminal.glyphs) if has_chart else "", style=STYLES["answer"])
        is_degraded = session.degraded_since is not None and session.degraded_until is None
        table.add_row(
            session.session,
            _requests(session),
            format_milliseconds(session.itl_p50),
            format_milliseconds(session.itl_p99),
            format_duration(session.decode_time),
            format_count(session.stalls) if session.stalls else ABSENT,
            Text(format_three_digits(session.latency_ratio), style=STYLES["longest gap"] if is_degraded else ""),
            "  " + _degraded(session),
            *([chart] if has_chart else []),
        )
    yield table
    if len(sessions) > len(shown):
        yield Text(f"... and {pluralize(len(sessions) - len(shown), 'session')} more", style=STYLES["head"])


def request_table(session: SessionSummary, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a session in one sentence, and a table with a line for each of its requests."""
    title = Text.assemble(("session ", STYLES["head"]), (make_printable(session.session), STYLES["provider"]))
    title.append(f", {pluralize(len(session.requests), 'request')}, {format_duration(session.decode_time)} of decoding")
    if session.degraded_since is not None:
        title.append(f", degraded {_degraded(session)}", style=STYLES["outcome"])
    yield title
    yield Text()
    cells = _request_cells(session.requests)
    numbers = [
        _REQUESTS[name]._replace(width=max(_REQUESTS[name].width, *(len(cell) + 1 for cell in of_column)))
        for name, of_column in cells.items()
    ]
    room = terminal.console.width - sum(column.width for column in (_INDEX, _TIME, *numbers, _OUTCOME))
    longest = max(len(make_printable(request.model)) for request in session.requests) + INDENT
    width = max(min(longest, room), min(longest, _TIME.width))
    columns = (_INDEX, _TIME, Column("  model", width, kind="fold"), *numbers, _OUTCOME)
    table = make_table(columns)
    numbered = enumerate(session.requests)
    for date, requests in groupby(numbered, key=lambda one: f"{_time(one[1]):%Y-%m-%d}"):
        table.add_row("", Text(f"  {date}", style=STYLES["provider"]))
        for number, request in requests:
            table.add_row(
                f"{request.request_index:,}",
                Text(f"  {_time(request):%H:%M:%S}"),
                wrap_name(request.model, width),
                *(Text(of_column[number], style=_style(request, name)) for name, of_column in cells.items()),
                Text("  " + request.outcome, style=STYLES["outcome"] if request.outcome in FAILURES else ""),
            )
    yield head_line(columns, terminal)
    yield table


def _requests(session: SessionSummary) -> str:
    """Return how many requests a session has; where its ITL is of fewer, of how many: `7 of 8`."""
    count = format_count(len(session.requests))
    return count if session.itl_requests in {0, len(session.requests)} else f"{session.itl_requests:,} of {count}"


def _request_cells(requests: Sequence[RequestSummary]) -> dict[str, list[str]]:
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


def _time(request: RequestSummary) -> datetime:
    return datetime.fromtimestamp(request.request_unix_ns // SECOND, timezone.utc)


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
