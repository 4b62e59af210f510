"""Intervals in which an event loop, a thread or the whole process did not run."""

from __future__ import annotations

from typing import NamedTuple


class Lag(NamedTuple):
    """An interval in which something did not run: nanoseconds on the monotonic clock."""

    start: int
    """From when on it surely did not run: it was due then."""
    end: int
    """When it ran again."""
    ran_at: int | None = None
    """The last moment at which it surely ran, where that is before `start`: it may have stopped at once."""

    @property
    def earliest(self) -> int:
        """The earliest moment since which it may not have run."""
        return self.start if self.ran_at is None else min(self.ran_at, self.start)
