"""Renders sessions: a line for each of the worst, and one session request by request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from otel_itl.core.baseline import BASELINE_REQUESTS
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.certainty import find_error, format_milliseconds_with_error
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
    cells_of,
    count_column,
    fit_columns,
    shorten_middle,
    time_column,
)
from otel_itl.tools.report.render.terminal import Terminal
from otel_itl.tools.report.render.timeline_chart import Glyphs
from otel_itl.tools.report.sessions import RequestSummary, SessionSummary
from otel_itl.tools.report.slo import Verdict
from otel_itl.tools.report.too_few import has_too_few, mark_if

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_SESSIONS = 20
"""Sessions shown in a terminal: a fleet has thousands. JSON has them all."""
_MAX_CHART_WIDTH, _MIN_CHART_WIDTH = 32, len("by request")
"""Columns of the chart of a session: further requests share columns; a narrower chart is left out."""
_FULL_HEIGHT = 3.0
"""A request that is this many times slower than usual fills its column: one stall must not flatten the others."""
_MIN_MODEL_WIDTH = 12
"""Models of requests are not shortened to fewer columns."""


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


def _is_marked(session: SessionSummary, q: int) -> bool:
    has_any = session.itl_p50 is not None
    return has_any and has_too_few(q, session.itl_samples, session.itl_requests)


def has_marks(session: SessionSummary) -> bool:
    """Return whether a percentile of a session is of too few gaps or requests."""
    return _is_marked(session, 99)


def _session_column(q: int) -> Column:
    """Return the column of a percentile of the gaps of sessions; one of too few is marked."""

    def show(session: SessionSummary) -> str:
        """Return the cell of a session."""
        return mark_if(format_milliseconds(getattr(session, f"itl_p{q}")), is_of_too_few=_is_marked(session, q))

    return Column(f"p{q}", 6, group="ITL, ms", cell=show)


_SESSIONS: Final = (
    Column("requests", 9, cell=_count_requests),
    _session_column(50),
    _session_column(99),
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
_OUTCOME: Final = Column("  outcome", 11, kind="text", cell=_outcome)


def session_table(sessions: Sequence[SessionSummary], terminal: Terminal) -> Iterator[RenderableType]:
    """Yield a table with a line for each of the first sessions, with a chart of its latency from request to request."""
    shown = sessions[:MAX_SESSIONS]
    table = NamedTable((one.session for one in shown), terminal, fit_columns(_SESSIONS, shown), "sessions")
    most_requests = max(len(session.requests) for session in shown)
    chart_width = min(table.room - INDENT, _MAX_CHART_WIDTH, max(most_requests, len("by request")))

    def draw(session: SessionSummary) -> Text:
        """Draw the chart of a session."""
        return Text("  " + _chart(session, chart_width, terminal.glyphs), style=STYLES["answer"])

    if chart_width >= _MIN_CHART_WIDTH:
        width = chart_width + INDENT
        table.add_columns(Column("  by request", width, kind="text", cell=draw))
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
    names = [f"{request.state.request_index:>3,}  {_time(request):%H:%M:%S}" for request in session.requests]
    figures = fit_columns((*_REQUESTS, _OUTCOME), session.requests)
    used = INDENT + max(map(len, names)) + sum(column.width for column in figures)
    columns = [_model_column(session.requests, terminal, terminal.console.width - used), *figures]
    table = NamedTable(names, terminal, columns, "    #  time, UTC")
    dated = zip(names, session.requests, strict=True)
    for date, requests in groupby(dated, key=lambda one: f"{_time(one[1]):%Y-%m-%d}"):
        table.add_group(f"  {date}")
        for name, request in requests:
            table.add_row(name, *cells_of(columns, request))
    yield table


def _model_column(requests: Sequence[RequestSummary], terminal: Terminal, room: int) -> Column:
    """Return the column of the models of requests, shortened to what the others leave if they remain different."""
    names = {make_printable(request.model) for request in requests}
    dots = "..." if terminal.is_plain else "…"
    longest = max(map(cell_len, names))
    least = min(max(room - INDENT, _MIN_MODEL_WIDTH), longest)
    widths = range(least, longest)
    width = next((one for one in widths if len({shorten_middle(n, one, dots) for n in names}) == len(names)), longest)

    def show(request: RequestSummary) -> str:
        """Return the cell of a request."""
        return "  " + shorten_middle(make_printable(request.model), width, dots)

    return Column("  model", max(width + INDENT, len("  model")), kind="text", cell=show)


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
