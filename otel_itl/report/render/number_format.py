"""Numbers as a reader wants them: three digits and a unit."""

from __future__ import annotations

ABSENT = "-"

_SWITCH_TO_SECONDS = 10
_SWITCH_TO_THOUSANDS = 10_000
_EDGES = ((10, 2), (100, 1))


def milliseconds(seconds: float | None) -> str:
    """A latency for a column of milliseconds: `4.21`, `19.9`, `512`, `1,540`; from 10 s on with its unit, `12.3s`."""
    if seconds is None:
        return ABSENT
    if round(seconds, 3) >= _SWITCH_TO_SECONDS:
        return f"{three_digits(seconds)}s"
    return three_digits(seconds * 1_000)


def duration(seconds: float) -> str:
    """A length of time in words: `0.16 ms`, `19.9 ms`, `512 ms`, `1.86 s`."""
    in_seconds = round(seconds, 3) >= 1
    return f"{three_digits(seconds if in_seconds else seconds * 1_000)} {'s' if in_seconds else 'ms'}"


def edge(seconds: float) -> str:
    """A bucket's edge or an objective, without digits that say nothing: `0.5 ms`, `20 ms`, `1 s`, `2.5 s`."""
    return f"{seconds * 1_000:g} ms" if seconds < 1 else f"{seconds:g} s"


def three_digits(number: float | None) -> str:
    """A number from 0 up to three significant digits, all digits before the point, and no exponent."""
    if number is None:
        return ABSENT
    for edge, places in _EDGES:
        if round(number, places) < edge:
            return f"{number:.{places}f}"
    return f"{number:,.0f}"


def counted(count: int) -> str:
    """A count for a column of seven: `1,540`, from a million on `2.3M`."""
    millions = 1_000_000
    return f"{count:,}" if count < millions else f"{count / millions:,.1f}M"


def rate(per_second: float | None) -> str:
    """Tokens per second for a column of five: `48.9`, `1,540`, from ten thousand on `12k`."""
    if per_second is None or round(per_second) < _SWITCH_TO_THOUSANDS:
        return three_digits(per_second)
    return f"{per_second / 1_000:,.0f}k"


def share(part: int, whole: int) -> str:
    """A share in percent: `100 %`, `99.2 %`; never rounded up, for what is not all is not 100 %."""
    if part == whole:
        return "100 %"
    return f"{part * 1_000 // whole / 10:.1f} %"


def plural(count: int, noun: str) -> str:
    """`1 stream`, `2 streams`, `1,540 streams`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """A name from the input, without what would steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
