"""The intervals that evidence keeps are looked at while others add some: threads, and what the collector ends."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator

import pytest

from otel_itl.recording.evidence.windows import Window, find_after


@pytest.fixture
def growing() -> Iterator[deque[Window]]:
    """Windows to which one is added whenever the garbage collector runs, which it does all the time."""
    windows = deque([Window(moment, moment + 1, 0, 0.0) for moment in range(50)], maxlen=1_000)

    def grow(phase: str, _: object) -> None:
        windows.append(Window(1_000, 1_001, 0, 0.0))

    thresholds = gc.get_threshold()
    gc.callbacks.append(grow)
    gc.set_threshold(1, 1, 1)
    yield windows
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(grow)


def test_windows_are_found_while_the_collector_adds_some(growing: deque[Window]) -> None:
    assert [len(find_after(growing, 40)) >= 10 for _ in range(100)] == [True] * 100
