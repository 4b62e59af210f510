"""One request on its way, from the moment when it is due until what was measured of it is there."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from typing import Any

from otel_itl.sweep.budget import Reservation
from otel_itl.sweep.prompts import Prompt


@dataclass(eq=False, slots=True, kw_only=True)
class Flight:
    """One request. Times are on the clock of the event loop, in seconds."""

    level: float
    round: int
    is_steady: bool
    scheduled: float
    prompt: Prompt
    reservation: Reservation
    task: asyncio.Task[None] | None = None
    """Sends it, and reads its stream to the end."""
    sent: float | None = None
    first_token: float | None = None
    ended: float | None = None
    """None: it runs, or was cut off."""
    status: int | None = None
    error: str | None = None
    span_id: int | None = None
    span: Any = None
    """The span of the stream, when that has ended."""

    @property
    def has_waited(self) -> bool:
        """Whether it got a token or still waits for one: not where it failed, or its answer was empty."""
        return self.first_token is not None or self.ended is None

    @property
    def wait(self) -> float:
        """How long it has waited for its first token since it was due; infinite: it has got none."""
        return inf if self.first_token is None else self.first_token - self.scheduled


current_flight: ContextVar[Flight | None] = ContextVar("otel_itl_sweep_flight", default=None)
"""The request that the running task sends: what a span that starts is marked with."""
