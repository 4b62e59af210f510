"""How far a sweep has come, for a display."""

from __future__ import annotations

from dataclasses import dataclass

from otel_itl.tools.worded import WordedEnum


class Phase(WordedEnum):
    """What a sweep does at the moment."""

    CALIBRATION = "calibration", "measures how long a request takes"
    """Measures how long a request takes at the expected peak."""
    WARM_UP = "warm-up", "warms up"
    STEADY = "steady", "measures"
    DRAIN = "drain", "waits for the last streams"
    """Waits for what was sent in the steady part to end, under the same load, and then for the rest."""
    READING = "reading", "reads what was measured"
    """Reads and stores what was measured in the round."""
    PAUSE = "pause", "pauses, as the endpoint asked"
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
    """Cost of requests that have ended, by `--prices`; None: there is none."""
    stopping: str | None
    """Why no further request is sent; None: the sweep goes on."""
