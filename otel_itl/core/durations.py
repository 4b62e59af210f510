"""Reads durations that people write: `0.5`, `0.5s`, `500ms`."""

from __future__ import annotations

from typing import Final

_UNITS: Final = {"ms": 1_000.0, "s": 1.0}
"""Unit → how many of it are a second. `s` comes last, as `ms` ends with it."""


def parse_seconds(text: str) -> float:
    """Return the seconds of a number with or without a unit, `s` or `ms`; without one it is seconds.

    Raises:
        ValueError: it is no number, or has another unit.
    """
    stripped = text.strip().lower()
    for unit, per_second in _UNITS.items():
        if stripped.endswith(unit):
            return float(stripped[: -len(unit)]) / per_second
    return float(stripped)
