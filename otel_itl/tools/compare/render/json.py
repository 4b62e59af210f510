"""Renders a comparison as JSON; docs/compare.md has the schema."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from otel_itl.core.moments import format_time
from otel_itl.tools.compare.requests import FIGURES, Side
from otel_itl.tools.compare.results import Comparison, Figure, Reading, Row
from otel_itl.tools.compare.verdicts import Estimate

SCHEMA = "otel-itl.compare.v1"


def comparison_to_json(comparison: Comparison, sentence: str, code: int) -> str:
    """Return a comparison as indented JSON. Times are seconds, shares are between 0 and 1; what is absent is null.

    Args:
        comparison: the answers.
        sentence: the answer in one sentence.
        code: the exit code.
    """
    data = {
        "schema": SCHEMA,
        "answer": sentence,
        "exit_code": code,
        "margin": comparison.margin,
        "is_paired": comparison.is_paired,
        "is_identical": comparison.is_identical,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "rows": [_row(row) for row in comparison.rows],
        "has_no_common_model": comparison.has_no_common_model,
        "only_in": [{"model": model, "side": side} for model, side in comparison.only_in],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _side(side: Side) -> dict[str, Any]:
    """Return a side in the types of JSON."""
    return {
        "name": side.name,
        "streams": len(side.requests),
        "clusters": side.clusters,
        "first": format_time(side.first_unix_ns),
        "last": format_time(side.last_unix_ns),
        "known": {figure: asdict(side.known[title]) for title, figure in FIGURES.items()},
    }


def _row(row: Row) -> dict[str, Any]:
    """Return a row in the types of JSON."""
    return {
        "model": row.model,
        "quantity": row.quantity.key,
        "unit": row.quantity.unit.value,
        "a": _figure(row.a),
        "b": _figure(row.b),
        **_estimate(row.measured),
        "is_adjusted": row.measured.unadjusted_ratio is not None,
        "unadjusted_ratio": _finite(row.measured.unadjusted_ratio),
        "p": row.measured.p,
        "answer": row.answer,
        "why": row.why or None,
        "enough": row.measured.enough,
        "lowest": _bound(row, Reading.LOWEST),
        "highest": _bound(row, Reading.HIGHEST),
    }


def _bound(row: Row, reading: Reading) -> dict[str, Any] | None:
    """Return a row with one end of what its figures can be; None: it changes nothing."""
    return _estimate(row.bounds[reading]) | {"sides": row.sides} if reading in row.bounds else None


def _estimate(found: Estimate) -> dict[str, Any]:
    """Return what was found by one reading of the figures, in the types of JSON."""
    return {
        "ratio": _finite(found.ratio),
        "interval": found.ratio_interval and [_finite(end) for end in found.ratio_interval],
        "adjusted_p": found.adjusted_p,
        "answer": found.answer,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    """Return a figure in the types of JSON."""
    more = {"value": _finite(figure.value), "is_infinite": figure.value == math.inf}
    return asdict(figure) | more | {"design_effect": figure.design_effect}


def _finite(number: float | None) -> float | None:
    """Return a number that JSON has; None for infinity."""
    return None if number == math.inf else number
