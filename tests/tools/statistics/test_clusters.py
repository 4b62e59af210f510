"""The variance of a rate between clusters, worked out by hand."""

from __future__ import annotations

from otel_itl.tools.statistics.clusters import sum_variance


def test_the_variance_is_of_the_deviations_from_the_rate_of_all() -> None:
    # The rate is 6 / 6: deviations -1, 0, 1, times 3 / 2.
    assert sum_variance([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]) == 3.0


def test_clusters_with_the_rate_of_all_have_no_variance() -> None:
    assert sum_variance([1.0, 3.0], [2.0, 6.0]) == 0.0
