"""Prints a report to a terminal: tables, and a drawing of the worst stream over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from otel_itl.tools.report.render.model_notes import (
    buffering_notes,
    error_notes,
    known_notes,
    remedies,
    selective_notes,
    silence_notes,
)
from otel_itl.tools.report.render.model_tables import (
    latency_table,
    server_table,
    slo_table,
    stall_table,
    stream_table,
)
from otel_itl.tools.report.render.other_tool_tables import other_tool_tables
from otel_itl.tools.report.render.session_tables import has_marks, request_table, session_table
from otel_itl.tools.report.render.styles import STYLES
from otel_itl.tools.report.render.terminal import Terminal, print_to
from otel_itl.tools.report.render.worst_stream import worst_stream_parts
from otel_itl.tools.report.sessions import SessionSummary
from otel_itl.tools.report.summary import Report
from otel_itl.tools.report.too_few import LEGEND

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_report(report: Report | SessionSummary, terminal: Terminal) -> None:
    """Print a report, or the requests of one session in order of time."""
    parts = _parts(report, terminal) if isinstance(report, Report) else (Text(), *request_table(report, terminal))
    print_to(terminal, Group(*parts))


def _parts(report: Report, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the tables and drawings of a report, with empty lines between them."""
    yield Text()
    if report.tool is None:
        yield latency_table(report.rows, terminal)
    else:
        yield from other_tool_tables(report.tool, report.rows, terminal)
    yield from buffering_notes(report.rows)
    if report.tool is None:
        yield from silence_notes(report.rows)
        yield from known_notes(report.known)
        yield from selective_notes(report.rows)
    yield Text()
    yield stream_table(report.rows, terminal)
    yield from error_notes(report.rows)
    yield from remedies(report.rows)
    if any(row.server for row in report.rows):
        yield from (Text(), server_table(report.rows, terminal))
    if any(row.stalls for row in report.rows):
        yield from (Text(), *stall_table(report.rows, terminal))
    if report.slo:
        yield from (Text(), *slo_table(report.slo, terminal))
    if report.sessions:
        yield from (Text(), *session_table(report.sessions, terminal))
    if report.worst is not None:
        yield from (Text(), *worst_stream_parts(report.worst, terminal))
    if legends := list(_legends(report, terminal)):
        yield from (Text(), *legends)


def _legends(report: Report, terminal: Terminal) -> Iterator[Text]:
    """Yield what marks and characters mean, of those that there are."""
    has_marked_rows = report.tool is None and any(row.has_too_few for row in report.rows)
    if has_marked_rows or any(has_marks(session) for session in report.sessions):
        yield Text(LEGEND, style=STYLES["head"])
    if terminal.is_plain and (report.sessions or report.worst is not None):
        yield Text(f"heights, from low to high: {' '.join(terminal.glyphs.levels)}", style=STYLES["head"])
