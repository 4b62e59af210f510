"""Compares two sides: for each model that both have, and pooled over the models, one row for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from otel_itl.tools.compare.clusters import Clusters
from otel_itl.tools.compare.estimator import RowEstimator
from otel_itl.tools.compare.quantities import QUANTITIES, Role
from otel_itl.tools.compare.requests import Side, count_open_streams
from otel_itl.tools.compare.resampling import Bools, Design, Resamples, exchange_labels
from otel_itl.tools.compare.results import Comparison, Reading, Row
from otel_itl.tools.compare.verdicts import Answer, answer_estimates

DEFAULT_MARGIN = 0.05
RESAMPLES = 1_999
RESAMPLES_A_ROW = 25
EXCHANGES = 20_000
"""Exchanges of labels at least, which are cheap: a p of 0.05 is known to 0.0015, so few answers hang on the seed."""
SEED = 1


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
        resamples: permutations, and bootstrap samples, of each row. By default there are more permutations, and of both
            where there are hundreds of rows.
        seed: of the random resamples; the same seed gives the same answers.
    """
    random = np.random.default_rng(seed)
    a, b = (replace(side, requests=count_open_streams(side.requests)) for side in (a, b))
    is_identical = a.requests == b.requests
    models_a, models_b = ({request.model for request in side.requests} for side in (a, b))
    only_in = [(model, a.name) for model in sorted(models_a - models_b)]
    only_in += [(model, b.name) for model in sorted(models_b - models_a)]
    has_no_common_model = bool(models_a and models_b) and not models_a & models_b
    compared_a, compared_b = _name_alike(a, b) if has_no_common_model else (a, b)
    shared = sorted({one.model for one in compared_a.requests} & {one.model for one in compared_b.requests})
    clusters = Clusters(compared_a, compared_b, shared, random)
    groups = [[model] for model in shared] + ([shared] if len(shared) > 1 else [])
    # The least p is 1 in the number of exchanges, which rows that have nothing in common multiply by their number.
    is_default = resamples == RESAMPLES
    resamples = max(resamples, RESAMPLES_A_ROW * len(groups) * len(QUANTITIES)) if is_default else resamples
    count = max(resamples, EXCHANGES) if is_default else resamples
    exchanges = exchange_labels(clusters.design(shared).design, count, random)

    def resample(design: Design, chosen: Bools) -> Resamples:
        return Resamples(design, exchanges[:, chosen], random, resamples)

    estimators = (RowEstimator(clusters, models, resample, margin) for models in groups)
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

    Rows that are only shown are adjusted among themselves: they cost those that decide no power.

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
