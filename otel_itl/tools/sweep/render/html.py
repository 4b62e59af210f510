"""Renders a sweep as one HTML page without scripts: the answer, a table of levels and figures, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from otel_itl.tools.compare.quantities import Unit
from otel_itl.tools.compare.render.pictures import STYLE, Axis, Picture, draw_picture, escape_text
from otel_itl.tools.report.render.number_format import ABSENT, format_edge, format_three_digits
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render.words import (
    describe_load,
    describe_notes,
    describe_objective,
    describe_standing,
    format_interval,
    format_level,
    format_level_figure,
    format_streams,
    headline,
)
from otel_itl.tools.sweep.results import LevelResult, Quantity, quantities_of

MIN_POINTS: Final = 2
"""Points that a line has at least."""
_TICKS: Final = 5
_ABOVE: Final = 1.05
"""An axis ends this factor beyond its largest number."""


def sweep_to_html(result: SweepResult) -> str:
    """Return a sweep as one HTML page, which needs no network and contains no script."""
    return "".join(_parts(result))


def _parts(result: SweepResult) -> Iterator[str]:
    """Yield the page in pieces."""
    sweep = result.sweep
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>otel-itl sweep</title><style>{STYLE}</style></head><body><h1>{escape_text(headline(result))}</h1>"
        f"<p>{escape_text(sweep.model)} at {escape_text(sweep.endpoint)}<br>{escape_text(describe_load(result))}<br>"
        f"Objective: {escape_text(describe_objective(sweep.objective))}</p>"
    )
    quantities = quantities_of(sweep.objective)
    headings = ["level", "streams", *(quantity.heading for quantity in quantities), "requests", "failed", "objective"]
    yield '<div class="scroll"><table><tr>'
    yield "".join(f'<th scope="col">{escape_text(heading)}</th>' for heading in headings) + "</tr>"
    for level in result.levels:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(level, quantities, result))}</tr>"
    yield '</table></div><div class="pictures">'
    for quantity in quantities:
        yield _picture(quantity, result)
    yield "</div>"
    notes = "".join(f"<li>{escape_text(note)}</li>" for note in describe_notes(result))
    yield f"<ul>{notes}</ul></body></html>\n" if notes else "</body></html>\n"


def _cells(level: LevelResult, quantities: tuple[Quantity, ...], result: SweepResult) -> Iterator[str]:
    """Yield the cells of a level as HTML."""
    yield format_level(level.level)
    yield format_streams(level.concurrency) if level.figures else ABSENT
    for quantity in quantities:
        figure = level.figures.get(quantity.key)
        interval = format_interval(figure, quantity.unit)
        yield f'{format_level_figure(level, quantity)}<br><span class="note">{interval}</span>'
    yield f"{level.due:,}"
    yield f"{level.errors.total():,}"
    style = "note" if level.missed is None else "slower"
    yield f'<span class="{style}">{escape_text(describe_standing(level, result))}</span>'


def _picture(quantity: Quantity, result: SweepResult) -> str:
    """Draw a figure of all levels over the streams that were open, with its band; empty with fewer than two levels."""
    points, limit = result.points_of(quantity), quantity.limit
    widest = max((point.streams for point in points), default=0.0) * _ABOVE
    top = max([limit or 0.0, *(point.high for point in points)]) * _ABOVE
    if len(points) < MIN_POINTS or top <= 0:
        return ""
    across = Axis([(streams / widest, format_streams(streams)) for streams, *_ in points])
    marks = [top / _ABOVE * step / (_TICKS - 1) for step in range(_TICKS)]
    up = Axis([(mark / top, _label(mark, quantity.unit)) for mark in marks])
    line = [
        (streams / widest, value / top, (streams / widest, low / top), (streams / widest, high / top))
        for streams, value, low, high in points
    ]
    caption = "the band is the 95 % interval" + ("" if limit is None else f", the dots are at {format_edge(limit)}")
    title = f"{quantity.title} over streams that are open"
    return draw_picture(Picture(title, caption, across, up, None if limit is None else limit / top), {"a": line})


def _label(value: float, unit: Unit) -> str:
    """Return the label of a tick; latencies in ms."""
    if unit is Unit.SECONDS:
        return f"{format_three_digits(value * 1_000)} ms"
    return format_three_digits(value)
