"""Plots figures of a sweep over the streams that were open, in characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotext

from otel_itl.tools.compare.quantities import Unit
from otel_itl.tools.report.render.number_format import format_three_digits
from otel_itl.tools.sweep.knee import Point, SweepResult
from otel_itl.tools.sweep.render.words import format_streams
from otel_itl.tools.sweep.results import Quantity, quantities_of, tail_of

_HEIGHT: Final = 13
_MIN_WIDTH: Final = 36
_WIDE: Final = 2 * _MIN_WIDTH + 20
"""Columns from which on plots stand side by side."""
_Y_TICKS: Final = 4
_ABOVE: Final = 1.1
"""An axis ends this factor beyond its largest number."""
_TO_ASCII: Final = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")


def draw_plots(result: SweepResult, width: int, *, is_ascii: bool) -> str:
    """Draw the tail of the inter-token latency and the goodput, with the objective as a line.

    Args:
        result: the answers.
        width: columns that there are; plots stand side by side where both fit.
        is_ascii: draw frames in ASCII.

    Returns:
        Lines; empty, where fewer than two levels have a figure, or there is no room.
    """
    drawn_keys = {f"itl_p{tail_of(result.sweep.objective):g}", "goodput"}
    quantities = [quantity for quantity in quantities_of(result.sweep.objective) if quantity.key in drawn_keys]
    plots = [(quantity, points) for quantity in quantities if len(points := result.points_of(quantity)) > 1]
    if not plots or width < _MIN_WIDTH:
        return ""
    is_wide = width >= _WIDE
    each = (width - 2) // 2 if is_wide else width
    drawn = [_draw(*plot, each).translate(_TO_ASCII if is_ascii else {}).splitlines() for plot in plots]
    if not is_wide:
        return "\n".join("\n".join([*lines, ""]) for lines in drawn)
    return "\n".join("  ".join(parts) for parts in zip(*drawn, strict=True)) + "\n"


def _draw(quantity: Quantity, points: Sequence[Point], width: int) -> str:
    """Draw one plot as lines of the given width, latencies in ms; plotext has one figure, which is cleared first."""
    scale = 1_000 if quantity.unit is Unit.SECONDS else 1
    limit = None if quantity.limit is None else scale * quantity.limit
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, _HEIGHT)
    figure.title(f"{quantity.heading} over streams" + ("" if limit is None else f" (line: {limit:g})"))
    if limit is not None:
        figure.line(limit)
    streams, values = [point.streams for point in points], [scale * point.value for point in points]
    figure.draw(figure.signal(streams, values, marker=".").lines())
    for point in points:
        ends = (scale * point.low, scale * point.high)
        figure.draw(figure.segment((point.streams, point.streams), ends, marker="|"))
    figure.draw(figure.signal(streams, values, marker="o"))
    top = max([*(scale * point.high for point in points), limit or 0.0]) * _ABOVE or 1.0
    figure.ruler("x").lim(0, max(streams) * _ABOVE or 1.0)
    figure.ruler("y").lim(0, top)
    figure.ruler("x").ticks(streams, [format_streams(number) for number in streams])
    marks = [top * step / _Y_TICKS for step in range(_Y_TICKS)]
    figure.ruler("y").ticks(marks, [format_three_digits(mark) for mark in marks])
    return str(figure.build().string(colorless=True))
