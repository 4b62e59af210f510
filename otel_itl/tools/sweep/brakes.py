"""Why nothing more is sent: in this round, or at all."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from math import inf
from threading import current_thread, main_thread
from typing import Any, Final

RATE_LIMITED: Final = 429
DEFAULT_PAUSE: Final = 10.0
"""Seconds to wait after a 429 that asks for no time of its own."""
MAX_PAUSE: Final = 120.0
"""Seconds: an endpoint that asks for a longer pause ends the sweep."""

INTERRUPTED: Final = "interrupted"
"""Why a sweep that Ctrl-C ended was stopped."""
INTERRUPTED_DRAIN: Final = 10.0
"""Seconds that Ctrl-C leaves to open streams."""


class RoundEnd(Enum):
    """Why a round ended before its time, and what that means for the levels to come."""

    RATE_LIMITED = "rate limited"
    """Higher levels are not tried."""
    SATURATED = "saturated"
    """Higher levels are not tried."""
    LIMITED = "limited"
    """A limit leaves no room for a further request beside the open ones. Neither this level nor a higher one is tried
    again."""
    FAILING = "failing"
    """Neither this level nor a higher one is tried again."""
    SILENT = "silent"
    """The endpoint stopped answering for the rest of the sweep, as `void_silence` finds at its end."""


class Brakes:
    """Ends the round, or the whole sweep. Once applied, no request is sent until `begin_round`, or ever again.

    Args:
        clock: clock of the event loop, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.stop_reason: str | None = None
        """Why the sweep ends, in one clause; None: it goes on."""
        self.round_end: RoundEnd | None = None
        self.reason: str | None = None
        """Why the round ends before its time, in one clause; None: it does not."""
        self.not_before = 0.0
        """Nothing is sent before this moment: the endpoint has asked for that."""
        self.drain_until = inf
        """Streams that are open are not waited for after this moment."""

    @property
    def are_applied(self) -> bool:
        """Whether nothing may be sent now."""
        return self.stop_reason is not None or self.round_end is not None or self._clock() < self.not_before

    def begin_round(self) -> None:
        """Release what ended the last round only."""
        self.round_end = self.reason = None

    def stop(self, reason: str) -> None:
        """End the sweep; the first reason counts."""
        self.stop_reason = self.stop_reason or reason

    def end_round(self, end: RoundEnd, reason: str) -> None:
        """End the round; the first reason counts."""
        if self.round_end is None:
            self.round_end, self.reason = end, reason

    def interrupt(self) -> None:
        """End the sweep and give open streams a short time to end; called again, cut them off."""
        now = self._clock()
        self.drain_until = now + INTERRUPTED_DRAIN if self.drain_until == inf else now
        self.stop(INTERRUPTED)

    def note_failure(self, status: int | None, retry_after: float | None) -> None:
        """Obey the endpoint: after a 429, and where it asks for a pause, the round ends and nothing is sent until then.

        Args:
            status: HTTP status of the failure; None: it had none.
            retry_after: seconds that it asks for; None: it does not.
        """
        if status != RATE_LIMITED and retry_after is None:
            return
        retry_after = DEFAULT_PAUSE if retry_after is None else retry_after
        self.end_round(RoundEnd.RATE_LIMITED, f"{status} from the endpoint")
        self.not_before = max(self.not_before, self._clock() + retry_after)
        if retry_after > MAX_PAUSE:
            self.stop(f"the endpoint asked for a pause of {retry_after:,.0f} s, more than {MAX_PAUSE:g} s")


@contextmanager
def interrupts_handled(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function on the running event loop for each SIGINT, until the end of the block.

    Outside of the main thread, where Python delivers no signal, it does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def call(*_: Any) -> None:
        loop.call_soon_threadsafe(on_interrupt)

    before = signal.signal(signal.SIGINT, call)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
