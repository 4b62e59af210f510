"""Lines on standard error that name what is in the input: what could control the terminal is escaped."""

from __future__ import annotations

import sys


def print_line(line: str) -> None:
    """Print a line on standard error, escaped where a character of it is not printable."""
    print(line if line.isprintable() else ascii(line)[1:-1], file=sys.stderr, flush=True)
