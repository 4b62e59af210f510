"""Sides of a comparison, simulated or read from files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.compare.fleets import Fleet, simulate
from otel_itl.core import conventions as names
from otel_itl.tools.compare.requests import Side
from tests.tools.report.conftest import MS, Made, made, write

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
    """Write a file of sessions with three requests each, whose gaps are about as long as given (ms).

    The first token comes after `first` ms, 0.1 ms later from one to the next, and may have come `late` ms before it was
    delivered.
    """

    def written(
        name: str,
        gap: float,
        *,
        sessions: Sequence[str] = "abcdefgh",
        first: float = 200,
        late: float = 0,
        **attributes: Any,
    ) -> str:
        random = np.random.default_rng(len(name))
        spans = []
        for session in sessions:
            for _ in range(3):
                timeline = made.timeline(*(gap * random.lognormal(0, 0.1, 60)), first=first + len(spans) / 10)
                if late:
                    timeline = replace(timeline, lateness=array("q", [round(late * MS), *[0] * 60]))
                spans.append(made.span(timeline, **{names.SESSION_ID: f"{name} {session}", **attributes}))
        return write(made.spans(*spans), name=name)

    return written
