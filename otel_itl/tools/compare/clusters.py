"""Groups the requests of both sides into clusters, and says which of them may be exchanged with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otel_itl.tools.compare.requests import Request, Side
from otel_itl.tools.compare.resampling import Bools, Design, Indices

MAX_CLUSTERS = 100
"""Clusters a side that are resampled; more are joined at random: the answers stay valid, and memory bounded."""

MIN_CLUSTERS_OF_STRATUM = 5
"""Clusters a side: drawn with replacement, fewer vary less than those that they are drawn for."""


class Designed(NamedTuple):
    """The clusters that have any of some models."""

    design: Design
    requests: dict[str, list[list[Request]]]
    """Of each model the requests of each cluster."""
    chosen: Bools
    """For all clusters whether they are among these."""


class Clusters:
    """The clusters of both sides, those of A first, and their requests by model."""

    def __init__(self, a: Side, b: Side, models: Sequence[str], random: np.random.Generator) -> None:
        by_side = [_group(side.requests, models) for side in (a, b)]
        self.joined = max(min(map(len, by_side)) / MAX_CLUSTERS, 1.0)
        """How many clusters were joined into one."""
        self.is_paired = _played_the_same(*by_side)
        if self.is_paired:
            order = random.permutation(len(by_side[0]))
            by_side = [_join({key: groups[key] for key in by_side[0]}, order) for groups in by_side]
        else:
            by_side = [_join(groups, random.permutation(len(groups))) for groups in by_side]
        self._requests = [requests for of_side in by_side for requests in of_side.values()]
        self._is_b = np.repeat([False, True], [len(of_side) for of_side in by_side])
        self._objectives = {model: _objective([a, b], model) for model in models}

    def objective(self, model: str) -> float | None:
        """Return the ITL objective (seconds) for a model."""
        return self._objectives[model]

    def design(self, models: Sequence[str]) -> Designed:
        """Return the clusters that have any of the models."""
        wanted = set(models)
        of_models = [sorted({request.model for request in requests} & wanted) for requests in self._requests]
        chosen = np.array([bool(names) for names in of_models], dtype=bool)
        is_b = self._is_b[chosen]
        if self.is_paired:
            strata = np.tile(np.arange(len(is_b) // 2), 2)
        else:
            kinds = ["\n".join(names) for names in of_models if names]
            strata = _join_small_strata(np.unique(kinds, return_inverse=True)[1], is_b)
        kept = [requests for requests, is_chosen in zip(self._requests, chosen, strict=True) if is_chosen]
        by_model = {
            model: [[request for request in requests if request.model == model] for requests in kept]
            for model in models
        }
        return Designed(Design(is_b, strata, self.is_paired), by_model, chosen)


def _group(requests: Sequence[Request], models: Sequence[str]) -> dict[str, list[Request]]:
    """Group the requests to these models by cluster."""
    wanted, groups = set(models), dict[str, list[Request]]()
    for request in requests:
        if request.model in wanted:
            groups.setdefault(request.cluster, []).append(request)
    return groups


def _join(groups: dict[str, list[Request]], order: Indices) -> dict[str, list[Request]]:
    """Join clusters, in an order, if they are more than `MAX_CLUSTERS`."""
    if len(groups) <= MAX_CLUSTERS:
        return groups
    keys, joined = list(groups), dict[str, list[Request]]()
    for number, index in enumerate(order):
        joined.setdefault(f"{number % MAX_CLUSTERS}", []).extend(groups[keys[index]])
    return joined


def _played_the_same(a: dict[str, list[Request]], b: dict[str, list[Request]]) -> bool:
    """Return whether both sides have the same clusters, each with requests to the same models in the same order."""
    if not a or a.keys() != b.keys():
        return False
    return all([one.model for one in a[key]] == [one.model for one in b[key]] for key in a)


def _objective(sides: Sequence[Side], model: str) -> float | None:
    """Return the ITL objective for a model: A's, where the sides differ."""
    found = (one.itl_objective for side in sides for one in side.requests if one.model == model)
    return next((objective for objective in found if objective is not None), None)


def _join_small_strata(strata: Indices, is_b: Bools) -> Indices:
    """Join the strata with too few clusters on a side; with all others, if they are too few together as well."""
    joined: Indices = strata.copy()
    for stratum in np.unique(strata):
        if min(np.sum(is_b[strata == stratum]), np.sum(~is_b[strata == stratum])) < MIN_CLUSTERS_OF_STRATUM:
            joined[strata == stratum] = -1
    rest = is_b[joined == -1]
    if len(rest) and min(np.sum(rest), np.sum(~rest)) < MIN_CLUSTERS_OF_STRATUM:
        joined[:] = -1
    return joined
