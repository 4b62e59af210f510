"""Writes what a figure may be less or more by behind it: `655 ms (-120)`, `12.0 ms (-0.5 +1.3)`."""

from __future__ import annotations

from math import ceil, floor, log10


def append_error(figure: str, error: float | None, units_per_second: int, above: float | None = None) -> str:
    """Append what a figure may be less and more by, rounded up; less by no more than the figure: no time is negative.

    Args:
        figure: the figure as it is shown, which begins with its number.
        error: what it may be less by (s); None: by nothing that matters.
        units_per_second: of the unit that the figure is shown in.
        above: what it may be more by (s); None likewise.
    """
    parts = []
    if error is not None:
        rounded, all_of_it = round_up(error * units_per_second), figure.split(maxsplit=1)[0].rstrip("s")
        parts.append(f"-{all_of_it if rounded > float(all_of_it.replace(',', '')) else f'{rounded:,g}'}")
    if above is not None:
        parts.append(f"+{round_up(above * units_per_second):,g}")
    return f"{figure} ({' '.join(parts)})" if parts else figure


def round_up(number: float) -> float:
    """Round a positive number up to two significant digits."""
    digits = 1 - floor(log10(number))
    step = 10.0**-digits
    return round(ceil(round(number / step, 6)) * step, max(digits, 0))
