"""Prints a report to a terminal: tables, and a drawing of the worst stream over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from otel_itl.tools.report.render.buffering_notes import buffering_notes
from otel_itl.tools.report.render.known_notes import known_notes, remedies
from otel_itl.tools.report.render.model_tables import latency_table, stream_table
from otel_itl.tools.report.render.other_tool_tables import other_tool_tables
from otel_itl.tools.report.render.server_table import server_table
from otel_itl.tools.report.render.session_tables import request_table, session_table
from otel_itl.tools.report.render.slo_table import slo_table
from otel_itl.tools.report.render.stall_table import stall_table
from otel_itl.tools.report.render.terminal import Terminal, print_to
from otel_itl.tools.report.render.worst_stream import worst_stream_parts
from otel_itl.tools.report.sessions import SessionSummary
from otel_itl.tools.report.summary import Report

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_report(report: Report, terminal: Terminal) -> None:
    """Print a report."""
    print_to(terminal, Group(*_parts(report, terminal)))


def print_session(session: SessionSummary, terminal: Terminal) -> None:
    """Print the requests of one session in order of time."""
    print_to(terminal, Group(Text(), *request_table(session, terminal)))


def _parts(report: Report, terminal: Terminal) -> Iterator[RenderableType]:
    """Yield the tables and drawings of a report, with empty lines between them."""
    yield Text()
    if report.tool is None:
        yield from latency_table(report.rows, terminal)
    else:
        yield from other_tool_tables(report.tool, report.rows)
    yield from buffering_notes(report.rows)
    if report.tool is None:
        yield from known_notes(report.known)
    yield Text()
    yield from stream_table(report.rows, terminal)
    yield from remedies(report.rows)
    if any(row.server for row in report.rows):
        yield Text()
        yield from server_table(report.rows, terminal)
    if any(row.stalls for row in report.rows):
        yield Text()
        yield from stall_table(report.rows, terminal)
    if report.slo:
        yield Text()
        yield from slo_table(report.slo, terminal)
    if report.sessions:
        yield Text()
        yield from session_table(report.sessions, terminal)
    if report.worst is not None:
        yield Text()
        yield from worst_stream_parts(report.worst, terminal)
