"""Renders a sweep as one HTML page without scripts: the answer, a table of levels and figures, and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from otel_itl.tools.compare.quantities import Unit
from otel_itl.tools.compare.render import pages
from otel_itl.tools.report.render.number_format import ABSENT, format_edge, format_three_digits
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render import words
from otel_itl.tools.sweep.results import LevelResult, Quantity, quantities_of

MIN_POINTS: Final = 2
"""Points that a line has at least."""
_TICKS: Final = 5
_ABOVE: Final = 1.05
"""An axis ends this factor beyond its largest number."""


def sweep_to_html(result: SweepResult) -> str:
    """Return a sweep as one HTML page, which needs no network and contains no script."""
    return pages.render_page("otel-itl sweep", words.headline(result), _parts(result))


def _parts(result: SweepResult) -> Iterator[str]:
    """Yield the page in pieces."""
    sweep = result.sweep
    about = (
        f"{sweep.model} at {sweep.endpoint}",
        words.describe_load(result),
        f"Objective: {words.describe_objective(sweep.objective)}",
    )
    yield f"<p>{'<br>'.join(map(pages.escape_text, about))}</p>"
    quantities = quantities_of(sweep.objective)
    headings = ["level", "streams", *(quantity.heading for quantity in quantities), "requests", "failed", "objective"]
    yield pages.render_table(headings, (_cells(level, quantities, result) for level in result.levels))
    yield f'<div class="pictures">{"".join(_picture(quantity, result) for quantity in quantities)}</div>'
    if notes := "".join(f"<li>{pages.escape_text(note)}</li>" for note in words.describe_notes(result)):
        yield f"<ul>{notes}</ul>"


def _cells(level: LevelResult, quantities: tuple[Quantity, ...], result: SweepResult) -> Iterator[str]:
    """Yield the cells of a level as HTML."""
    yield words.format_level(level.level)
    yield words.format_streams(level.concurrency) if level.figures else ABSENT
    for quantity in quantities:
        figure = level.figures.get(quantity.key)
        interval = words.format_interval(figure, quantity.unit)
        yield f'{words.format_level_figure(level, quantity)}<br><span class="note">{interval}</span>'
    yield f"{level.due:,}"
    yield f"{level.errors.total():,}"
    style = "note" if level.missed is None else "slower"
    yield f'<span class="{style}">{pages.escape_text(words.describe_standing(level, result))}</span>'


def _picture(quantity: Quantity, result: SweepResult) -> str:
    """Draw a figure of all levels over the streams that were open, with its band; empty with fewer than two levels."""
    points, limit = result.points_of(quantity), quantity.limit
    widest = max((point.streams for point in points), default=0.0) * _ABOVE
    top = max([limit or 0.0, *(point.high for point in points)]) * _ABOVE
    if len(points) < MIN_POINTS or top <= 0:
        return ""
    across = pages.Axis(lambda streams: streams / widest, [point.streams for point in points], words.format_streams)
    marks = [top / _ABOVE * step / (_TICKS - 1) for step in range(_TICKS)]
    up = pages.Axis(lambda value: value / top, marks, lambda mark: _label(mark, quantity.unit))
    line = [((streams, value), (streams, low), (streams, high)) for streams, value, low, high in points]
    caption = "the band is the 95 % interval" + ("" if limit is None else f", the dots are at {format_edge(limit)}")
    title = f"{quantity.title} over streams that are open"
    return pages.draw_picture(pages.Picture(title, caption, across, up, limit), {"a": line})


def _label(value: float, unit: Unit) -> str:
    """Return the label of a tick; latencies in ms."""
    if unit is Unit.SECONDS:
        return f"{format_three_digits(value * 1_000)} ms"
    return format_three_digits(value)
