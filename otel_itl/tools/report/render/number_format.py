"""Formats numbers for people: three digits and a unit."""

from __future__ import annotations

ABSENT = "-"

_SWITCH_TO_SECONDS = 10
_SWITCH_TO_THOUSANDS = 10_000
_DECIMALS = ((10, 2), (100, 1))
"""Upper limit of numbers → their decimals."""


def format_milliseconds(seconds: float | None) -> str:
    """Format a latency for a column of milliseconds: `4.21`, `19.9`, `512`, `1,540`; from 10 s on `12.3s`."""
    if seconds is None:
        return ABSENT
    if round(seconds, 3) >= _SWITCH_TO_SECONDS:
        return f"{format_three_digits(seconds)}s"
    return format_three_digits(seconds * 1_000)


def format_duration(seconds: float) -> str:
    """Format a time with its unit: `0.16 ms`, `19.9 ms`, `512 ms`, `1.86 s`."""
    in_seconds = round(seconds, 3) >= 1
    return f"{format_three_digits(seconds if in_seconds else seconds * 1_000)} {'s' if in_seconds else 'ms'}"


def format_edge(seconds: float) -> str:
    """Format a round time, such as a bucket's edge or an objective: `0.5 ms`, `20 ms`, `1 s`, `2.5 s`."""
    return f"{seconds * 1_000:g} ms" if seconds < 1 else f"{seconds:g} s"


def format_three_digits(number: float | None) -> str:
    """Format a number from 0 up with three significant digits, all digits before the point, and no exponent."""
    if number is None:
        return ABSENT
    for edge, decimals in _DECIMALS:
        if round(number, decimals) < edge:
            return f"{number:.{decimals}f}"
    return f"{number:,.0f}"


def format_count(count: int) -> str:
    """Format a count for a column of seven: `1,540`, from a million on `2.3M`."""
    millions = 1_000_000
    return f"{count:,}" if count < millions else f"{count / millions:,.1f}M"


def format_rate(per_second: float | None) -> str:
    """Format tokens per second for a column of five: `48.9`, `1,540`, from ten thousand on `12k`."""
    if per_second is None or round(per_second) < _SWITCH_TO_THOUSANDS:
        return format_three_digits(per_second)
    return f"{per_second / 1_000:,.0f}k"


def format_share(part: int, whole: int) -> str:
    """Format a share in percent: `100 %`, `99.2 %`; rounded down, so that only all of it is 100 %."""
    if part == whole:
        return "100 %"
    return f"{part * 1_000 // whole / 10:.1f} %"


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 stream`, `2 streams`, `1,540 streams`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def make_printable(text: str) -> str:
    """Replace the characters in a name from the input that would control the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
