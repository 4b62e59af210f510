"""How far a sweep has come, for a display."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """What a sweep does at the moment."""

    CALIBRATION = "calibration"
    """Measures how long a request takes at the expected peak."""
    WARM_UP = "warm-up"
    STEADY = "steady"
    DRAIN = "drain"
    """Waits for what was sent in the steady part to end, under the same load, and then for the rest."""
    READING = "reading"
    """Reads and stores what was measured in the round."""
    PAUSE = "pause"
    """Waits because the endpoint asked for it (`Retry-After`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of a sweep, several times a second. Times are seconds."""

    phase: Phase
    level: float
    seconds_left: float
    """Estimate of what the rounds that are left will take."""
    rounds_over: int
    """Rounds of all levels that are over."""
    rounds_planned: int
    requests: int
    """Requests that were sent."""
    open: int
    """Streams that are open now."""
    errors: int
    cost: float | None
    """Cost of requests that have ended, by the price table; None: there is none."""
    stopping: str | None
    """Why no further request is sent; None: the sweep goes on."""
