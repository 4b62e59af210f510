"""Sides of a comparison, simulated or read from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from bench.compare.fleets import Fleet, simulate
from otel_itl import conventions as names
from otel_itl.compare.requests import Side
from tests.report.conftest import Made, made, write

__all__ = ["made", "write"]


@pytest.fixture
def sides() -> Callable[..., tuple[Side, Side]]:
    """Simulate two sides, of which B takes `factor` times as long."""

    def simulated(factor: float = 1.0, seed: int = 1, **fleet: Any) -> tuple[Side, Side]:
        random = np.random.default_rng(seed)
        kind = Fleet(name="test", **fleet)
        return simulate(kind, "A", random, seed), simulate(kind, "B", random, seed, factor)

    return simulated


@pytest.fixture
def session_file(made: Made, write: Callable[..., str]) -> Callable[..., str]:
    """Write a file of sessions with three requests each, whose gaps are about as long as given (ms)."""

    def written(
        name: str, gap: float, *, sessions: Sequence[str] = "abcdefgh", gaps: int = 60, **attributes: Any
    ) -> str:
        random = np.random.default_rng(len(name))
        spans = []
        for session in sessions:
            for _ in range(3):
                drawn = gap * random.lognormal(0, 0.1, 60)
                spans.append(made.span(made.timeline(*drawn), **{names.SESSION_ID: f"{name} {session}", **attributes}))
        return write(made.spans(*spans), name=name)

    return written
