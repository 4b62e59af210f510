"""Fixtures for pytest; import them into a `conftest.py`. Nothing registers itself as a plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .telemetry import CapturedTelemetry, capture_telemetry

__all__ = ["captured_telemetry"]


@pytest.fixture
def captured_telemetry() -> Iterator[CapturedTelemetry]:
    """Capture the telemetry of one test: pass its providers on, read its `spans`, `metrics` and `logs`."""
    with capture_telemetry() as captured:
        yield captured
