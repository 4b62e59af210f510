"""The permutation test and the bootstrap intervals, against scipy and against what is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from otel_itl.tools.compare.levels import Floats, Percentile, Rate
from otel_itl.tools.compare.resampling import Design, Effect, Resamples, exchange_labels, level_interval
from otel_itl.tools.statistics.adjusted import find_p_values

VALUES = np.array([1.0, 2.0, 3.0, 4.0, 3.0, 5.0, 6.0, 8.0])
IS_B = np.array([False] * 4 + [True] * 4)


def effect_of(values: Floats) -> Effect:
    level = Rate(values, np.ones(len(values)), is_count=False)
    return lambda a, b: np.log(level.of(b)) - np.log(level.of(a))


PAIRS = [0, 1, 2, 3, 0, 1, 2, 3]


def design(is_b: np.ndarray = IS_B, strata: object = None, *, is_paired: bool = False) -> Design:
    return Design(is_b, np.zeros(len(is_b), dtype=np.intp) if strata is None else np.asarray(strata), is_paired)


def resample(design: Design, count: int) -> Resamples:
    random = np.random.default_rng(1)
    return Resamples(design, exchange_labels(design, count, random), random)


def p_value(design: Design, count: int, effect: Effect) -> float:
    return float(find_p_values(resample(design, count).exchange(effect))[0])


def exact_p(labels: list[np.ndarray]) -> float:
    effect = effect_of(VALUES)
    found = [abs(float(effect((~one).astype(float)[None], one.astype(float)[None])[0])) for one in labels]
    observed = abs(float(effect((~IS_B).astype(float)[None], IS_B.astype(float)[None])[0]))
    return float(np.mean([value >= observed - 1e-12 for value in found]))


def all_labels(places: list[int], count: int) -> list[np.ndarray]:
    made = []
    for chosen in itertools.combinations(places, count):
        labels = np.zeros(len(VALUES), dtype=bool)
        labels[list(chosen)] = True
        made.append(labels)
    return made


def test_the_p_value_is_that_of_all_permutations() -> None:
    found = p_value(design(), 20_000, effect_of(VALUES))
    assert found == pytest.approx(exact_p(all_labels(list(range(8)), 4)), abs=0.01)


def test_labels_are_exchanged_within_their_stratum_only() -> None:
    strata = [0, 0, 1, 1, 0, 0, 1, 1]
    within = [one | other for one in all_labels([0, 1, 4, 5], 2) for other in all_labels([2, 3, 6, 7], 2)]
    found = p_value(design(strata=strata), 20_000, effect_of(VALUES))
    assert found == pytest.approx(exact_p(within), abs=0.01)


def test_pairs_are_exchanged_within_each_pair() -> None:
    flips = [IS_B ^ np.tile(chosen, 2) for chosen in itertools.product([False, True], repeat=4)]
    paired = design(strata=PAIRS, is_paired=True)
    found = p_value(paired, 20_000, effect_of(VALUES))
    assert found == pytest.approx(exact_p(flips), abs=0.01)


def test_an_unknown_effect_has_no_evidence() -> None:
    with np.errstate(all="ignore"):
        found = p_value(design(), 99, effect_of(np.zeros(8)))
    assert found == 1.0


@pytest.mark.parametrize("clusters", [6, 25])
def test_an_interval_contains_the_observed_effect(clusters: int) -> None:
    values = np.random.default_rng(2).lognormal(0, 0.5, 2 * clusters)
    is_b = np.repeat([False, True], clusters)
    found = resample(design(is_b), 999).bootstrap_interval(effect_of(values))
    observed = np.log(values[is_b].mean() / values[~is_b].mean())
    assert found is not None
    assert found.low < observed < found.high


def test_few_clusters_make_an_interval_wider_than_its_percentiles() -> None:
    values = np.random.default_rng(3).lognormal(0, 0.5, 8)
    found = resample(design(), 4_999).bootstrap_interval(effect_of(values))
    assert found is not None
    assert found.high - found.low > 2 * 1.96 * found.standard_error


def test_a_pair_of_the_same_script_is_drawn_as_one() -> None:
    values = np.array([1.0, 10.0, 100.0, 1_000.0, 2.0, 20.0, 200.0, 2_000.0])
    paired = design(strata=PAIRS, is_paired=True)
    found = resample(paired, 999).bootstrap_interval(effect_of(values))
    assert found is not None
    assert (round(np.exp(found.low), 6), round(np.exp(found.high), 6)) == (2.0, 2.0)


def test_a_single_cluster_has_no_interval() -> None:
    alone = design(np.array([False, True, True]))
    assert resample(alone, 99).bootstrap_interval(effect_of(np.ones(3))) is None


def test_the_interval_of_a_mean_of_clusters_is_about_a_t_interval() -> None:
    values = np.random.default_rng(2).normal(10, 1, 20)
    found = level_interval(Rate(values, np.ones(20), is_count=False), 20, 4_000, np.random.default_rng(1))
    expected = stats.t.interval(0.95, 19, values.mean(), values.std(ddof=1) / np.sqrt(20))
    assert found == pytest.approx(expected, abs=0.06)


def test_a_figure_of_a_single_cluster_has_no_interval() -> None:
    assert level_interval(Rate([1.0], [1.0], is_count=False), 1, 100, np.random.default_rng(1)) is None


def test_an_interval_of_infinite_samples_is_infinite_above() -> None:
    level = Percentile([[1.0, 2.0], [1.0, np.inf], [1.0, 3.0]], 90)
    found = level_interval(level, 3, 500, np.random.default_rng(1))
    assert found is not None
    assert (np.isfinite(found[0]), found[1]) == (True, np.inf)
