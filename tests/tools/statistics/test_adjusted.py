"""P-values that are adjusted by shared exchanges."""

from __future__ import annotations

import numpy as np
import pytest

from otel_itl.tools.statistics.adjusted import adjust_by_exchanges, find_p_values
from otel_itl.tools.statistics.holm import adjust_p_values


def test_a_p_value_is_the_share_that_is_at_least_as_large() -> None:
    assert list(find_p_values(np.array([3.0, 1.0, 2.0, 3.0, 4.0]))) == [0.6, 1.0, 0.8, 0.6, 0.2]


def test_statistics_that_are_the_same_cost_nothing() -> None:
    exchanged = np.abs(np.random.default_rng(1).normal(size=1_000))
    exchanged[0] = 2.5
    assert adjust_by_exchanges([exchanged] * 5) == pytest.approx([float(find_p_values(exchanged)[0])] * 5)


def test_statistics_that_have_nothing_in_common_are_adjusted_about_as_by_holm() -> None:
    exchanged = np.abs(np.random.default_rng(1).normal(size=(5, 20_000)))
    exchanged[:, 0] = [2.8, 2.6, 1.0, 0.5, 2.4]
    by_holm = adjust_p_values([float(find_p_values(one)[0]) for one in exchanged])
    adjusted = adjust_by_exchanges(list(exchanged))
    assert [adjusted[row] for row in (0, 1, 4)] == pytest.approx([by_holm[row] for row in (0, 1, 4)], abs=0.01)


def test_no_statistic_has_no_p_value() -> None:
    assert adjust_by_exchanges([]) == []
