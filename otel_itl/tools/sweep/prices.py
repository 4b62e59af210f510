"""Prices of tokens by model, from a table in a file or from one pair of prices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

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


@dataclass(frozen=True, slots=True)
class Prices:
    """A price table: pattern of model names (`*` and `?` as in file names) → price."""

    by_model: tuple[tuple[str, Price], ...]

    def for_model(self, model: str) -> Price | None:
        """Return the price of the first pattern that matches; None: the model has none."""
        return next((price for pattern, price in self.by_model if fnmatchcase(model, pattern)), None)


def parse_prices(text: str) -> Prices:
    """Parse a price table: `in=3,out=15` for any model, or the path of a JSON file `{"MODEL": {"in": 3, "out": 15}}`.

    Raises:
        CommandError: it is neither, or the file cannot be read.
    """
    if "=" in text and not Path(text).exists():
        pairs = [part.partition("=") for part in text.split(",")]
        return Prices((("*", _parse_price({name.strip(): value for name, _, value in pairs}, repr(text))),))
    try:
        table = json.loads(Path(text).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(
            f"--prices {text} is not accepted: a price table is JSON, as {{'MODEL': {{'in': 3, 'out': 15}}}}."
        ) from error
    except OSError as error:
        raise CommandError(f"--prices {text} cannot be read ({error.strerror or error}).") from error
    if not isinstance(table, dict) or not table:
        raise CommandError(f"--prices {text} is not accepted: a price table names at least one model.")
    return Prices(tuple((str(model), _parse_price(price, f"{text}: {model}")) for model, price in table.items()))


def _parse_price(given: Any, where: str) -> Price:
    """Parse the two prices of a model.

    Raises:
        CommandError: one is missing, unknown or no number from 0 up.
    """
    found: dict[str, float] = {}
    try:
        for name, value in given.items():
            found[_NAMES[name]] = float(value)
    except (AttributeError, KeyError, TypeError, ValueError):
        found = {}
    if len(found) != 2 or not all(isfinite(value) and value >= 0 for value in found.values()):  # noqa: PLR2004 - in, out
        raise CommandError(
            f"--prices {where} is not accepted: it takes a price of a million tokens each, as in=3,out=15."
        )
    return Price(**found)
