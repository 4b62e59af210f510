"""One request on its way, from the moment when it is due until what was measured of it is there."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from typing import Any

from otel_itl.tools.sweep.budget import Reservation
from otel_itl.tools.sweep.failures import name_failure
from otel_itl.tools.sweep.prompts import Prompt


@dataclass(eq=False, slots=True, kw_only=True)
class Flight:
    """One request. Times are on the clock of the event loop, in seconds."""

    level: float
    round: int
    is_steady: bool
    due: float
    prompt: Prompt
    reservation: Reservation
    task: asyncio.Task[None] | None = None
    """Sends it, and reads its stream to the end."""
    sent: float | None = None
    first_token: float | None = None
    ended: float | None = None
    """When its stream ended; None: the stream is open, or was cut off."""
    status: int | None = None
    error: str | None = None
    detail: str | None = None
    """The endpoint's own message about the failure, or what became of the connection; None: neither is known."""
    span_id: int | None = None
    span: Any = None
    """The span of the stream, when that has ended."""

    @property
    def counts_as_wait(self) -> bool:
        """Whether its wait for the first token counts: it got one or still waits, and did not fail or end empty."""
        return self.first_token is not None or self.ended is None

    @property
    def first_token_wait(self) -> float:
        """Seconds from the moment when the request was due to its first token; infinite: it has got none."""
        return inf if self.first_token is None else self.first_token - self.due


def describe_flight_failure(flight: Flight) -> str:
    """Return why a request failed: `401 AuthenticationError: wrong key`."""
    name = name_failure(flight.error, flight.status) or ""
    return name if flight.detail is None else f"{name}: {flight.detail}"


current_flight: ContextVar[Flight | None] = ContextVar("otel_itl_sweep_flight", default=None)
"""The request that the running task sends: what a span that starts is marked with."""
