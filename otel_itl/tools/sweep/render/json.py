"""Renders a sweep as JSON; docs/sweep.md has the schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from otel_itl.tools.compare.quantities import NamedFigure
from otel_itl.tools.sweep.bottleneck import find_bottleneck
from otel_itl.tools.sweep.knee import SweepResult
from otel_itl.tools.sweep.records import Round
from otel_itl.tools.sweep.results import Figure, LevelResult, Standing, quantities_of
from otel_itl.tools.sweep.server_metrics import ServerFigures

SCHEMA = "otel-itl.sweep.v1"
_OF_LEVEL = (
    *("level", "standing", "missed", "doubt", "is_driver_bound", "concurrency", "max_concurrency", "seconds"),
    *("due", "set_aside", "set_aside_by", "buffered", "without_token", "truncated", "shorter", "longer"),
    "error_details",
)
"""Keys of a level that are fields of it."""
_MISSING = (Standing.BEYOND, Standing.SATURATED)


def sweep_to_json(result: SweepResult, sentence: str, code: int) -> str:
    """Return a sweep as indented JSON. Times are seconds; what is absent, and what is infinite, is null.

    Args:
        result: the answers.
        sentence: the answer in one sentence.
        code: the exit code.
    """
    sweep, objective, knee = result.sweep, result.sweep.objective, result.knee
    names = ("profile", "ttft", "itl", "target")
    data = {
        "schema": SCHEMA,
        "answer": sentence,
        "exit_code": code,
        "endpoint": sweep.endpoint,
        "model": sweep.model,
        "peak": sweep.peak,
        "is_open": sweep.is_open_loop,
        "objective": None if objective is None else {name: getattr(objective, name) for name in names},
        "planned_levels": list(sweep.levels),
        "knee": None if knee is None else {"level": knee.level, "concurrency": knee.concurrency, "limit": result.limit},
        "levels": [_level(level, result) for level in result.levels],
        "requests": sweep.request_count,
        "stopped": sweep.stop_reason,
        "cost": sweep.cost,
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def _level(level: LevelResult, result: SweepResult) -> dict[str, Any]:
    """Return a level in the types of JSON."""
    quantities = quantities_of(result.sweep.objective)
    return {name: getattr(level, name) for name in _OF_LEVEL} | {
        "wait": find_bottleneck(level, result) if level.standing in _MISSING else None,
        "void": level.void_reason,
        "errors": dict(level.errors.most_common()),
        "stall_causes": dict(level.stall_causes.most_common()),
        "server": None if level.server is None else _server(level.server),
        "figures": _figures(level.figures, quantities),
        "unreliable_figures": _figures(level.unreliable_figures, quantities),
        "rounds": [_round(one, result.sweep.began) for one in level.rounds],
    }


def _figures(figures: Mapping[str, Figure], quantities: Sequence[NamedFigure]) -> dict[str, Any]:
    """Return figures in the types of JSON."""
    known = [one for one in quantities if one.key in figures]
    return {one.key: {"unit": one.unit.value, **_figure(figures[one.key])} for one in known}


def _figure(figure: Figure) -> dict[str, Any]:
    """Return a figure in the types of JSON."""
    return {
        "value": _finite(figure.value),
        "interval": None if figure.interval is None else [_finite(end) for end in figure.interval],
        "samples": figure.samples,
        "effective_samples": figure.effective_samples,
        "is_rough": figure.has_few_tail_samples,
    }


def _server(figures: ServerFigures) -> dict[str, Any]:
    """Return what the server itself has measured in the types of JSON."""
    percentiles = {key: _finite(value) for key, value in figures.percentiles.items()}
    gauges = {key: {"mean": figures.means[key], "max": figures.largest[key]} for key in figures.means}
    return {**percentiles, **gauges, "readings": figures.readings}


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _round(one: Round, began: float) -> dict[str, Any]:
    """Return a round in the types of JSON, its times since the sweep began."""
    return {
        "round": one.round,
        "rate": one.rate,
        "steady_from": 0.0 if one.steady_from is None else one.steady_from - began,
        "steady_until": 0.0 if one.steady_until is None else one.steady_until - began,
        "concurrency": one.concurrency,
        "max_concurrency": one.max_concurrency,
        "schedule_delay": one.schedule_delay_p99,
        "loop_lag": one.loop_lag_p99,
        "host_delay": one.host_delay_share,
        "void": one.void_reason,
        "is_driver_bound": one.is_driver_bound,
    }
