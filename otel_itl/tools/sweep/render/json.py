"""Renders a sweep as JSON; docs/sweep.md has the schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from otel_itl.core.slo import SLO
from otel_itl.tools.sweep.bottleneck import find_bottleneck
from otel_itl.tools.sweep.knee import JudgedLevel, Standing, SweepResult
from otel_itl.tools.sweep.records import Round
from otel_itl.tools.sweep.results import Figure, LevelResult, Quantity, quantities_of

SCHEMA = "otel-itl.sweep.v1"
_MISSING = (Standing.BEYOND, Standing.SATURATED)


def sweep_to_json(result: SweepResult, sentence: str, code: int) -> str:
    """Return a sweep as indented JSON. Times are seconds; what is absent, and what is infinite, is null.

    Args:
        result: the answers.
        sentence: the answer in one sentence.
        code: the exit code.
    """
    sweep = result.sweep
    data = {
        "schema": SCHEMA,
        "answer": sentence,
        "exit_code": code,
        "endpoint": sweep.endpoint,
        "model": sweep.model,
        "peak": sweep.peak,
        "is_open": sweep.is_open_loop,
        "objective": _objective(sweep.objective),
        "planned_levels": list(sweep.levels),
        "knee": None if result.knee is None else _knee(result.knee),
        "levels": [_level(level, result) for level in result.levels],
        "requests": sweep.request_count,
        "stopped": sweep.stop_reason,
        "cost": sweep.cost,
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def _objective(objective: SLO | None) -> dict[str, Any] | None:
    """Return an objective in the types of JSON."""
    if objective is None:
        return None
    return {"profile": objective.profile, "ttft": objective.ttft, "itl": objective.itl, "target": objective.target}


def _knee(knee: JudgedLevel) -> dict[str, Any]:
    """Return the knee in the types of JSON."""
    return {"level": knee.result.level, "concurrency": knee.result.concurrency}


def _level(level: LevelResult, result: SweepResult) -> dict[str, Any]:
    """Return a level in the types of JSON."""
    judged = result.judgement_of(level)
    is_missing = judged is not None and judged.standing in _MISSING
    quantities = quantities_of(result.sweep.objective)
    return {
        "level": level.level,
        "standing": None if judged is None else judged.standing.value,
        "missed": None if judged is None else judged.missed,
        "wait": find_bottleneck(judged, result).value if judged is not None and is_missing else None,
        "void": level.void_reason,
        "is_driver_bound": level.is_driver_bound,
        "concurrency": level.concurrency,
        "max_concurrency": level.max_concurrency,
        "seconds": level.seconds,
        "due": level.due,
        "set_aside": level.set_aside,
        "set_aside_by": {cause.value: count for cause, count in level.set_aside_by.items()},
        "without_token": level.without_token,
        "errors": dict(level.errors.most_common()),
        "error_details": dict(level.error_details),
        "stall_causes": dict(level.stall_causes.most_common()),
        "figures": _figures(level.figures, quantities),
        "unreliable_figures": _figures(level.unreliable_figures, quantities),
        "rounds": [_round(one) for one in level.rounds],
    }


def _figures(figures: Mapping[str, Figure], quantities: Sequence[Quantity]) -> dict[str, Any]:
    """Return figures in the types of JSON."""
    return {one.key: {"unit": one.unit.value, **_figure(figures[one.key])} for one in quantities if figures}


def _figure(figure: Figure) -> dict[str, Any]:
    """Return a figure in the types of JSON."""
    interval = None if figure.low is None or figure.high is None else [_finite(figure.low), _finite(figure.high)]
    return {
        "value": _finite(figure.value),
        "interval": interval,
        "samples": figure.samples,
        "effective_samples": figure.effective_samples,
        "is_rough": figure.has_few_tail_samples,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _round(one: Round) -> dict[str, Any]:
    """Return a round in the types of JSON."""
    names = ("round", "rate", "steady_from", "steady_until", "concurrency", "max_concurrency")
    return {
        **{name: getattr(one, name) for name in names},
        "schedule_delay": one.schedule_delay_p99,
        "loop_lag": one.loop_lag_p99,
        "host_delay": one.host_delay_share,
        "void": one.void_reason,
        "is_driver_bound": one.is_driver_bound,
    }
