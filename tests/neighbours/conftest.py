"""otel_itl beside one other instrumentation, with telemetry in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
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
