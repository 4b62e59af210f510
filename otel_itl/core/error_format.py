"""Writes what a figure may be less by behind it: `655 ms (-120)`."""

from __future__ import annotations

from math import ceil, floor, log10


def append_error(figure: str, error: float | None, units_per_second: int) -> str:
    """Append what a figure may be less by, rounded up, but to no more than the figure: no time is negative.

    Args:
        figure: the figure as it is shown, which begins with its number.
        error: what it may be less by (s); None: by nothing that matters.
        units_per_second: of the unit that the figure is shown in.
    """
    if error is None:
        return figure
    rounded, all_of_it = round_up(error * units_per_second), figure.split(maxsplit=1)[0].rstrip("s")
    return f"{figure} (-{all_of_it if rounded > float(all_of_it.replace(',', '')) else f'{rounded:,g}'})"


def round_up(number: float) -> float:
    """Round a positive number up to two significant digits."""
    digits = 1 - floor(log10(number))
    step = 10.0**-digits
    return round(ceil(round(number / step, 6)) * step, max(digits, 0))
