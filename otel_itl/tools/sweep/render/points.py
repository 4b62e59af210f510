"""The points of a figure over the streams that were open, which the plots and the pictures draw."""

from __future__ import annotations

import math
from typing import NamedTuple

from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.results import Quantity


class Point(NamedTuple):
    """A figure of a level, with the ends of its interval."""

    streams: float
    value: float
    low: float
    high: float


def points_of(quantity: Quantity, result: SweepResult) -> list[Point]:
    """Return the points of the levels that count and whose figure is finite; an infinite end is drawn at the value."""
    points = []
    for level in result.judged:
        figure = level.figures[quantity.key]
        if figure.value is not None and figure.bounds is not None and math.isfinite(figure.value):
            low, high = (end if math.isfinite(end) else figure.value for end in figure.bounds)
            points.append(Point(level.concurrency, figure.value, low, high))
    return points
