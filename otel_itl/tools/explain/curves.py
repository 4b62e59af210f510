"""Draws the curve of a finding: the latency over its driver, with the other drivers at their usual values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import optimize, stats

from otel_itl.core.timeline import SECOND
from otel_itl.tools.explain.candidates import THOUSAND, Trial
from otel_itl.tools.explain.facts import Floats, Integers, mean_by
from otel_itl.tools.explain.findings import CurvePoint, Driver
from otel_itl.tools.explain.position import Position
from otel_itl.tools.explain.runs import RunComparison
from otel_itl.tools.explain.trials import Trials

MAX_POINTS = 10
MIN_POINT_STREAMS = 5
MIN_LEVEL = 0.001
"""Least share of the usual latency that is left without the costs of a driver."""

MIN_OWN_LOAD = 1.0
"""Open streams: each stream counts itself. The load at the usual pace is a fitted line, which may lie below."""


def draw_curve(trials: Trials, trial: Trial) -> list[CurvePoint]:
    """Return the points of a finding's curve, with 95 % intervals over the sessions."""
    candidate = trial.candidate
    if candidate.runs is not None and trials.runs is not None:
        return list(_run_points(trials.runs))
    own = trial.contribution
    fitted = _add_costs(own, trials.typical) if candidate.adds else np.log(trials.typical) + own - own.mean()
    values = fitted + trials.residuals
    levels, rows = _levels(trials, trial)
    is_continuous = candidate.per is not None
    return list(_points(levels[rows], values[rows], trials.facts.session[rows], is_continuous=is_continuous))


def _add_costs(costs: Floats, typical: float) -> Floats:
    """Return the logarithm of a latency to which costs are added, such that its geometric mean is the typical one."""
    added = costs - costs.min()

    def excess(level: float) -> float:
        return float(np.mean(np.log(level + added)) - np.log(typical))

    lowest = MIN_LEVEL * typical
    level = lowest if excess(lowest) >= 0 else optimize.brentq(excess, lowest, typical)
    return np.asarray(np.log(level + added))


def _run_points(found: RunComparison) -> Iterator[CurvePoint]:
    """Yield a point for each load that whole runs had, with the spread of all runs around their line."""
    reach = found.spread * float(stats.t.ppf(0.975, len(found.latencies) - 2))
    for level in np.unique(found.runs.levels):
        numbers = np.flatnonzero(found.runs.levels == level)
        y, half = float(found.latencies[numbers].mean()), reach / len(numbers) ** 0.5
        yield CurvePoint(float(level), y, max(y - half, 0.0), y + half, int(np.isin(found.runs.number, numbers).sum()))


def draw_position(position: Position) -> list[CurvePoint]:
    """Return the points of the curve over the position in the answer."""
    positions = position.trial.candidate.column * THOUSAND
    values = np.log(position.typical) + position.relative
    return list(_points(positions, values, np.arange(len(positions)), is_continuous=True))


def _levels(trials: Trials, trial: Trial) -> tuple[Floats, np.ndarray]:
    """Return the driver of each stream in its own unit, and which streams the curve is of."""
    facts, candidate = trials.facts, trial.candidate
    everything = np.ones(len(facts), dtype=bool)
    if candidate.window is not None:
        return facts.hour.astype(np.float64), np.isin(facts.weekday, candidate.window.weekdays)
    if candidate.replacement is not None:
        rows = candidate.replacement.is_before | candidate.replacement.is_after
        if candidate.has_moment:
            moments = facts.column("start_ns") / SECOND
            part = np.arange(len(moments)) * MAX_POINTS // max(len(moments), 1)
            return mean_by(part, moments)[part], rows
        return candidate.column, rows
    if trial.driver is Driver.IDLE:
        return candidate.column * (candidate.threshold or 0.0), everything
    values = candidate.column * (candidate.per or 1.0)
    return (np.maximum(values, MIN_OWN_LOAD) if trial.driver is Driver.OWN_LOAD else values), everything


def _points(levels: Floats, values: Floats, sessions: Integers, *, is_continuous: bool) -> Iterator[CurvePoint]:
    """Yield a point for each level; a continuous driver is divided into levels of about as many streams."""
    if is_continuous:
        edges = np.unique(np.quantile(levels, np.linspace(0, 1, MAX_POINTS + 1)[1:-1]))
        group = np.searchsorted(edges, levels, side="right")
    else:
        group = np.unique(levels, return_inverse=True)[1]
    for number in range(int(group.max()) + 1):
        inside = group == number
        if inside.sum() >= MIN_POINT_STREAMS:
            means = mean_by(sessions[inside], values[inside])
            middle = float(values[inside].mean())
            reach = float(stats.sem(means) * stats.t.ppf(0.975, len(means) - 1)) if len(means) > 1 else 0.0
            y, low, high = (float(np.exp(one)) for one in (middle, middle - reach, middle + reach))
            yield CurvePoint(float(levels[inside].mean()), y, low, high, int(inside.sum()))
