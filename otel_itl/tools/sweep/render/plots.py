"""Plots figures of a sweep over the streams that were open, in characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import plotext

from otel_itl.tools.report.render.number_format import format_three_digits
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.render.words import format_streams, title_of
from otel_itl.tools.sweep.results import Unit, quantities_of, tail_of

_HEIGHT: Final = 13
_MIN_WIDTH: Final = 36
_WIDE: Final = 2 * _MIN_WIDTH + 20
"""Columns from which on plots stand side by side."""
_Y_TICKS: Final = 4
_ABOVE: Final = 1.1
"""An axis ends this factor beyond its largest number."""
_TO_ASCII: Final = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")


class _Point(NamedTuple):
    """A figure of a level."""

    streams: float
    value: float
    low: float
    high: float


class _Plot(NamedTuple):
    """One figure of all levels."""

    title: str
    points: Sequence[_Point]
    limit: float | None
    """The objective; None: there is none."""


def draw_plots(result: SweepResult, width: int, *, is_ascii: bool) -> str:
    """Draw the tail of the inter-token latency and the goodput, with the objective as a line.

    Args:
        result: the answers.
        width: columns that there are; plots stand side by side where both fit.
        is_ascii: draw frames in ASCII.

    Returns:
        Lines; empty, where fewer than two levels have a figure, or there is no room.
    """
    plots = [plot for plot in _plots(result) if len(plot.points) > 1]
    if not plots or width < _MIN_WIDTH:
        return ""
    is_wide = width >= _WIDE
    each = (width - 2) // 2 if is_wide else width
    drawn = [_draw(plot, each).translate(_TO_ASCII if is_ascii else {}).splitlines() for plot in plots]
    if not is_wide:
        return "\n".join("\n".join([*lines, ""]) for lines in drawn)
    return "\n".join("  ".join(parts) for parts in zip(*drawn, strict=True)) + "\n"


def _plots(result: SweepResult) -> Iterator[_Plot]:
    """Yield what is drawn."""
    objective = result.sweep.objective
    limits = {f"itl_p{tail_of(objective):g}": None if objective is None else objective.itl, "goodput": None}
    for quantity in quantities_of(objective):
        if quantity.key not in limits:
            continue
        scale = 1_000 if quantity.unit is Unit.SECONDS else 1
        points = []
        for judged in result.judged:
            figure = judged.result.figures[quantity.key]
            if figure.value is not None and figure.bounds is not None and math.isfinite(figure.value):
                low, high = figure.bounds
                high = high if math.isfinite(high) else figure.value
                points.append(_Point(judged.result.concurrency, *(scale * end for end in (figure.value, low, high))))
        limit = limits[quantity.key]
        yield _Plot(f"{title_of(quantity)} over streams", points, None if limit is None else scale * limit)


def _draw(plot: _Plot, width: int) -> str:
    """Draw one plot as lines of the given width; plotext has one figure, which is cleared first."""
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, _HEIGHT)
    figure.title(plot.title + ("" if plot.limit is None else f" (line: {plot.limit:g})"))
    if plot.limit is not None:
        figure.line(plot.limit)
    streams, values = [point.streams for point in plot.points], [point.value for point in plot.points]
    figure.draw(figure.signal(streams, values, marker=".").lines())
    for point in plot.points:
        figure.draw(figure.segment((point.streams, point.streams), (point.low, point.high), marker="|"))
    figure.draw(figure.signal(streams, values, marker="o"))
    top = max([*(point.high for point in plot.points), plot.limit or 0.0]) * _ABOVE or 1.0
    figure.ruler("x").lim(0, max(streams) * _ABOVE or 1.0)
    figure.ruler("y").lim(0, top)
    figure.ruler("x").ticks(streams, [format_streams(number) for number in streams])
    marks = [top * step / _Y_TICKS for step in range(_Y_TICKS)]
    figure.ruler("y").ticks(marks, [format_three_digits(mark) for mark in marks])
    return str(figure.build().string(colorless=True))
