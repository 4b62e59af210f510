"""The variance of a rate whose samples come in clusters, by linearization (Cochran, Sampling Techniques, 6.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]
"""A number for each cluster."""


def sum_variance(sums: Numbers, sizes: Numbers) -> float:
    """Return the variance of the sum of all clusters, given their sizes.

    Over the square of the total size it is the variance of the rate.

    Args:
        sums: of each of at least two clusters.
        sizes: samples, or exposure, of each.
    """
    of_each, by = np.asarray(sums, dtype=float), np.asarray(sizes, dtype=float)
    deviations = of_each - of_each.sum() / by.sum() * by
    return len(of_each) / (len(of_each) - 1) * float(np.square(deviations).sum())
