"""The fake clock moves when a test moves it."""

from __future__ import annotations

import pytest

from otel_itl.testing import FakeClock


def test_it_stands_still() -> None:
    clock = FakeClock()
    assert clock() == clock()


def test_it_starts_at_the_given_time() -> None:
    assert FakeClock(7)() == 7


def test_it_moves_by_seconds() -> None:
    clock = FakeClock(0)
    clock.advance(0.25)
    assert clock() == 250_000_000


def test_it_moves_by_nanoseconds() -> None:
    clock = FakeClock(0)
    clock.advance_ns(3)
    assert clock() == 3


def test_seconds_are_rounded_to_nanoseconds() -> None:
    clock = FakeClock(0)
    clock.advance(0.1 + 0.2)
    assert clock() == 300_000_000


def test_it_never_goes_back() -> None:
    with pytest.raises(ValueError, match="never goes back, not even by 1 ns"):
        FakeClock().advance_ns(-1)
