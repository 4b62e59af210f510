"""Intervals in which an event loop, a thread or the whole process did not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

CATCH_UP_NS: Final = 5_000_000
"""For so long after a delay its reader gets to what came meanwhile; after a long one for a 20th of it."""
MAX_ITERATIONS: Final = 4
"""The iterations that a loop which lags all the time may need to hand a chunk out."""


class Lag(NamedTuple):
    """An interval in which something did not run: nanoseconds on the monotonic clock."""

    start: int
    """From when on it surely did not run: it was due then."""
    end: int
    """When it ran again."""
    ran_at: int | None = None
    """The last moment at which it surely ran, where that is before `start`: it may have stopped at once."""
    catch_up: int = CATCH_UP_NS
    """For so long after it what came meanwhile may still be handed out (ns)."""

    @property
    def earliest(self) -> int:
        """The earliest moment since which it may not have run."""
        return self.start if self.ran_at is None else min(self.ran_at, self.start)


def drop_contained(lags: Iterable[Lag]) -> list[Lag]:
    """Return the lags that lie in no other one, in order of time: what happened within a lag is no further one."""
    found: list[Lag] = []
    for lag in sorted(lags, key=lambda lag: (lag.earliest, -lag.end)):
        if not found or lag.end > found[-1].end:
            found.append(lag)
    return found


def find_earliest_before(
    lags: Sequence[Lag], index: int, iterations: int = MAX_ITERATIONS, catch_up: int = CATCH_UP_NS
) -> int:
    """Return the earliest moment (ns) at which a chunk can have come that was handed out right after a lag.

    That is when the lag began, at the earliest. Where it followed another one at once, the chunk may have come in that,
    and so on for as many lags as there are iterations.

    Args:
        lags: in order of time.
        index: of the lag.
        iterations: the number of lags, this one included, that a chunk may take to be handed out.
        catch_up: how soon after a lag another one has to begin to have followed at once (ns).
    """
    since = lags[index].earliest
    for before in range(index - 1, max(index - iterations, -1), -1):
        if lags[before].end + catch_up < since:
            break
        since = min(since, lags[before].earliest)
    return since
