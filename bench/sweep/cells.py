"""Writes figures into the cells of a table."""

from __future__ import annotations

from math import isfinite

from otel_itl.tools.sweep.results import Figure


def milliseconds(seconds: float | None) -> str:
    """Return a time as a number of milliseconds; `-`, where it is not known or infinite."""
    return "-" if seconds is None or not isfinite(seconds) else f"{1e3 * seconds:.1f}"


def interval(figure: Figure) -> str:
    """Return the interval of a time in milliseconds."""
    return "-" if figure.interval is None else " to ".join(map(milliseconds, figure.interval))


def title(key: str) -> str:
    """Return the name of a percentile: `TTFT p50`."""
    name, percentile = key.split("_")
    return f"{name.upper()} {percentile}"
