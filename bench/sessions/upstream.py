"""Simulated upstreams: log-normal gaps around a level that differs from request to request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEDIAN_NS = 20e6


@dataclass(frozen=True)
class Upstream:
    """How the gaps of an upstream vary; all figures are of the logarithm of the gap."""

    name: str
    sigma: float
    """Standard deviation of the gaps of one request."""
    spread: float
    """Standard deviation of the level from request to request."""
    persistence: float
    """Correlation of a request's level with that of the session's request before."""
    clustering: float = 0.3
    """Correlation of a gap with the gap before."""

    def samples(self, rng: np.random.Generator, tokens: int, factors: Sequence[float]) -> list[list[float]]:
        """Return the ITL samples (ns, ascending) of a session's requests, each slower by its factor."""
        requests = len(factors)
        levels = self.spread * _correlated(rng, 1, requests, self.persistence)[0] + np.log(factors)
        gaps = self.sigma * _correlated(rng, requests, tokens - 1, self.clustering)
        samples: list[list[float]] = np.sort(MEDIAN_NS * np.exp(gaps + levels[:, None]), axis=1).tolist()
        return samples


UPSTREAMS: Final = (
    Upstream("even", sigma=0.3, spread=0.10, persistence=0.0),
    Upstream("usual", sigma=0.5, spread=0.15, persistence=0.3),
    Upstream("rough", sigma=1.0, spread=0.20, persistence=0.3),
    Upstream("beyond", sigma=1.0, spread=0.20, persistence=0.5),
)


def _correlated(rng: np.random.Generator, rows: int, steps: int, correlation: float) -> NDArray[np.float64]:
    """Return standard normal values, each correlated with its predecessor in the row."""
    values = rng.standard_normal((rows, steps))
    fresh = np.sqrt(1 - correlation**2)
    for step in range(1, steps):
        values[:, step] = correlation * values[:, step - 1] + fresh * values[:, step]
    return values
