"""bench/inside.py names functions of otel_itl by their paths: each path leads to a function."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

import pytest

from bench.inside import FUNCTIONS


@pytest.mark.parametrize(
    ("module", "path"), [pytest.param(module, path, id=label) for label, module, path in FUNCTIONS]
)
def test_a_function_that_is_timed_exists(module: str, path: str) -> None:
    assert callable(reduce(getattr, path.split("."), import_module(module)))
