"""Compares two sides: for each model that both have, and pooled over the models, one row for each quantity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from otel_itl.tools.compare.clusters import Clusters
from otel_itl.tools.compare.effects import estimate_effect, find_floor, find_shares
from otel_itl.tools.compare.levels import Floats, Level
from otel_itl.tools.compare.quantities import MEDIAN, QUANTITIES, Quantity, Role
from otel_itl.tools.compare.requests import Request, Side
from otel_itl.tools.compare.resampling import Design, Resamples
from otel_itl.tools.compare.verdicts import Answer, Estimate, answer_estimates
from otel_itl.tools.report.certainty import Cause, describe_set_aside
from otel_itl.tools.report.set_aside import MAX_SET_ASIDE_SHARE
from otel_itl.tools.report.too_few import MIN_STREAMS, count_needed

POOLED = "all models"
DEFAULT_MARGIN = 0.05
RESAMPLES = 1_999
RESAMPLES_A_ROW = 25
SEED = 1


class Reading(Enum):
    """Which of the numbers that the figures of both sides can be are compared. The value is a clause."""

    MEASURED = "as measured"
    LOWEST = "if all chunks came as early as they may have"
    HIGHEST = "if all gaps were as long as they may have been"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A quantity of one side. `value` is in the quantity's unit; None: no sample."""

    value: float | None
    lowest: float | None
    """The least that the value can be; None: it is no less, or None."""
    highest: float | None
    """The most that it can be; None likewise."""
    clusters: int
    samples: int
    effective_samples: int
    """As many independent samples would be known as well; its samples over it is the design effect."""

    @property
    def design_effect(self) -> float | None:
        """How many samples are worth one independent sample; None without a sample."""
        return self.samples / self.effective_samples if self.effective_samples else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity of one model on both sides."""

    model: str
    quantity: Quantity
    a: Figure
    b: Figure
    measured: Estimate = field(default_factory=Estimate)
    bounds: Mapping[Reading, Estimate] = field(default_factory=dict)
    """The same with the least and with the most that the figures can be; a reading that changes neither is left out."""
    sides: Sequence[str] = ()
    """`A`, `B`: the sides whose figure is uncertain by the larger part."""

    @property
    def otherwise(self) -> Reading | None:
        """The reading that has another answer, where the answer is that the machine decides; else None.

        A row that more data would have to decide as measured remains one of not enough data.
        """
        measured = self.measured.answer
        if measured is Answer.NOT_ENOUGH_DATA or not self.bounds:
            return None
        return next((reading for reading, one in self.bounds.items() if one.answer is not measured), None)

    @property
    def answer(self) -> Answer:
        """The answer, which holds only where it is the same whatever the figures are within their bounds."""
        return self.measured.answer if self.otherwise is None else Answer.MACHINE_DECIDES

    @property
    def why(self) -> str:
        """Why it is not known, in one clause; empty for the other answers."""
        if self.otherwise is None:
            return self.measured.why
        other = self.bounds[self.otherwise].answer
        said = "not known" if other is Answer.NOT_ENOUGH_DATA else other.value
        uncertain = "both sides are" if len(self.sides) > 1 else f"side {self.sides[0]} is"
        measured = f"{self.measured.answer.value} {Reading.MEASURED.value}"
        return f"{measured}, {said} {self.otherwise.value}; {uncertain} uncertain"

    @property
    def may_be_slower(self) -> bool:
        """The caller's machine decides, and one of the answers is that B is slower."""
        return self.otherwise is not None and Answer.SLOWER in {
            one.answer for one in (self.measured, *self.bounds.values())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answers on two sides."""

    a: Side
    b: Side
    rows: Sequence[Row]
    margin: float
    is_paired: bool
    """Both sides played the same sessions, each of which is compared with itself."""
    is_identical: bool = False
    """Both sides have the same streams: a file is compared with itself, and all rows are the same."""
    only_in: Sequence[tuple[str, str]] = ()
    """Model and name of the side, of models that one side alone has."""
    has_no_common_model: bool = False
    """All models of A are compared to all of B, as the sides have none in common."""
    is_of_models: bool = False
    """The sides were chosen by their models: that they have none in common is what was asked for."""

    @property
    def sides(self) -> dict[str, Side]:
        """Letter → side."""
        return {"A": self.a, "B": self.b}


def compare(
    a: Side,
    b: Side,
    margin: float = DEFAULT_MARGIN,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare B with A.

    Args:
        a: the side that is compared with.
        b: the side that is judged.
        margin: the relative difference that does not matter, above 0 and below 1.
        resamples: permutations, and bootstrap samples, of each row; more where there are hundreds of rows.
        seed: of the random resamples; the same seed gives the same answers.
    """
    random = np.random.default_rng(seed)
    is_identical = a.requests == b.requests
    models_a, models_b = ({request.model for request in side.requests} for side in (a, b))
    only_in = [(model, a.name) for model in sorted(models_a - models_b)]
    only_in += [(model, b.name) for model in sorted(models_b - models_a)]
    has_no_common_model = bool(models_a and models_b) and not models_a & models_b
    compared_a, compared_b = _name_alike(a, b) if has_no_common_model else (a, b)
    shared = sorted({one.model for one in compared_a.requests} & {one.model for one in compared_b.requests})
    clusters = Clusters(compared_a, compared_b, shared, random)
    groups = [[model] for model in shared] + ([shared] if len(shared) > 1 else [])
    # Holm's method multiplies the least p by the number of rows, and that is at least 1 in the number of exchanges.
    resamples = max(resamples, RESAMPLES_A_ROW * len(groups) * len(QUANTITIES)) if resamples == RESAMPLES else resamples
    estimators = (_Estimator(clusters, models, resamples, random) for models in groups)
    rows = [row for one in estimators for quantity in QUANTITIES if (row := one.estimate(quantity)) is not None]
    return Comparison(
        a=a,
        b=b,
        rows=[_equal(row) for row in rows] if is_identical else _judge(rows, clusters.joined, margin),
        margin=margin,
        is_paired=clusters.is_paired,
        is_identical=is_identical,
        only_in=only_in,
        has_no_common_model=has_no_common_model,
    )


def _name_alike(a: Side, b: Side) -> tuple[Side, Side]:
    """Return the sides with one name for all their models, which are compared to each other."""
    models = [sorted({request.model for request in side.requests}) for side in (a, b)]
    name = " → ".join(of_side[0] if len(of_side) == 1 else f"{len(of_side)} models" for of_side in models)
    renamed = (replace(side, requests=[replace(request, model=name) for request in side.requests]) for side in (a, b))
    return next(renamed), next(renamed)


def _equal(row: Row) -> Row:
    """Return a row of two sides that have the same streams: nothing is left to be known."""
    return replace(row, measured=replace(row.measured, ratio=1.0, answer=Answer.SAME, why="", enough=None), bounds={})


def _judge(rows: Sequence[Row], joined: float, margin: float) -> list[Row]:
    """Return the rows with their answers by each reading, p-values adjusted over all rows of a reading.

    Those that are only shown are adjusted among themselves: they cost those that decide no power.

    Args:
        rows: the rows.
        joined: how many clusters were joined into one.
        margin: the relative difference that does not matter.
    """
    judged: dict[int, Row] = {}
    for is_shown in (False, True):
        family = [row for row in rows if (row.quantity.role is Role.SHOWN) == is_shown]
        judged.update(zip(map(id, family), _judge_family(family, joined, margin), strict=True))
    return [judged[id(row)] for row in rows]


def _judge_family(rows: Sequence[Row], joined: float, margin: float) -> list[Row]:
    """Do what `_judge` does, with its arguments, for rows whose p-values are adjusted together."""
    clusters = [round(min(row.a.clusters, row.b.clusters) * joined) for row in rows]
    directions = [row.quantity.direction for row in rows]
    answered = {
        reading: answer_estimates([row.bounds.get(reading, row.measured) for row in rows], clusters, directions, margin)
        for reading in Reading
    }
    return [
        replace(row, measured=measured, bounds={reading: answered[reading][number] for reading in row.bounds})
        for number, (row, measured) in enumerate(zip(rows, answered[Reading.MEASURED], strict=True))
    ]


class _Estimator:
    """Estimates the rows of some models, before all rows are judged together."""

    def __init__(self, clusters: Clusters, models: Sequence[str], resamples: int, random: np.random.Generator) -> None:
        self._clusters = clusters
        self._models = models
        self._resamples, self._random = resamples, random
        self._by_models: dict[tuple[str, ...], tuple[Resamples, dict[str, list[list[Request]]]]] = {}

    def estimate(self, quantity: Quantity) -> Row | None:
        """Estimate a row; None: the quantity is unknown for these models, or has no event on either side."""
        objective = self._clusters.objective
        models = [model for model in self._models if not quantity.needs_objective or objective(model) is not None]
        if not models:
            return None
        resamples, requests = self._find_resamples(tuple(models))
        has_bounds = any(one.lowest for of_model in requests.values() for cluster in of_model for one in cluster)
        levels = {
            reading: [
                quantity.level(_read(of_model, reading), objective(model)) for model, of_model in requests.items()
            ]
            for reading in (Reading if has_bounds else [Reading.MEASURED])
        }
        measured = levels[Reading.MEASURED]
        sides = resamples.design.weights()
        refused = _refuse_set_aside(quantity, requests, resamples.design)
        if refused is None and all(level.is_empty for level in measured):
            return None
        a, b = (_figure(levels, weights) for weights in sides)
        row = Row(model=models[0] if len(models) == 1 else POOLED, quantity=quantity, a=a, b=b)
        if refused is not None:
            return replace(row, measured=refused)
        if (refused := _refuse(quantity, a, b)) is not None:
            return None if quantity.is_optional else replace(row, measured=refused)
        errors = {
            reading: [_find_error(measured, of_reading, weights) for weights in sides]
            for reading, of_reading in levels.items()
        }
        largest = [max(of_side) for of_side in zip(*errors.values(), strict=True)]
        shares = find_shares(measured, [sum(map(len, of_model)) for of_model in requests.values()])
        floors = [find_floor(quantity, level, sides) for level in measured]
        return replace(
            row,
            measured=estimate_effect(measured, shares, resamples),
            bounds={
                reading: estimate_effect(levels[reading], shares, resamples, floors)
                for reading, of_sides in errors.items()
                if any(of_sides)
            },
            sides=[side for side, error in zip("AB", largest, strict=True) if error and error >= max(largest) / 2],
        )

    def _find_resamples(self, models: tuple[str, ...]) -> tuple[Resamples, dict[str, list[list[Request]]]]:
        """Return the resamples of the clusters with some models, and the requests of each to each model."""
        if models not in self._by_models:
            design, requests = self._clusters.design(models)
            self._by_models[models] = Resamples(design, self._resamples, self._random), requests
        return self._by_models[models]


def _read(clusters: Sequence[Sequence[Request]], reading: Reading) -> Sequence[Sequence[Request]]:
    """Return the clusters with what the figures of their requests are by a reading."""
    if reading is Reading.MEASURED:
        return clusters
    is_lowest = reading is Reading.LOWEST
    return [[(one.lowest if is_lowest else one.highest) or one for one in requests] for requests in clusters]


def _find_error(levels: Sequence[Level], bounds: Sequence[Level], weights: Floats) -> float:
    """Return the largest part of itself by which the figure of a model may differ on one side; 0: all are exact."""
    figures = [(level.shown(weights), bound.shown(weights)) for level, bound in zip(levels, bounds, strict=True)]
    return max((abs(value - bound) / max(value, bound) for value, bound in figures if value != bound), default=0.0)


def _figure(by_reading: dict[Reading, list[Level]], weights: Floats) -> Figure:
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


def _refuse_set_aside(
    quantity: Quantity, requests: Mapping[str, list[list[Request]]], design: Design
) -> Estimate | None:
    """Return why a figure is not known because too many streams are set aside from it; None: they are few enough."""
    field = quantity.field
    if field is None:
        return None
    for letter, is_chosen in (("A", ~design.is_b), ("B", design.is_b)):
        of_side = [
            one
            for of_model in requests.values()
            for cluster, is_of_side in zip(of_model, is_chosen, strict=True)
            for one in cluster
            if is_of_side
        ]
        causes = Counter(one.set_aside[field] for one in of_side if field in one.set_aside)
        if causes.total() > MAX_SET_ASIDE_SHARE * len(of_side):
            answer = Answer.BUFFERED if Cause.BUFFERED in causes else Answer.MACHINE_DECIDES
            return Estimate(answer=answer, why=f"side {letter}: {describe_set_aside(causes, len(of_side))}")
    return None


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
