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
from otel_itl.tools.report.certainty import find_error, format_milliseconds_with_error
from otel_itl.tools.report.render.number_format import (
    ABSENT,
    format_count,
    format_duration,
    format_three_digits,
    make_printable,
    pluralize,
)
from otel_itl.tools.report.render.styles import FAILURES, STYLES
from otel_itl.tools.report.render.tables import (
    INDENT,
    Column,
    NamedTable,
    cells_of,
    count_column,
    head_line,
    make_table,
    time_column,
    wrap_name,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.sessions import RequestSummary, SessionSummary
from otel_itl.tools.report.slo import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SESSIONS = 20
"""Sessions shown in a terminal: a fleet has thousands. JSON has them all."""
_MAX_CHART_WIDTH, _MIN_CHART_WIDTH = 32, 6
"""Columns of the chart of a session: further requests share columns; a narrower chart is left out."""
_FULL_HEIGHT = 3.0
"""A request that is this many times slower than usual fills its column: one stall must not flatten the others."""


def _count_requests(session: SessionSummary) -> str:
    """Return how many requests a session has; where its ITL is of fewer, of how many: `7 of 8`."""
    count = format_count(len(session.requests))
    return count if session.itl_requests in {0, len(session.requests)} else f"{session.itl_requests:,} of {count}"


def _degraded(session: SessionSummary) -> str:
    """Return the requests of the last degradation in words: `since 7`, `3 to 5`, or `-`."""
    if session.degraded_since is None:
        return ABSENT
    if session.degraded_until is None:
        return f"since {session.degraded_since}"
    return f"{session.degraded_since} to {session.degraded_until}"


def _is_degraded(session: SessionSummary) -> bool:
    return session.degraded_since is not None and session.degraded_until is None


def _ratio(ratio: float | None, *, is_bad: bool) -> Text:
    return Text(format_three_digits(ratio), style=STYLES["longest gap"] if is_bad else "")


def _verdict(verdict: Verdict | None) -> Text:
    return Text(verdict.value if verdict else ABSENT, style=STYLES["longest gap"] if verdict is Verdict.MISSED else "")


def _outcome(request: RequestSummary) -> Text:
    return Text(f"  {request.outcome}", style=STYLES["outcome"] if request.outcome in FAILURES else "")


def _time_to_first_token(request: RequestSummary) -> str:
    measures = request.measures
    return format_milliseconds_with_error(measures.time_to_first_token, find_error(measures, "time_to_first_token"))


def _itl_p99(request: RequestSummary) -> str:
    measures = request.measures
    below, above = find_error(measures, "itl_p99"), find_error(measures, "itl_p99", is_above=True)
    return format_milliseconds_with_error(measures.itl_p99, below, above)


def _time(request: RequestSummary) -> datetime:
    return datetime.fromtimestamp(request.request_unix_ns // SECOND, timezone.utc)


_SESSIONS: Final = (
    Column("requests", 9, cell=_count_requests),
    time_column("p50", "itl_p50", group="ITL, ms"),
    time_column("p99", "itl_p99", group="ITL, ms"),
    Column("decode", 9, cell=lambda session: format_duration(session.decode_time)),
    count_column("stalls", "stalls", 7),
    Column("ratio", 6, cell=lambda session: _ratio(session.latency_ratio, is_bad=_is_degraded(session))),
    Column("  degraded", 12, kind="text", cell=lambda session: f"  {_degraded(session)}"),
)
_REQUESTS: Final = (
    Column("TTFT", 7, above="ms", cell=_time_to_first_token),
    time_column("p50", "measures.itl_p50", group="ITL, ms"),
    Column("p99", 6, group="ITL, ms", cell=_itl_p99),
    count_column("stalls", "stalls", 7),
    Column("ratio", 6, cell=lambda request: _ratio(request.state.latency_ratio, is_bad=request.state.degraded)),
    Column("SLO", 8, cell=lambda request: _verdict(request.slo_verdict)),
)
"""Columns of a request between its model and its outcome, with their least width."""
_OPTIONAL: Final = {"stalls", "SLO"}
"""Those of them that are left out where they have nothing."""
_INDEX: Final = Column("#", 4, cell=lambda request: f"{request.state.request_index:,}")
_TIME: Final = Column("  time, UTC", 12, kind="text", cell=lambda request: f"  {_time(request):%H:%M:%S}")
_OUTCOME: Final = Column("  outcome", 11, kind="text", cell=_outcome)


def session_table(sessions: Sequence[SessionSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each of the first sessions, with a chart of its latency from request to request."""
    shown = sessions[:MAX_SESSIONS]
    table = NamedTable((session.session for session in shown), terminal, _SESSIONS, "sessions")
    most_requests = max(len(session.requests) for session in shown)
    chart_width = min(table.room - INDENT, _MAX_CHART_WIDTH, max(most_requests, len("by request")))

    def draw(session: SessionSummary) -> Text:
        """Draw the chart of a session."""
        return Text("  " + _chart(session, chart_width, terminal.glyphs), style=STYLES["answer"])

    if chart_width >= _MIN_CHART_WIDTH:
        width = chart_width + INDENT
        table.add_columns(Column("  by request"[:width], width, kind="text", cell=draw))
    table.add_rows(shown, lambda session: session.session)
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
    columns = (_INDEX, _TIME, *_columns_of(session.requests), _OUTCOME)
    room = terminal.console.width - sum(column.width for column in columns)
    longest = max(len(make_printable(request.model)) for request in session.requests) + INDENT
    width = max(min(longest, room), min(longest, _TIME.width))
    model = Column("  model", width, kind="fold", cell=lambda request: wrap_name(request.model, width))
    columns = (*columns[:2], model, *columns[2:])
    table = make_table(columns)
    for date, requests in groupby(session.requests, key=lambda request: f"{_time(request):%Y-%m-%d}"):
        table.add_row("", Text(f"  {date}", style=STYLES["provider"]))
        for request in requests:
            table.add_row(*cells_of(columns, request))
    yield head_line(columns, terminal)
    yield table


def _columns_of(requests: Sequence[RequestSummary]) -> Iterator[Column]:
    """Yield the columns between model and outcome that have anything for requests, as wide as their cells."""
    for column in _REQUESTS:
        cells = [str(column.cell(request)) for request in requests]
        if column.heading not in _OPTIONAL or {*cells} != {ABSENT}:
            yield column._replace(width=max(column.width, *(len(cell) + 1 for cell in cells)))


def _chart(session: SessionSummary, columns: int, glyphs: Glyphs) -> str:
    """Draw the mean ITL of each request; where there are more requests than columns, of several together."""
    means = [request.measures.itl_mean for request in session.requests]
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
