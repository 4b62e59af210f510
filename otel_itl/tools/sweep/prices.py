"""The price of tokens."""

from __future__ import annotations

from math import isfinite
from typing import Final, NamedTuple

from otel_itl.tools.command_error import CommandError

MILLION: Final = 1_000_000
_NAMES: Final = {"in": "input", "input": "input", "out": "output", "output": "output"}


class Price(NamedTuple):
    """Price of a million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return what a number of tokens costs. Cached input is counted as any other: the cost is an upper bound."""
        return (input_tokens * self.input + output_tokens * self.output) / MILLION


def parse_price(text: str) -> Price:
    """Parse `in=3,out=15`.

    Raises:
        CommandError: a price is missing, unknown or no number from 0 up.
    """
    found: dict[str, float] = {}
    try:
        for part in text.split(","):
            name, _, value = part.partition("=")
            found[_NAMES[name.strip()]] = float(value)
    except (KeyError, ValueError):
        found = {}
    if len(found) != 2 or not all(isfinite(value) and value >= 0 for value in found.values()):  # noqa: PLR2004 - in, out
        raise CommandError(
            f"--prices {text!r} is not accepted: it takes a price of a million tokens each, as in=3,out=15."
        )
    return Price(**found)
