"""Adjusting p-values for being several."""

from __future__ import annotations

import pytest

from otel_itl.tools.statistics.holm import adjust_p_values


def test_p_values_are_adjusted_by_holm() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_no_p_values_are_adjusted_to_none() -> None:
    assert adjust_p_values([]) == []
