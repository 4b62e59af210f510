"""otel_itl beside one other instrumentation, with telemetry in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Tests are collected by path, so that a folder of them is no package: what they share is found here.
sys.path.insert(0, str(Path(__file__).parent))

from beside import Pair, restored

from otel_itl.testing import CapturedTelemetry, captured_telemetry

if TYPE_CHECKING:
    from instrumentations import Instrumentation

__all__ = ["captured_telemetry"]


@pytest.fixture
def pair(request: pytest.FixtureRequest, captured_telemetry: CapturedTelemetry) -> Iterator[Pair]:
    """otel_itl and the instrumentation that the test names; without its package the test is skipped."""
    other: Instrumentation | None = getattr(request, "param", None)
    if other is not None:
        pytest.importorskip(other.module, reason=f"{other.package} is not installed")
    made = Pair(other, captured_telemetry)
    with restored():
        yield made
        made.take_off("theirs", "ours")
