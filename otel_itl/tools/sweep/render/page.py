"""Writes the streams of a sweep as the page of `otel-itl view`, in which the levels are the sides."""

from __future__ import annotations

from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render.words import format_level
from otel_itl.tools.view.bundle import render_page
from otel_itl.tools.view.document import describe_page


def sweep_to_page(result: SweepResult) -> str:
    """Return the steady streams of all rounds that count, as one file that works offline."""
    sides = [level.level for level in result.levels]
    streams = [
        request.described | {"side": sides.index(request.level)}
        for one in result.sweep.rounds
        if one.void_reason is None
        for request in one.requests
        if request.described is not None
    ]
    names = [format_level(level) for level in sides]
    return render_page(describe_page(streams, f"sweep of {result.sweep.model}", {"sides": names}))
