"""Compares two sides: for each model that both have, and pooled over the models, one row for each quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from otel_itl.core.measures import MIN_UNCERTAINTY
from otel_itl.tools.compare.clusters import Clusters
from otel_itl.tools.compare.levels import Floats, Level
from otel_itl.tools.compare.quantities import MIN_BEYOND, MIN_CLUSTERS, QUANTITIES, Quantity
from otel_itl.tools.compare.requests import Request, Side
from otel_itl.tools.compare.resampling import Design, Effect, Interval, bootstrap_interval, permutation_p
from otel_itl.tools.compare.verdicts import Answer, adjust_p_values, answer, enough_clusters, explain_unknown
from otel_itl.tools.report.certainty import is_error_shown

POOLED = "all models"
DEFAULT_MARGIN = 0.05
RESAMPLES = 4_999
SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A quantity of one side. `value` is in the quantity's unit; None: no sample."""

    value: float | None
    clusters: int
    samples: int
    lowest: float | None
    """The least that the value can be; None: it is exact, or None."""
    highest: float | None
    """The most that it can be; None likewise, and for all but TPOT."""
    effective_samples: int
    """As many independent samples would be known as well; its samples over it is the design effect."""

    @property
    def error(self) -> float | None:
        """By how much the value may be less; None: by no more than 1 ms, or than 1 % of it."""
        if self.value is None or self.lowest is None:
            return None
        error = self.value - self.lowest
        return error if is_error_shown(error, self.value) else None

    @property
    def above(self) -> float | None:
        """By how much the value may be more; None likewise."""
        if self.value is None or self.highest is None:
            return None
        above = self.highest - self.value
        return above if is_error_shown(above, self.value) else None

    @property
    def design_effect(self) -> float | None:
        """How many samples are worth one independent sample; None without a sample."""
        return self.samples / self.effective_samples if self.effective_samples else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowest:
    """A row with the least that the figures of both sides can be: without what the callers' machines may have added."""

    ratio: float | None
    low: float | None
    high: float | None
    adjusted_p: float | None
    answer: Answer
    sides: Sequence[str]
    """`A`, `B`: the sides whose figure may be less by the larger part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity of one model on both sides."""

    model: str
    quantity: Quantity
    a: Figure
    b: Figure
    ratio: float | None = None
    """B's figure over A's."""
    low: float | None = None
    """Of the 95 % interval of the ratio, as is `high`."""
    high: float | None = None
    p: float | None = None
    adjusted_p: float | None = None
    answer: Answer = Answer.NOT_ENOUGH_DATA
    why: str = ""
    """Why it is not known, in one clause; empty for the other answers."""
    enough: int | None = None
    """About how many clusters a side would be enough; None: unknown, or there are enough."""
    lowest: Lowest | None = None
    """None: the figures of both sides are exact, or the row was not estimated."""
    as_measured: Answer | None = None
    """The answer by the figures as measured, where it is `MACHINE_DECIDES`; else None."""

    @property
    def may_be_slower(self) -> bool:
        """The caller's machine decides, and one of the two answers is that B is slower."""
        return self.lowest is not None and Answer.SLOWER in {self.as_measured, self.lowest.answer}


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


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What resampling found on a row, before the rows are judged together."""

    row: Row
    interval: Interval | None
    lowest: _Estimate | None = None
    """The same with the least that the figures of both sides can be; None: they are exact."""
    sides: Sequence[str] = ()
    """The sides whose figure may be less by the larger part."""

    @property
    def at_least(self) -> _Estimate:
        """What is judged beside it: with the least that the figures can be."""
        return self.lowest or self


def compare(
    a: Side, b: Side, margin: float = DEFAULT_MARGIN, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Comparison:
    """Compare B with A.

    Args:
        a: the side that is compared with.
        b: the side that is judged.
        margin: the relative difference that does not matter, above 0 and below 1.
        resamples: permutations, and bootstrap samples, of each row.
        seed: of the random resamples; the same seed gives the same answers.
    """
    random = np.random.default_rng(seed)
    is_identical = a.requests == b.requests
    a, b = _match_models(a, b)
    models_a, models_b = ({request.model for request in side.requests} for side in (a, b))
    shared = sorted(models_a & models_b)
    clusters = Clusters(a, b, shared, random)
    estimator = _Estimator(clusters, resamples, random)
    estimates = [
        estimate
        for models in ([[model] for model in shared] + ([shared] if len(shared) > 1 else []))
        for quantity in QUANTITIES
        if (estimate := estimator.estimate(models, quantity)) is not None
    ]
    rows = list(_judge(estimates, margin))
    if is_identical:
        rows = [replace(row, ratio=1.0, answer=Answer.SAME, why="", enough=None, as_measured=None) for row in rows]
    return Comparison(
        a=a,
        b=b,
        rows=rows,
        margin=margin,
        is_paired=clusters.is_paired,
        is_identical=is_identical,
        only_in=[(model, a.name) for model in sorted(models_a - models_b)]
        + [(model, b.name) for model in sorted(models_b - models_a)],
    )


def _match_models(a: Side, b: Side) -> tuple[Side, Side]:
    """Return the sides; where they have no model in common, with one name for all: one model is compared to another."""
    models = [sorted({request.model for request in side.requests}) for side in (a, b)]
    if not all(models) or set(models[0]) & set(models[1]):
        return a, b
    name = " → ".join(of_side[0] if len(of_side) == 1 else f"{len(of_side)} models" for of_side in models)
    renamed = (replace(side, requests=[replace(request, model=name) for request in side.requests]) for side in (a, b))
    return next(renamed), next(renamed)


class _Estimator:
    """Estimates rows, before they are judged together."""

    def __init__(self, clusters: Clusters, resamples: int, random: np.random.Generator) -> None:
        self._clusters = clusters
        self._resamples = resamples
        self._random = random

    def estimate(self, models: Sequence[str], quantity: Quantity) -> _Estimate | None:
        """Estimate a row; None: the quantity is unknown for these models, or has no event on either side."""
        objective = self._clusters.objective
        models = [model for model in models if not quantity.needs_objective or objective(model) is not None]
        design, requests = self._clusters.design(models)
        events = sum(quantity.events(of_model, objective(model)) for model, of_model in requests.items())
        if not models or not (quantity.is_latency or events):
            return None
        levels = [quantity.level(of_model, objective(model)) for model, of_model in requests.items()]
        lowest = levels
        if quantity.is_of_arrivals and any(map(_has_bounds, requests.values())):
            lowest = [quantity.level(_lower(of_model), objective(model)) for model, of_model in requests.items()]
        samples = np.sum([quantity.samples(of_model) for of_model in requests.values()], axis=0)
        above = None if quantity.above is None else np.sum(list(map(quantity.above, requests.values())), axis=0)
        weights = design.weights()
        a, b = (_figure(levels, lowest, samples, of_side, above) for of_side in weights)
        if not (a.samples or b.samples):
            return None
        row = Row(model=models[0] if len(models) == 1 else POOLED, quantity=quantity, a=a, b=b)
        refusal = _refusal(quantity, a, b)
        if refusal is not None:
            why, enough = refusal
            return _Estimate(replace(row, why=why, enough=enough), None)
        sizes = [sum(map(len, of_model)) for of_model in requests.values()]
        same_draws = deepcopy(self._random)
        found = self._resample(row, _effect(levels, sizes), design, self._random)
        errors = [_find_error(levels, lowest, of_side) for of_side in weights]
        if not any(errors):
            return found
        sides = [side for side, error in zip("AB", errors, strict=True) if error and error >= max(errors) / 2]
        floors = [_find_floor(quantity, level, weights) for level in levels]
        least = self._resample(row, _effect(lowest, sizes, floors), design, same_draws)
        return replace(found, lowest=least, sides=sides)

    def _resample(self, row: Row, effect: Effect, design: Design, random: np.random.Generator) -> _Estimate:
        """Estimate the effect of a row, its interval, and its p-value."""
        observed = float(effect(*(weights[np.newaxis] for weights in design.weights()))[0])
        if not math.isfinite(observed):
            return _Estimate(replace(row, why="a figure of 0, or of no sample, has no ratio"), None)
        row = replace(row, ratio=math.exp(observed))
        interval = bootstrap_interval(effect, design, self._resamples, random)
        if interval is None:
            return _Estimate(replace(row, why="a single session or request has no spread"), None)
        p = permutation_p(effect, design, self._resamples, random)
        return _Estimate(replace(row, low=math.exp(interval.low), high=math.exp(interval.high), p=p), interval)


def _effect(levels: Sequence[Level], requests: Sequence[int], floors: Sequence[float] | None = None) -> Effect:
    """Return the effect of a row: the log ratio of B's figure to A's, averaged over the models by their requests.

    Pooled rows average the models' own ratios, so that more requests to a slow model are not read as a slower model.
    `floors` are what the figures of each model are at least taken for; None: 0, which has no ratio.
    """
    shares = np.asarray(requests, dtype=float) / sum(requests)
    bounded = list(zip(levels, floors or [0.0] * len(levels), strict=True))

    def effect(weights_a: Floats, weights_b: Floats) -> Floats:
        """Return the log ratio of each resample; NaN where no model has samples on both sides."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.stack(
                [
                    np.log(np.maximum(level.of(weights_b), floor)) - np.log(np.maximum(level.of(weights_a), floor))
                    for level, floor in bounded
                ]
            )
            known = np.isfinite(ratios)
            weighted = np.where(known, ratios, 0.0) * shares[:, np.newaxis]
            mean: Floats = weighted.sum(axis=0) / (known * shares[:, np.newaxis]).sum(axis=0)
        return mean

    return effect


def _find_floor(quantity: Quantity, level: Level, weights: tuple[Floats, Floats]) -> float:
    """Return what the least of a latency is at least taken for: 1 ms, or the figure that was measured, if that is less.

    The least of a figure that may be almost nothing on both sides would else have no ratio, or any.
    """
    measured = (level.shown(of_side) for of_side in weights)
    return min([MIN_UNCERTAINTY, *(figure for figure in measured if figure > 0)]) if quantity.is_latency else 0.0


def _has_bounds(clusters: Sequence[Sequence[Request]]) -> bool:
    return any(request.lowest is not None for requests in clusters for request in requests)


def _lower(clusters: Sequence[Sequence[Request]]) -> list[list[Request]]:
    """Return the clusters with the least that the figures of their requests can be."""
    return [[request.lowest or request for request in requests] for requests in clusters]


def _find_error(levels: Sequence[Level], lowest: Sequence[Level], weights: Floats) -> float:
    """Return the largest part of itself by which the figure of a model may be less on one side; 0: all are exact."""
    figures = [(level.shown(weights), low.shown(weights)) for level, low in zip(levels, lowest, strict=True)]
    return max(((value - low) / value for value, low in figures if value > low), default=0.0)


def _figure(
    levels: Sequence[Level], lowest: Sequence[Level], samples: Floats, weights: Floats, above: Floats | None
) -> Figure:
    """Return the figure of one side; of several models there is no value, only the size."""
    value, least = (each[0].shown(weights) if len(levels) == 1 else math.nan for each in (levels, lowest))
    count = float(weights @ samples)
    more = 0.0 if above is None or not count else float(weights @ above) / count
    sizes = [level.count_samples(weights) for level in levels]
    total, effective = (sum(part) for part in zip(*sizes, strict=True))
    return Figure(
        value=value if math.isfinite(value) else None,
        lowest=least if least < value else None,
        highest=value + more if math.isfinite(value) and more > 0 else None,
        clusters=int(np.sum((weights > 0) & (samples > 0))),
        samples=round(count),
        effective_samples=max(round(count * effective / total), 1) if total else 0,
    )


def _refusal(quantity: Quantity, a: Figure, b: Figure) -> tuple[str, int | None] | None:
    """Return why a percentile is not computed, and about how many clusters a side would be enough; None: it can be."""
    q = quantity.percentile
    if q is None or q <= 50:  # noqa: PLR2004 - a median needs no tail
        return None
    fewest = min((a, b), key=lambda figure: figure.samples)
    needed = round(MIN_BEYOND / (1 - q / 100))
    if fewest.samples < needed:
        per_cluster = fewest.samples / fewest.clusters if fewest.clusters else 0
        enough = math.ceil(needed / per_cluster) if per_cluster else None
        return f"{fewest.samples:,} of the {needed:,} gaps that {quantity.title} needs", enough
    if min(a.clusters, b.clusters) < MIN_CLUSTERS:
        return f"{min(a.clusters, b.clusters)} of the {MIN_CLUSTERS} sessions or requests that it needs", MIN_CLUSTERS
    return None


def _judge(estimates: Sequence[_Estimate], margin: float) -> Iterator[Row]:
    """Yield the rows with their answers, which hold only where they are the same with the least that all can be.

    The p-values are adjusted over all rows, and once more over all rows with the least that their figures can be.
    """
    measured = _answer_all(estimates, margin)
    lowest = _answer_all([one.at_least for one in estimates], margin)
    for one, row, least in zip(estimates, measured, lowest, strict=True):
        yield row if one.lowest is None else _weigh(row, least, one.sides)


def _weigh(row: Row, least: Row, sides: Sequence[str]) -> Row:
    """Return a row, given its answer with the least that its figures can be: where that is another, it is not known.

    A row that more data would have to decide as measured remains one of not enough data.
    """
    row = replace(row, lowest=_describe_lowest(least, sides))
    if row.answer in {least.answer, Answer.NOT_ENOUGH_DATA}:
        return row
    otherwise = "not known" if least.answer is Answer.NOT_ENOUGH_DATA else least.answer.value
    uncertain = "both sides are" if len(sides) > 1 else f"side {sides[0]} is"
    why = (
        f"{row.answer.value} as measured, {otherwise} if all chunks came as early as they may have; "
        f"{uncertain} uncertain"
    )
    return replace(row, answer=Answer.MACHINE_DECIDES, as_measured=row.answer, why=why, enough=None)


def _describe_lowest(row: Row, sides: Sequence[str]) -> Lowest:
    return Lowest(
        ratio=row.ratio, low=row.low, high=row.high, adjusted_p=row.adjusted_p, answer=row.answer, sides=sides
    )


def _answer_all(estimates: Sequence[_Estimate], margin: float) -> list[Row]:
    """Answer rows; their p-values are adjusted over all of them."""
    adjusted = iter(adjust_p_values([one.row.p for one in estimates if one.row.p is not None]))
    return [
        one.row
        if one.row.p is None or one.interval is None
        else _answer_row(one.row, one.interval, next(adjusted), margin)
        for one in estimates
    ]


def _answer_row(row: Row, interval: Interval, adjusted_p: float, margin: float) -> Row:
    """Answer a row, given its interval and its adjusted p-value."""
    found = answer(interval, adjusted_p, margin)
    row = replace(row, adjusted_p=adjusted_p, answer=found)
    if found is not Answer.NOT_ENOUGH_DATA:
        return row
    clusters = min(row.a.clusters, row.b.clusters)
    enough = enough_clusters(interval, clusters, margin)
    return replace(
        row, why=explain_unknown(interval, margin), enough=enough if enough is not None and enough > clusters else None
    )
