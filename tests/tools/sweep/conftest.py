"""What the tests of sweeps share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _frozen_again() -> None:
    """Keep the garbage collector from looking at what was there before: each sweep lets it do so again at its end."""
    gc.freeze()
