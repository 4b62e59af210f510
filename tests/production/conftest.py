"""What the tests of production share: the modules of the SDKs' tests, and streams that are measured or bare."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are collected by path, so that a folder of them is no package: what they share is found here.
sys.path.insert(0, str(Path(__file__).parent.parent / "sdks"))
sys.path.insert(0, str(Path(__file__).parent))

from faces import FACES, Face
from measuring import bare


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    chosen: Face = request.param
    return chosen


@pytest.fixture(scope="module", autouse=True)
def _bare_afterwards() -> Iterator[None]:
    """Other folders' tests find the SDKs, and the garbage collector, as they are."""
    yield
    bare()
    gc.collect()
