"""Figures of weighted clusters equal those of the samples written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from otel_itl.tools.compare import levels
from otel_itl.tools.compare.levels import Percentile, Rate, effective_samples

CLUSTERS = st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=5)


def written_out(samples: list[list[int]], weights: np.ndarray) -> list[int]:
    return [value for own, weight in zip(samples, weights, strict=True) for value in own * int(weight)]


@given(CLUSTERS, st.data(), st.sampled_from([0, 12.5, 50, 95, 99, 100]))
def test_a_percentile_of_weighted_clusters_is_that_of_the_samples_written_out(
    samples: list[list[int]], data: st.DataObject, q: float
) -> None:
    weights = data.draw(arrays.arrays(float, len(samples), elements=st.integers(0, 3).map(float)))
    pooled = written_out(samples, weights)
    expected = np.percentile(pooled, q) if pooled else np.nan
    found = Percentile(samples, q).of(weights[np.newaxis])[0]
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("q", "expected"), [(0, 1.0), (50, 2.0), (75, np.inf), (90, np.inf), (100, np.inf)])
def test_an_infinite_sample_is_longer_than_all_others(q: float, expected: float) -> None:
    found = Percentile([[1.0, 2.0], [2.0, np.inf, np.inf]], q).of(np.ones((1, 2)))[0]
    assert found == expected


def test_each_row_of_weights_is_a_figure_of_its_own() -> None:
    level = Percentile([[1.0, 2.0, 3.0], [10.0]], 50)
    assert level.of(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])).tolist()[:2] == [2.0, 10.0]


def test_many_different_samples_are_pooled_in_bins_that_keep_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "MAX_BINS", 500)
    values = np.random.default_rng(1).lognormal(0, 1, 20_000)
    found = Percentile([values], 95).of(np.ones((1, 1)))[0]
    rank = float(np.mean(values <= found))
    assert abs(rank - 0.95) < 1 / 500


def test_a_rate_is_events_over_exposure() -> None:
    rate = Rate([3.0, 1.0], [10.0, 30.0], is_count=False)
    assert rate.of(np.array([[1.0, 1.0], [1.0, 0.0]])).tolist() == [0.1, 0.3]


def test_a_rate_of_no_events_is_half_an_event() -> None:
    assert Rate([0.0], [10.0], is_count=True).of(np.ones((1, 1))).tolist() == [0.05]


def test_a_rate_is_shown_without_the_half_event() -> None:
    assert Rate([0.0], [10.0], is_count=True).shown(np.ones(1)) == 0.0


def test_a_rate_without_exposure_is_unknown() -> None:
    assert np.isnan(Rate([0.0], [0.0], is_count=True).of(np.ones((1, 1)))).all()


def test_alike_clusters_are_worth_all_their_samples() -> None:
    events, sizes = np.array([5.0, 5.0, 5.0, 5.0]), np.full(4, 10.0)
    assert effective_samples(events, sizes, np.ones(4), is_share=True) == (40.0, 40.0)


def test_clusters_that_are_all_or_nothing_are_worth_about_one_sample_each() -> None:
    events, sizes = np.array([10.0, 0.0] * 10), np.full(20, 10.0)
    samples, worth = effective_samples(events, sizes, np.ones(20), is_share=True)
    assert (samples, round(worth)) == (200.0, 19)
