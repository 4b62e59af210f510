"""Compares two sides: for each model that both have, and pooled over the models, one row for each quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from otel_itl.compare.clusters import Clusters
from otel_itl.compare.levels import Floats, Level
from otel_itl.compare.quantities import MIN_BEYOND, MIN_CLUSTERS, QUANTITIES, Quantity
from otel_itl.compare.requests import Side
from otel_itl.compare.resampling import Design, Effect, Interval, bootstrap_interval, permutation_p
from otel_itl.compare.verdicts import Answer, adjust_p_values, answer, enough_clusters

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
    ratio: float | None = None
    """B's figure over A's."""
    low: float | None = None
    """Of the 95 % interval of the ratio, as is `high`."""
    high: float | None = None
    p: float | None = None
    adjusted_p: float | None = None
    answer: Answer = Answer.NOT_ENOUGH_DATA
    why: str = ""
    """Why there is not enough data, in one clause; empty for the other answers."""
    enough: int | None = None
    """About how many clusters a side would be enough; None: unknown, or there are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answers on two sides."""

    a: Side
    b: Side
    rows: Sequence[Row]
    margin: float
    is_paired: bool
    """Both sides played the same sessions, each of which is compared with itself."""
    only_in: Sequence[tuple[str, str]] = ()
    """Model and name of the side, of models that one side alone has."""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What resampling found on a row, before the rows are judged together."""

    row: Row
    interval: Interval | None


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
    return Comparison(
        a=a,
        b=b,
        rows=list(_judge(estimates, margin)),
        margin=margin,
        is_paired=clusters.is_paired,
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
        samples = np.sum([quantity.samples(of_model) for of_model in requests.values()], axis=0)
        a, b = (_figure(levels, samples, weights) for weights in design.weights())
        if not (a.samples or b.samples):
            return None
        row = Row(model=models[0] if len(models) == 1 else POOLED, quantity=quantity, a=a, b=b)
        refusal = _refusal(quantity, a, b)
        if refusal is not None:
            why, enough = refusal
            return _Estimate(replace(row, why=why, enough=enough), None)
        sizes = [sum(map(len, of_model)) for of_model in requests.values()]
        return self._resample(row, _effect(levels, sizes), design)

    def _resample(self, row: Row, effect: Effect, design: Design) -> _Estimate:
        """Estimate the effect of a row, its interval, and its p-value."""
        observed = float(effect(*(weights[np.newaxis] for weights in design.weights()))[0])
        if not math.isfinite(observed):
            return _Estimate(replace(row, why="a figure of 0, or of no sample, has no ratio"), None)
        row = replace(row, ratio=math.exp(observed))
        interval = bootstrap_interval(effect, design, self._resamples, self._random)
        if interval is None:
            return _Estimate(replace(row, why="a single session or request has no spread"), None)
        p = permutation_p(effect, design, self._resamples, self._random)
        return _Estimate(replace(row, low=math.exp(interval.low), high=math.exp(interval.high), p=p), interval)


def _effect(levels: Sequence[Level], requests: Sequence[int]) -> Effect:
    """Return the effect of a row: the log ratio of B's figure to A's, averaged over the models by their requests.

    Pooled rows average the models' own ratios, so that more requests to a slow model are not read as a slower model.
    """
    shares = np.asarray(requests, dtype=float) / sum(requests)

    def effect(weights_a: Floats, weights_b: Floats) -> Floats:
        """Return the log ratio of each resample; NaN where no model has samples on both sides."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.stack([np.log(level.of(weights_b)) - np.log(level.of(weights_a)) for level in levels])
            known = np.isfinite(ratios)
            weighted = np.where(known, ratios, 0.0) * shares[:, np.newaxis]
            mean: Floats = weighted.sum(axis=0) / (known * shares[:, np.newaxis]).sum(axis=0)
        return mean

    return effect


def _figure(levels: Sequence[Level], samples: Floats, weights: Floats) -> Figure:
    """Return the figure of one side; of several models there is no value, only the size."""
    value = levels[0].shown(weights) if len(levels) == 1 else math.nan
    count = float(weights @ samples)
    sizes = [level.count_samples(weights) for level in levels]
    total, effective = (sum(part) for part in zip(*sizes, strict=True))
    return Figure(
        value=value if math.isfinite(value) else None,
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
    """Yield the rows with their answers: the p-values are adjusted over all of them."""
    adjusted = iter(adjust_p_values([one.row.p for one in estimates if one.row.p is not None]))
    for row, interval in ((one.row, one.interval) for one in estimates):
        if row.p is None or interval is None:
            yield row
            continue
        adjusted_p = next(adjusted)
        found = answer(interval, adjusted_p, margin)
        if found is not Answer.NOT_ENOUGH_DATA:
            yield replace(row, adjusted_p=adjusted_p, answer=found)
            continue
        clusters = min(row.a.clusters, row.b.clusters)
        enough = enough_clusters(interval, clusters, margin)
        why = (
            "the interval is wider than the margin"
            if enough and enough > clusters
            else "the interval crosses the margin"
        )
        yield replace(
            row, adjusted_p=adjusted_p, answer=found, why=why, enough=enough if enough and enough > clusters else None
        )
