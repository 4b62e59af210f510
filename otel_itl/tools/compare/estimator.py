"""Estimates the rows of some models, before all rows are judged together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Final

import numpy as np

from otel_itl.tools.compare.clusters import Clusters
from otel_itl.tools.compare.effects import estimate_effect, find_floor, find_shares
from otel_itl.tools.compare.levels import Floats, Level
from otel_itl.tools.compare.prompts import Prompts
from otel_itl.tools.compare.quantities import MEDIAN, Clustered, Quantity
from otel_itl.tools.compare.requests import Request
from otel_itl.tools.compare.resampling import Bools, Design, Resamples
from otel_itl.tools.compare.results import Figure, Reading, Row
from otel_itl.tools.compare.verdicts import Answer, Estimate
from otel_itl.tools.report.certainty import Cause, describe_set_aside
from otel_itl.tools.report.set_aside import MAX_SET_ASIDE_SHARE
from otel_itl.tools.report.too_few import MIN_STREAMS, count_needed

POOLED: Final = "all models"
_Requests = Mapping[str, Sequence[Sequence[Request]]]
"""Of each model the requests of each cluster."""
_Clustered = Mapping[Reading, Mapping[str, Clustered]]
"""Of each reading and model the requests."""
_Levels = Mapping[Reading, Sequence[Level]]
"""Of each reading the figures of each model."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """The requests to some models."""

    resamples: Resamples
    counts: Sequence[int]
    """Of each model."""
    requests: _Clustered
    prompts: Prompts
    refused: Mapping[str, Estimate]
    """Fields from which too many streams are set aside."""


class RowEstimator:
    """Estimates the rows of some models.

    Args:
        clusters: of both sides.
        models: of which the rows are; of several, pooled.
        resample: a design of the chosen clusters.
        margin: the relative difference that does not matter.
    """

    def __init__(
        self,
        clusters: Clusters,
        models: Sequence[str],
        resample: Callable[[Design, Bools], Resamples],
        margin: float,
    ) -> None:
        self._clusters, self._models = clusters, models
        self._resample, self._margin = resample, margin
        self._samples: dict[tuple[str, ...], _Sample] = {}

    def estimate(self, quantity: Quantity) -> Row | None:
        """Estimate a row; None: the quantity is unknown for these models, or has no event on either side."""
        objective = self._clusters.objective
        models = [model for model in self._models if not quantity.needs_objective or objective(model) is not None]
        if not models:
            return None
        sample = self._find_sample(tuple(models))
        levels = self._make_levels(quantity, sample.requests)
        measured, sides = levels[Reading.MEASURED], sample.resamples.design.weights()
        refused = sample.refused.get(quantity.field or "")
        if refused is None and all(level.is_empty for level in measured):
            if not quantity.is_of_buffered or Answer.BUFFERED not in {one.answer for one in sample.refused.values()}:
                return None
            refused = Estimate(why="no stream has bursts enough to show one pace from burst to burst")
        a, b = (_figure(levels, weights) for weights in sides)
        row = Row(model=models[0] if len(models) == 1 else POOLED, quantity=quantity, a=a, b=b)
        if refused is not None:
            return replace(row, measured=refused)
        if (refused := _refuse(quantity, a, b)) is not None:
            return None if quantity.is_optional else replace(row, measured=refused)
        if (confounded := sample.prompts.refuse(quantity.field)) is not None:
            return replace(row, measured=confounded)
        errors = {
            reading: [_find_error(measured, of_reading, weights) for weights in sides]
            for reading, of_reading in levels.items()
        }
        largest = [max(of_side) for of_side in zip(*errors.values(), strict=True)]
        shares = find_shares(measured, sample.counts)
        estimated = partial(
            estimate_effect,
            shares=shares,
            resamples=sample.resamples,
            prompts=sample.prompts.levels(quantity.field, quantity.percentile),
        )
        floors = [find_floor(quantity, level, sides) for level in measured]
        return replace(
            row,
            measured=estimated(measured),
            bounds={
                reading: estimated(levels[reading], floors=floors)
                for reading, of_sides in errors.items()
                if any(of_sides)
            },
            sides=[side for side, error in zip("AB", largest, strict=True) if error and error >= max(largest) / 2],
        )

    def _make_levels(self, quantity: Quantity, requests: _Clustered) -> _Levels:
        """Return the figures of a quantity by each reading."""
        objective = self._clusters.objective
        return {
            reading: [quantity.level(clustered, objective(model)) for model, clustered in of_reading.items()]
            for reading, of_reading in requests.items()
        }

    def _find_sample(self, models: tuple[str, ...]) -> _Sample:
        """Return the requests to some models, with what all of their rows need."""
        if models not in self._samples:
            design, requests, chosen = self._clusters.design(models)
            has_bounds = any(one.lowest for of_model in requests.values() for cluster in of_model for one in cluster)
            readings = list(Reading) if has_bounds else [Reading.MEASURED]
            resamples = self._resample(design, chosen)
            self._samples[models] = _Sample(
                resamples=resamples,
                counts=[sum(map(len, of_model)) for of_model in requests.values()],
                requests=_read(requests, readings),
                prompts=Prompts(requests, resamples, self._margin),
                refused=_refuse_set_aside(requests, design.is_b),
            )
        return self._samples[models]


def _read(requests: _Requests, readings: Sequence[Reading]) -> _Clustered:
    """Return the requests by what their figures are in each reading."""
    return {
        reading: {
            model: Clustered([[_read_one(one, reading) for one in cluster] for cluster in of_model])
            for model, of_model in requests.items()
        }
        for reading in readings
    }


def _read_one(request: Request, reading: Reading) -> Request:
    if reading is Reading.MEASURED:
        return request
    return (request.lowest if reading is Reading.LOWEST else request.highest) or request


def _find_error(levels: Sequence[Level], bounds: Sequence[Level], weights: Floats) -> float:
    """Return the largest part of itself by which the figure of a model may differ on one side; 0: all are exact."""
    figures = [(level.shown(weights), bound.shown(weights)) for level, bound in zip(levels, bounds, strict=True)]
    return max((abs(value - bound) / max(value, bound) for value, bound in figures if value != bound), default=0.0)


def _figure(by_reading: _Levels, weights: Floats) -> Figure:
    """Return the figure of one side; of several models there is no value, only the size."""
    levels = by_reading[Reading.MEASURED]
    shown = {reading: of_reading[0].shown(weights) for reading, of_reading in by_reading.items() if len(levels) == 1}
    value = shown.get(Reading.MEASURED, math.nan)
    least, most = (shown.get(reading, value) for reading in (Reading.LOWEST, Reading.HIGHEST))
    total, effective = (sum(part) for part in zip(*(level.count_samples(weights) for level in levels), strict=True))
    return Figure(
        value=None if math.isnan(value) else value,
        lowest=least if least < value < math.inf else None,
        highest=most if math.inf > most > value else None,
        clusters=int(np.sum((weights > 0) & (np.sum([level.sizes for level in levels], axis=0) > 0))),
        samples=round(total),
        effective_samples=max(round(effective), 1) if total else 0,
    )


def _refuse_set_aside(requests: _Requests, is_b: Bools) -> dict[str, Estimate]:
    """Return for each field from which too many streams are set aside why its figures are not known."""
    refused: dict[str, Estimate] = {}
    for letter, is_of_side in (("A", ~is_b), ("B", is_b)):
        streams, causes = 0, dict[str, Counter[Cause]]()
        for of_model in requests.values():
            for cluster in compress(of_model, is_of_side):
                streams += len(cluster)
                for one in cluster:
                    for figure, cause in one.set_aside.items():
                        causes.setdefault(figure, Counter())[cause] += 1
        for figure, counted in causes.items():
            if counted.total() > MAX_SET_ASIDE_SHARE * streams:
                answer = Answer.BUFFERED if Cause.BUFFERED in counted else Answer.MACHINE_DECIDES
                why = f"side {letter}: {describe_set_aside(counted, streams)}"
                refused.setdefault(figure, Estimate(answer=answer, why=why))
    return refused


def _refuse(quantity: Quantity, a: Figure, b: Figure) -> Estimate | None:
    """Return why a percentile is not computed, and what it needs at least; None: it can be."""
    q = quantity.percentile or 0
    if q <= MEDIAN:  # it needs no tail
        return None
    fewest = min((a, b), key=lambda figure: figure.samples)
    needed = count_needed(q)
    noun = "streams" if quantity.is_optional else "gaps"
    if fewest.samples < needed:
        return Estimate(why=f"{fewest.samples:,} of the {needed:,} {noun} that {quantity.title} needs at least")
    clusters = min(a.clusters, b.clusters)
    if clusters < MIN_STREAMS:
        return Estimate(why=f"{clusters} of the {MIN_STREAMS} sessions or requests that it needs at least")
    return None
